"""The local storage: its errors, and that files and renames are whole or not there."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from storage_contract import StorageContract

from sparktf.errors import ConfigError, StorageError, StorageExistsError, StorageNotFoundError, StoragePermissionError
from sparktf.storage import local
from sparktf.storage.base import FileEntry, Storage
from sparktf.storage.file_systems import normalise, open_storage
from sparktf.storage.local import LocalStorage, storage_errors
from sparktf.storage.transactions.head import FolderHead


@pytest.fixture
def storage() -> Storage:
    return LocalStorage()


@contextmanager
def files_limited_to(nbytes: int) -> Iterator[None]:
    """Makes longer writes of this process fail in the kernel, also root's and on any file system.

    Not a fixture: pytest reports a test, perhaps into a long file, before it tears fixtures down.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def names_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


class TestOpenStorage:
    @pytest.mark.parametrize("path", ["/x", "x/y", "file:///x", "file:/x", "FILE:///x", "day=2026-11-20:1/part"])
    def test_a_path_without_a_scheme_and_a_file_url_are_local(self, path: str) -> None:
        assert isinstance(open_storage(path), LocalStorage)

    @pytest.mark.parametrize("scheme", ["ftp", "oss"])
    def test_another_scheme_is_refused_by_name(self, scheme: str) -> None:
        with pytest.raises(ConfigError, match=rf"^{scheme}://nn/x: {scheme}:// is not supported: use file://"):
            open_storage(f"{scheme}://nn/x")

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("file:///a/b/", "/a/b"),
            ("file:/a", "/a"),
            ("file://localhost/a", "/a"),
            ("/a/../b%20c", "/b%20c"),
            ("hdfs://nn:8020/a/", "hdfs://nn:8020/a"),
        ],
    )
    def test_a_path_has_one_spelling(self, path: str, expected: str) -> None:
        assert normalise(path) == expected

    def test_a_relative_path_is_below_the_working_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert normalise("runs/x") == normalise("file:runs/x") == f"{tmp_path}/runs/x"

    def test_an_empty_path_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="a path is empty"):
            normalise(" ")


class TestContract(StorageContract):
    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        (tmp_path / "root").mkdir()
        return f"{tmp_path}/root"


class TestReading:
    def test_entries_are_sorted_and_say_what_they_are(self, storage: Storage, tmp_path: Path) -> None:
        (tmp_path / "b").mkdir()
        (tmp_path / "a").write_bytes(b"123")
        (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
        os.utime(tmp_path / "a", ns=(0, 1_500_000))
        os.utime(tmp_path / "b", ns=(0, 2_500_000))
        expected = (FileEntry(f"{tmp_path}/a", 3, False, 1), FileEntry(f"{tmp_path}/b", 0, True, 2))
        assert storage.list(str(tmp_path)) == storage.list(f"file://{tmp_path}") == expected
        assert storage.stat(f"{tmp_path}/b") == expected[1]

    def test_a_listing_is_of_one_moment_and_shows_no_gap_while_one_entry_takes_the_place_of_another(
        self, storage: Storage, tmp_path: Path
    ) -> None:
        # Shown by a head: who takes an older edition for the newest one owns a run that another one owns.
        head, done = FolderHead(storage, f"{tmp_path}/h", "content"), Event()
        head.swap(head.read(), b"0")

        def numbers_seen() -> list[int]:
            seen = [head.newest()]
            while not done.is_set():
                seen.append(head.newest())
            return seen

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(numbers_seen) for _ in range(2)]
            try:
                for number in range(1, 401):
                    head.swap(head.read(), str(number).encode())
            finally:
                done.set()
        for reader in readers:
            assert reader.result() == sorted(reader.result())
        assert head.newest() == 401


