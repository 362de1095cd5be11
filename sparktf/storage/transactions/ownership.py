"""Ownership of a run: of all submissions under its id, one at a time trains it, and the others can tell which.

A term says who owns the run. It is an edition of the head in the run directory's `owner/` (`terms.head_of`): to take
the run is one swap, in which one of all contenders wins. Its owner rewrites a beat beside it. A process that wants the
run looks at the beat of the newest term: one that moves is an owner at work; one that stands still for
`timeouts.owner`, by the clock of the process that looks, is an owner that is gone, and the next term may be swapped in.
No two clocks are compared, and no lock is taken away: an owner that was only frozen finds the newer term, and its
fence, which has the number of its own term, stops its later writes.
"""

from __future__ import annotations

import datetime
import enum
import secrets
import socket
from collections.abc import Callable
from typing import NamedTuple

from sparktf.clock import Clock
from sparktf.errors import OwnedError, StorageError, StorageExistsError, StorageUnavailableError
from sparktf.results.result import Application
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage, Tag
from sparktf.storage.transactions.head import Edition, HeadMovedError
from sparktf.storage.transactions.leftovers import discard, staged_name
from sparktf.storage.transactions.terms import BEAT, RELEASED, Owner, Term, beat_ms, head_of, look
from sparktf.told import log_of

_BEATS = 4
_LOOKS = 12
"""Beats of an owner within `timeouts.owner`, and looks of a process that wants the run."""

_BLIND = 0.5
"""Of `timeouts.owner`: after a longer time without looks, the beat may have moved unseen."""

_log = log_of(__name__)


class Seen(NamedTuple):
    """A term as found by repeated looks."""

    term: Term
    since_s: float  # The first look that found it so had ended by then
    looked_s: float  # The last one began then
    moved: bool = False  # It, or the term before it, was seen to change


class Step(enum.Enum):
    """The next step of a process that wants the run."""

    TAKE = enum.auto()
    LOOK_AGAIN = enum.auto()
    IS_OWNED = enum.auto()


def see(before: Seen | None, term: Term, began_s: float, ended_s: float, limit_s: float) -> Seen:
    """Returns the knowledge after another look, which took from `began_s` to `ended_s`.

    After a long pause without looks, by itself or by the storage, it begins anew: the owner may have paused as well,
    and be back, or be gone since.
    """
    if before is None or ended_s - before.looked_s > limit_s * _BLIND:
        return Seen(term, ended_s, began_s)
    if term != before.term:
        return Seen(term, ended_s, began_s, moved=True)
    return before._replace(looked_s=began_s)


def next_step(seen: Seen, application: Application, limit_s: float) -> Step:
    """Decides the next step after a look.

    Args:
        application: The application that wants the run.
        limit_s: A beat that stands still for this time means that the owner is gone.
    """
    number, owner, _, released = seen.term
    if number == 0 or released or (owner is not None and _is_followed_by(owner, application)):
        return Step.TAKE
    if seen.looked_s - seen.since_s >= limit_s:
        return Step.TAKE
    return Step.IS_OWNED if seen.moved else Step.LOOK_AGAIN


def _is_followed_by(owner: Owner, application: Application) -> bool:
    """Whether YARN has started the owner's application again, which it does once the first attempt is gone."""
    return owner.application == application.id and owner.attempt < application.attempt


def is_lapsed(renewed_s: float, now_s: float, limit_s: float) -> bool:
    """Returns whether others may have taken the run of an owner that last began to renew its beat at `renewed_s`."""
    return now_s - renewed_s >= limit_s


