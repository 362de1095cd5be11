"""Trainers on a lake and a run directory on HDFS, without Spark: what HDFS does not take does not end the training."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trainer import lake
from trainer.local_gang import LocalGang

from minihadoop import MiniHadoop
from minihadoop.config import MIB
from sparktf.config.job import JobConfig
from sparktf.errors import NotStoredError, Verdict


@pytest.fixture
def gang(hadoop: MiniHadoop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LocalGang]:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop.conf_dir()))
    gang = LocalGang(job(), 1)
    yield gang
    gang.close()
    hadoop.hdfs.delete("/train")


def job(**sections: Any) -> JobConfig:
    return lake.job(
        Path("/train"),
        "everything",
        data=lake.EVERYTHING,
        params={"rows": 400, "flavour": "keras"},
        **{
            "train": {"batch_size": 64},
            "timeouts": {"reserve": 60, "start": 120, "stop": 2, "driver_lost": 20},
            **sections,
        },
    )


@pytest.fixture
def lake_on_hdfs(hadoop: MiniHadoop, tmp_path: Path) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    for path in (tmp_path / "lake").iterdir():
        hadoop.hdfs.put(f"/train/lake/{path.name}", path.read_bytes())


def make_checkpoints(hadoop: MiniHadoop) -> None:
    """Makes the folder of a run's checkpoints before the run, which begins only where another of its drivers has."""
    for name in ("events", "checkpoints"):
        hadoop.hdfs.make_folder(f"/train/runs/job/run/{name}")


@pytest.mark.usefixtures("lake_on_hdfs")
def test_a_checkpoint_that_hdfs_does_not_take_is_a_warning_and_the_last_must_arrive(
    hadoop: MiniHadoop, gang: LocalGang
) -> None:
    config = job(
        train={"batch_size": 64, "epochs": 15, "max_attempts": 1},  # seven updates each, and a checkpoint
        checkpoint={"every_seconds": None, "keep": 2},
    )
    make_checkpoints(hadoop)
    hadoop.hdfs.set_quota("/train/runs/job/run/checkpoints", space_nbytes=4 * MIB)
    lifting = threading.Thread(target=lift_when_warned, args=(hadoop, gang), daemon=True)
    lifting.start()
    result = gang.train(config)
    lifting.join()
    assert result.verdict is Verdict.DONE
    assert [w for w in result.warnings if "checkpoint at step 7 was not committed: " in w and "quota" in w]
    assert result.checkpoint.startswith("hdfs://")
    assert sorted(hadoop.hdfs.names("/train/runs/job/run/checkpoints"))[-1] == f"step-{result.steps:012d}"
    stored = json.loads(hadoop.hdfs.get("/train/runs/job/run/result.json"))
    assert stored["warnings"] == list(result.warnings)


def lift_when_warned(hadoop: MiniHadoop, gang: LocalGang) -> None:
    while "was not committed" not in gang.output.getvalue():
        time.sleep(0.05)
    hadoop.hdfs.set_quota("/train/runs/job/run/checkpoints")


@pytest.mark.usefixtures("lake_on_hdfs")
def test_a_last_checkpoint_that_hdfs_does_not_take_ends_the_run_with_its_error(
    hadoop: MiniHadoop, gang: LocalGang
) -> None:
    make_checkpoints(hadoop)
    hadoop.hdfs.set_quota("/train/runs/job/run/checkpoints", space_nbytes=4 * MIB)
    with pytest.raises(NotStoredError, match=r"cannot copy .* to hdfs://.*/train/runs/job/run/.* quota"):
        gang.train(job(train={"batch_size": 64}))
    stored = json.loads(hadoop.hdfs.get("/train/runs/job/run/result.json"))
    assert stored["verdict"] == Verdict.INFRASTRUCTURE
    assert stored["error"]["type"] == "NotStoredError"
    assert len(stored["attempts"]) == 1