class TestWriting:
    def test_others_may_read_what_the_umask_lets_them(self, storage: Storage, tmp_path: Path) -> None:
        before = os.umask(0o022)
        storage.write_bytes(f"{tmp_path}/x", b"")
        os.umask(before)
        assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644

    def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(self, storage: Storage, tmp_path: Path) -> None:
        storage.write_bytes(f"{tmp_path}/x", b"old")
        with pytest.raises(StorageError, match=f"cannot write {tmp_path}/x: File too large"), files_limited_to(4096):
            storage.write_bytes(f"{tmp_path}/x", bytes(8192))
        assert storage.read_bytes(f"{tmp_path}/x") == b"old"
        assert names_below(tmp_path) == ["x"]

    def test_an_upload_that_fails_names_both_sides_and_leaves_nothing(self, storage: Storage, tmp_path: Path) -> None:
        (tmp_path / "local").write_bytes(bytes(8192))
        with (
            pytest.raises(StorageError, match=f"cannot copy {tmp_path}/local to {tmp_path}/x: File too large"),
            files_limited_to(4096),
        ):
            storage.upload(tmp_path / "local", f"{tmp_path}/x")
        assert names_below(tmp_path) == ["local"]

    def test_a_file_that_shrinks_while_it_is_copied_is_refused(
        self, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "local").write_bytes(b"1234")
        monkeypatch.setattr(shutil, "copyfileobj", lambda source, sink, nbytes: sink.write(b"12"))
        with pytest.raises(StorageError, match=f"to {tmp_path}/x: 2 of 4 bytes arrived"):
            storage.upload(tmp_path / "local", f"{tmp_path}/x")
        assert names_below(tmp_path) == ["local"]

    def test_no_permission_is_named(self, storage: Storage) -> None:
        # Not even root makes a folder in /sys.
        with pytest.raises(StoragePermissionError, match="cannot make the folder /sys/sparktf: "):
            storage.probe("/sys/sparktf")

    def test_no_space_is_named(self) -> None:
        with (
            pytest.raises(StorageError, match="cannot write /far/x: No space left on device"),
            storage_errors("write", "/far/x"),
            open("/dev/full", "wb", buffering=0) as sink,
        ):
            sink.write(b"x")

    def test_delete_takes_what_is_there(self, storage: Storage, tmp_path: Path) -> None:
        storage.write_bytes(f"{tmp_path}/folder/x", b"")
        storage.write_bytes(f"{tmp_path}/file", b"")
        (tmp_path / "link").symlink_to(tmp_path / "folder")
        storage.delete(f"{tmp_path}/link")
        assert names_below(tmp_path) == ["file", "folder", "folder/x"]
        for name in ("folder", "file", "missing"):
            storage.delete(f"{tmp_path}/{name}")
        assert names_below(tmp_path) == []


@pytest.mark.parametrize("kernel_can", [True, False], ids=["renameat2", "check first"])
class TestRename:
    @pytest.fixture(autouse=True)
    def _kernel(self, kernel_can: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        if not kernel_can:
            monkeypatch.setattr(local, "_renameat2", lambda source, target: errno.EINVAL)

    def test_a_folder_moves_with_all_below_it(self, storage: Storage, tmp_path: Path) -> None:
        storage.write_bytes(f"{tmp_path}/a/b/x", b"1")
        storage.rename(f"{tmp_path}/a", f"{tmp_path}/c")
        assert names_below(tmp_path) == ["c", "c/b", "c/b/x"]

    @pytest.mark.parametrize("target", ["file", "empty", "full"])
    def test_a_target_that_exists_is_refused(self, storage: Storage, tmp_path: Path, target: str) -> None:
        storage.write_bytes(f"{tmp_path}/file", b"1")
        storage.write_bytes(f"{tmp_path}/full/x", b"1")
        storage.write_bytes(f"{tmp_path}/source/x", b"1")
        storage.make_dirs(f"{tmp_path}/empty")
        before = names_below(tmp_path)
        with pytest.raises(
            StorageExistsError, match=f"cannot rename {tmp_path}/source to {tmp_path}/{target}: File ex"
        ):
            storage.rename(f"{tmp_path}/source", f"{tmp_path}/{target}")
        assert names_below(tmp_path) == before

    def test_the_folder_above_the_target_is_not_made(self, storage: Storage, tmp_path: Path) -> None:
        storage.make_dirs(f"{tmp_path}/source")
        with pytest.raises(StorageNotFoundError, match=f"to {tmp_path}/missing/target: No such file"):
            storage.rename(f"{tmp_path}/source", f"{tmp_path}/missing/target")
