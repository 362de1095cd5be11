"""A store of objects in memory that keeps the conditions of puts, and each process's view of it."""

from __future__ import annotations

from simulation.disk import Disk, Way, at_once

from sparktf.errors import StorageExistsError
from sparktf.storage.base import ConditionalStorage, Tag


class SimObjects(ConditionalStorage):
    """One process's view of objects that lie on a disk: slow, and as unreliable as its way says."""

    def __init__(self, disk: Disk, way: Way = at_once) -> None:
        self._disk = disk
        self._way = way

    def read_tagged(self, path: str) -> tuple[bytes, Tag]:
        return self._way("read", path, lambda: (self._disk.read(path), self._tag(path)))

    def put_tagged(self, path: str, content: bytes, tag: Tag | None) -> Tag:
        return self._way("write", path, lambda: self._put(path, content, tag))

    def copy_object(self, source: str, target: str) -> None:
        self._way("copy", target, lambda: self._disk.write(target, self._disk.read(source)))

    def holds(self, path: str, tag: Tag | None) -> bool:
        """Whether what is there is what the condition of a put says."""
        return (self._tag(path) if self._disk.find(path) is not None else None) == tag

    def _put(self, path: str, content: bytes, tag: Tag | None) -> Tag:
        if not self.holds(path, tag):
            raise StorageExistsError(f"cannot write {path}: precondition failed")
        self._disk.write(path, content)
        return self._tag(path)

    def _tag(self, path: str) -> Tag:
        return Tag(self._disk.checksum(path))