def watch_owner(
    storage: Storage, rundir: RunDirectory, application: Application, limit_s: float, clock: Clock
) -> tuple[Step, Term]:
    """Decides the next step of a process that wants the run; returns it and the newest term, and changes nothing.

    Looks until the owner's beat moves, for at most the time of two beats. A beat that stands still longer does not
    prove that the owner is gone (`Step.LOOK_AGAIN`): the process then watches it for `limit_s`.

    Raises:
        StorageError: the storage failed.
    """
    seen, deadline_s = None, clock.now_s() + 2 * limit_s / _BEATS
    while True:
        began_s = clock.now_s()
        seen = see(seen, look(storage, rundir.terms), began_s, clock.now_s(), limit_s)
        step = next_step(seen, application, limit_s)
        if step is not Step.LOOK_AGAIN or clock.now_s() >= deadline_s:
            return step, seen.term
        clock.sleep(limit_s / _LOOKS)


def owned_error(rundir: RunDirectory, term: Term) -> OwnedError:
    """Returns the error that ends a submission of a run that another one owns."""
    return OwnedError(
        f"run {rundir.run} is owned by {term.owner or 'another submission'}, and this one changes nothing: wait for "
        f"{rundir.result}, or submit with --wait"
    )


class Ownership:
    """One driver's ownership of one run. `acquire` and `release` are for one thread, all else for any.

    Attributes:
        superseded: A newer term exists: another driver owns the run.
    """

    def __init__(
        self,
        storage: Storage,
        hasty: Storage,
        rundir: RunDirectory,
        application: Application,
        clock: Clock,
        limit_s: float,
    ) -> None:
        """Touches nothing.

        Args:
            hasty: The same storage, for writes that are tried again soon.
            limit_s: `timeouts.owner`.
        """
        self.superseded = False
        self._storage = storage
        self._hasty = hasty
        self._rundir = rundir
        self._head = head_of(storage, rundir.terms, hasty)
        self._application = application
        self._clock = clock
        self._limit_s = limit_s
        self._number = 0
        self._nonce = ""
        self._beats = 0
        self._tag: Tag | None = None  # Of the last beat, in a store of objects
        self._renewed_s = 0.0
        self._ended = False

    @property
    def number(self) -> int:
        """The number of its term; 0 without one."""
        return self._number

    @property
    def nonce(self) -> str:
        """The nonce of its term, "" without one."""
        return self._nonce

    def acquire(self, say: Callable[[str], None], *, wait: bool) -> None:
        """Makes this driver the run's owner, and renews that from now on; looks until the outcome is known.

        Args:
            wait: Wait while another one owns the run.

        Raises:
            OwnedError: another one owns the run, and `wait` is not set.
            StorageError: the storage failed; nobody is the owner by this.
        """
        seen: Seen | None = None
        told: Owner | None = None
        while True:
            began_s = self._clock.now_s()
            seen = see(seen, look(self._storage, self._rundir.terms), began_s, self._clock.now_s(), self._limit_s)
            step = next_step(seen, self._application, self._limit_s)
            if step is Step.TAKE and self._take(seen.term):
                self._clock.every("owner", self._limit_s / _BEATS, self._beat)
                return
            if step is Step.IS_OWNED and not wait:
                raise owned_error(self._rundir, seen.term)
            owner = seen.term.owner
            if step is not Step.TAKE and owner is not None and owner != told:
                limit = f"{self._limit_s:g} s"
                until = f"waiting until it ends, or gives no sign of life for {limit}"
                say(f"the run is owned by {owner}: {until if wait else f'watching for {limit} whether it is at work'}")
                told = owner
            self._clock.sleep(self._limit_s / _LOOKS)

    def take_idle(self) -> bool:
        """Makes this driver the run's owner unless another one is at work, as one look shows; it gives no beat.

        An owner's silence is the difference of two times given by the storage, of the last beat and of a file written
        now: no two clocks are compared.

        Raises:
            StorageError: the storage failed; nobody is the owner by this.
        """
        term = look(self._storage, self._rundir.terms)
        return not self._is_at_work(term) and self._take(term)

    def assure(self) -> None:
        """Renews it if that is overdue; otherwise returns at once.

        Raises:
            StorageUnavailableError: it cannot be renewed, and others may take the run.
        """
        is_held = self._number and not self._ended and not self.superseded
        if not is_held or not is_lapsed(self._renewed_s, self._clock.now_s(), self._limit_s):
            return
        try:
            self._renew(self._storage)
        except StorageError as error:
            silent_s = self._clock.now_s() - self._renewed_s
            raise StorageUnavailableError(
                f"the ownership of run {self._rundir.run} could not be renewed for {silent_s:.0f} s (timeouts.owner: "
                f"{self._limit_s:g} s), so that nothing is written: {error}"
            ) from error

    def release(self) -> None:
        """Ends it, so that the next one need not wait. Does nothing without it."""
        if self._number and not self._ended and not self.superseded:
            self._ended = True
            try:
                self._hasty.write_bytes(f"{self._rundir.term(self._number)}/{RELEASED}", b"")
            except StorageError as error:
                _log.warning("the run was not released, and the next submission waits for timeouts.owner: %s", error)

    # ---- making a term ----

    def _take(self, term: Term) -> bool:
        """Swaps in the next term, unless another driver was faster; returns whether it is this driver's.

        Raises:
            StorageError: the storage failed; a term that was made all the same has an owner that is gone.
        """
        nonce, began_s = secrets.token_hex(8), self._clock.now_s()
        content = self._me(nonce).model_dump_json().encode()
        self._storage.keep_names(self._rundir.path)
        try:
            self._number = self._head.swap(Edition(term.number), content).number
        except HeadMovedError:
            return False
        self._renewed_s, self._nonce = began_s, nonce
        return True

    def _is_at_work(self, term: Term) -> bool:
        if term.number == 0 or term.released:
            return False
        limit_s = max(self._limit_s, term.owner.limit_s if term.owner else 0.0)
        return self._storages_ms() - beat_ms(self._storage, self._rundir.terms, term.number) < limit_s * 1000

    def _storages_ms(self) -> int:
        """Returns the time by the storage's clock: the modification time of a file written now."""
        path = f"{self._rundir.terms}/{staged_name('_now-')}"
        try:
            self._storage.write_bytes(path, b"")
            return self._storage.stat(path).modified_ms
        finally:
            discard(self._hasty, path)

    def _me(self, nonce: str) -> Owner:
        since = datetime.datetime.fromtimestamp(self._clock.wall_s(), datetime.UTC)
        return Owner(
            application=self._application.id,
            attempt=self._application.attempt,
            host=socket.gethostname(),
            user=self._storage.user(),
            since=since.isoformat(timespec="seconds"),
            nonce=nonce,
            limit_s=self._limit_s,
        )

    # ---- renewing it ----

    def _beat(self) -> bool:
        """Renews the term, beside the training; returns whether to go on. After a failure it is tried again."""
        try:
            if not self._ended:
                self._renew(self._hasty)
        except StorageError as error:
            _log.warning("the ownership of the run was not renewed: %s", error)
        return not (self._ended or self.superseded)

    def _renew(self, storage: Storage) -> None:
        began_s = self._clock.now_s()
        self._beats += 1
        path, beat = f"{self._rundir.term(self._number)}/{BEAT}", str(self._beats).encode()
        if storage.renames:
            self._look_for_next(storage)
            if not self.superseded:
                storage.write_bytes(path, beat)
        else:
            self._put_over(storage, path, beat)
        if not self.superseded:
            self._renewed_s = max(self._renewed_s, began_s)

    def _put_over(self, storage: Storage, path: str, beat: bytes) -> None:
        # The next owner deletes the beats of this one: that a beat is put in place of the last tells of none.
        try:
            self._tag = storage.put_over(path, beat, self._tag)
        except StorageExistsError:
            self._look_for_next(storage)
            if not self.superseded:
                self._tag = storage.put_over(path, beat, storage.tag_of(path))

    def _look_for_next(self, storage: Storage) -> None:
        if head_of(storage, self._rundir.terms).newest() > self._number:
            self.superseded = True
