"""The trainers of one attempt, training or running functions: messages, failures, ends, and orders to exit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from sparktf.driver.attempt.health import Failure, Failures, exit_text, loss
from sparktf.driver.attempt.members import Members, Trainer, speaker
from sparktf.driver.lifecycle import ATTEMPT, AttemptEvent, AttemptState, TrainerEvent, TrainerState, step
from sparktf.errors import ErrorRecord
from sparktf.wire.beats import Beats
from sparktf.wire.control import Ack, Failed, Heartbeat, Ready, StopOrder, TrainerExited, TrainerOrders
from sparktf.wire.sender import NodeMessage
from sparktf.wire.uploads import Finished


class Crew(ABC):
    """The common part of trainings and functions; not thread-safe, the caller holds the roster's lock.

    Attributes:
        number: Unique within the run.
        state: Where the attempt stands.
        trainers: By node.
    """

    def __init__(
        self,
        number: int,
        trainers: Sequence[Trainer],
        rhythm: Beats,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """Begins with every trainer launched.

        Args:
            rhythm: How often trainers are heard.
            clock: Monotonic seconds; `wall` gives those since the epoch.
        """
        self.number = number
        self.state = AttemptState.RUNNING
        self.trainers: Members = {t.node: t for t in trainers}
        self._rhythm = rhythm
        self._clock = clock
        self._wall = wall
        self._started_s = clock()
        self._failures = Failures()

    # ---- messages: each comes once, see `Answers` ----

    def hear(self, message: NodeMessage) -> Trainer:
        """Returns the trainer that sends a message, or that it is about, now heard. Raises as `speaker`."""
        trainer = speaker(message, self.number, self.trainers)
        trainer.heard_s = self._clock()
        return trainer

    def ready(self, message: Ready) -> Ack:
        trainer = self.hear(message)
        trainer.apply(TrainerEvent.READY)
        trainer.ready = message
        return Ack()

    def heartbeat(self, message: Heartbeat) -> TrainerOrders:
        trainer = self.hear(message)
        trainer.beat(message, trains=False)
        orders = (StopOrder(),) if self.is_stopped else ()
        return TrainerOrders(orders=orders, beat_s=self._rhythm.steady_s)

    def finished(self, message: Finished) -> Ack:
        trainer = self.hear(message)
        trainer.apply(TrainerEvent.FINISHED)
        trainer.finished = message
        return Ack()

    def failed(self, message: Failed) -> Ack:
        trainer = self.hear(message)
        trainer.apply(TrainerEvent.FAIL)
        if not (message.record.peer and self.state is AttemptState.STOPPED):  # then it was we who took its peers away
            self._lost(trainer, message.record.model_copy(update={"host": trainer.host}))
        return Ack()

    def exited(self, message: TrainerExited) -> None:
        """A trainer's process ended: an unexpected end is a failure; its log is kept with the failure it reported.

        Raises:
            RefusedError: it has ended before, or counts as lost.
        """
        log = exit_facts(message)
        trainer = self.hear(message)
        told = self._failures.add_log(str(trainer.node), log)
        if not told and self.state is not AttemptState.STOPPED:
            record = loss(trainer, f"exited with {exit_text(message.exit_code)}", message.time_s)
            self._lost(trainer, record.model_copy(update=log))
        trainer.apply(TrainerEvent.EXIT)

    def agent_lost(self, agent: str, what: str, log: str = "", *, taken_back: bool = False) -> None:
        """The agent of a trainer is lost, and the trainer with it: that explains more than the trainer's own silence.

        Args:
            log: Where its executor's log is.
            taken_back: The cluster manager took its executor back.
        """
        for trainer in self.trainers.values():
            ends = trainer.state is not TrainerState.EXITED
            if trainer.agent == agent and (ends or self._is_unexplained(trainer)):
                heard_ago_s = self._clock() - trainer.heard_s
                record = loss(trainer, what, self._wall() - heard_ago_s)
                record = record.model_copy(update={"log": log, "taken_back": taken_back})
                was_cause = self._failures.forget_silence(str(trainer.node))
                self._lost(trainer, record)
                if was_cause and self.state is not AttemptState.RUNNING and not self._failures.told:
                    self.fail(record)  # nobody goes on any more
                if ends:
                    trainer.apply(TrainerEvent.EXIT)

    # ---- decisions ----

    @property
    def failures(self) -> list[ErrorRecord]:
        """All failures, in the order of their reports."""
        return [failure.record for failure in self._failures.told]

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether all work is done, and nothing failed."""

    @property
    def is_stopped(self) -> bool:
        """Whether trainers are told to exit."""
        return self.state in (AttemptState.STOPPED, AttemptState.RELEASED)

    def stop(self) -> None:
        """Tells every trainer that asks to exit from now on, and expects exits."""
        self._take(AttemptEvent.STOP)

    def fail(self, record: ErrorRecord) -> None:
        """Notes a failure."""
        self._failures.note(Failure(record, self._clock()))

    # ---- what differs ----

    @abstractmethod
    def _lost(self, trainer: Trainer, record: ErrorRecord) -> None:
        """Notes that a trainer has failed, ended or was lost, with the known cause."""

    def _is_unexplained(self, trainer: Trainer) -> bool:
        """Whether a trainer has ended, and only its silence is known."""
        del trainer
        return False

    # ---- inside ----

    def _take(self, event: AttemptEvent) -> None:
        self.state = step(ATTEMPT, self.state, event, f"attempt {self.number}")


def exit_facts(message: TrainerExited) -> dict[str, Any]:
    """Returns the `ErrorRecord` fields of a process that has ended."""
    return {"log": message.log, "log_tail": message.log_tail, "exit_code": message.exit_code}
