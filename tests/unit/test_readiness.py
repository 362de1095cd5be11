"""Whether a run's data is there: what is missing by name, what is waited for, and how the run ends without it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from lakes import id_table, plan_lake, write_file, write_lake
from pretend import PretendClock, PretendDriver, pretend_config, unmeasured

from sparktf.config.ready import ReadyConfig
from sparktf.errors import (
    ConfigError,
    CorruptFileError,
    NotReadyError,
    NotStoredError,
    StorageNotFoundError,
    StorageUnavailableError,
    Verdict,
)
from sparktf.knobs import KNOBS
from sparktf.nightly.night import Night
from sparktf.nightly.readiness import Lake, await_ready
from sparktf.results.result import Application, RunResult
from sparktf.storage.base import FileEntry
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.local import LocalStorage

NOW_S = 1.7e9
DAYS = ("2026-11-18", "2026-11-19", "2026-11-20")
WINDOW = {"folder": "date=%Y-%m-%d", "first": DAYS[0], "last": DAYS[-1]}


def put(folder: Path, *, rows: int = 10, age_s: float = 0.0) -> Path:
    """Writes a file of a partition, as old as it should be."""
    path = write_file(folder / "part-00000.parquet", id_table(0, rows))
    os.utime(path, (NOW_S - age_s, NOW_S - age_s))
    return path


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for day in DAYS:
        put(tmp_path / "lake" / f"date={day}")
    return tmp_path / "lake"


def lacking(lake: Path, **ready: Any) -> str:
    return Lake(LocalStorage(), str(lake)).shortcoming(ReadyConfig(**ready), NOW_S)


def test_a_lake_that_has_all_lacks_nothing(lake: Path) -> None:
    (lake / f"date={DAYS[-1]}" / "_SUCCESS").touch()
    assert not lacking(lake, window=WINDOW, success=True, min_rows=30, max_age="1h")


def test_missing_partitions_are_named(lake: Path) -> None:
    assert lacking(lake, window={**WINDOW, "first": "2026-11-17", "last": "2026-11-22"}) == (
        "date=2026-11-17, date=2026-11-21, date=2026-11-22 are missing (3 of 6 partitions)"
    )
    assert lacking(lake, window={**WINDOW, "first": "2026-10-01"}).endswith(
        "date=2026-10-06 and 42 more are missing (48 of 51 partitions)"
    )


@pytest.mark.parametrize("name", ["_temporary/part-0.parquet", ".part-0.parquet.crc", "_SUCCESS"])
def test_a_partition_without_data_files_is_missing(lake: Path, name: str) -> None:
    path = lake / "date=2026-11-21" / name
    path.parent.mkdir(parents=True)
    path.touch()
    window = {**WINDOW, "last": "2026-11-21"}
    assert lacking(lake, window=window) == "date=2026-11-21 is missing (1 of 4 partitions)"


def test_folders_within_folders_and_hours_are_partitions_too(tmp_path: Path) -> None:
    for hour in (9, 10):
        put(tmp_path / f"year=2026/month=11/day=20/hour={hour:02d}")
    window = {"folder": "year=%Y/month=%m/day=%d/hour=%H", "first": "2026-11-20T09:00", "last": "2026-11-20T11:00"}
    assert lacking(tmp_path, window={**window, "every": "1h"}) == (
        "year=2026/month=11/day=20/hour=11 is missing (1 of 3 partitions)"
    )
    assert not lacking(tmp_path, window={"folder": "year=%Y/month=%m/day=%d", "first": DAYS[-1], "last": DAYS[-1]})


def test_the_newest_partition_is_asked_for_its_success(lake: Path) -> None:
    (lake / f"date={DAYS[0]}" / "_SUCCESS").touch()
    assert lacking(lake, success=True) == "date=2026-11-20 has no _SUCCESS yet"
    (lake / f"date={DAYS[-1]}" / "_SUCCESS").touch()
    assert not lacking(lake, success=True)


def test_numbers_in_names_count_as_numbers(tmp_path: Path) -> None:
    put(tmp_path / "hour=9", age_s=0)
    put(tmp_path / "hour=10", age_s=7200)
    assert lacking(tmp_path, max_age="1h") == "hour=10 was written 2 h ago, and data.ready.max_age is 1 h"


def test_rows_are_those_of_the_window(lake: Path) -> None:
    assert not lacking(lake, min_rows=30)
    assert lacking(lake, min_rows=31) == "there are 30 rows, and data.ready.min_rows is 31"
    assert lacking(lake, window={**WINDOW, "first": DAYS[1]}, min_rows=30).startswith("there are 20 rows")


def test_a_lake_of_one_file_one_without_partitions_and_none_at_all(tmp_path: Path) -> None:
    assert lacking(tmp_path / "none", min_rows=1) == "there is no data file"
    file = put(tmp_path / "flat")
    assert not lacking(file, min_rows=10, max_age="1h")
    assert lacking(tmp_path / "flat", success=True) == f"{tmp_path}/flat has no _SUCCESS yet"


def test_footers_are_read_again_only_where_a_file_has_changed(lake: Path) -> None:
    read: list[str] = []

    class Counting(LocalStorage):
        def open(self, path: str) -> Any:
            read.append(path)
            return super().open(path)

    seen, ready = Lake(Counting(), str(lake)), ReadyConfig(min_rows=1000)
    assert seen.shortcoming(ready, NOW_S) == seen.shortcoming(ready, NOW_S)
    assert len(read) == len(DAYS)
    put(lake / f"date={DAYS[0]}", rows=990)
    assert not seen.shortcoming(ready, NOW_S)
    assert len(read) == len(DAYS) + 1


# --- waiting ---


class Waiting:
    """A wait whose time passes at once; at some of the looks something happens."""

    def __init__(self, lake: Path, **ready: Any) -> None:
        self.lake = lake
        self.ready = ReadyConfig(**ready)
        self.clock = PretendClock()
        self.said: list[str] = []
        self.storage = LocalStorage()

    def at(self, seconds: float, what: Callable[[], object]) -> None:
        """Lets something happen once so much time has passed."""
        left = [what]

        def passed() -> None:
            if self.clock.now_s() >= seconds and left:
                left.pop()()

        self.clock.passed = passed

    def go(self) -> None:
        """Waits."""
        await_ready(self.storage, str(self.lake), self.ready, self.clock, self.said.append)


def test_what_comes_in_time_is_waited_for(lake: Path) -> None:
    waiting = Waiting(lake, window={**WINDOW, "last": "2026-11-21"}, wait="2h")
    waiting.at(3600, lambda: put(lake / "date=2026-11-21"))
    waiting.go()
    assert waiting.said == [
        "the data is not ready, waiting up to 2 h: date=2026-11-21 is missing (1 of 4 partitions)",
        "the data is ready after 3600 s",
    ]


def test_what_does_not_come_in_time_is_named_after_it(lake: Path) -> None:
    waiting = Waiting(lake, success=True, wait="90s")
    with pytest.raises(NotReadyError, match=r"is not ready \(data.ready.wait: 90 s\): date=2026-11-20 has no _SUCCESS"):
        waiting.go()
    assert waiting.clock.now_s() == 90
    with pytest.raises(NotReadyError, match=r"is not ready: date=2026-11-20 has no _SUCCESS yet\. Submit"):
        Waiting(lake, success=True).go()


def test_a_file_that_is_being_written_is_waited_for_and_damaged_if_it_stays_so(lake: Path) -> None:
    file = lake / f"date={DAYS[-1]}" / "part-00000.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    waiting = Waiting(lake, min_rows=30, wait="1h")
    waiting.at(60, lambda: file.write_bytes(whole))
    waiting.go()
    assert waiting.said[-1] == "the data is ready after 60 s"
    file.write_bytes(whole[:100])
    with pytest.raises(CorruptFileError, match=r"part-00000\.parquet is not a readable Parquet file"):
        Waiting(lake, min_rows=30, wait="1h").go()


def test_a_file_that_vanishes_while_it_is_counted_is_waited_for_like_the_data(lake: Path) -> None:
    class Overwritten(LocalStorage):
        """The partition is written anew while it is looked at: what was listed is gone when it is opened."""

        is_gone = True

        def open(self, path: str) -> BinaryIO:
            if self.is_gone and DAYS[-1] in path:
                raise StorageNotFoundError(f"{path} does not exist")
            return super().open(path)

    waiting = Waiting(lake, min_rows=30, wait="1h")
    waiting.storage = storage = Overwritten()
    waiting.at(60, lambda: setattr(storage, "is_gone", False))
    waiting.go()
    assert waiting.said[-1] == "the data is ready after 60 s"
    again = Waiting(lake, min_rows=30, wait="1h")
    again.storage = Overwritten()
    with pytest.raises(NotReadyError, match=r"part-00000\.parquet does not exist\. Submit the run again later"):
        again.go()


def test_a_storage_that_is_away_is_waited_for_like_the_data(lake: Path) -> None:
    class Away(LocalStorage):
        away = True

        def stat(self, path: str) -> FileEntry:
            if self.away:
                raise StorageUnavailableError("the NameNode does not answer")
            return super().stat(path)

    waiting = Waiting(lake, min_rows=30, wait="1h")
    waiting.storage = storage = Away()
    waiting.at(600, lambda: setattr(storage, "away", False))
    waiting.go()
    assert "the NameNode does not answer" in waiting.said[0]
    waiting = Waiting(lake, min_rows=30, wait="1h")
    waiting.storage = Away()
    with pytest.raises(StorageUnavailableError, match="does not answer"):
        waiting.go()


# --- a run ---


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretendDriver:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)
    lake = write_lake(tmp_path / "lake", [20])
    plain = pretend_config(lake, tmp_path / "runs").model_dump(exclude_unset=True)
    plain["data"]["ready"] = {"success": True}
    driver = PretendDriver(
        Application("app"), pretend_config(lake, tmp_path / "runs", data=plain["data"]), plan_lake(lake)
    )
    driver.hooks = Night(FileSystems(), driver.site.clock, unmeasured)
    return driver


def test_a_run_whose_data_is_not_there_ends_with_6_and_holds_nothing(driver: PretendDriver, tmp_path: Path) -> None:
    with pytest.raises(NotReadyError) as raised:
        driver.train()
    assert int(raised.value.verdict) == 6
    stored = RunResult.model_validate_json(Path(raised.value.result.path, "result.json").read_bytes())
    assert stored.verdict is Verdict.NOT_READY
    assert stored.attempts == ()
    assert "r: not ready" in driver.said.getvalue()
    (tmp_path / "lake" / "_SUCCESS").touch()
    assert driver.train().verdict is Verdict.DONE


def test_a_run_that_is_resumed_has_its_data(driver: PretendDriver, tmp_path: Path) -> None:
    (tmp_path / "lake" / "_SUCCESS").touch()
    driver.not_stored = "the disk is full"
    with pytest.raises(NotStoredError):
        driver.train()
    (tmp_path / "lake" / "_SUCCESS").unlink()
    driver.not_stored = ""
    assert driver.train().verdict is Verdict.DONE


# --- what is refused ---


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"ready": {}}, "data.ready: give at least one of window, success, min_rows and max_age"),
        ({"ready": {"max_age": "two hours"}}, "data.ready.max_age: 'two hours' is no length of time: write 90s"),
        ({"ready": {"success": True, "wait": -1}}, "data.ready.wait"),
        ({"ready": {"window": {**WINDOW, "last": "2026-11-01"}}}, "last: 2026-11-01 is before first: 2026-11-18"),
        (
            {"ready": {"window": {**WINDOW, "first": "today"}}},
            "first: 'today' is neither a day nor a time: write 2026-11-20",
        ),
        ({"ready": {"window": {**WINDOW, "first": "2026-11-20T00:00+01:00"}}}, "has a time zone"),
        ({"ready": {"window": {**WINDOW, "every": 0}}}, "every: 0 s is not more than 0: write 1h or 1d"),
        (
            {"ready": {"window": {**WINDOW, "first": "2020-01-01", "every": "1m"}}},
            "every: 1 min makes more than 100,000 partitions from first to last: set a longer one",
        ),
        (
            {"ready": {"window": {**WINDOW, "every": "1h"}}},
            "folder: date=%Y-%m-%d is one folder for times that are 1 h apart (every): name the hour in it, too, as %H",
        ),
        ({"ready": {"success": True}, "path": None, "sql": "select 1"}, "data: ready needs files: give path"),
        (
            {"ready": {"min_rows": 1}, "format": "csv"},
            "data: ready.min_rows needs the footers of Parquet files, and format is csv: leave it out",
        ),
    ],
)
def test_a_condition_that_cannot_be_asked_for_is_refused(data: dict[str, Any], message: str, tmp_path: Path) -> None:
    plain = pretend_config(tmp_path, tmp_path).model_dump(exclude_unset=True)
    with pytest.raises(ConfigError) as refused:
        pretend_config(tmp_path, tmp_path, data={**plain["data"], **data})
    assert message in str(refused.value)
