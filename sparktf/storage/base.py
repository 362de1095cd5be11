"""The storage seam: what sparktf asks of a file system. Paths are absolute paths or URLs of that file system.

Every error is a `StorageError` that names the path; only reading from the stream of `open` fails as a bare OSError.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from sparktf.errors import StorageNotFoundError

_CHUNK_NBYTES = 1 << 20


class Timeouts(NamedTuple):
    """How long to wait for a cluster.

    Attributes:
        connect_s: For a connection.
        io_s: For the next byte to come or to go.
        deadline_s: How long trouble may last: tries begin until so long after the first failure.
    """

    connect_s: float = 4.0
    io_s: float = 10.0
    deadline_s: float = 60.0


class FileEntry(NamedTuple):
    """One directory entry, or one file of a recursive listing.

    Attributes:
        nbytes: A folder has 0.
        modified_ms: When a file's content was last changed, or a folder's list of names, in milliseconds since the
            epoch; 0 where nobody knows.
    """

    path: str
    nbytes: int
    is_dir: bool
    modified_ms: int = 0


class Storage(Protocol):
    """A file system; what it implements here is the same for all of them.

    Any method raises `StoragePermissionError` where this user may not, and `StorageError` for what else went wrong.
    A path below a file is a path that does not exist: `StorageNotFoundError`.
    """

    def stat(self, path: str) -> FileEntry:
        """Returns the entry.

        Raises:
            StorageNotFoundError: nothing is there.
        """

    def exists(self, path: str) -> bool:
        """Whether the path exists."""
        try:
            self.stat(path)
        except StorageNotFoundError:
            return False
        return True

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """Returns the folder's entries, sorted by path.

        Raises:
            StorageNotFoundError: no folder is there.
        """

    def walk(self, path: str) -> Iterator[FileEntry]:
        """Yields every file below the folder, sorted by path, but none that `is_hidden`, or in a folder that is.

        Raises:
            StorageNotFoundError: no folder is there (raised by the first `next`).
        """
        files: list[FileEntry] = []
        folders = [path]
        while folders:
            for entry in self.list(folders.pop()):
                if is_hidden(name_of(entry.path)):
                    continue
                if entry.is_dir:
                    folders.append(entry.path)
                else:
                    files.append(entry)
        yield from sorted(files)

    def open(self, path: str) -> BinaryIO:
        """Opens a file for reading, seekable. What is read may be that of a file which has taken its place since,
        unless the stream has an attribute `is_pinned` that is true.

        Raises:
            StorageNotFoundError: no file is there.
        """

    def read_bytes(self, path: str) -> bytes:
        """Returns a small file's content.

        Raises:
            StorageNotFoundError: no file is there.
        """

    def write_bytes(self, path: str, content: bytes) -> None:
        """Writes a small file, whole or not at all, replacing one that is there; makes the folders above it."""

    def upload(self, local: Path, path: str) -> None:
        """Copies a local file to `path`, whole or not at all, replacing one that is there; makes the folders above it.

        Raises:
            StorageNotFoundError: the local file is not there.
            StorageError: what arrived is not as long as the local file.
        """

    def download(self, path: str, local: Path) -> None:
        """Copies a file to a local path, whole or not at all, replacing one that is there; makes the folders above it.

        Raises:
            StorageNotFoundError: no file is there.
            StorageError: what arrived is not as long as the stored file.
        """

    def copy(self, source: str, target: str) -> str:
        """Copies a stored file, whole or not at all, replacing one that is there; makes the folders above it.

        Returns the SHA-256 of what has arrived, in hex, as `checksum` would.

        Raises:
            StorageNotFoundError: no file is there.
            StorageError: what arrived is not as long as the file.
        """
        with tempfile.TemporaryDirectory(prefix="sparktf-copy-") as aside:
            local = Path(aside, "file")
            self.download(source, local)
            self.upload(local, target)
        return self.checksum(target)

    def checksum(self, path: str) -> str:
        """Returns the SHA-256 of the file's content as it lies in storage, in hex.

        Raises:
            StorageNotFoundError: no file is there.
        """

    def make_dirs(self, path: str) -> None:
        """Makes the folder and those above it; one that is there is left as it is.

        Raises:
            StorageExistsError: a file is there.
        """

    def rename(self, source: str, target: str) -> None:
        """Renames a file or folder in one step. The folder above the target is not made: a commit's fence relies on it.

        Raises:
            StorageExistsError: the target exists, even as an empty folder.
            StorageNotFoundError: the source or the folder above the target is not there.
        """

    def replace(self, source: str, target: str) -> None:
        """Renames a file in one step, also to where a file is: whoever reads the target finds that one or this one.

        The folder above the target is not made.

        Raises:
            StorageExistsError: the target is a folder.
            StorageNotFoundError: the source or the folder above the target is not there.
        """

    def delete(self, path: str) -> None:
        """Deletes a file or folder with all below it; nothing happens if it is not there."""

    def free_nbytes(self, path: str) -> int:
        """Returns how much may yet be stored below a folder: what the file system has left, or the folder's quota.

        Raises:
            StorageNotFoundError: no folder is there.
            StorageError: the file system does not say.
        """

    def probe(self, path: str) -> None:
        """Makes the folder, then writes, renames and deletes a small file in it, to see that all of that is allowed."""


def name_of(path: str) -> str:
    """Returns the last part of a path."""
    return path.rstrip("/").rpartition("/")[2]


def is_hidden(name: str) -> bool:
    """Whether Spark passes a file or folder of that name over: "_temporary" and ".crc", but not a partition "_k=1"."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def sha256_of(stream: BinaryIO) -> str:
    """Returns the SHA-256 of a stream from its position on, in hex."""
    digest = hashlib.sha256()
    while chunk := stream.read(_CHUNK_NBYTES):
        digest.update(chunk)
    return digest.hexdigest()
