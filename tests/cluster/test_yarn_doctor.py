"""`sparktf doctor` beside a real HDFS and YARN."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from cluster.submission import SMALL_CONF, environment_of

from minihadoop import MiniHadoop

CONFIG = """\
name: digits
model: models.digits:build
data: {path: "/lake/{{date}}", inputs: {x: x}, targets: {y: y}}
output: {path: /doctor/runs}
"""


PYTHON = """\
#!/bin/sh
# The first executor's Python is another one: its TensorFlow is older, and it has no module `seasons`.
if mkdir {folder}/taken 2>/dev/null; then more={folder}/odd; else more={folder}/usual; fi
PYTHONPATH="$more:$PYTHONPATH" exec {python} "$@"
"""


def looked(
    hadoop: MiniHadoop, folder: Path, *arguments: str, user: str = "", text: str = CONFIG, **named: str
) -> tuple[int, dict[str, tuple[str, str]]]:
    """Runs it as a person does, and returns its exit code, and mark and text by subject."""
    (folder / "c.yaml").write_text(text, encoding="utf-8")
    named |= {"HADOOP_USER_NAME": user} if user else {}
    ended = subprocess.run(
        [sys.executable, "-m", "sparktf.commands.cli", "doctor", "--json", "--config", "c.yaml", *arguments],
        cwd=folder,
        env={**os.environ, "HADOOP_CONF_DIR": str(hadoop.conf_dir()), **named},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.stderr == ""
    diagnoses = json.loads(ended.stdout)["diagnoses"]
    return ended.returncode, {one["subject"]: (one["mark"], one["found"]) for one in diagnoses}


def test_a_cluster_that_can_carry_a_run_is_said_to_and_one_that_cannot_is_not(
    hadoop: MiniHadoop, tmp_path: Path
) -> None:
    before = hadoop.hdfs.names("/")
    code, found = looked(hadoop, tmp_path)
    assert code == 0, found
    assert {mark for mark, _ in found.values()} <= {"ok", "note"}
    assert found["output"][1].startswith("hdfs://")
    assert found["queue"] == ("ok", "root.default is running")
    assert found["clocks"][0] == found["Kerberos"][0] == found["YARN"][0] == "ok"
    assert hadoop.hdfs.names("/") == before

    wrong = ["--set", "cluster.trainer_memory_mib=90000", "--set", "submit.queue=nights"]
    code, found = looked(hadoop, tmp_path, *wrong, user="nobody")
    assert code == 2
    assert {subject for subject, (mark, _) in found.items() if mark == "stop"} == {"output", "YARN", "queue"}
    assert "Permission denied: user=nobody" in found["output"][1]
    assert "gives a container at most" in found["YARN"][1]
    assert found["queue"][1] == "submit.queue: nights does not exist in YARN: name one of default"


def odd_python(folder: Path) -> str:
    """Writes a Python that is another one in the first process that starts it; returns its path."""
    (folder / "odd/tensorflow-2.19.0.dist-info").mkdir(parents=True)
    (folder / "odd/tensorflow-2.19.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nVersion: 2.19.0\n")
    (folder / "usual").mkdir()
    (folder / "usual/seasons.py").touch()
    python = folder / "python"
    python.write_text(PYTHON.format(folder=folder, python=sys.executable), encoding="utf-8")
    python.chmod(0o755)
    return str(python)


def test_nodes_are_asked_and_what_would_stop_a_run_on_them_is_told_with_whom_it_is_true_of(
    hadoop: MiniHadoop, tmp_path: Path
) -> None:
    (tmp_path / "weekly.py").write_text("import seasons\n\n\ndef build():\n    pass\n", encoding="utf-8")
    config: dict[str, Any] = {
        "name": "weekly",
        "model": "weekly:build",
        "data": {"path": "/lake", "inputs": {"x": "x"}, "targets": {"y": "y"}},
        "output": {"path": "/doctor/runs"},
        "cluster": {"workers": 2, "trainer_memory_mib": 2304, "placement": "any", "node_ports": "30000-30009"},
        "submit": {"executor_memory_mib": 512, "conf": SMALL_CONF},
    }
    text = yaml.safe_dump(config)
    named = {**environment_of(hadoop), "PYSPARK_PYTHON": odd_python(tmp_path), "PYSPARK_DRIVER_PYTHON": sys.executable}
    code, found = looked(hadoop, tmp_path, "--nodes", text=text, **named)
    assert code == 2
    assert [subject for subject, (mark, _) in found.items() if mark == "stop"] == ["nodes"], found
    odd, lacks = found["nodes"][1].split("; ")
    assert re.match(r"on host\d\S*: tensorflow 2\.19\.0, but the driver has 2\.\d+", odd)
    assert re.match(r"on host\d\S*: the model imports seasons, which \S*python\S* lacks: install", lacks)
    assert odd.partition(":")[0] == lacks.partition(":")[0], "of one host alone"
    assert re.match(r"at least [\d,]+ MiB of disk free \(\S+ on host\d", found["hosts"][1])
    assert re.match(r"all reach the driver here at edge\S+:\d+, and each other at .*30000-30009", found["network"][1])
    assert all(application.has_ended for application in hadoop.yarn.applications())
