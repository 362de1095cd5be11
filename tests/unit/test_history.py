"""The history of runs: what is kept of each that has ended, by whom, and who can read it."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import plan_lake, write_lake
from pretend import PretendDriver, WatchedStorage, pretend_config, unmeasured

from sparktf.errors import NotStoredError, PreflightError, Verdict
from sparktf.knobs import KNOBS
from sparktf.nightly.history import RunRecord, names_in_history, read_history
from sparktf.nightly.night import Night
from sparktf.results.result import Application
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.local import LocalStorage

DAY = datetime.date(2026, 11, 20)


class Nights:
    """Submissions of run `r` of training `t`, whose output keeps a history."""

    def __init__(self, folder: Path) -> None:
        self.lake = write_lake(folder / "lake", [20])
        self.root = folder / "runs"
        self.file = self.root / "_runs" / "name=t" / "r.parquet"

    def driver(self, app: str = "app", storage: Storage | None = None, **output: Any) -> PretendDriver:
        output = {"path": str(self.root), "history": True, **output}
        config = pretend_config(self.lake, self.root, output=output).for_day(DAY)
        driver = PretendDriver(Application(app), config, plan_lake(self.lake), storage)
        driver.hooks = Night(driver.site.file_systems if storage else FileSystems(), driver.site.clock, unmeasured)
        return driver

    def kept(self) -> list[RunRecord]:
        storage = LocalStorage()
        return read_history(storage, str(self.root), names_in_history(storage, str(self.root)))


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)
    return Nights(tmp_path)


def test_a_run_that_is_done_leaves_a_row_that_says_what_its_result_says(nights: Nights) -> None:
    done = nights.driver().train()
    (record,) = nights.kept()
    assert (record.name, record.run_id, record.date) == ("t", "r", DAY)
    assert (record.verdict, record.cause, record.rows) == (0, None, 20)
    assert record.started == datetime.datetime.fromisoformat(done.started)
    assert record.seconds == done.seconds
    assert record.seconds["train"] > 0
    assert record.metrics == done.metrics


def test_without_the_setting_nothing_is_kept(nights: Nights) -> None:
    assert nights.driver(history=False).train().verdict is Verdict.DONE
    assert not (nights.root / "_runs").exists()
    assert nights.kept() == []


def test_a_failed_run_leaves_its_cause_and_the_next_submission_replaces_it(nights: Nights) -> None:
    driver = nights.driver()
    driver.not_stored = "the disk is full"
    with pytest.raises(NotStoredError):
        driver.train()
    (failed,) = nights.kept()
    assert failed.verdict == 4
    assert "the disk is full" in str(failed.cause)
    nights.driver("later").train()
    (done,) = nights.kept()
    assert (done.verdict, done.cause) == (0, None)


def test_a_run_that_is_refused_before_it_is_planned_leaves_a_row_too(nights: Nights) -> None:
    driver = nights.driver()
    driver.refusal = PreflightError("too few slots")
    with pytest.raises(PreflightError):
        driver.train()
    (refused,) = nights.kept()
    assert (refused.verdict, refused.cause, refused.rows) == (2, "too few slots", 0)


def test_a_result_that_is_repeated_is_not_kept_again(nights: Nights) -> None:
    nights.driver().train()
    nights.file.unlink()
    assert nights.driver("again").train().verdict is Verdict.DONE
    assert nights.kept() == []


def test_a_history_that_cannot_be_written_is_a_warning(nights: Nights) -> None:
    (nights.root / "_runs").parent.mkdir()
    (nights.root / "_runs").write_text("a file in its place", encoding="utf-8")
    driver = nights.driver()
    assert driver.train().verdict is Verdict.DONE
    assert "warning: output.history: this run's row is not kept" in driver.said.getvalue()


def test_a_driver_that_loses_the_run_before_its_row_is_written_leaves_its_successors(nights: Nights) -> None:
    """It is frozen between its result and the row, while the same run id is submitted again and ends."""
    overtaken: list[str] = []

    def before(operation: str, path: str) -> None:
        if operation == "make" and "_runs" in path and not overtaken:
            overtaken.append(path)
            nights.driver("later").train()

    frozen = nights.driver("frozen", WatchedStorage(before))
    frozen.not_stored = "the disk is full"
    with pytest.raises(NotStoredError):
        frozen.train()
    assert overtaken
    (record,) = nights.kept()
    assert record.verdict == 0
    assert "belongs to another submission" in frozen.said.getvalue()


def test_the_last_begun_is_first_and_names_are_told_apart(nights: Nights) -> None:
    storage, began = LocalStorage(), datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
    for hour, (name, run_id) in enumerate((("b", "2"), ("a", "1"), ("b", "3"))):
        write(nights.root, name, run_id, started=began + datetime.timedelta(hours=hour))
    assert [(r.name, r.run_id) for r in nights.kept()] == [("b", "3"), ("a", "1"), ("b", "2")]
    assert [r.run_id for r in read_history(storage, str(nights.root), ["b"])] == ["3", "2"]
    assert read_history(storage, str(nights.root), ["c"]) == []


def test_columns_that_a_version_lacks_or_has_beyond_are_no_obstacle(nights: Nights) -> None:
    write(nights.root, "t", "old")
    write(nights.root, "t", "new", champion={"accuracy": 0.9}, verdict=5)
    records = {record.run_id: record for record in nights.kept()}
    assert (records["old"].rows, records["old"].metrics, records["old"].started) == (0, {}, None)
    assert records["new"].verdict == 5


def test_a_damaged_file_is_told_of_and_the_others_are_read(nights: Nights) -> None:
    nights.driver().train()
    nights.file.with_name("torn.parquet").write_bytes(b"PAR1")
    pq.write_table(pa.table({"x": [1]}), nights.file.with_name("strange.parquet"))
    told: list[str] = []
    assert [r.run_id for r in read_history(LocalStorage(), str(nights.root), ["t"], told.append)] == ["r"]
    assert len(told) == 2
    assert any("torn.parquet is not a readable Parquet file" in line for line in told)
    assert any(
        "strange.parquet is not a row of the history, and left out: delete it if nobody needs it" in line
        for line in told
    )


def write(root: Path, name: str, run_id: str, **columns: Any) -> None:
    """Writes a file of the history with few columns."""
    path = Path(RunDirectory(str(root), name, run_id).history)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([{"run_id": run_id, "verdict": 0, **columns}]), path)
