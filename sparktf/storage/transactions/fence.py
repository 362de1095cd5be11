"""Decides who may write to a run: of all submissions under its id, the one whose fence stands.

A fence is the `Passage` of one driver, a folder `_commit-<attempt>-<term>-<nonce>/` in the run directory. A driver that
takes the run first swaps its head (`sparktf.storage.transactions.ownership`), which gives it a term, then makes a
fence, and then moves all others away, but none of a newer term: then its own is the older one. So a fence whose term is
over refuses by itself, as soon as its owner knows, and otherwise fails at its next rename.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sparktf.errors import FencedOffError, StorageError, StorageNotFoundError
from sparktf.rundir import RunDirectory, is_on_its_way
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.ownership import Ownership
from sparktf.storage.transactions.passage import PUT, Passage

_OURS = ("_commit-", PUT, "_plan-", "_swept-")
_FENCE = re.compile(r"^_commit-(\d+)-(\d+)-")


class Fence(Passage):
    """One driver's fence around one run; for one thread. Its error for a lost passage is `FencedOffError`.

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
            hasty: See `Passage`.
            owner: Its owner. Default: nobody, so that any owner may move it away.
        """
        # Not below `checkpoints`: a quota of that folder must not keep the result from being written.
        super().__init__(storage, rundir.path, hasty)
        self.lost = False
        self._owner = owner
        self._rundir = rundir

    def last_attempt(self) -> int:
        """Returns the highest attempt that fenced and did not release, as one of a killed driver; 0 if there is none.

        A resumed run counts on from it: else it would stage to paths that a trainer not yet dead may use.

        Raises:
            StorageError: the storage failed.
        """
        if not self._storage.exists(self._parent):
            return 0
        return max((_attempt_and_term(name)[0] for name in self._names(self._parent)), default=0)

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
        """Makes this driver the run's only committer, before an attempt begins; sweeps folders staged by older
        attempts.

        A driver that holds a fence moves it on to its next attempt: one whose fence is gone cannot take the run back.

        Returns:
            The highest attempt whose fence was swept, 0 if there was none: if it is not below this one, another driver
            began at the same moment, and this one needs a higher number.

        Raises:
            FencedOffError: a newer committer owns the run.
            StorageError: the storage failed; there may be no committer now.
        """
        path = self._new_path(attempt)
        begins = self._path is None
        if begins:
            self._storage.keep_names(self._parent)
            self._storage.make_dirs(path)
        else:
            with self.guarded() as held:
                self._storage.rename(held, path)
        self._path = path
        # Made before the others are moved: of two that fence at once, each moves the other's, and never do both commit.
        try:
            swept = self._sweep()
        except (StorageError, FencedOffError):
            if begins:  # another's may stand: nothing may be written through this one
                self._path = None
                self.discard(path)
            raise
        self.check()
        self.discard(*(aside for _, aside in swept))
        return max((_attempt_and_term(name)[0] for name, _ in swept), default=0)

    def claim(self) -> bool:
        """Makes a fence that moves no other away; returns False, and makes none, if there is one already.

        For the result of a driver without an attempt. The next owner of the run moves the claim away too.

        Raises:
            StorageError: the storage failed.
        """
        path = self._new_path(0)
        self._storage.keep_names(self._parent)
        self._storage.make_dirs(path)
        if any(_FENCE.match(name) and name != name_of(path) for name in self._names(self._parent)):
            self.discard(path)
            return False
        self._path = path
        return True

    @contextmanager
    def guarded(self) -> Iterator[str]:
        """See `Passage`.

        Raises:
            LifecycleError: there is no fence.
            FencedOffError: the block raised a StorageError, and the fence is gone; or the run has a newer owner.
            StorageUnavailableError: the ownership could not be renewed, and others may take the run.
        """
        if self._owner is not None and self._path is not None:
            self._owner.assure()
        self.check_owner()
        with super().guarded() as path:
            yield path

    def check_owner(self) -> None:
        """Raises `FencedOffError` if the run is known to have a newer owner; does not look for one."""
        if self._owner is not None and self._owner.superseded:
            raise self.lose()

    def lose(self) -> FencedOffError:
        """Notes that another driver owns the run; returns the error to raise."""
        self.lost = True
        return FencedOffError(
            f"run {self._rundir.run} belongs to another submission now, which goes on from the last checkpoint, and "
            f"this one stops and writes nothing more: do not submit it again before {self._rundir.result} exists"
        )

    def put_beside(self, path: str, content: bytes) -> None:
        """Like `put`, hastily, and from any thread: also while the fence is moved on from one attempt to the next.

        Raises:
            StorageError: the storage failed, or there is no fence, or it is gone.
        """
        while (held := self._path) is not None:
            try:
                if not self._is_written(self._hasty, held, path, content):
                    self._hasty.replace(self._write(self._hasty, held, path, content), path)
                return
            except StorageNotFoundError:
                if held == self._path:
                    raise
        raise StorageNotFoundError(f"cannot write {path}: this submission does not own the run")

    def tidy(self) -> None:
        """Removes staged folders, and unfinished uploads into them, which nobody will commit; nothing without a fence.

        Raises:
            FencedOffError: a newer committer owns the run.
            StorageError: the storage failed; the next fence sweeps what is left.
        """
        if self._path is None:
            return
        self._abort_uploads()
        with self.guarded() as held:
            if not self._hasty.exists(self._rundir.staging):
                return
            # Out of reach by a rename, which fails without the fence: by now it may hold what a newer attempt staged.
            aside = f"{held}/staged-{secrets.token_hex(4)}"
            self._hasty.rename(self._rundir.staging, aside)
            self._hasty.delete(aside)

    def _abort_uploads(self) -> None:
        """Ends what trainers were uploading when they died, or still do: nobody waits for it."""
        if uploads := self._hasty.uploads(self._rundir.staging):
            # The fence stands after they were listed, so no newer owner had begun by then, and none of them is its own.
            self.check()
            self._hasty.abort(uploads)

    def release(self) -> None:
        """Ends committing: removes staged folders, and the fence. Does nothing without a fence, or without its folder.

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
        """Leaves the run to another submission, which has ended it: this driver writes nothing from now on."""
        path, self._path = self._path, None
        self.lost = True
        if path is not None:
            self.discard(path)

    def _new_path(self, attempt: int) -> str:
        return f"{self._parent}/_commit-{attempt:03d}-{self._term}-{secrets.token_hex(4)}"

    @property
    def _term(self) -> int:
        return 0 if self._owner is None else self._owner.number

    def _sweep(self) -> list[tuple[str, str]]:
        """Moves other committers' fences and staged folders out of their reach; returns their names and new paths."""
        names = self._names(self._parent)
        if any(_attempt_and_term(name)[1] > self._term for name in names):
            raise self.lose()
        # Not what it is putting down itself from another thread, such as its events.
        others = (n for n in names if n.startswith(_OURS) and is_on_its_way(n) and not n.startswith(self._putting))
        hidden = [path for name in others if (path := f"{self._parent}/{name}") != self._path]
        if self._storage.exists(self._rundir.checkpoints):
            names = self._names(self._rundir.checkpoints)
            hidden += [f"{self._rundir.checkpoints}/{name}" for name in names if name.startswith("_")]
        return self._sweep_in(hidden)


def _attempt_and_term(name: str) -> tuple[int, int]:
    """Returns the attempt and the term in the name of a fence; zeros for other names."""
    found = _FENCE.match(name)
    return (int(found[1]), int(found[2])) if found else (0, 0)
