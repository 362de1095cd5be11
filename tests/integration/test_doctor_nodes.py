"""`sparktf doctor --nodes` on real executors: what it says of them, and that it leaves none behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml
from integration.processes import wait_for
from integration.rows import job
from integration.sandbox import Sandbox

_INTERRUPTED = 130
_EXECUTOR = "CoarseGrainedExecutorBackend"


def asked(
    sandbox: Sandbox, folder: Path, master: str = "local-cluster[2,1,1024]", conf: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Starts the command for a run whose model imports a module that no node has."""
    (folder / "weekly.py").write_text("import numpy\nimport seasons_of_ours\n\n\ndef build():\n    pass\n")
    conf = sandbox.settings(master, conf or {})
    config = job(folder / "lake", sandbox.runs, "weekly:build", submit={})
    config["submit"] = {"master": conf.pop("spark.master"), "deploy_mode": "client", "conf": conf}
    path = folder / "weekly.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "sparktf.commands.cli", "doctor", "--config", str(path), "--nodes", "--json"],
        env=sandbox.environment(),
        cwd=sandbox.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_nodes_are_asked_by_the_agents_of_a_run_and_given_back(sandbox: Sandbox, tmp_path: Path) -> None:
    doctor = asked(sandbox, tmp_path)
    out, err = doctor.communicate(timeout=240)
    assert err == ""
    found = {one["subject"]: (one["mark"], one["found"]) for one in json.loads(out)["diagnoses"]}
    assert doctor.returncode == 2
    assert [subject for subject, (mark, _) in found.items() if mark == "stop"] == ["nodes"], found
    assert f": the model imports seasons_of_ours, which {sys.executable} lacks: install" in found["nodes"][1]
    assert "MiB of disk free" in found["hosts"][1]
    assert "clocks within 0." in found["hosts"][1]
    assert found["network"][1].startswith("all reach the driver here by a socket, and each other at any port")
    assert not sandbox.family.wait(within_s=10.0)
    assert not sandbox.leftovers()


def test_an_interrupted_look_leaves_nothing_running(sandbox: Sandbox, tmp_path: Path) -> None:
    doctor = asked(sandbox, tmp_path)
    wait_for("its executors are there", lambda: len(sandbox.family.processes(_EXECUTOR)) == 2, within_s=120.0)
    doctor.send_signal(signal.SIGINT)
    out, err = doctor.communicate(timeout=120)
    assert (doctor.returncode, out, err) == (_INTERRUPTED, "", "interrupted\n")
    assert not sandbox.family.wait(within_s=10.0)
