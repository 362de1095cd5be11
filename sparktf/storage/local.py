"""Storage on the local file system, or on one mounted on every host."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO

from sparktf.errors import StorageError, StorageExistsError, StorageNotFoundError, StoragePermissionError
from sparktf.storage.base import FileEntry, Storage, sha256_of

_FILE_URL = re.compile(r"^file:(//(localhost)?(?=/))?", re.IGNORECASE)
_COPY_NBYTES = 1 << 20

_ERRORS: dict[int | None, type[StorageError]] = {
    errno.ENOENT: StorageNotFoundError,
    errno.ENOTDIR: StorageNotFoundError,
    errno.EEXIST: StorageExistsError,
    errno.EACCES: StoragePermissionError,
    errno.EPERM: StoragePermissionError,
    errno.EROFS: StoragePermissionError,
}


def local_path(path: str) -> str:
    """Returns the absolute path of `file:///x`, `file:/x`, `/x` or, against the working directory, `x`."""
    return os.path.abspath(_FILE_URL.sub("", path))


@contextmanager
def storage_errors(doing: str, path: str) -> Iterator[None]:
    """Turns an OSError of the block into a `StorageError`: "cannot <doing> <path>: <reason of the system>"."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        kind = _ERRORS.get(error.errno, StorageError)
        raise kind(f"cannot {doing} {path}: {error.strerror or error}") from error


