"""The partition of a day's predictions: what readers find of it, whatever its writers die at."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from pretend import WatchedStorage

from sparktf.errors import ConfigError, StorageError, StoragePermissionError, StorageUnavailableError
from sparktf.storage.base import Storage
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.partition import MARKER, DayFolder, Marker, Partition

DAY = "2026-11-20"
FILES = 3


class KilledError(BaseException):
    """The process is gone."""


OURS = Marker(name="churn", version="14", job="app-1")


def write(storage: Storage, folder: str, content: str) -> None:
    for number in range(FILES):
        storage.write_bytes(f"{folder}/part-{number}.parquet", content.encode())


def seen(path: Path) -> str | None:
    """Returns whose partition readers find; asserts that it is whole."""
    folder = path / f"date={DAY}"
    if not folder.exists():
        return None
    found = [file.read_text(encoding="utf-8") for file in folder.glob("part-*")]
    assert len(found) == FILES
    assert len(set(found)) == 1
    return found[0]


def place(path: Path, date: str = DAY) -> DayFolder:
    return DayFolder(str(path), "date", date)


def replace(
    path: Path,
    content: str,
    before: Callable[[str, str], None] = lambda what, path: None,
    *,
    name: str = "churn",
    date: str = DAY,
    any_: bool = False,
) -> None:
    storage = WatchedStorage(before)
    partition = Partition(storage, place(path, date), replaces_any=any_)
    marker = OURS.model_copy(update={"name": name})
    partition.replace(lambda folder: write(storage, folder, content), marker, time.time())


def killed_at(call: int, path: Path, content: str, found: set[str | None]) -> bool:
    """Whether a process that replaces the partition has died before one of its calls; notes what readers see."""
    calls = 0

    def before(what: str, where: str) -> None:
        nonlocal calls
        found.add(seen(path))
        if calls >= call:
            raise KilledError
        calls += 1

    try:
        replace(path, content, before)
    except KilledError:
        return True
    finally:
        found.add(seen(path))
    return False


def test_readers_find_whole_partitions_though_writers_are_killed_at_every_call(tmp_path: Path) -> None:
    replace(tmp_path, "first")
    call, current = 0, "first"
    while True:
        found: set[str | None] = set()
        was_killed = killed_at(call, tmp_path, f"killed {call}", found)
        assert found <= {current, f"killed {call}", None}
        Partition(LocalStorage(), place(tmp_path)).tidy(time.time())
        assert seen(tmp_path) in (current, f"killed {call}"), "nothing is lost"
        current = f"again {call}"
        replace(tmp_path, current)  # the schedule submits it again
        assert seen(tmp_path) == current
        if not was_killed:
            break
        call += 1
        for left in tmp_path.glob("_scored-*"):
            shutil.rmtree(left)
    assert call > 8


def test_what_killed_jobs_of_other_days_have_left_goes_when_a_day_is_written(tmp_path: Path) -> None:
    replace(tmp_path, "the week before", date="2026-11-13")
    shutil.move(tmp_path / "date=2026-11-13", tmp_path / "_before-2026-11-13-00000000")  # the only ones of that day
    replace(tmp_path, "older", date="2026-11-14")
    shutil.copytree(tmp_path / "date=2026-11-14", tmp_path / "_before-2026-11-14-00000000")
    for number, name in enumerate(("part-0.parquet", "_temporary/0/_temporary/attempt_1/part-0.parquet")):
        LocalStorage().write_bytes(f"{tmp_path}/_scored-2026-11-1{number}-00000000/{name}", b"half")
    (tmp_path / "_scored-2026-11-12-00000000").mkdir()
    for left in tmp_path.glob("_scored-*"):  # as of processes that died two days ago
        for file in (left, *left.rglob("*")):
            os.utime(file, (time.time() - 2 * 86_400,) * 2)
    under_way = f"{tmp_path}/_scored-2026-11-19-00000001"
    write(LocalStorage(), under_way, "half")
    replace(tmp_path, "last")
    days = ("2026-11-13", "2026-11-14", DAY)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == [
        "_scored-2026-11-19-00000001",
        *(f"date={day}" for day in days),
    ]


def test_a_partition_that_is_not_ours_is_not_replaced_unless_it_may_go(tmp_path: Path) -> None:
    """A day of somebody's lake, and the predictions of another model."""
    write(LocalStorage(), f"{tmp_path}/date={DAY}", "lake")
    with pytest.raises(ConfigError, match=rf"date={DAY} has no {MARKER}.*predict\.overwrite: any"):
        replace(tmp_path, "mine")
    assert seen(tmp_path) == "lake"
    replace(tmp_path, "first", name="fraud", any_=True)
    with pytest.raises(ConfigError, match=rf"date={DAY} holds predictions of fraud, and churn replaces only its own"):
        replace(tmp_path, "mine")
    assert seen(tmp_path) == "first"
    (tmp_path / f"date={DAY}" / MARKER).write_text("no JSON", encoding="utf-8")
    with pytest.raises(ConfigError, match=MARKER):
        replace(tmp_path, "mine", name="fraud")
    assert [folder.name for folder in tmp_path.iterdir()] == [f"date={DAY}"]


