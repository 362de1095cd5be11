"""The partition of a day's predictions: what readers find of it, whatever its writers die at."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pretend import WatchedStorage

from sparktf.errors import StorageError, StorageUnavailableError
from sparktf.predict.partition import Partition
from sparktf.storage.base import Storage
from sparktf.storage.local import LocalStorage

DAY = "2026-11-20"
FILES = 3


class KilledError(BaseException):
    """The process is gone."""


def write(storage: Storage, folder: str, content: str) -> None:
    for number in range(FILES):
        storage.write_bytes(f"{folder}/part-{number}.parquet", content.encode())


def seen(path: Path) -> str | None:
    """Returns whose partition readers find; asserts that it is whole."""
    folder = path / f"date={DAY}"
    if not folder.exists():
        return None
    found = [file.read_text(encoding="utf-8") for file in folder.iterdir()]
    assert len(found) == FILES
    assert len(set(found)) == 1
    return found[0]


def replace(path: Path, content: str, before: Callable[[str, str], None] = lambda what, path: None) -> None:
    storage = WatchedStorage(before)
    partition = Partition(storage, str(path), "date", DAY)
    partition.replace(lambda folder: write(storage, folder, content), time.time())


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
        Partition(LocalStorage(), str(tmp_path), "date", DAY).tidy(time.time())
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
    write(LocalStorage(), f"{tmp_path}/_scored-{DAY}-00000000", "half")
    for left in tmp_path.glob("_scored-*"):  # as of a process that died two days ago
        for file in (left, *left.iterdir()):
            os.utime(file, (time.time() - 2 * 86_400,) * 2)
    replace(tmp_path, "last")
    assert [folder.name for folder in tmp_path.iterdir()] == [f"date={DAY}"]


def test_a_job_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    replace(tmp_path, "first")

    def fail(folder: str) -> None:
        LocalStorage().write_bytes(f"{folder}/part-0.parquet", b"half")
        raise StorageError("the disk is full")

    with pytest.raises(StorageError, match="full"):
        Partition(LocalStorage(), str(tmp_path), "date", DAY).replace(fail, time.time())
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

    with pytest.raises(StorageUnavailableError, match="replaced by others again and again"):
        replace(tmp_path, "mine", put_back)
    assert seen(tmp_path) == "other"
