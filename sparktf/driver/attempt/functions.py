"""Functions on the nodes of a gang: a discipline without steps, shares or checkpoints.

Each node runs its function once. A node lost before its function has returned ends all of them; so does an error of a
function. They are done when all working nodes have returned: servers serve while others work, and so does any node
whose function is within `join()` of one of TensorFlow's servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.attempt.crew import Crew
from sparktf.driver.attempt.health import Failure, Now, Outcome, Since, decide, loss, missed
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.restart import root_cause
from sparktf.driver.lifecycle import AttemptEvent, AttemptState, TrainerState
from sparktf.errors import ErrorRecord
from sparktf.topology import NodeId
from sparktf.wire.beats import Beats
from sparktf.wire.guest import Deal, DealRequest, GuestNode, GuestPlace

ATTEMPT = 1
"""There is only one: a failure ends a program."""

LIMITS = "spark.sparktf.timeouts."
"""Beginning of the settings of Spark that are a program's time limits, which has no configuration."""

SERVES = "serving"
"""Phase of a node whose function is within a server's `join()`, which never returns."""

SERVING = ("ps", "evaluator")
"""Jobs whose functions serve others: they take no rows, and are not waited for."""


class Functions(Crew):
    """The nodes of one program; see `Crew`.

    Attributes:
        guests: The identity of each node for its function.
    """

    def __init__(
        self,
        guests: Mapping[NodeId, GuestNode],
        trainers: Sequence[Trainer],
        timeouts: TimeoutsConfig,
        rhythm: Beats,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """Begins with every function about to start; see `Crew`."""
        super().__init__(ATTEMPT, trainers, rhythm, clock, wall)
        self.guests = dict(guests)
        self._timeouts = timeouts.model_copy(update={"heartbeat": rhythm.silence_s})
        self._fed = [node for node, guest in guests.items() if guest.is_fed]
        self._dealt = 0

    # ---- decisions ----

    def look(self) -> Outcome:
        """Looks for nodes that are late, then returns the state of the functions."""
        now, told, trainers = Now(self._clock(), self._wall()), self._failures.told, self.trainers.values()
        since = Since(self._started_s, now.s)
        unfinished = [trainer for trainer in trainers if trainer.finished is None]  # others are no cause of anything
        for late in missed(unfinished, told, now, since, self._timeouts, ()):
            record = loss(late.trainer, _with_setting(late.what), now.wall_s - (now.s - late.since_s))
            self._failures.note(Failure(record, now.s, is_silence=True, heard_s=late.trainer.heard_s))
        outcome = decide(trainers, told, now.s, self._timeouts.heartbeat, done=self.is_done)
        if outcome is Outcome.FAILED and self.state is AttemptState.RUNNING:
            self._take(AttemptEvent.FAILED)
        return outcome

    @property
    def is_ready(self) -> bool:
        """Whether all functions have begun."""
        return all(trainer.ready is not None for trainer in self.trainers.values())

    @property
    def is_done(self) -> bool:
        """Whether all functions but those of servers have returned, and nothing failed."""
        return not self.failures and not self.unreturned

    @property
    def unreturned(self) -> list[Trainer]:
        """The nodes that are waited for."""
        working = (self.trainers[node] for node in self._working())
        return [trainer for trainer in working if trainer.finished is None and trainer.progress.phase != SERVES]

    @property
    def is_over(self) -> bool:
        """Whether all functions have returned."""
        return all(trainer.finished is not None for trainer in self.trainers.values())

    @property
    def cause(self) -> ErrorRecord | None:
        """The first failure; None while there is none, or an earlier one may still be reported."""
        has_failed = self.state in (AttemptState.FAILED, AttemptState.STOPPED)
        return root_cause(self.failures) if has_failed and self.failures else None

    def _lost(self, trainer: Trainer, record: ErrorRecord) -> None:
        if trainer.finished is None or trainer.state is TrainerState.FAILED:
            self._failures.note(Failure(record, self._clock(), heard_s=trainer.heard_s))

    def _working(self) -> list[NodeId]:
        return [node for node, guest in self.guests.items() if guest.job not in SERVING]

    # ---- who takes rows ----

    def deal(self, message: DealRequest) -> Deal:
        """Returns the node that gets the first of some rows: over all feeders, each node gets equally many.

        It says why the functions have ended, too: feeders ask what became of a node that they wait for.
        """
        takers = max(len(self.places()), 1)
        first, self._dealt = self._dealt, (self._dealt + message.rows) % takers
        return Deal(first=first, is_over=not self.wants_rows, cause=self.cause)

    @property
    def wants_rows(self) -> bool:
        """Whether a node that takes rows still works."""
        return any(self.trainers[node].finished is None for node in self._fed)

    def places(self) -> tuple[GuestPlace, ...]:
        """Returns the addresses that take rows, by the nodes' numbers."""
        found = []
        for node in self._fed:
            trainer, number = self.trainers[node], self.guests[node].number
            if trainer.ready is not None and trainer.ready.data is not None:
                place = GuestPlace(number=number, host=trainer.host, jvm=trainer.jvm, data=trainer.ready.data)
                found.append(place)
        return tuple(sorted(found, key=lambda place: place.number))


def _with_setting(what: str) -> str:
    """Returns why a node is late, with the setting that gives it more time."""
    named = what.replace("timeouts.", LIMITS)
    return named if named != what else f"{what} ({LIMITS}heartbeat)"
