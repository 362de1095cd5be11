"""An exchange that outlives the loss of members: a new generation of them goes on where the old one stood.

Theory. A member can complete an operation only if all have begun it, so that all have completed the one before:
whatever happens, members are at most one operation apart. Each therefore keeps the result of its last operation until
it has completed the next. Once a member is lost, the others leave the generation, and say how many operations they have
completed. Those that have one less are given the result by one that has it. Then all stand at the same place, nothing
that was completed anywhere is lost, and the operation that was interrupted can be made again by those that are left.

Whether it is made again, its caller says. A sum of what each member holds may be (`again`). An update may not: its
rows were counted with those of the lost member, so all raise `RegroupedError`, and agree anew (`interruptible`). Where
the caller says nothing, the loss is raised as it is.
"""

from __future__ import annotations

import enum
import json
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from sparktf.errors import PeerLostError
from sparktf.trainer.sync.exchange.transfer import Array
from sparktf.wire.regrouping import RegroupedError

Result = TypeVar("Result")


class SeenGeneration(NamedTuple):
    """The members between two losses, as one of them sees it."""

    number: int  # From 1 on
    rank: int
    members: int
    leader: int  # By rank
    operation: int = 0  # The last operation that any of them has completed
    giver: int | None = None  # Who gives its result to those who have not; None where all have
    joined: frozenset[int] = frozenset()  # Those that have nothing yet, by rank: the first that all do is to give it
    joins: bool = False  # This member is one of them, or waits to be
    is_last: bool = False  # Too few are left: they store what they have, and end


class Meeting(Protocol):
    """The operations of the members of one generation; see `Exchange`.

    Each raises `PeerLostError` once a member is gone.
    """

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Exchange`."""

    def gather(self, array: Array) -> list[Array]:
        """See `Exchange`."""

    def from_leader(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Exchange`."""

    def from_member(self, giver: int, arrays: Sequence[Array]) -> list[Array]:
        """Returns the arrays of one member, by rank, as `from_leader` returns the leader's."""

    def fill(self, arrays: Sequence[Array], takers: Container[int]) -> list[Array]:
        """Writes over the arrays of some members, by rank, those of others; returns nothing."""

    def sum_and_gather(self, dense: Sequence[Array], rows: Sequence[Array]) -> list[Array]:
        """Returns the sum over all members of each dense array, then the rows of all of each other one."""

    def close(self) -> None:
        """Leaves it: the others find this member gone."""


class Nobody:
    """See `Meeting`: of a member that has not met the others."""

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Meeting`."""
        raise PeerLostError("it has not met the others yet")

    def gather(self, array: Array) -> list[Array]:
        """See `Meeting`."""
        return self.sum([array])

    def from_leader(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Meeting`."""
        return self.sum(arrays)

    def from_member(self, giver: int, arrays: Sequence[Array]) -> list[Array]:
        """See `Meeting`."""
        return self.sum(arrays)

    def fill(self, arrays: Sequence[Array], takers: Container[int]) -> list[Array]:
        """See `Meeting`."""
        return self.sum(arrays)

    def sum_and_gather(self, dense: Sequence[Array], rows: Sequence[Array]) -> list[Array]:
        """See `Meeting`."""
        return self.sum([*dense, *rows])

    def close(self) -> None:
        """See `Meeting`."""


class Regrouping(Protocol):
    """The way to a generation's members, and to whoever decides on them."""

    def next(self, left: int, completed: int, error: PeerLostError, *, takes_in: bool) -> SeenGeneration:
        """Tells that this member has left a generation, and returns the next one; waits until that is decided.

        Args:
            left: Number of the generation; 0 for a member that has had none.
            completed: Number of the last operation that this member has completed.
            error: Why it has left.
            takes_in: Others may join where this member stands.
        """

    def meet(self, generation: SeenGeneration, end: GenerationEnd) -> Meeting:
        """Returns the operations of a generation, once its members have met; waits for them.

        Args:
            end: Ends whatever waits for members.

        Raises:
            PeerLostError: the generation was ended meanwhile.
        """

    def regrouped(self, generation: SeenGeneration, *, was_given: bool) -> None:
        """Called once all members of a generation stand at the same operation, but for those that have joined.

        Where others have joined, the driver may be told meanwhile; see `settle`.

        Args:
            was_given: This member gets that operation's result now.
        """

    def settle(self) -> None:
        """Waits until the driver knows where this member stands."""


