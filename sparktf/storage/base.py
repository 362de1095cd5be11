"""The interface to file systems. Paths are absolute paths or URLs of the file system.

Every error is a `StorageError` that names the path; only reading from the stream of `open` may raise a bare OSError.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, ClassVar, NamedTuple, Protocol, runtime_checkable

from sparktf.errors import StorageNotFoundError
from sparktf.storage.credentials import process_user

_CHUNK_NBYTES = 1 << 20


class Timeouts(NamedTuple):
    """Time limits for a cluster."""

    connect_s: float = 4.0  # For a connection
    io_s: float = 10.0  # For the next byte to be received or sent
    deadline_s: float = 60.0  # For repeated tries, counted from the first failure


class FileEntry(NamedTuple):
    """One directory entry, or one file of a recursive listing."""

    path: str
    nbytes: int  # Size of a file; 0 for a folder
    is_dir: bool
    modified_ms: int = 0  # Last change of a file's content or of a folder's entries, in milliseconds since the epoch


class Tag(NamedTuple):
    """One edition of an object, as its store names it."""

    e_tag: str | None
    version: str | None = None


class OpenUpload(NamedTuple):
    """An upload of one file in parts that has not ended: it is under way, or its process is gone."""

    path: str
    id: str  # The store's
    began_ms: int  # By the store's clock, in milliseconds since the epoch


class ConditionalStorage(Protocol):
    """A store that puts an object on a condition, which all of its servers keep alike."""

    def read_tagged(self, path: str) -> tuple[bytes, Tag]:
        """Returns a small object's content, and which edition it is. Raises `StorageNotFoundError` without one."""

    def copy_object(self, source: str, target: str) -> None:
        """Copies an object within the store, replacing another one. Raises `StorageError`."""

    def put_tagged(self, path: str, content: bytes, tag: Tag | None) -> Tag:
        """Replaces the edition of that tag; with None puts an object where none is. Returns the new edition.

        Raises:
            StorageExistsError: another edition is there, or has been; this put may itself have made it, if its answer
                was lost and the client has sent it again.
            StorageError: the storage failed; the object may be there all the same, or come later, but never in place
                of another edition than that of the tag.
        """


