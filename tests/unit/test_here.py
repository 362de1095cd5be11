"""Jobs with Spark on this machine, and the files for schedulers, as an installation has them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pretend import pretend_config

from sparktf.commands.command_line import SCHEDULERS
from sparktf.errors import ConfigError, PreflightError
from sparktf.submit.here import local_master, prepare_for_spark
from sparktf.submit.schedules import copy_schedule


def test_a_master_of_this_machine_has_a_slot_for_each_node_and_one_for_feeders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert local_master(pretend_config(tmp_path, tmp_path, cluster={"workers": 3})) == "local[4]"
    assert local_master(pretend_config(tmp_path, tmp_path, cluster={"workers": 1})) == "local[2]"


def test_executors_have_this_python_unless_the_environment_names_another(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "PYSPARK_PYTHON")
    monkeypatch.setattr(os, "environ", {k: v for k, v in os.environ.items() if k not in left_out})
    prepare_for_spark("local[3]")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["PYSPARK_SUBMIT_ARGS"].startswith("--master local[3] ")
    os.environ |= {"PYSPARK_PYTHON": "/opt/python", "SPARK_SUBMIT_OPTS": "-Xss4m"}
    prepare_for_spark("local[3]")
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    assert os.environ["SPARK_SUBMIT_OPTS"].endswith("log4j2.properties -Xss4m")


def test_another_machines_master_is_refused() -> None:
    with pytest.raises(PreflightError, match="yarn is not on this machine: use sparktf submit"):
        prepare_for_spark("yarn")


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_what_a_scheduler_takes_is_written_once(scheduler: str, tmp_path: Path) -> None:
    written = copy_schedule(scheduler, tmp_path / "here")
    assert sorted(written) == sorted(path for path in (tmp_path / "here").rglob("*") if path.is_file())
    written[0].write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="is there already, and is not replaced: name another folder with --to"):
        copy_schedule(scheduler, tmp_path / "here")
    assert written[0].read_text(encoding="utf-8") == "mine"


def test_the_script_of_cron_can_be_run(tmp_path: Path) -> None:
    copy_schedule("cron", tmp_path)
    assert os.access(tmp_path / "nightly.sh", os.X_OK)