class GenerationEnd:
    """The end of a generation, which any thread may bring about."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = False
        self._then: list[Callable[[], None]] = []

    def then(self, work: Callable[[], None]) -> None:
        """Has something done at the end; at once if that is over."""
        with self._lock:
            if not self._is_over:
                self._then.append(work)
                return
        work()

    def end(self) -> None:
        """Ends it."""
        with self._lock:
            self._is_over = True
            then, self._then = self._then, []
        for work in then:
            work()


class _OnLoss(enum.Enum):
    """The consequence of a loss for the operation that it interrupts."""

    RAISES = enum.auto()
    AGAIN = enum.auto()
    INTERRUPTS = enum.auto()


class GenerationsExchange:
    """See `Exchange`, and the module; for one thread, but for `end`."""

    def __init__(self, first: SeenGeneration, regrouping: Regrouping) -> None:
        """Meets the members of the first generation; a member that is to join (`joins`) meets nobody before `join`."""
        self._regrouping = regrouping
        self._completed = first.operation
        self._last: list[Array] = []
        self._on_loss = _OnLoss.RAISES
        self._agreed = first.number  # The generation that what is interruptible has begun in
        self._takes_in = False
        self._present = first, GenerationEnd()
        self._now: Meeting = Nobody() if first.joins else regrouping.meet(*self._present)

    @property
    def _of(self) -> SeenGeneration:
        return self._present[0]

    @property
    def rank(self) -> int:
        """See `Exchange`."""
        return self._of.rank

    @property
    def members(self) -> int:
        """See `Exchange`."""
        return self._of.members

    @property
    def leads(self) -> bool:
        """See `Exchange`. Who has not met the others leads nobody, though its node did."""
        return self._of.rank == self._of.leader and not self._of.joins

    @property
    def generation(self) -> int:
        """Number of the generation."""
        return self._of.number

    def end(self, last: int) -> None:
        """Has this member leave its generation, if that is the last one that is over or earlier. From any thread."""
        of, ending = self._present
        if of.number <= last:
            ending.end()

    def join(self) -> None:
        """Joins a gang that is at work; waits until it takes this member in."""
        self._regroup(PeerLostError("it has not met the others yet"), takes_in=True)

    @property
    def joined(self) -> bool:
        """Whether members of this generation wait for the state."""
        return bool(self._of.joined)

    @property
    def joins(self) -> bool:
        """Whether this member waits for it."""
        return self._of.joins

    @property
    def is_last(self) -> bool:
        """Whether too few are left: the members store what they have, and end."""
        return self._of.is_last

    def fill(self, arrays: Sequence[Array]) -> None:
        """Writes over the arrays of members that have joined those of others, which only give them.

        Who is given this operation's result after a loss has none of it: those who joined join again.
        """
        self._complete(lambda now: now.fill(arrays, self._of.joined))

    def took_in(self) -> None:
        """Notes that all members have the state. The driver is told meanwhile; see `settle`.

        Raises:
            RegroupedError: the last result came from another member, after a loss: who has joined since has no state.
        """
        of, end = self._present
        if self._on_loss is _OnLoss.INTERRUPTS and self._agreed != of.number:
            raise RegroupedError(f"generation {self._agreed} of the gang is over")
        self._present = of._replace(joined=frozenset(), joins=False), end
        if of.joins:
            self._regrouping.regrouped(of, was_given=False)

    def settle(self) -> None:
        """Waits until the driver knows that this member has the state."""
        self._regrouping.settle()

    # ---- the consequence of a loss ----

    @contextmanager
    def again(self) -> Iterator[None]:
        """Has the block's operations made again by those that are left."""
        before, self._on_loss = self._on_loss, _OnLoss.AGAIN
        try:
            yield
        finally:
            self._on_loss = before

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Has the block interrupted by a new generation: its operations raise `RegroupedError`."""
        before = self._on_loss, self._agreed
        self._on_loss, self._agreed = _OnLoss.INTERRUPTS, self._of.number
        try:
            yield
        finally:
            self._on_loss, self._agreed = before

    def whole(self, work: Callable[[], Result], *, takes_in: bool = False) -> Result:
        """See `Exchange`."""
        before, self._takes_in = self._takes_in, takes_in
        try:
            while True:
                number = self._of.number
                try:
                    with self.interruptible():
                        return work()
                except RegroupedError as error:
                    if self._of.number == number:  # told by somebody else: no operation has found it yet
                        self._now.close()
                        self._regroup(error, takes_in=takes_in)
        finally:
            self._takes_in = before

    # ---- operations ----

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Exchange`."""
        return self._complete(lambda now: now.sum(arrays))

    def gather(self, array: Array) -> list[Array]:
        """See `Exchange`."""
        return self._complete(lambda now: now.gather(array))

    def from_leader(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Exchange`."""
        return self._complete(lambda now: now.from_leader(arrays))

    def sum_and_gather(self, dense: Sequence[Array], rows: Sequence[Array]) -> list[Array]:
        """See `Exchange`: made whole, or not at all."""
        return self._complete(lambda now: now.sum_and_gather(dense, rows))

    def close(self) -> None:
        """See `Exchange`."""
        self._now.close()

    # ---- generations ----

    def _complete(self, operation: Callable[[Meeting], list[Array]]) -> list[Array]:
        """Makes an operation, or takes its result from another member."""
        if self._on_loss is _OnLoss.INTERRUPTS and self._agreed != self._of.number:
            raise RegroupedError(f"generation {self._agreed} of the gang is over")
        result: list[Array] | None = None
        while result is None:
            try:
                result = operation(self._now)
            except PeerLostError as error:
                self._now.close()
                if self._on_loss is _OnLoss.RAISES:
                    raise
                takes_in = self._takes_in and self._on_loss is _OnLoss.INTERRUPTS
                result = self._regroup(error, takes_in=takes_in)
                if result is None and self._on_loss is _OnLoss.INTERRUPTS:
                    raise RegroupedError(f"generation {self._agreed} of the gang is over") from error
        self._completed += 1
        self._last = result
        return result

    def _regroup(self, error: PeerLostError, *, takes_in: bool) -> list[Array] | None:
        """Goes over to the next generation; returns the result of the interrupted operation, None if nobody has it."""
        while True:
            new = self._regrouping.next(self._of.number, self._completed, error, takes_in=takes_in)
            if new.joins:
                self._completed = new.operation  # it is given the state that this has led to
            self._present = new, GenerationEnd()
            try:
                self._now = self._regrouping.meet(*self._present)
                given = None if new.giver is None else self._pass_on(self._now, new)
            except PeerLostError as again:
                self._now.close()
                error = again
                continue
            was_given = new.operation > self._completed
            if not new.joins:
                self._regrouping.regrouped(new, was_given=was_given)
            return given if was_given else None

    def _pass_on(self, now: Meeting, new: SeenGeneration) -> list[Array]:
        """Gives all members the result of the last operation; those that have it get it once more."""
        giver, gives = new.giver or 0, new.giver == new.rank
        own = self._last if gives else []
        forms = np.frombuffer(json.dumps([(array.dtype.name, array.shape) for array in own]).encode(), np.uint8)
        [count] = now.from_member(giver, [np.array([len(forms)], np.int64)])
        [forms] = now.from_member(giver, [forms if gives else np.zeros(int(count[0]), np.uint8)])
        arrays = own if gives else [np.empty(shape, kind) for kind, shape in json.loads(forms.tobytes())]
        return now.from_member(giver, arrays)
