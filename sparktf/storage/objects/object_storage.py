"""Storage on one container of an object store. It has no folders and no rename: `storage/transactions` minds that."""

from __future__ import annotations

import io
import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import obstore
from obstore.exceptions import BaseError

from sparktf.errors import StorageError, StorageExistsError, StorageNotFoundError
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import ConditionalStorage, FileEntry, OpenUpload, Storage, Tag, Timeouts, is_hidden, sha256_of
from sparktf.storage.local import storage_errors, whole_file
from sparktf.storage.objects.answered import answered
from sparktf.storage.objects.awaited import awaited
from sparktf.storage.objects.clients import Bucket, client_of
from sparktf.storage.objects.container import StoreContainer, container_of
from sparktf.storage.objects.object_errors import is_precondition, object_errors
from sparktf.storage.objects.object_stream import ObjectStream
from sparktf.storage.store_keys import StoreKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from obstore import GetResult, ObjectMeta, PutMode, UpdateVersion
    from obstore.store import ObjectStore

_BUFFER_NBYTES = 1 << 20
_COPY_NBYTES = 8 << 20
_COPIED_NBYTES = 4 << 30  # S3 copies up to 5 GiB in one request
_LISTED_AT_ONCE = 1000  # in one answer, as stores have it
_DELETED_AT_ONCE = 256  # in one request, as Azure has it; S3 takes 1000
_PART_NBYTES = 16 << 20  # S3 takes 10,000 parts: files of up to 156 GiB


