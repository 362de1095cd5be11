"""`sparktf doctor` beside a real HDFS and YARN."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from minihadoop import MiniHadoop

CONFIG = """\
name: digits
model: models.digits:build
data: {path: "/lake/{{date}}", inputs: {x: x}, targets: {y: y}}
output: {path: /doctor/runs}
"""


def looked(hadoop: MiniHadoop, folder: Path, *arguments: str, user: str = "") -> tuple[int, dict[str, tuple[str, str]]]:
    """Runs it as a person does, and returns its exit code, and mark and text by subject."""
    (folder / "c.yaml").write_text(CONFIG, encoding="utf-8")
    named = {"HADOOP_USER_NAME": user} if user else {}
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
