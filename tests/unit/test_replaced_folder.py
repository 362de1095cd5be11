"""A folder of TFRecord files takes the place of another one: whatever fails, one of the two stays."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from pretend import WatchedStorage

from sparktf.errors import StorageError, StorageExistsError
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.replaced_folder import ReplacedFolder


class KilledError(BaseException):
    """The process is gone."""


def replace(
    path: Path, content: str, before: Callable[[str, str], None] = lambda what, path: None, *, replaces: bool = True
) -> None:
    storage = WatchedStorage(before)
    folder = ReplacedFolder(storage, str(path))
    folder.tidy(time.time())
    with folder.staged() as aside:
        storage.write_bytes(f"{aside}/part-0.tfrecord", content.encode())
        folder.put(aside, replaces=replaces)


def seen(path: Path) -> str | None:
    file = path / "part-0.tfrecord"
    return file.read_text(encoding="utf-8") if path.exists() else None


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("kind", [StorageError, KilledError])
def test_whatever_call_fails_the_old_records_or_the_new_ones_are_there(
    tmp_path: Path, kind: type[BaseException]
) -> None:
    path, call, has_failed = tmp_path / "records", 0, True
    replace(path, "old")
    while has_failed:
        has_failed, left = False, call

        def fail(what: str, where: str) -> None:
            nonlocal left, has_failed
            left -= 1
            if left < 0 and (kind is KilledError or left == -1):
                has_failed = True
                raise kind("the NameNode is gone")

        with suppress(kind):
            replace(path, f"new {call}", fail)
        if kind is StorageError:
            assert seen(path) in ("old", f"new {call}"), "without another word"
        ReplacedFolder(LocalStorage(), str(path)).tidy(time.time())
        assert seen(path) in ("old", f"new {call}")
        replace(path, "old")
        for left_over in tmp_path.glob("_records-*"):  # each is looked at, and would be a further call
            shutil.rmtree(left_over)
        call += 1
    assert call > 5


def test_where_the_old_ones_cannot_be_put_back_it_is_said_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "records"
    replace(path, "old")

    def fail(what: str, where: str) -> None:
        if what == "rename" and not path.exists():
            raise StorageError("the NameNode is gone")

    with pytest.raises(StorageError, match=r"its former content is in .*_records-before-") as caught:
        replace(path, "new", fail)
    assert any(f"{tmp_path}/{name}" in str(caught.value) for name in names(tmp_path))
    replace(path, "newer")
    assert (seen(path), names(tmp_path)) == ("newer", ["records"])


def test_one_that_has_come_meanwhile_is_not_replaced_unless_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "records"

    def another(what: str, where: str) -> None:
        if what == "rename":
            LocalStorage().write_bytes(f"{path}/part-0.tfrecord", b"another")

    with pytest.raises(StorageExistsError):
        replace(path, "mine", another, replaces=False)
    assert (seen(path), names(tmp_path)) == ("another", ["records"])


def test_what_killed_processes_have_left_goes_after_a_day(tmp_path: Path) -> None:
    old = ("_records-00000001", "_recordsb-00000002", "_other-00000003", "records-00000004")
    for name in (*old, "_records-0000000a"):
        (tmp_path / name).mkdir()
    for name in old:
        os.utime(tmp_path / name, (time.time() - 2 * 86_400,) * 2)
    replace(tmp_path / "records", "mine")
    assert names(tmp_path) == sorted([*old[1:], "_records-0000000a", "records"])
