"""A file system in memory, and each process's view of it: slow, and as unreliable as its faults say."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from sparktf.errors import StorageError, StorageExistsError, StorageNotFoundError
from sparktf.storage.base import FileEntry, Storage

_T = TypeVar("_T")


class File:
    """A file's content. Never changed in place."""

    __slots__ = ("content", "modified_ms", "sha256")

    def __init__(self, content: bytes, modified_ms: int) -> None:
        self.content = content
        self.modified_ms = modified_ms
        self.sha256 = ""


Folder = dict[str, "Folder | File"]


class Disk:
    """What all see alike; every method is one step."""

    def __init__(self, wall_s: Callable[[], float]) -> None:
        self._root: Folder = {}
        self._wall_s = wall_s

    def find(self, path: str) -> Folder | File | None:
        """Returns what is at a path."""
        found: Folder | File = self._root
        for name in _names(path):
            if not isinstance(found, dict) or name not in found:
                return None
            found = found[name]
        return found

    def stat(self, path: str) -> FileEntry:
        return self._entry(path, self._get("stat", path))

    def list(self, path: str) -> tuple[FileEntry, ...]:
        found = self._get("list", path)
        if not isinstance(found, dict):
            raise StorageNotFoundError(f"cannot list {path}: Not a directory")
        return tuple(self._entry(f"{path.rstrip('/')}/{name}", found[name]) for name in sorted(found))

    def read(self, path: str) -> bytes:
        return self._file("read", path).content

    def checksum(self, path: str) -> str:
        file = self._file("read", path)
        file.sha256 = file.sha256 or hashlib.sha256(file.content).hexdigest()
        return file.sha256

    def write(self, path: str, content: bytes) -> None:
        above, name = self._above("write", path)
        if isinstance(above.get(name), dict):
            raise StorageError(f"cannot write {path}: Is a directory")
        above[name] = File(content, int(self._wall_s() * 1000))

    def make_dirs(self, path: str) -> None:
        above, name = self._above("make the folder", path)
        if isinstance(above.setdefault(name, {}), File):
            raise StorageExistsError(f"cannot make the folder {path}: File exists")

    def rename(self, source: str, target: str) -> None:
        what = f"cannot rename {source} to {target}"
        found = self.find(source)
        if found is None:
            raise StorageNotFoundError(f"{what}: No such file or directory")
        above = self.find(_parent(target))
        if not isinstance(above, dict):
            raise StorageNotFoundError(f"{what}: No such file or directory")
        if _name(target) in above:
            raise StorageExistsError(f"{what}: File exists")
        self.delete(source)
        above[_name(target)] = found

    def replace(self, source: str, target: str) -> None:
        what = f"cannot rename {source} to {target}"
        found, above = self.find(source), self.find(_parent(target))
        if not isinstance(found, File) or not isinstance(above, dict):
            raise StorageNotFoundError(f"{what}: No such file or directory")
        if isinstance(above.get(_name(target)), dict):
            raise StorageExistsError(f"{what}: Is a directory")
        self.delete(source)
        above[_name(target)] = found

    def delete(self, path: str) -> None:
        above = self.find(_parent(path))
        if isinstance(above, dict):
            above.pop(_name(path), None)

    def _entry(self, path: str, found: Folder | File) -> FileEntry:
        if isinstance(found, dict):
            return FileEntry(path, 0, True, int(self._wall_s() * 1000))
        return FileEntry(path, len(found.content), False, found.modified_ms)

    def _get(self, what: str, path: str) -> Folder | File:
        found = self.find(path)
        if found is None:
            raise StorageNotFoundError(f"cannot {what} {path}: No such file or directory")
        return found

    def _file(self, what: str, path: str) -> File:
        found = self._get(what, path)
        if isinstance(found, dict):
            raise StorageError(f"cannot {what} {path}: Is a directory")
        return found

    def _above(self, what: str, path: str) -> tuple[Folder, str]:
        found = self._root
        for name in _names(_parent(path)):
            below = found.setdefault(name, {})
            if isinstance(below, File):
                raise StorageNotFoundError(f"cannot {what} {path}: Not a directory")
            found = below
        return found, _name(path)


class Way(Protocol):
    """How a process's calls reach the file system."""

    def __call__(self, what: str, path: str, apply: Callable[[], _T]) -> _T:
        """Returns what `apply` does; it takes a while, or goes wrong."""


def at_once(what: str, path: str, apply: Callable[[], _T]) -> _T:
    """Lets a call through."""
    del what, path
    return apply()


class SimStorage(Storage):
    """One process's view."""

    def __init__(self, disk: Disk, way: Way = at_once) -> None:
        self._disk = disk
        self._way = way

    def stat(self, path: str) -> FileEntry:
        return self._way("stat", path, lambda: self._disk.stat(path))

    def list(self, path: str) -> tuple[FileEntry, ...]:
        return self._way("list", path, lambda: self._disk.list(path))

    def open(self, path: str) -> BinaryIO:
        return io.BytesIO(self._way("open", path, lambda: self._disk.read(path)))

    def read_bytes(self, path: str) -> bytes:
        return self._way("read", path, lambda: self._disk.read(path))

    def write_bytes(self, path: str, content: bytes) -> None:
        self._way("write", path, lambda: self._disk.write(path, content))

    def upload(self, local: Path, path: str) -> None:
        try:
            content = local.read_bytes()
        except FileNotFoundError as error:
            raise StorageNotFoundError(f"cannot read {local}: {error.strerror}") from error
        self._way("upload", path, lambda: self._disk.write(path, content))

    def download(self, path: str, local: Path) -> None:
        content = self._way("download", path, lambda: self._disk.read(path))
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_bytes(content)

    def checksum(self, path: str) -> str:
        return self._way("checksum", path, lambda: self._disk.checksum(path))

    def make_dirs(self, path: str) -> None:
        self._way("make", path, lambda: self._disk.make_dirs(path))

    def rename(self, source: str, target: str) -> None:
        self._way("rename", f"{source} -> {target}", lambda: self._disk.rename(source, target))

    def replace(self, source: str, target: str) -> None:
        self._way("replace", f"{source} -> {target}", lambda: self._disk.replace(source, target))

    def delete(self, path: str) -> None:
        self._way("delete", path, lambda: self._disk.delete(path))

    def free_nbytes(self, path: str) -> int:
        self._way("free", path, lambda: self._disk.stat(path))
        return 1 << 40

    def probe(self, path: str) -> None:
        self._way("probe", path, lambda: self._disk.make_dirs(path))


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _parent(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0]