@runtime_checkable
class RangedStream(Protocol):
    """A stream of a file in an object store, where each read is a request, and many may be under way."""

    is_pinned: bool
    nbytes: int
    entry: FileEntry  # As it was found when the file was opened

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Returns the bytes of each range (start, stop), read together, several at a time.

        Raises:
            StorageError: the file was replaced since it was opened, or the storage failed.
        """


class Storage(Protocol):
    """A file system, or a store of objects.

    Attributes:
        renames: It renames any file or folder. A store of objects does so only in folders that `keep_names` has made.

    Any method raises `StoragePermissionError` if this user may not do it, and `StorageError` for any other failure.
    A path below a file does not exist: `StorageNotFoundError`.
    """

    reads_ahead: ClassVar[int] = 2
    """Files that one feed reads from at a time, so that some wait for the storage while another one is decoded."""

    renames: bool = True

    def user(self) -> str:
        """Returns the user whose new files are."""
        return process_user()

    def stat(self, path: str) -> FileEntry:
        """Returns the entry. Raises `StorageNotFoundError` if nothing is there."""

    def exists(self, path: str) -> bool:
        """Whether the path exists."""
        try:
            self.stat(path)
        except StorageNotFoundError:
            return False
        return True

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """Returns the folder's entries, sorted by path. Raises `StorageNotFoundError` if no folder is there."""

    def walk(self, path: str) -> Iterator[FileEntry]:
        """Yields every file below the folder, sorted by path, except hidden files and those in hidden folders.

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
        """Opens a file for reading, seekable. If the file is replaced meanwhile, the new one may be read, unless the
        stream has a true attribute `is_pinned`.

        Raises:
            StorageNotFoundError: no file is there.
        """

    def read_bytes(self, path: str) -> bytes:
        """Returns a small file's content. Raises `StorageNotFoundError` if no file is there."""

    def write_bytes(self, path: str, content: bytes) -> None:
        """Writes a small file atomically, replacing an existing one; makes the folders above it."""

    def upload(self, local: Path, path: str) -> None:
        """Copies a local file to `path` atomically, replacing an existing file; makes the folders above it.

        Raises:
            StorageNotFoundError: the local file does not exist.
            StorageError: the stored file has another length.
        """

    def upload_as(self, local: Path, path: str, sha256: str) -> None:
        """Like `upload`, of a file whose SHA-256 is known, in hex."""
        del sha256
        self.upload(local, path)

    def download(self, path: str, local: Path) -> None:
        """Copies a file to a local path atomically, replacing an existing one; makes the folders above it.

        Raises:
            StorageNotFoundError: no file is there.
            StorageError: the local file has another length.
        """

    def copy(self, source: str, target: str) -> str:
        """Copies a stored file atomically, replacing an existing one; makes the folders above it.

        Returns the `checksum` of the copy.

        Raises:
            StorageNotFoundError: no file is there.
            StorageError: the copy has another length.
        """
        with tempfile.TemporaryDirectory(prefix="sparktf-copy-") as aside:
            local = Path(aside, "file")
            self.download(source, local)
            self.upload(local, target)
        return self.checksum(target)

    def checksum(self, path: str) -> str:
        """Returns the SHA-256 of the stored content, in hex. Raises `StorageNotFoundError` if no file is there."""

    def fingerprints(self, folder: str) -> Mapping[str, tuple[int, str]] | None:
        """Returns the sizes and the checksums of all files below a folder, by their names below it, where the storage
        knows them without reading: a checksum is "" where it does not. None where it knows none.

        Raises:
            StorageError: the storage failed.
        """
        del folder
        return None

    def keep_names(self, path: str) -> None:
        """Makes a folder in which files and folders can be renamed, unless it is there. A file system's always can."""
        del path

    def show(self, folder: str, last: str) -> None:
        """Makes a folder that `keep_names` has made look to who knows the store alone as it looks here.

        What has come is there before `CURRENT` and the like, files of the folder itself, change, and what has gone
        stays until after.

        Args:
            last: Name of the file that makes a folder in it count: it comes last, and goes first.

        Raises:
            StorageError: the storage failed; some of it may be done.
        """
        del folder, last

    def write_if(self, path: str, content: bytes, inside: str) -> bool | None:
        """Writes a small file as `write_bytes` does, if another folder is there in the same moment.

        Args:
            inside: Path of that folder, in the one that `keep_names` has made, as `path` is.

        Returns:
            Whether it was; None where a file is written aside instead, and renamed into that folder and out of it.

        Raises:
            StorageError: the storage failed.
        """
        del path, content, inside
        return None

    def put_over(self, path: str, content: bytes, tag: Tag | None) -> Tag:
        """Writes a small file that is never renamed, such as a sign of life, in place of the edition of that tag.

        By one request, and whatever is there where the storage renames (`renames`).

        Args:
            tag: Of the edition that this process has put last; None for none.

        Returns:
            The new edition.

        Raises:
            StorageExistsError: another edition is there, or it is gone.
            StorageError: the storage failed; the file may be there all the same.
        """
        del tag
        self.write_bytes(path, content)
        return Tag(None)

    def tag_of(self, path: str) -> Tag | None:
        """Returns which edition of such a file is there; None without one. Raises `StorageError`."""
        del path
        return None

    def delete_if(self, folder: str, inside: str) -> bool | None:
        """Deletes a folder that `keep_names` has made, in one step, if another one is still there inside of it.

        Returns:
            Whether it was; None where a folder is renamed instead, to be deleted then.

        Raises:
            StorageError: the storage failed.
        """
        del folder, inside
        return None

    def make_dirs(self, path: str) -> None:
        """Makes the folder and those above it, unless they exist. Raises `StorageExistsError` if a file is there."""

    def rename(self, source: str, target: str) -> None:
        """Renames a file or folder atomically. The folder above the target is not made: a commit's fence relies on it.

        Raises:
            StorageExistsError: the target exists, even as an empty folder.
            StorageNotFoundError: the source or the folder above the target does not exist.
        """

    def replace(self, source: str, target: str) -> None:
        """Renames a file atomically, replacing an existing file; the folder above the target is not made.

        Raises:
            StorageExistsError: the target is a folder.
            StorageNotFoundError: the source or the folder above the target does not exist.
        """

    def delete(self, path: str) -> None:
        """Deletes a file, or a folder with everything below it, if it exists."""

    def uploads(self, folder: str) -> tuple[OpenUpload, ...]:
        """Returns the uploads below a folder that have not ended, where the storage keeps their parts for ever.

        None where it does not tell, which is said once; never raises.
        """
        del folder
        return ()

    def abort(self, uploads: Sequence[OpenUpload]) -> None:
        """Ends uploads of `uploads`, if they have not ended; what their writers still send is refused.

        One that cannot be ended stays, which is said once; never raises.
        """
        del uploads

    def free_nbytes(self, path: str) -> int:
        """Returns the bytes available below a folder: free space, or the rest of the folder's quota.

        Raises:
            StorageNotFoundError: no folder is there.
            StorageError: the file system does not tell.
        """

    def probe(self, path: str) -> None:
        """Makes the folder, and writes, renames and deletes a small file in it, to check permissions."""


def name_of(path: str) -> str:
    """Returns the last part of a path."""
    return path.rstrip("/").rpartition("/")[2]


def is_hidden(name: str) -> bool:
    """Whether Spark ignores a file or folder of that name: "_temporary" and ".crc", but not a partition "_k=1"."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def sha256_of(stream: BinaryIO) -> str:
    """Returns the SHA-256 of a stream from its position on, in hex."""
    digest = hashlib.sha256()
    while chunk := stream.read(_CHUNK_NBYTES):
        digest.update(chunk)
    return digest.hexdigest()