class LocalStorage(Storage):
    """`Storage` on the local file system; paths may be `/x` or `file:///x`, entries have `/x`.

    Files are written to a hidden sibling, synced to disk with their folder, and renamed, so that a reader sees a whole
    file or none, also after a power failure.
    """

    reads_ahead = 1  # the kernel reads ahead

    _prefix = ""

    def __init__(self, prefix: str = "") -> None:
        """Args: prefix: "file://" for the paths of entries if a plain path would mean another file system."""
        self._prefix = prefix

    def stat(self, path: str) -> FileEntry:
        path = local_path(path)
        with storage_errors("access", path):
            return _entry(path, self._prefix)

    def list(self, path: str) -> tuple[FileEntry, ...]:
        path = local_path(path)
        with storage_errors("list", path):
            return tuple(_entries(path, self._prefix))

    def open(self, path: str) -> BinaryIO:
        path = local_path(path)
        with storage_errors("open", path):
            return open(path, "rb")

    def read_bytes(self, path: str) -> bytes:
        path = local_path(path)
        with storage_errors("read", path), open(path, "rb") as stream:
            return stream.read()

    def write_bytes(self, path: str, content: bytes) -> None:
        path = local_path(path)
        with storage_errors("write", path), whole_file(path) as sink:
            sink.write(content)

    def upload(self, local: Path, path: str) -> None:
        _copy(str(local), local_path(path))

    def download(self, path: str, local: Path) -> None:
        _copy(local_path(path), os.path.abspath(local))

    def copy(self, source: str, target: str) -> str:
        """See `Storage`. The copy is read back while the rest is being written."""
        return _copy_checked(local_path(source), local_path(target))

    def checksum(self, path: str) -> str:
        path = local_path(path)
        with storage_errors("read", path), open(path, "rb") as stream:
            return sha256_of(stream)

    def make_dirs(self, path: str) -> None:
        path = local_path(path)
        with storage_errors("make the folder", path):
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        source, target = local_path(source), local_path(target)
        with storage_errors(f"rename {source} to", target):
            _rename_to_new(source, target)
            _sync_folder(os.path.dirname(target))

    def replace(self, source: str, target: str) -> None:
        source, target = local_path(source), local_path(target)
        with storage_errors(f"rename {source} to", target):
            if os.path.isdir(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            os.replace(source, target)
            _sync_folder(os.path.dirname(target))

    def delete(self, path: str) -> None:
        path = local_path(path)
        with storage_errors("delete", path), suppress(FileNotFoundError):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def free_nbytes(self, path: str) -> int:
        path = local_path(path)
        with storage_errors("access", path):
            return shutil.disk_usage(path).free

    def probe(self, path: str) -> None:
        written = f"{local_path(path)}/.probe-{secrets.token_hex(8)}"
        renamed = f"{written}-renamed"
        self.make_dirs(path)
        try:
            self.write_bytes(written, b"sparktf")
            self.rename(written, renamed)
        finally:
            self.delete(written)
            self.delete(renamed)


def _entry(path: str, prefix: str) -> FileEntry:
    status = os.stat(path)
    is_dir = stat.S_ISDIR(status.st_mode)
    return FileEntry(prefix + path, 0 if is_dir else status.st_size, is_dir, status.st_mtime_ns // 1_000_000)


def _entries(folder: str, prefix: str) -> list[FileEntry]:
    """Lists the folder as it was at one moment.

    The names are read at once, the entries behind them one after the other. If one has gone meanwhile, another may
    have come in its place (as when a newer file is put and the older one deleted), so the names are read again.
    """
    entries: dict[str, FileEntry] = {}
    while True:
        paths = {name: os.path.join(folder, name) for name in sorted(os.listdir(folder))}
        for name in paths.keys() - entries.keys():
            with suppress(FileNotFoundError):  # it has gone, or is a link to nothing
                entries[name] = _entry(paths[name], prefix)
        if all(name in entries or os.path.islink(path) for name, path in paths.items()):
            return [entries[name] for name in paths if name in entries]


def _copy(source: str, target: str) -> None:
    """Copies a file atomically. An error names the side that failed."""
    with (
        storage_errors("read", source),
        open(source, "rb") as stream,
        storage_errors(f"copy {source} to", target),
        whole_file(target) as sink,
    ):
        expected = os.fstat(stream.fileno()).st_size
        shutil.copyfileobj(stream, sink, _COPY_NBYTES)
        sink.flush()
        arrived = os.fstat(sink.fileno()).st_size
        if arrived != expected:
            raise StorageError(f"cannot copy {source} to {target}: {arrived} of {expected} bytes arrived")


def _copy_checked(source: str, target: str) -> str:
    """Copies a file as `_copy` does; returns the checksum of the copy, which another thread reads meanwhile."""
    with (
        storage_errors("read", source),
        open(source, "rb") as stream,
        storage_errors(f"copy {source} to", target),
        whole_file(target) as sink,
        ThreadPoolExecutor(1, thread_name_prefix="read-back") as beside,
    ):
        expected, arrived = os.fstat(stream.fileno()).st_size, 0
        written: SimpleQueue[int | None] = SimpleQueue()
        checksum = beside.submit(_checksum_behind, sink.name, written)
        try:
            while chunk := stream.read(_COPY_NBYTES):
                sink.write(chunk)
                sink.flush()
                arrived += len(chunk)
                written.put(arrived)
            os.fsync(sink.fileno())
        finally:
            written.put(None)
        if arrived != expected:
            raise StorageError(f"cannot copy {source} to {target}: {arrived} of {expected} bytes arrived")
        return checksum.result()


def _checksum_behind(path: str, written: SimpleQueue[int | None]) -> str:
    """Returns the SHA-256 of a file that is being written; `written` brings its growing length, then None."""
    digest, done = hashlib.sha256(), 0
    with open(path, "rb") as stream:
        while (nbytes := written.get()) is not None:
            while done < nbytes and (chunk := stream.read(min(nbytes - done, _COPY_NBYTES))):
                digest.update(chunk)
                done += len(chunk)
    return digest.hexdigest()


@contextmanager
def whole_file(target: str) -> Iterator[BinaryIO]:
    """Opens a hidden sibling, which replaces `target` at the end of the block, or is removed if the block raises."""
    folder = os.path.dirname(target)
    # A file in the folder's place is reported more clearly by `open`: "Not a directory".
    with suppress(FileExistsError):
        os.makedirs(folder)
    # Not tempfile, which ignores the umask: its files are readable only by their owner.
    hidden = os.path.join(folder, f".tmp-{secrets.token_hex(8)}")
    try:
        with open(hidden, "xb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        os.replace(hidden, target)
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(hidden)
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Makes the names in a folder durable, which fsync of the files does not."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL)
_RENAMEAT2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def _rename_to_new(source: str, target: str) -> None:
    """Renames, refusing an existing target.

    The kernel checks and renames in one step (`renameat2`). If the C library or the file system cannot (some network
    mounts), the check comes before the rename, and a file or empty folder made in between may be replaced.
    """
    # os.rename silently replaces an empty folder.
    failed = _renameat2(source, target)
    if failed in _UNSUPPORTED:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        os.rename(source, target)
    elif failed:
        raise OSError(failed, os.strerror(failed), target)


def _renameat2(source: str, target: str) -> int:
    """Calls `renameat2` with RENAME_NOREPLACE; returns 0 or the errno."""
    if _RENAMEAT2 is None:
        return errno.ENOSYS
    paths = (_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target))
    return 0 if _RENAMEAT2(*paths, ctypes.c_uint(_RENAME_NOREPLACE)) == 0 else ctypes.get_errno()