class ObjectStorage(Storage, ConditionalStorage):
    """`Storage` on one container; paths, also of entries, are "<scheme>://<container>/x".

    A folder is there as long as an object lies below it. Temporary failures are retried by obstore until `deadline_s`
    after the first one, then raised as `StorageUnavailableError`. A put is atomic.
    """

    reads_ahead = 3
    renames = False

    def __init__(
        self, root: str, container: StoreContainer, hadoop: HadoopConf, timeouts: Timeouts, keys: StoreKeys
    ) -> None:
        """Connects to nothing yet.

        Args:
            root: Scheme and authority of paths: "s3a://bucket".
            keys: The secrets that `hadoop` lacks.
        """
        self._root = root
        self._container = container
        self._hadoop = hadoop
        self._timeouts = timeouts
        self._keys = keys
        self._lock = threading.Lock()
        self._made: ObjectStore | None = None
        self._made_of = ""

    @property
    def root(self) -> str:
        """Scheme and authority of its paths."""
        return self._root

    def patient(self, deadline_s: float) -> ObjectStorage:
        """Returns the same storage with another deadline."""
        timeouts = self._timeouts._replace(deadline_s=deadline_s)
        return ObjectStorage(self._root, self._container, self._hadoop, timeouts, self._keys)

    @property
    def _client(self) -> ObjectStore:
        """The client with the present secrets: one for each edition of them."""
        edition = self._keys.edition()
        with self._lock:
            if self._made is None or edition != self._made_of:
                self._made, self._made_of = client_of(self._container, self._properties(), self._timeouts), edition
            return self._made

    def _properties(self) -> dict[str, str]:
        return {**self._hadoop.properties, **self._keys.properties(self._root)}

    def stat(self, path: str) -> FileEntry:
        key = self._key(path)
        if key:
            with suppress(StorageNotFoundError):
                return self._entry(self._head("access", path))
        if not self._is_folder("access", path):
            raise StorageNotFoundError(f"cannot access {path}: there is no such object")
        return FileEntry(path.rstrip("/"), 0, is_dir=True)

    def list(self, path: str) -> tuple[FileEntry, ...]:
        key = self._key(path)
        with object_errors("list", path):
            found = answered(lambda: obstore.list_with_delimiter(self._client, f"{key}/" if key else None))
        # A marker that Hadoop left for an empty folder has the folder's own name.
        files = [self._entry(meta) for meta in found["objects"] if meta["path"] != key]
        folders = [FileEntry(f"{self._root}/{prefix}", 0, is_dir=True) for prefix in found["common_prefixes"]]
        if not (files or folders or found["objects"]):
            raise StorageNotFoundError(f"cannot list {path}: there is no such folder")
        return tuple(sorted(files + folders))

    def walk(self, path: str) -> Iterator[FileEntry]:
        """See `Storage`: one listing, however many folders there are."""
        found = self._below("list", path)
        if not found:
            raise StorageNotFoundError(f"cannot list {path}: there is no such folder")
        key = self._key(path)
        below = len(key) + 1 if key else 0
        # A key's last part is hidden as a file, each before it as a folder.
        shown = (meta for meta in found if not any(is_hidden(part) for part in meta["path"][below:].split("/") if part))
        yield from sorted(self._entry(meta) for meta in shown if meta["path"] != key)

    def open(self, path: str) -> BinaryIO:
        """See `Storage`. The stream reads one edition of the object."""
        return io.BufferedReader(self._open("open", path), _BUFFER_NBYTES)

    def read_bytes(self, path: str) -> bytes:
        with object_errors("read", path):
            return answered(lambda: bytes(obstore.get(self._client, self._key(path)).bytes()))

    def write_bytes(self, path: str, content: bytes) -> None:
        with object_errors("write", path):
            obstore.put(self._client, self._key(path), content, use_multipart=False)

    def read_tagged(self, path: str) -> tuple[bytes, Tag]:
        """See `ConditionalStorage`."""
        with object_errors("read", path):
            return answered(lambda: _tagged(obstore.get(self._client, self._key(path))))

    def put_tagged(self, path: str, content: bytes, tag: Tag | None) -> Tag:
        """See `ConditionalStorage`."""
        mode: PutMode = "create" if tag is None else _edition(tag)
        with object_errors("write", path):
            try:
                put = obstore.put(self._client, self._key(path), content, use_multipart=False, mode=mode)
            except (BaseError, OSError) as error:
                if is_precondition(error) or (tag is not None and isinstance(error, FileNotFoundError)):
                    raise StorageExistsError(f"cannot write {path}: it is not as it was when it was read") from error
                raise
        return Tag(put["e_tag"], put["version"])

    def upload(self, local: Path, path: str) -> None:
        with storage_errors("read", str(local)):
            nbytes = os.stat(local).st_size
        self.put_file(local, path)
        arrived = self._head("access", path)["size"]
        if arrived != nbytes:
            raise StorageError(f"cannot copy {local} to {path}: {arrived} of {nbytes} bytes arrived")

    def download(self, path: str, local: Path) -> None:
        stream = self._open("open", path)
        with storage_errors(f"copy {path} to", str(local)), whole_file(os.path.abspath(local)) as sink:
            while chunk := stream.read_buffer(_COPY_NBYTES):
                sink.write(chunk)

    def checksum(self, path: str) -> str:
        with self.open(path) as stream:
            return sha256_of(stream)

    def make_dirs(self, path: str) -> None:
        """See `Storage`. There is nothing to make."""
        with suppress(StorageNotFoundError):
            self._head("make the folder", path)
            raise StorageExistsError(f"cannot make the folder {path}: it is a file")

    def rename(self, source: str, target: str) -> None:
        raise StorageError(f"cannot rename {source} to {target}: an object store has no rename")

    def replace(self, source: str, target: str) -> None:
        raise StorageError(f"cannot rename {source} to {target}: an object store has no rename")

    def delete(self, path: str) -> None:
        keys, key = [meta["path"] for meta in self._below("delete", path)], self._key(path)
        # On Azure a folder may be there as one, and a delete that means a file fails at it.
        if key and (self._container.kind != "Azure" or self.head(path) is not None):
            keys.append(key)
        self._delete_keys(path, keys)

    def uploads(self, folder: str) -> tuple[OpenUpload, ...]:
        if self._container.kind != "S3":
            return ()
        from sparktf.storage.objects.left_uploads import unfinished  # noqa: PLC0415 - few processes need its library

        key = self._key(folder)
        return unfinished(self._bucket(), f"{key}/" if key else "")

    def abort(self, uploads: Sequence[OpenUpload]) -> None:
        if uploads:
            from sparktf.storage.objects.left_uploads import abort_all  # noqa: PLC0415 - as above

            abort_all(self._bucket(), uploads)

    def free_nbytes(self, path: str) -> int:
        raise StorageError(f"cannot access {path}: an object store does not tell what is free")

    def probe(self, path: str) -> None:
        written = f"{path.rstrip('/')}/.probe-{secrets.token_hex(8)}"
        try:
            self.write_bytes(written, b"sparktf")
        finally:
            self.delete(written)

    # ---- for `storage/names` ----

    def head(self, path: str) -> FileEntry | None:
        """Returns an object; None if there is none. Raises `StorageError`."""
        with suppress(StorageNotFoundError):
            return self._entry(self._head("access", path))
        return None

    def tag_of(self, path: str) -> Tag | None:
        """Returns which edition of an object is there; None if there is none. Raises `StorageError`."""
        with suppress(StorageNotFoundError):
            meta = self._head("access", path)
            return Tag(meta["e_tag"], meta["version"])
        return None

    def below(self, path: str) -> Sequence[FileEntry]:
        """Returns all objects below a folder, sorted. Raises `StorageError`."""
        return [self._entry(meta) for meta in self._below("list", path)]

    def put_file(self, local: Path, path: str) -> None:
        """Puts a local file, of which the store has checked what has arrived: obstore signs its checksum."""
        with storage_errors("read", str(local)):
            parts = os.stat(local).st_size > _PART_NBYTES
        with object_errors(f"copy {local} to", path):
            answered(
                lambda: obstore.put(self._client, self._key(path), local, use_multipart=parts, chunk_size=_PART_NBYTES)
            )

    def copy_object(self, source: str, target: str) -> None:
        """See `ConditionalStorage`. What is too large for the store's own copy passes through this process.

        On Azure all does: its own copy may be under way when it has answered, and fails when its source is deleted.
        """
        with object_errors(f"copy {source} to", target):
            if self._container.kind != "Azure" and self._head("copy", source)["size"] <= _COPIED_NBYTES:
                answered(lambda: obstore.copy(self._client, self._key(source), self._key(target)))
                return
            answered(lambda: awaited(self._pass(self._key(source), self._key(target))))

    async def _pass(self, source: str, target: str) -> None:
        """Reads an object and puts what is read: only by `async`, a put of obstore's takes a stream of its own."""
        found = await obstore.get_async(self._client, source)
        if found.meta["size"] > _PART_NBYTES:
            chunks = found.stream(min_chunk_size=_COPY_NBYTES)
            await obstore.put_async(self._client, target, chunks, chunk_size=_PART_NBYTES)
        else:
            await obstore.put_async(self._client, target, await found.bytes_async(), use_multipart=False)

    def delete_objects(self, paths: Sequence[str]) -> None:
        """Deletes objects, if they are there. Raises `StorageError`."""
        if paths:
            self._delete_keys(paths[0], [self._key(path) for path in paths])

    def _delete_keys(self, path: str, keys: Sequence[str]) -> None:
        """Deletes objects, if they are there. Azure takes it for an error that one is not, and obstore ends there."""

        def delete(keys: Sequence[str]) -> None:
            with object_errors("delete", path):
                answered(lambda: obstore.delete(self._client, keys))

        for first in range(0, len(keys), _DELETED_AT_ONCE):
            together = keys[first : first + _DELETED_AT_ONCE]
            try:
                delete(together)
            except StorageNotFoundError:
                for key in together:
                    with suppress(StorageNotFoundError):
                        delete([key])

    def _bucket(self) -> Bucket:
        return Bucket(self._root, self._container.name, self._properties(), self._timeouts)

    def _open(self, doing: str, path: str) -> ObjectStream:
        meta = self._head(doing, path)
        return ObjectStream(lambda: self._client, meta["path"], self._entry(meta), meta["e_tag"])

    def _head(self, doing: str, path: str) -> ObjectMeta:
        with object_errors(doing, path):
            return obstore.head(self._client, self._key(path))

    def _below(self, doing: str, path: str) -> Sequence[ObjectMeta]:
        """Returns all objects below a folder."""
        key = self._key(path)
        with object_errors(doing, path):
            return answered(lambda: [meta for page in self._pages(key) for meta in page])

    def _is_folder(self, doing: str, path: str) -> bool:
        key = self._key(path)
        with object_errors(doing, path):
            return bool(answered(lambda: next(self._pages(key, 1), ()))) or not key

    def _pages(self, key: str, most: int = _LISTED_AT_ONCE) -> Iterator[Sequence[ObjectMeta]]:
        """Yields the objects below a folder's key, `most` at once."""
        stream: Any = obstore.list(self._client, f"{key}/" if key else None, chunk_size=most)
        return iter(stream)

    def _entry(self, meta: ObjectMeta) -> FileEntry:
        modified_ms = int(meta["last_modified"].timestamp() * 1000)
        return FileEntry(f"{self._root}/{meta['path']}", meta["size"], is_dir=False, modified_ms=modified_ms)

    def _key(self, path: str) -> str:
        return path.partition("://")[2].partition("/")[2].strip("/")


def _tagged(found: GetResult) -> tuple[bytes, Tag]:
    return bytes(found.bytes()), Tag(found.meta["e_tag"], found.meta["version"])


def _edition(tag: Tag) -> UpdateVersion:
    """Returns a tag as obstore's condition, which takes no None."""
    known: UpdateVersion = {}
    if tag.e_tag is not None:
        known["e_tag"] = tag.e_tag
    if tag.version is not None:
        known["version"] = tag.version
    return known


def open_container(root: str, hadoop: HadoopConf, timeouts: Timeouts, keys: StoreKeys) -> ObjectStorage:
    """Returns the storage of "<scheme>://<authority>". Raises `ConfigError` if that names no container."""
    return ObjectStorage(root, container_of(root), hadoop, timeouts, keys)
