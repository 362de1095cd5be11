"""Aggregation in rounds: synchronous updates with backup workers, under parameter servers.

Theory. An update takes the gradients of the first `wanted` workers; slower ones are dropped (Chen et al., "Revisiting
Distributed Synchronous SGD"; TensorFlow 1's `SyncReplicasOptimizer`). A *round* is one try at an update, by number:

    CLOSED -> OPEN -> FULL -> (update made)      -> OPEN, number + 1
                   -> VOID -> (gradients dropped) -> OPEN, number + 1, same variables

1. begin:   a worker asks for the number, and reads the variables only afterwards. So every gradient of round n was
            computed from variables that are not older than update n - 1 left them.
2. enter:   it offers its gradient for n. One that comes after n is over, or after `wanted` others, is refused: it is
            computed again from the same rows. So no update mixes gradients of two states of the variables.
3. arrive:  the gradient has reached the parameter servers. When all have that will come, the round is FULL.
4. outcome: the worker polls for the verdict, and marks its rows as trained only if the update was MADE.

Failures. A lost worker, or an execution that broke off (TensorFlow runs it again elsewhere), may have brought a
gradient for rows that another execution trains again: its round is VOID, so that no row counts twice. A broken-off
execution may run on as a zombie: `take` numbers order the executions of an incarnation, and only the newest takes part.
Near an epoch's end fewer than `wanted` workers have rows; those who say that they have none are not waited for.
Everything here is a function of the calls so far; nothing is thread-safe.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

NO_ROUND = -1
"""The number of no round: a worker that gets it makes no further update, and gives its rows back."""


class Phase(Enum):
    """The state of a round."""

    CLOSED = "closed"  # No worker takes part: a checkpoint or the end is due
    OPEN = "open"  # Workers take part
    FULL = "full"  # All gradients have arrived: the update is being made
    VOID = "void"  # The gradients are being thrown away


class Who(NamedTuple):
    """One execution on a worker, by the worker's index."""

    worker: int
    incarnation: int
    take: int = 0  # Number of its rows, increasing; 0 if it has none


class RoundVerdict(Enum):
    """The fate of a gradient; the numbers are used in graphs."""

    PENDING = 0
    MADE = 1
    DROPPED = 2


class RoundOutcome(NamedTuple):
    """The answer to a worker about its gradient."""

    verdict: RoundVerdict
    number: int  # The round to compute the next gradient for, or `NO_ROUND`


class Contribution(NamedTuple):
    """A worker's gradient in a round: the mean over `rows` rows, which the parameter servers have if `is_there`."""

    who: Who
    rows: int
    is_there: bool = False


_NOBODY = Who(-1, -1)


class Rounds:
    """The rounds of a run; closed at first.

    An update takes at most one gradient of each worker. A lost worker counts as one that has rows.

    Attributes:
        number: The current round, or the next one.
        phase: Its state.
        steps: Updates made.
        dropped: Gradients that were refused, or whose round was thrown away.
    """

    def __init__(self, wanted: int, workers: int) -> None:
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
        """The round's number, its gradients, and their rows."""
        return self.number, len(self._parts), sum(part.rows for part in self._parts.values())

    # ---- calls of the coordinator's loop ----

    def begin_epoch(self) -> None:
        """Assumes that every worker has rows."""
        self._dry.clear()

    def open(self, updates: int | None) -> None:
        """Lets workers make at most this many updates; None for no limit."""
        self._last = None if updates is None else self.steps + updates
        self._is_closing = False
        if self.phase is Phase.CLOSED:
            self.phase = self._next_phase

    def close(self) -> None:
        """Begins no further round; throws away one that is not full, since its last gradients may never come."""
        self._is_closing = True
        if self.phase is Phase.OPEN:
            self.phase = Phase.VOID if self._parts else Phase.CLOSED

    def succeed(self, worker: int, incarnation: int) -> None:
        """Accepts nothing more from earlier incarnations of a worker, and voids a round that has their gradient."""
        self._incarnations[worker] = incarnation
        self._dry.discard(worker)
        part = self._parts.get(worker)
        if part is not None and part.who.incarnation < incarnation:
            self._void()

    def finish(self) -> None:
        """Notes that the update of a full round was made, or that a void one was thrown away."""
        if self.phase is Phase.FULL:
            self.steps += 1
            self._made.update((worker, (part.who, self.number)) for worker, part in self._parts.items())
        else:
            self.dropped += len(self._parts)
        self.number += 1
        self._parts = {}
        self.phase = self._next_phase

    # ---- calls of workers ----

    def begin(self, who: Who, *, has_rows: bool) -> int:
        """Notes that a worker begins an execution; returns the round to compute a gradient for, or `NO_ROUND`."""
        key = who.worker, who.incarnation
        self._takes[key] = max(self._takes.get(key, 0), who.take)
        if self._is_over(who):
            return NO_ROUND
        if (part := self._parts.get(who.worker)) is not None:
            # The execution that brought it has broken off: its rows are never marked as trained.
            self._parts[who.worker] = part._replace(who=_NOBODY)
            self._void()
        if has_rows:
            self._dry.discard(who.worker)
        else:
            self._dry.add(who.worker)
            self._look()
        return self._number_now if has_rows else NO_ROUND

    def enter(self, who: Who, number: int, rows: int) -> bool:
        """Returns whether the round takes a worker's gradient, which the worker then has to bring."""
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
        """Notes that a worker's gradient has reached the parameter servers."""
        part = self._parts.get(who.worker)
        if part is not None and part.who == who and number == self.number:
            self._parts[who.worker] = part._replace(is_there=True)
            self._look()

    def outcome(self, who: Who, number: int) -> RoundOutcome:
        """Returns the fate of a worker's gradient for a round, whether it was let in or not."""
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
        """Whether the worker is lost, or the execution broke off and another one has taken its rows."""
        is_lost = who.incarnation < self._incarnations.get(who.worker, 0)
        return is_lost or 0 < who.take < self._takes.get((who.worker, who.incarnation), 0)

    def _void(self) -> None:
        if self.phase is Phase.OPEN:
            self.phase = Phase.VOID

    def _look(self) -> None:
        """Marks the round as full once all gradients that will come have arrived."""
        needed = max(min(self._wanted, self._workers - len(self._dry)), 1)
        parts = self._parts.values()
        if self.phase is Phase.OPEN and len(parts) >= needed and all(part.is_there for part in parts):
            self.phase = Phase.FULL
