"""A store of objects in memory, by obstore itself, that says before each request that it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from obstore.store import MemoryStore

from sparktf.storage.base import FileEntry, Tag
from sparktf.storage.objects.object_storage import ObjectStorage

_T = TypeVar("_T")

ROOT = "s3a://memory"


class WatchedStore(ObjectStorage):
    """One process's view of a store. `way` is told of each request, and makes it, or not."""

    def __init__(self, memory: MemoryStore, way: Callable[[str, Callable[[], Any]], Any]) -> None:
        self._root = ROOT
        self._memory = memory
        self._way = way

    @property
    def _client(self) -> Any:
        return self._memory

    def read_tagged(self, path: str) -> tuple[bytes, Tag]:
        return self._pass("read", lambda: ObjectStorage.read_tagged(self, path))

    def put_tagged(self, path: str, content: bytes, tag: Tag | None) -> Tag:
        return self._pass("swap", lambda: ObjectStorage.put_tagged(self, path, content, tag))

    def read_bytes(self, path: str) -> bytes:
        return self._pass("read", lambda: ObjectStorage.read_bytes(self, path))

    def write_bytes(self, path: str, content: bytes) -> None:
        self._pass("write", lambda: ObjectStorage.write_bytes(self, path, content))

    def put_file(self, local: Path, path: str) -> None:
        self._pass("write", lambda: ObjectStorage.write_bytes(self, path, local.read_bytes()))

    def copy_object(self, source: str, target: str) -> None:
        self._pass("copy", lambda: ObjectStorage.write_bytes(self, target, ObjectStorage.read_bytes(self, source)))

    def delete_objects(self, paths: Sequence[str]) -> None:
        if paths:
            self._pass("delete", lambda: ObjectStorage.delete_objects(self, paths))

    def below(self, path: str) -> Sequence[FileEntry]:
        return self._pass("list", lambda: ObjectStorage.below(self, path))

    def head(self, path: str) -> FileEntry | None:
        return self._pass("head", lambda: ObjectStorage.head(self, path))

    def tag_of(self, path: str) -> Tag | None:
        return self._pass("head", lambda: ObjectStorage.tag_of(self, path))

    def _pass(self, what: str, make: Callable[[], _T]) -> _T:
        found: _T = self._way(what, make)
        return found
