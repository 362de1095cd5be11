"""Who takes part in which update, where several workers' gradients make one: a function of what they have told.

A *round* is one try at an update. All gradients that go into it were computed from the variables that the update before
has left: a worker asks for the round's number before it reads them, and comes too late with it once the round is over.
A round that somebody broke off in is thrown away, and the next one has the same variables. An execution that broke off
may go on beside the one that has its rows since: it takes part no more. Nothing here is thread-safe.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

NO_ROUND = -1
"""The number of no round: whoever gets it makes no update any more, and gives his rows back."""


class Phase(Enum):
    """What becomes of the round.

    Attributes:
        CLOSED: Nobody takes part: a checkpoint is due, or the end.
        OPEN: Workers take part in it.
        FULL: All gradients are there: the update is being made.
        VOID: What is there is being thrown away.
    """

    CLOSED = "closed"
    OPEN = "open"
    FULL = "full"
    VOID = "void"


class Who(NamedTuple):
    """One execution on a worker, by the worker's index.

    Attributes:
        take: The number of the rows that it has, the greater the later; 0 where it has none.
    """

    worker: int
    incarnation: int
    take: int = 0


class RoundVerdict(Enum):
    """What has become of a gradient; numbers cross into graphs."""

    PENDING = 0
    MADE = 1
    DROPPED = 2


class RoundOutcome(NamedTuple):
    """What a worker is told that has taken part, or wanted to.

    Attributes:
        number: Of the round to compute the next gradient for, `NO_ROUND` for none.
    """

    verdict: RoundVerdict
    number: int


class Contribution(NamedTuple):
    """A worker's gradient in a round.

    Attributes:
        rows: It is the mean over so many.
        is_there: The parameter servers have it.
    """

    who: Who
    rows: int
    is_there: bool = False


_NOBODY = Who(-1, -1)


class Rounds:
    """The rounds of a run.

    An update takes `wanted` gradients, of a worker at most one. While fewer workers than that have rows, as at an
    epoch's end, it takes what these bring; a worker that is lost has rows, as far as anybody knows.

    Attributes:
        number: Of the round that is next to be made, or under way.
        phase: What becomes of it.
        steps: Updates that were made.
        dropped: Gradients that were computed for nothing: they came too late, or their round was thrown away.
    """

    def __init__(self, wanted: int, workers: int) -> None:
        """Is closed at first."""
        self.number = self.steps = self.dropped = 0
        self.phase = Phase.CLOSED
        self._wanted = wanted
        self._workers = workers
        self._parts: dict[int, Contribution] = {}
        self._made: dict[int, tuple[Who, int]] = {}
        self._dry: set[int] = set()
        self._incarnations: dict[int, int] = {}
        self._takes: dict[tuple[int, int], int] = {}
        self._last: int | None = None
        self._is_closing = False

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of the round, how many gradients it has, and of how many rows."""
        return self.number, len(self._parts), sum(part.rows for part in self._parts.values())

    # ---- what the coordinator's loop says ----

    def begin_epoch(self) -> None:
        """Takes everybody for somebody with rows."""
        self._dry.clear()

    def open(self, updates: int | None) -> None:
        """Has workers make updates, so many at most."""
        self._last = None if updates is None else self.steps + updates
        self._is_closing = False
        if self.phase is Phase.CLOSED:
            self.phase = self._next_phase

    def close(self) -> None:
        """Begins no round any more; one that is not full is thrown away, for nobody knows who still comes."""
        self._is_closing = True
        if self.phase is Phase.OPEN:
            self.phase = Phase.VOID if self._parts else Phase.CLOSED

    def succeed(self, worker: int, incarnation: int) -> None:
        """Takes nothing more of earlier incarnations of a worker, and not the gradient that they may have brought."""
        self._incarnations[worker] = incarnation
        self._dry.discard(worker)
        part = self._parts.get(worker)
        if part is not None and part.who.incarnation < incarnation:
            self._void()

    def finish(self) -> None:
        """Notes that the update was made, where the round was full, or that all is thrown away."""
        if self.phase is Phase.FULL:
            self.steps += 1
            self._made.update((worker, (part.who, self.number)) for worker, part in self._parts.items())
        else:
            self.dropped += len(self._parts)
        self.number += 1
        self._parts = {}
        self.phase = self._next_phase

    # ---- what workers say ----

    def begin(self, who: Who, *, has_rows: bool) -> int:
        """Notes that a worker begins an execution; returns the round to compute a gradient for, `NO_ROUND` for none."""
        key = who.worker, who.incarnation
        self._takes[key] = max(self._takes.get(key, 0), who.take)
        if self._is_over(who):
            return NO_ROUND
        if (part := self._parts.get(who.worker)) is not None:
            # The execution that brought it has broken off: nobody will tell of these rows.
            self._parts[who.worker] = part._replace(who=_NOBODY)
            self._void()
        if has_rows:
            self._dry.discard(who.worker)
        else:
            self._dry.add(who.worker)
            self._look()
        return self._number_now if has_rows else NO_ROUND

    def enter(self, who: Who, number: int, rows: int) -> bool:
        """Returns whether a worker's gradient goes into the round, to which it then has to bring it."""
        is_in = (
            self.phase is Phase.OPEN
            and number == self.number
            and len(self._parts) < self._wanted
            and who.worker not in self._parts
            and not self._is_over(who)
        )
        if is_in:
            self._parts[who.worker] = Contribution(who, rows)
        else:
            self.dropped += 1
        return is_in

    def arrive(self, who: Who, number: int) -> None:
        """Notes that the parameter servers have a worker's gradient."""
        part = self._parts.get(who.worker)
        if part is not None and part.who == who and number == self.number:
            self._parts[who.worker] = part._replace(is_there=True)
            self._look()

    def outcome(self, who: Who, number: int) -> RoundOutcome:
        """Returns what has become of the gradient that a worker has computed for a round, let in or not."""
        if self._is_over(who):
            return RoundOutcome(RoundVerdict.DROPPED, NO_ROUND)
        if number == self.number and self.phase is not Phase.CLOSED:
            return RoundOutcome(RoundVerdict.PENDING, number)
        verdict = RoundVerdict.MADE if self._made.get(who.worker) == (who, number) else RoundVerdict.DROPPED
        return RoundOutcome(verdict, self._number_now)

    # ----

    @property
    def _number_now(self) -> int:
        return NO_ROUND if self.phase is Phase.CLOSED else self.number

    @property
    def _next_phase(self) -> Phase:
        is_over = self._is_closing or (self._last is not None and self.steps >= self._last)
        return Phase.CLOSED if is_over else Phase.OPEN

    def _is_over(self, who: Who) -> bool:
        """Whether the worker is lost, or the execution broke off: another one has taken its rows."""
        is_lost = who.incarnation < self._incarnations.get(who.worker, 0)
        return is_lost or 0 < who.take < self._takes.get((who.worker, who.incarnation), 0)

    def _void(self) -> None:
        if self.phase is Phase.OPEN:
            self.phase = Phase.VOID

    def _look(self) -> None:
        """Has the update made once all gradients are there that will come."""
        needed = max(min(self._wanted, self._workers - len(self._dry)), 1)
        parts = self._parts.values()
        if self.phase is Phase.OPEN and len(parts) >= needed and all(part.is_there for part in parts):
            self.phase = Phase.FULL
