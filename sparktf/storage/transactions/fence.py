"""Who may write to a run: of all that were ever submitted under its id, the one whose fence stands.

A fence is a folder `_commit-<attempt>-<term>-<nonce>/` of one driver in the run directory. All that a driver changes
where readers look goes through it by rename: what is new is moved into the fence and out to its place, what is old
comes in from there. A rename into or out of a missing folder fails, so the one step that changes something is also the
one that finds the fence gone: it makes no difference where a driver was frozen, and for how long. Nobody makes such a
folder a second time. A newer committer makes a fence of its own first and then moves all others away, but none of a
newer term (`sparktf.storage.transactions.ownership`): then it is the older one itself.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sparktf.errors import (
    FencedOffError,
    LifecycleError,
    StorageError,
    StorageExistsError,
    StorageNotFoundError,
)
from sparktf.rundir import RunDirectory, is_on_its_way
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.ownership import Ownership
from sparktf.told import log_of

_OURS = ("_commit-", "_put-", "_plan-", "_swept-")
_FENCE = re.compile(r"^_commit-(\d+)-(\d+)-")

_log = log_of(__name__)


class Fence:
    """One driver's fence around one run; for one thread.

    Attributes:
        lost: A newer committer was found to own the run.
    """

    def __init__(
        self,
        storage: Storage,
        rundir: RunDirectory,
        hasty: Storage | None = None,
        owner: Ownership | None = None,
    ) -> None:
        """Touches nothing.

        Args:
            hasty: The same storage, for what is not worth waiting for: tidying up, which the next fence makes up for.
            owner: Whose fence it is. Default: nobody's, so that any owner's may move it away.
        """
        self.lost = False
        self._owner = owner
        self._storage = storage
        self._hasty = hasty or storage
        self._rundir = rundir
        # Not below `checkpoints`: a quota of that folder must not keep the result from being written.
        self._parent = rundir.path
        self._path: str | None = None
        self._putting = f"_put-{secrets.token_hex(4)}-"

    @property
    def path(self) -> str | None:
        """Its folder, from `acquire` or `claim` to `release`; it may be gone all the same."""
        return self._path

    def last_attempt(self) -> int:
        """Returns the highest attempt that fenced and did not release, as one of a killed driver; 0 if there is none.

        A resumed run's attempts count on from it: else they would stage to paths that a trainer not yet dead may use.

        Raises:
            StorageError: the storage failed.
        """
        if not self._storage.exists(self._parent):
            return 0
        return max((_attempt(name) for name in self._names(self._parent)), default=0)

    def hold(self) -> None:
        """Makes this driver the run's only committer before it has an attempt, under the highest number there was.

        Raises:
            FencedOffError: a newer committer owns the run.
            StorageError: the storage failed; there may be no committer now.
        """
        number = self.last_attempt()
        while (swept := self.acquire(number)) > number:
            number = swept

    def acquire(self, attempt: int) -> int:
        """Makes this driver the run's only committer, before an attempt begins; sweeps what older attempts staged.

        A driver that holds a fence moves it on to its next attempt: one whose fence is gone cannot take the run back.

        Returns:
            The highest attempt whose fence was swept, 0 if there was none: if it is not below this one, another driver
            began at the same moment, and this one needs a higher number.

        Raises:
            FencedOffError: a newer committer owns the run.
            StorageError: the storage failed; there may be no committer now.
        """
        nonce = secrets.token_hex(4)
        path = f"{self._parent}/_commit-{attempt:03d}-{self._term}-{nonce}"
        begins = self._path is None
        if begins:
            self._storage.make_dirs(path)
        else:
            with self.guarded() as held:
                self._storage.rename(held, path)
        self._path = path
        # Made before the others are moved: of two that fence at once, each moves the other's, and never do both commit.
        try:
            swept = self._sweep_aside(nonce)
        except (StorageError, FencedOffError):
            if begins:  # another's may stand: nothing may be written through this one
                self._path = None
                self.discard(path)
            raise
        self.check()
        self.discard(*(aside for _, aside in swept))
        return max((_attempt(name) for name, _ in swept), default=0)

    def claim(self) -> bool:
        """Makes a fence that moves no other away; returns False, and has none, where somebody has one already.

        For what a driver leaves that never came to an attempt. Whoever takes the run later moves the claim away too.

        Raises:
            StorageError: the storage failed.
        """
        path = f"{self._parent}/_commit-000-{self._term}-{secrets.token_hex(4)}"
        self._storage.make_dirs(path)
        if any(_FENCE.match(name) and name != name_of(path) for name in self._names(self._parent)):
            self.discard(path)
            return False
        self._path = path
        return True

    @contextmanager
    def guarded(self) -> Iterator[str]:
        """Gives the fence's folder to a block of renames; turns what fails for want of the folder into what it means.

        Raises:
            LifecycleError: there is no fence.
            FencedOffError: the block raised a StorageError, and the fence is gone; or the run has a newer owner.
            StorageUnavailableError: the ownership could not be renewed, and others may take the run.
        """
        if self._path is None:
            raise LifecycleError(f"commit below {self._rundir.path} without a fence")
        path = self._path
        if self._owner is not None:
            self._owner.assure()
        self.check_owner()
        try:
            yield path
        except StorageError as error:
            if self.is_gone():
                self.lost = True
                raise self.error() from error
            raise

    def check_owner(self) -> None:
        """Raises `FencedOffError` where the run is known to have a newer owner; asks nobody."""
        if self._owner is not None and self._owner.superseded:
            self.lost = True
            raise self.error()

    def check(self) -> None:
        """Looks whether the fence stands.

        Raises:
            FencedOffError: a newer committer owns the run.
            StorageError: the storage failed.
        """
        with self.guarded() as path:
            self._storage.stat(path)

    def is_gone(self) -> bool:
        """Whether somebody has moved the fence away; False where there is none, or the storage does not say."""
        return self._path is not None and self.looks_gone(self._path)

    def error(self) -> FencedOffError:
        """Returns what a driver ends with whose fence is gone."""
        return FencedOffError(
            f"run {self._rundir.run} belongs to another submission now, which has fenced this one off and goes on from "
            f"the last checkpoint: this one stops and writes nothing more. Do not submit it again before that one has "
            f"ended: {self._rundir.result} will hold its result"
        )

    def take_in(self, path: str) -> str | None:
        """Moves what lies at a path out of sight, into the fence, in one step; returns where to, or None for nothing.

        Raises:
            FencedOffError: a newer committer owns the run; the path is as it was.
            StorageError: the storage failed.
        """
        with self.guarded() as held:
            if not self._storage.exists(path):
                return None
            aside = f"{held}/old-{secrets.token_hex(4)}"
            self._storage.rename(path, aside)
            return aside

    def replace(self, held: str, target: str) -> None:
        """Moves what lies in the fence to its place; what is there is moved into the fence first.

        Raises:
            FencedOffError: a newer committer owns the run; what it has at the target is as it was.
            StorageError: the storage failed; what was there is put back if that can be done.
        """
        with self.guarded() as fence:
            self._replace(self._storage, fence, held, target)

    def place(self, source: str, target: str) -> None:
        """Moves what lies elsewhere to its place, where nothing is.

        Raises:
            FencedOffError: a newer committer owns the run; there is still nothing at the target.
            StorageError: the storage failed.
        """
        with self.guarded() as held:
            self._storage.rename(source, f"{held}/{name_of(target)}")
            self._storage.rename(f"{held}/{name_of(target)}", target)

    def put(self, path: str, content: bytes) -> None:
        """Writes a small file of the run, whole or not at all, replacing one that is there.

        Raises:
            FencedOffError: a newer committer owns the run, and its file is as it was.
            StorageError: the storage failed.
        """
        with self.guarded() as held:
            self._put(self._storage, held, path, content)

    def prepare(self, path: str, content: bytes) -> str:
        """Writes a small file into the fence, for `show`; returns where it lies. Raises as `put`."""
        with self.guarded() as held:
            return self._write(self._storage, held, path, content)

    def show(self, written: str, path: str) -> None:
        """Puts what was prepared in its place, in one step where the storage has one. Raises as `put`."""
        with self.guarded():
            self._storage.replace(written, path)

    def put_beside(self, path: str, content: bytes) -> None:
        """Like `put`, hastily, and from any thread: also while the fence is moved on from one attempt to the next.

        Raises:
            StorageError: the storage failed, or there is no fence, or it is gone.
        """
        while (held := self._path) is not None:
            try:
                self._put(self._hasty, held, path, content)
                return
            except StorageNotFoundError:
                if held == self._path:
                    raise
        raise StorageNotFoundError(f"cannot write {path}: the run is not held")

    def tidy(self) -> None:
        """Removes what is staged, which nobody will commit; does nothing without a fence.

        Raises:
            FencedOffError: a newer committer owns the run.
            StorageError: the storage failed; the next fence sweeps what is left.
        """
        if self._path is None:
            return
        with self.guarded() as held:
            if not self._hasty.exists(self._rundir.staging):
                return
            # Out of reach by a rename, which fails without the fence: by now it may hold what a newer attempt staged.
            aside = f"{held}/staged-{secrets.token_hex(4)}"
            self._hasty.rename(self._rundir.staging, aside)
            self._hasty.delete(aside)

    def release(self) -> None:
        """Ends committing: removes what is staged, and the fence. Does nothing without a fence, or without its folder.

        Raises:
            StorageError: the storage failed; the next fence sweeps what is left.
        """
        if self._path is None:
            return
        path = self._path
        try:
            with suppress(FencedOffError):
                self.tidy()
                self._hasty.delete(path)
        finally:
            self._path = None

    def give_up(self) -> None:
        """Leaves the run to another submission, which has ended it: from now on this driver writes nothing."""
        path, self._path = self._path, None
        self.lost = True
        if path is not None:
            self.discard(path)

    def discard(self, *folders: str) -> None:
        """Deletes what has no reader any more; what cannot be is left for the next fence."""
        for folder in folders:
            try:
                self._hasty.delete(folder)
            except StorageError as error:
                _log.warning("left for the next fence to sweep: %s", error)

    def looks_gone(self, path: str) -> bool:
        """Whether there is no such folder; False where the storage does not say. From any thread."""
        try:
            return not self._hasty.exists(path)
        except StorageError:
            return False

    @property
    def _term(self) -> int:
        return 0 if self._owner is None else self._owner.number

    def _put(self, storage: Storage, held: str, path: str, content: bytes) -> None:
        storage.replace(self._write(storage, held, path, content), path)

    def _write(self, storage: Storage, held: str, path: str, content: bytes) -> str:
        # Not written into the fence: writing makes folders, and would mend a fence that is gone.
        nonce = secrets.token_hex(4)
        aside, inside = f"{self._parent}/{self._putting}{nonce}", f"{held}/put-{nonce}"
        try:
            storage.write_bytes(f"{aside}/{name_of(path)}", content)
            storage.rename(f"{aside}/{name_of(path)}", inside)
        finally:
            self.discard(aside)
        return inside

    def _replace(self, storage: Storage, fence: str, held: str, target: str) -> None:
        try:
            storage.rename(held, target)
        except StorageExistsError:
            aside = f"{fence}/old-{secrets.token_hex(4)}"
            storage.rename(target, aside)
            try:
                storage.rename(held, target)
            except StorageError:
                with suppress(StorageError):
                    storage.rename(aside, target)
                raise
            self.discard(aside)

    def _names(self, folder: str) -> list[str]:
        return [name_of(entry.path) for entry in self._storage.list(folder)]

    def _sweep_aside(self, nonce: str) -> list[tuple[str, str]]:
        """Moves every other committer's fence and what is staged out of their reach; returns what, and where to."""
        names = self._names(self._parent)
        if any(_term_of(name) > self._term for name in names):
            self.lost = True
            raise self.error()
        # Not what it is putting down itself from another thread, such as its events.
        others = (n for n in names if n.startswith(_OURS) and is_on_its_way(n) and not n.startswith(self._putting))
        fences = (f"{self._parent}/{name}" for name in others)
        hidden = [path for path in fences if path != self._path]
        if self._storage.exists(self._rundir.checkpoints):
            names = self._names(self._rundir.checkpoints)
            hidden += [f"{self._rundir.checkpoints}/{name}" for name in names if name.startswith("_")]
        swept = []
        for number, path in enumerate(hidden):
            # Into the fence: who was frozen here, and has lost the run, moves nothing of a newer attempt's.
            aside = f"{self._path}/swept-{nonce}-{number}"
            try:
                self._storage.rename(path, aside)
            except StorageNotFoundError:
                continue  # another that fences at the same moment has moved it, or its owner released it
            swept.append((name_of(path), aside))
        return swept


def _attempt(name: str) -> int:
    found = _FENCE.match(name)
    return int(found.group(1)) if found else 0


def _term_of(name: str) -> int:
    found = _FENCE.match(name)
    return int(found.group(2)) if found else 0
