"""What every `Storage` does: tests to inherit, with fixtures `storage` and `root`, an empty folder."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from contenders import Contender, Nth, outcome

from sparktf.errors import FencedOffError, OwnedError, StorageExistsError, StorageNotFoundError
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.transactions.head import Edition, FolderHead, HeadMovedError


def names_below(storage: Storage, root: str) -> list[str]:
    """Returns all that is below a folder, also what is hidden, relative to it."""
    found: list[str] = []
    for entry in storage.list(root):
        name = entry.path.removeprefix(f"{root}/")
        found += [name, *(f"{name}/{below}" for below in names_below(storage, entry.path))] if entry.is_dir else [name]
    return sorted(found)


class StorageContract:
    """The tests."""

    def test_entries_are_sorted_and_say_what_they_are(self, storage: Storage, root: str) -> None:
        storage.make_dirs(f"{root}/b")
        storage.write_bytes(f"{root}/a c", b"123")
        file, folder = storage.stat(f"{root}/a c"), storage.stat(f"{root}/b")
        assert storage.list(root) == (file, folder)
        assert file[:3] == (f"{root}/a c", 3, False)
        assert folder[:3] == (f"{root}/b", 0, True)

    def test_an_entry_says_when_the_content_was_changed(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/x", b"123")
        first = storage.stat(f"{root}/x").modified_ms
        assert abs(first - time.time() * 1000) < 600_000
        while storage.stat(f"{root}/x").modified_ms == first:  # clocks of file systems tick in milliseconds
            storage.write_bytes(f"{root}/x", b"456")
        assert storage.stat(f"{root}/x").modified_ms > first
        storage.rename(f"{root}/x", f"{root}/y")
        assert storage.list(root) == (storage.stat(f"{root}/y"),)

    def test_an_entry_of_a_folder_says_when_something_came_into_it(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/b/x", b"1")
        first = storage.stat(f"{root}/b").modified_ms
        assert abs(first - time.time() * 1000) < 600_000
        number = 0
        while storage.stat(f"{root}/b").modified_ms == first:
            storage.write_bytes(f"{root}/b/{(number := number + 1)}", b"1")
        assert storage.stat(f"{root}/b").modified_ms > first

    def test_names_are_taken_as_they_are(self, storage: Storage, root: str) -> None:
        for name in ("50%25", "day=1 2", "a#b?c", "#LATEST", "ä+&"):
            storage.write_bytes(f"{root}/{name}", name.encode())
            assert storage.read_bytes(f"{root}/{name}") == name.encode()
            storage.rename(f"{root}/{name}", f"{root}/{name}-renamed")
        assert names_below(storage, root) == sorted(
            f"{name}-renamed" for name in ("50%25", "day=1 2", "a#b?c", "#LATEST", "ä+&")
        )

    def test_walk_yields_files_only_and_no_hidden_ones(self, storage: Storage, root: str) -> None:
        for name in ("b", "a/c", "a/_tmp/x", "a/.hidden", "_SUCCESS", ".git/x", "a-b/x", "_k=1/d"):
            storage.write_bytes(f"{root}/{name}", b"1")
        assert [entry.path.removeprefix(f"{root}/") for entry in storage.walk(root)] == ["_k=1/d", "a-b/x", "a/c", "b"]
        assert [entry.nbytes for entry in storage.walk(f"{root}/a/_tmp")] == [1]

    def test_an_opened_file_is_seekable(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/x", b"0123456789")
        with storage.open(f"{root}/x") as stream:
            stream.seek(-3, os.SEEK_END)
            assert (stream.read(2), stream.tell(), stream.read(), stream.read(1)) == (b"78", 9, b"9", b"")
            stream.seek(2)
            into = bytearray(4)
            assert stream.readinto(into) == 4  # type: ignore[attr-defined]
            assert into == b"2345"

    def test_free_space_is_known(self, storage: Storage, root: str) -> None:
        assert storage.free_nbytes(root) > 1 << 20

    def test_the_checksum_is_of_what_lies_there(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/x", b"abc")
        assert storage.checksum(f"{root}/x").startswith("ba7816bf8f01cfea")

    @pytest.mark.parametrize(
        "call",
        [
            lambda storage, path, local: storage.stat(path),
            lambda storage, path, local: storage.list(path),
            lambda storage, path, local: list(storage.walk(path)),
            lambda storage, path, local: storage.open(path),
            lambda storage, path, local: storage.read_bytes(path),
            lambda storage, path, local: storage.checksum(path),
            lambda storage, path, local: storage.free_nbytes(path),
            lambda storage, path, local: storage.download(path, local),
            lambda storage, path, local: storage.copy(path, f"{path}-copied"),
            lambda storage, path, local: storage.rename(path, f"{path}-renamed"),
        ],
    )
    @pytest.mark.parametrize("below", ["", "file/"])
    def test_what_is_missing_is_named(
        self, storage: Storage, root: str, tmp_path: Path, call: Callable[[Storage, str, Path], object], below: str
    ) -> None:
        storage.write_bytes(f"{root}/file", b"")
        with pytest.raises(StorageNotFoundError, match=f"cannot .*{root}/{below}missing"):
            call(storage, f"{root}/{below}missing", tmp_path / "local")
        assert names_below(storage, root) == ["file"]
        assert not (tmp_path / "local").exists()

    def test_a_file_is_no_folder_and_a_folder_no_file(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/file", b"")
        with pytest.raises(StorageNotFoundError, match=f"cannot list {root}/file: Not a directory"):
            storage.list(f"{root}/file")
        with pytest.raises(OSError, match=f"cannot .* {root}"):
            storage.read_bytes(root)

    def test_nothing_exists_below_a_file(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/file", b"")
        assert storage.exists(f"{root}/file")
        assert not storage.exists(f"{root}/file/x")
        assert not storage.exists(f"{root}/x")

    def test_a_small_file_replaces_the_one_that_is_there(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/a/b/x", b"old")
        storage.write_bytes(f"{root}/a/b/x", b"new")
        assert storage.read_bytes(f"{root}/a/b/x") == b"new"
        storage.write_bytes(f"{root}/a/b/x", b"")
        assert storage.read_bytes(f"{root}/a/b/x") == b""
        assert names_below(storage, root) == ["a", "a/b", "a/b/x"]

    def test_a_file_goes_up_and_comes_down(self, storage: Storage, root: str, tmp_path: Path) -> None:
        content = os.urandom(9_000_000)
        (tmp_path / "local").write_bytes(content)
        storage.upload(tmp_path / "local", f"{root}/far/x")
        storage.download(f"{root}/far/x", tmp_path / "back" / "x")
        assert (tmp_path / "back" / "x").read_bytes() == content
        assert names_below(storage, f"{root}/far") == ["x"]
        assert [path.name for path in (tmp_path / "back").iterdir()] == ["x"]

    @pytest.mark.parametrize("nbytes", [0, 5, 9_000_000])
    def test_a_copy_is_told_by_what_has_arrived(self, storage: Storage, root: str, tmp_path: Path, nbytes: int) -> None:
        content = os.urandom(nbytes)
        (tmp_path / "local").write_bytes(content)
        storage.upload(tmp_path / "local", f"{root}/x")
        storage.write_bytes(f"{root}/far/x", b"of before")
        assert storage.copy(f"{root}/x", f"{root}/far/x") == hashlib.sha256(content).hexdigest()
        storage.download(f"{root}/far/x", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == content
        assert names_below(storage, root) == ["far", "far/x", "x"]

    def test_a_local_file_that_is_missing_is_named(self, storage: Storage, root: str, tmp_path: Path) -> None:
        with pytest.raises(StorageNotFoundError, match=f"cannot read {tmp_path}/missing"):
            storage.upload(tmp_path / "missing", f"{root}/x")
        assert names_below(storage, root) == []

    def test_a_file_in_a_folders_place_is_named(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/file", b"")
        with pytest.raises(StorageNotFoundError, match=f"cannot write {root}/file/x: .*[Nn]ot a directory"):
            storage.write_bytes(f"{root}/file/x", b"")
        with pytest.raises(StorageExistsError, match=f"cannot make the folder {root}/file: "):
            storage.make_dirs(f"{root}/file")

    def test_a_probe_makes_the_folder_and_leaves_it_empty(self, storage: Storage, root: str) -> None:
        storage.probe(f"{root}/a/b")
        assert names_below(storage, root) == ["a", "a/b"]

    def test_delete_takes_what_is_there(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/folder/x", b"")
        storage.write_bytes(f"{root}/file", b"")
        for name in ("folder", "file", "missing", "missing/x"):
            storage.delete(f"{root}/{name}")
        assert names_below(storage, root) == []

    def test_a_folder_moves_with_all_below_it(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/a/b/x", b"1")
        storage.rename(f"{root}/a", f"{root}/c")
        assert names_below(storage, root) == ["c", "c/b", "c/b/x"]

    @pytest.mark.parametrize("source", ["source", "source/x"])
    @pytest.mark.parametrize("target", ["file", "empty", "full"])
    def test_a_target_that_exists_is_refused(self, storage: Storage, root: str, source: str, target: str) -> None:
        for name in ("file", "full/x", "source/x"):
            storage.write_bytes(f"{root}/{name}", b"1")
        storage.make_dirs(f"{root}/empty")
        before = names_below(storage, root)
        with pytest.raises(StorageExistsError, match=f"cannot rename {root}/{source} to {root}/{target}: "):
            storage.rename(f"{root}/{source}", f"{root}/{target}")
        assert names_below(storage, root) == before

    def test_the_folder_above_the_target_is_not_made(self, storage: Storage, root: str) -> None:
        storage.make_dirs(f"{root}/source")
        storage.write_bytes(f"{root}/file", b"")
        for above in ("missing", "file"):
            with pytest.raises(StorageNotFoundError, match=f"cannot rename {root}/source to {root}/{above}/target: "):
                storage.rename(f"{root}/source", f"{root}/{above}/target")
        assert names_below(storage, root) == ["file", "source"]

    def test_a_file_takes_the_place_of_another_in_one_step(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/x", b"0")
        ended, read = threading.Event(), set()

        def follow() -> None:
            while not ended.is_set():
                read.add(storage.read_bytes(f"{root}/x"))

        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(follow)
            for number in range(1, 20):
                storage.write_bytes(f"{root}/new", b"%d" % number)
                storage.replace(f"{root}/new", f"{root}/x")
                assert storage.read_bytes(f"{root}/x") == b"%d" % number
            ended.set()
            reader.result(timeout=60)
        assert read <= {b"%d" % number for number in range(20)}
        assert names_below(storage, root) == ["x"]

    def test_what_cannot_be_replaced_stays(self, storage: Storage, root: str) -> None:
        storage.write_bytes(f"{root}/file", b"1")
        storage.make_dirs(f"{root}/empty")
        with pytest.raises(StorageExistsError, match=f"cannot rename {root}/file to {root}/empty: "):
            storage.replace(f"{root}/file", f"{root}/empty")
        for source, target in (("missing", "file"), ("file", "missing/x")):
            with pytest.raises(StorageNotFoundError, match=f"cannot rename {root}/{source} to {root}/{target}: "):
                storage.replace(f"{root}/{source}", f"{root}/{target}")
        assert names_below(storage, root) == ["empty", "file"]
        storage.replace(f"{root}/file", f"{root}/new")
        assert names_below(storage, root) == ["empty", "new"]

    def test_a_head_says_what_was_swapped_in_last(self, storage: Storage, root: str) -> None:
        head = FolderHead(storage, f"{root}/h", "content", beside={"beat": b"0"})
        assert head.read() == Edition(0, b"")
        first = head.swap(head.read(), b"first")
        assert first == head.read() == Edition(1, b"first")
        assert head.swap(first, b"second") == head.read() == Edition(2, b"second")
        assert names_below(storage, root) == ["h", "h/000002", "h/000002/beat", "h/000002/content"]

    def test_of_many_that_swap_a_head_at_once_one_after_the_other_does(self, storage: Storage, root: str) -> None:
        def add_one(who: int) -> None:
            head, done = FolderHead(storage, f"{root}/h", "content"), 0
            while done < 3:
                read = head.read()
                count = int(read.content.partition(b" ")[0] or 0)
                with suppress(HeadMovedError):
                    head.swap(read, f"{count + 1} by {who}".encode())
                    done += 1

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(add_one, range(3)))
        number, content = FolderHead(storage, f"{root}/h", "content").read()
        # Each edition counts on from the one before, and none is lost. Who is told to have lost may have been first,
        # and was followed before they looked again: see `head`.
        assert content.startswith(f"{number} by ".encode()), (number, content)
        assert number >= 9, content

    def test_who_was_frozen_before_a_swap_makes_no_number_that_is_over(self, storage: Storage, root: str) -> None:
        head = FolderHead(storage, f"{root}/h", "content")
        first = head.swap(head.read(), b"first")
        last = head.swap(head.swap(first, b"second"), b"third")
        with pytest.raises(HeadMovedError):
            head.swap(first, b"of one that was frozen")
        assert head.read() == last

    def test_of_two_that_want_a_run_one_owns_it_and_the_other_is_told_who(self, storage: Storage, root: str) -> None:
        rundir = RunDirectory(root, "t", "r")
        first, second = (Contender(name, storage, rundir) for name in ("first", "second"))
        first.begin()
        second.beside(first)
        with pytest.raises(OwnedError, match="run t/r is owned by application first of "):
            second.begin()
        first.write()
        assert storage.read_bytes(rundir.result) == b"first"

    @pytest.mark.parametrize(
        ("kind", "nth"), [("rename", 0), ("rename", 1), ("rename", 2), ("replace", 0), ("replace", 1)]
    )
    def test_an_owner_that_is_frozen_at_a_rename_changes_nothing_of_what_its_successor_has(
        self, storage: Storage, root: str, kind: str, nth: int
    ) -> None:
        rundir = RunDirectory(root, "t", "r")
        new = Contender("new", storage, rundir)

        def freeze(what: str, call: Callable[[], Any]) -> Any:
            new.begin()
            new.write()
            old.beside(new)
            return call()

        old = Contender("old", storage, rundir, Nth(nth, freeze, kind))
        assert isinstance(outcome(old.live), OwnedError | FencedOffError)
        new.write(" again")
        assert storage.read_bytes(rundir.result) == b"new again"
