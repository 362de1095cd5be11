"""A store of objects in memory, by obstore itself, that says before each request that it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from obstore.store import MemoryStore

from sparktf.storage.base import FileEntry, OpenUpload, Tag
from sparktf.storage.objects.container import container_of
from sparktf.storage.objects.object_storage import ObjectStorage

_T = TypeVar("_T")

ROOT = "s3a://memory"


class WatchedStore(ObjectStorage):
    """One process's view of a store. `way` is told of each request, and makes it, or not."""

    def __init__(
        self,
        memory: MemoryStore,
        way: Callable[[str, Callable[[], Any]], Any],
        left: list[OpenUpload] | None = None,
    ) -> None:
        """Makes no request. `left` are the store's uploads in parts, which that in memory does not know."""
        self._uploads = [] if left is None else left
        self._root = ROOT
        self._container = container_of(ROOT)
        self._memory = memory
        self._way = way

    @property
    def _client(self) -> Any:
        return self._memory

    def read_tagged(self, path: str) -> tuple[bytes, Tag]:
        return self._ask("read", lambda: ObjectStorage.read_tagged(self, path))

    def put_tagged(self, path: str, content: bytes, tag: Tag | None) -> Tag:
        return self._ask("swap", lambda: ObjectStorage.put_tagged(self, path, content, tag))

    def read_bytes(self, path: str) -> bytes:
        return self._ask("read", lambda: ObjectStorage.read_bytes(self, path))

    def write_bytes(self, path: str, content: bytes) -> None:
        self._ask("write", lambda: ObjectStorage.write_bytes(self, path, content))

    def put_file(self, local: Path, path: str) -> None:
        self._ask("write", lambda: ObjectStorage.write_bytes(self, path, local.read_bytes()))

    def copy_object(self, source: str, target: str) -> None:
        self._ask("copy", lambda: ObjectStorage.write_bytes(self, target, ObjectStorage.read_bytes(self, source)))

    def delete_objects(self, paths: Sequence[str]) -> None:
        if paths:
            self._ask("delete", lambda: ObjectStorage.delete_objects(self, paths))

    def below(self, path: str) -> Sequence[FileEntry]:
        return self._ask("list", lambda: ObjectStorage.below(self, path))

    def uploads(self, folder: str) -> tuple[OpenUpload, ...]:
        def listed() -> tuple[OpenUpload, ...]:
            return tuple(upload for upload in self._uploads if upload.path.startswith(f"{folder}/"))

        return self._ask("uploads", listed)

    def abort(self, uploads: Sequence[OpenUpload]) -> None:
        def end() -> None:
            self._uploads[:] = [upload for upload in self._uploads if upload not in uploads]

        if uploads:
            self._ask("abort", end)

    def head(self, path: str) -> FileEntry | None:
        return self._ask("head", lambda: ObjectStorage.head(self, path))

    def tag_of(self, path: str) -> Tag | None:
        return self._ask("head", lambda: ObjectStorage.tag_of(self, path))

    def _ask(self, what: str, make: Callable[[], _T]) -> _T:
        found: _T = self._way(what, make)
        return found
