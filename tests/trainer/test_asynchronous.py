"""Asynchronous training in real processes: a coordinator, workers and parameter servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from trainer import lake
from trainer.local_gang import LocalGang

from sparktf.config.job import JobConfig
from sparktf.result import RunResult

FLAVOURS = ("keras", "tf_keras")
TOLD: dict[str, Any] = {
    "inputs": {"row": "row", "numbers": lake.NUMBERS},
    "targets": {"label": "label"},
    "shuffle_rows": 1,
}
"""What `zoo.told` is fed with; each row group is a block."""

_UPDATE = re.compile(r"^trained at (\d+) rows \[([\d ]*)\]$", re.MULTILINE)


class Update(NamedTuple):
    """One that was made, as the log of the process says that made it."""

    time_us: int
    trainer: str
    rows: tuple[int, ...]


def updates_in(result: RunResult) -> list[Update]:
    """Returns the updates of a run in the order in which they were made."""
    logs = Path(result.path, "logs").glob("*.log")
    return sorted(
        Update(int(time_us), log.stem, tuple(map(int, rows.split())))
        for log in logs
        for time_us, rows in _UPDATE.findall(log.read_text())
    )


def rows_by_epoch(updates: list[Update], rows: int) -> list[list[int]]:
    """Returns the rows of each epoch: all updates of one are made before those of the next."""
    every = [row for update in updates for row in update.rows]
    return [sorted(every[start : start + rows]) for start in range(0, len(every), rows)]


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalGang]:
    """A gang of up to five nodes."""
    any_job = lake.job(Path(tmp_path_factory.mktemp("none")), "everything", data=lake.EVERYTHING)
    gang = LocalGang(any_job, 5)
    yield gang
    gang.close()


def job(folder: Path, model: str = "told", *, workers: int = 2, ps: int = 1, **sections: Any) -> JobConfig:
    """Returns the configuration of an asynchronous run."""
    cluster = {"strategy": "parameter_server", "workers": workers, "ps": ps}
    return lake.job(folder, model, **{"data": TOLD, "params": {"flavour": "keras"}, **sections, "cluster": cluster})


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_each_row_is_trained_once_in_every_epoch_by_the_workers_alone(
    flavour: str, tmp_path: Path, gang: LocalGang
) -> None:
    sizes = [300, 37, 1, 200]
    lake.write(tmp_path / "lake", sizes)
    config = job(tmp_path, params={"flavour": flavour}, train={"batch_size": 32, "epochs": 3})
    result = gang.train(config)
    updates = updates_in(result)
    assert rows_by_epoch(updates, 538) == [list(range(538))] * 3
    assert len(updates) == result.steps
    assert {update.trainer[4:] for update in updates} == {"worker-0", "worker-1"}
