"""Who wants to own a run: on any storage, whose calls may be frozen or made to fail, with a time of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from pretend import PretendClock

from sparktf.errors import StorageError, StorageUnavailableError
from sparktf.results.result import Application
from sparktf.rundir import RunDirectory
from sparktf.storage.base import FileEntry, OpenUpload, Storage, Tag
from sparktf.storage.transactions.fence import Fence
from sparktf.storage.transactions.ownership import Ownership

LIMIT_S = 60.0
"""Their `timeouts.owner`."""

STEP_S = 5.0
"""What passes for the others whenever somebody waits."""


class Way(Protocol):
    """What becomes of a call of the storage: is told what it is, and does it, or not."""

    def __call__(self, what: str, call: Callable[[], Any]) -> Any:
        """Returns what the caller gets."""


def at_once(what: str, call: Callable[[], Any]) -> Any:
    """Lets a call through."""
    del what
    return call()


class WayStorage(Storage):
    """A storage's calls, each on its way."""

    def __init__(self, storage: Storage, way: Way) -> None:
        self._storage = storage
        self._way = way
        self.renames = storage.renames

    def stat(self, path: str) -> FileEntry:
        found: FileEntry = self._way("stat", lambda: self._storage.stat(path))
        return found

    def list(self, path: str) -> tuple[FileEntry, ...]:
        found: tuple[FileEntry, ...] = self._way("list", lambda: self._storage.list(path))
        return found

    def open(self, path: str) -> BinaryIO:
        stream: BinaryIO = self._way("open", lambda: self._storage.open(path))
        return stream

    def upload(self, local: Path, path: str) -> None:
        self._way("upload", lambda: self._storage.upload(local, path))

    def download(self, path: str, local: Path) -> None:
        self._way("download", lambda: self._storage.download(path, local))

    def checksum(self, path: str) -> str:
        found: str = self._way("checksum", lambda: self._storage.checksum(path))
        return found

    def free_nbytes(self, path: str) -> int:
        found: int = self._way("free", lambda: self._storage.free_nbytes(path))
        return found

    def probe(self, path: str) -> None:
        self._way("probe", lambda: self._storage.probe(path))

    def read_bytes(self, path: str) -> bytes:
        content: bytes = self._way("read", lambda: self._storage.read_bytes(path))
        return content

    def write_bytes(self, path: str, content: bytes) -> None:
        self._way("write", lambda: self._storage.write_bytes(path, content))

    def uploads(self, folder: str) -> tuple[OpenUpload, ...]:
        return self._storage.uploads(folder)

    def abort(self, uploads: Sequence[OpenUpload]) -> None:
        self._storage.abort(uploads)

    def keep_names(self, path: str) -> None:
        self._storage.keep_names(path)

    def write_if(self, path: str, content: bytes, inside: str) -> bool | None:
        # Whoever has a way for renames is to see them: what is written in one step elsewhere is renamed then.
        return self._storage.write_if(path, content, inside) if self._way is at_once else None

    def put_over(self, path: str, content: bytes, tag: Tag | None) -> Tag:
        put: Tag = self._way("write", lambda: self._storage.put_over(path, content, tag))
        return put

    def tag_of(self, path: str) -> Tag | None:
        found: Tag | None = self._way("read", lambda: self._storage.tag_of(path))
        return found

    def make_dirs(self, path: str) -> None:
        self._way("make", lambda: self._storage.make_dirs(path))

    def rename(self, source: str, target: str) -> None:
        self._way("rename", lambda: self._storage.rename(source, target))

    def replace(self, source: str, target: str) -> None:
        self._way("replace", lambda: self._storage.replace(source, target))

    def delete(self, path: str) -> None:
        self._way("delete", lambda: self._storage.delete(path))


class Nth:
    """Does something instead of the n-th call, of one kind or of all.

    Attributes:
        struck: It has come to that.
    """

    def __init__(self, n: int, instead: Way, kind: str = "") -> None:
        self.struck = False
        self._left = n
        self._instead = instead
        self._kind = kind

    def __call__(self, what: str, call: Callable[[], Any]) -> Any:
        """See `Way`."""
        if self._kind in ("", what) and not self.struck:
            self._left -= 1
            if self._left < 0:
                self.struck = True
                return self._instead(what, call)
        return call()


def fails(what: str, call: Callable[[], Any]) -> Any:
    """A call that nobody hears."""
    raise StorageUnavailableError(f"cannot {what}: connection refused")


def loses_the_answer(what: str, call: Callable[[], Any]) -> Any:
    """A call that is heard, and nobody is told."""
    call()
    raise StorageUnavailableError(f"cannot {what}: connection reset")


def happens_twice(what: str, call: Callable[[], Any]) -> Any:
    """A call that is made again, whose first answer was lost."""
    call()
    return call()


class Late:
    """Calls that come only when whoever made them has given them up.

    Attributes:
        calls: Those that are still to come.
    """

    def __init__(self) -> None:
        self.calls: list[Callable[[], Any]] = []

    def __call__(self, what: str, call: Callable[[], Any]) -> Any:
        """See `Way`."""
        self.calls.append(call)
        raise StorageUnavailableError(f"cannot {what}: operation timed out")

    def come(self, number: int = 0) -> None:
        """Has one of them come; nobody is told what becomes of it."""
        with suppress(StorageError):
            self.calls.pop(number)()


class Contender:
    """A submission: owns the run if it can, and writes what readers see.

    Attributes:
        said: What a person was told.
    """

    def __init__(
        self, name: str, storage: Storage, rundir: RunDirectory, way: Way = at_once, *, attempt: int = 0
    ) -> None:
        seen = WayStorage(storage, way)
        self.name = name
        self.clock = PretendClock()
        self.said: list[str] = []
        self.owner = Ownership(seen, seen, rundir, Application(name, attempt), self.clock, LIMIT_S)
        self.fence = Fence(seen, rundir, seen, self.owner)
        self._rundir = rundir

    def beside(self, other: Contender) -> None:
        """From now on time passes for the other one whenever it does for this one."""
        self.clock.passed = lambda: other.clock.advance(STEP_S)

    def begin(self, *, wait: bool = False) -> None:
        """Owns the run, and may write."""
        self.owner.acquire(self.said.append, wait=wait)
        self.fence.hold()

    def write(self, what: str = "") -> None:
        """Writes the run's result."""
        self.fence.put(self._rundir.result, (self.name + what).encode())

    def end(self) -> None:
        """Comes to its end."""
        self.fence.release()
        self.owner.release()

    def live(self) -> None:
        """Begins, writes now and then while time passes, and ends."""
        try:
            self.begin()
            for _ in range(2):
                self.write()
                self.clock.sleep(LIMIT_S / 2)
            self.fence.release()
        finally:
            self.owner.release()


def outcome(life: Callable[[], None]) -> Exception | None:
    """Returns what a life ended with."""
    try:
        life()
    except Exception as error:  # noqa: BLE001 - the test asks which it is
        return error
    return None