def test_a_partition_says_whose_it_is_and_of_which_model_and_job(tmp_path: Path) -> None:
    replace(tmp_path, "mine")
    stored = Marker.model_validate_json((tmp_path / f"date={DAY}" / MARKER).read_bytes())
    assert stored == OURS


def test_a_partition_that_is_empty_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / f"date={DAY}").mkdir()
    replace(tmp_path, "mine")
    assert seen(tmp_path) == "mine"


def test_somebody_elses_that_comes_at_any_moment_meanwhile_stays(tmp_path: Path) -> None:
    """Between any two calls another program writes the same day, without a marker."""
    stayed = 0
    for call in range(1, 30):
        path = tmp_path / str(call)
        replace(path, "first")
        left = call

        def meanwhile(what: str, where: str, path: Path = path) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                shutil.rmtree(path / f"date={DAY}", ignore_errors=True)
                write(LocalStorage(), f"{path}/date={DAY}", "lake")

        with suppress(ConfigError):
            replace(path, "mine", meanwhile)
            assert seen(path) == "mine" or left <= 0
        if left <= 0 and seen(path) == "lake":
            stayed += 1
        Partition(LocalStorage(), place(path)).tidy(time.time())
        assert [folder.name for folder in path.iterdir()] == [f"date={DAY}"]
        if left > 0:
            break
    assert stayed == call - 1, "none that came while it was written was lost"


def test_a_job_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    replace(tmp_path, "first")

    def fail(folder: str) -> None:
        LocalStorage().write_bytes(f"{folder}/part-0.parquet", b"half")
        raise StorageError("the disk is full")

    with pytest.raises(StorageError, match="full"):
        Partition(LocalStorage(), place(tmp_path)).replace(fail, OURS, time.time())
    assert seen(tmp_path) == "first"
    assert [folder.name for folder in tmp_path.iterdir()] == [f"date={DAY}"]


def test_of_two_that_write_at_once_one_is_there_and_whole(tmp_path: Path) -> None:
    for call in range(20):
        done = False
        left = call

        def meanwhile(what: str, path: str) -> None:
            nonlocal done, left
            left -= 1
            if left == 0 and not done:
                done = True
                replace(tmp_path, "other")

        replace(tmp_path, "mine", meanwhile)
        assert seen(tmp_path) in ("mine", "other")
        assert [folder.name for folder in tmp_path.iterdir()] == [f"date={DAY}"]


def test_a_partition_that_others_replace_again_and_again_is_told_of(tmp_path: Path) -> None:
    replace(tmp_path, "first")

    def put_back(what: str, path: str) -> None:
        if what == "rename" and not (tmp_path / f"date={DAY}").exists():
            write(LocalStorage(), str(tmp_path / f"date={DAY}"), "other")
            LocalStorage().write_bytes(str(tmp_path / f"date={DAY}" / MARKER), OURS.model_dump_json().encode())

    with pytest.raises(StorageUnavailableError, match="replaced by others again and again"):
        replace(tmp_path, "mine", put_back)
    assert seen(tmp_path) == "other"


def test_what_somebody_else_has_left_and_who_alone_may_delete_it_stops_nobody(tmp_path: Path) -> None:
    left = tmp_path / "_scored-2026-11-01-00000000"
    left.mkdir()
    os.utime(left, (time.time() - 2 * 86_400,) * 2)

    def refuse(what: str, path: str) -> None:
        if what == "delete" and path == str(left):
            raise StoragePermissionError("it is alice's")

    replace(tmp_path, "mine", refuse)
    assert seen(tmp_path) == "mine"
    assert left.exists()
