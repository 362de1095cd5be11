"""Where an attempt stands and what ended it: functions of what was seen of its trainers, and of the time."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sparktf.config.job import TimeoutsConfig
from sparktf.errors import ErrorRecord
from sparktf.lifecycle import TRAINER, TrainerEvent, TrainerState, step
from sparktf.topology import NodeId
from sparktf.wire.control import Finished, Progress, Ready

_SETTLE_S = 1.0
"""After a failure: so long other nodes may still report one that happened earlier. Some heartbeats fit into it."""


_LEFT_BEHIND_S = 60.0
"""So long a trainer may stand still once another one has left its loop: more than a call or an evaluation takes."""


class Outcome(enum.Enum):
    """Where an attempt stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(slots=True)
class Trainer:
    """One trainer as the driver sees it.

    Attributes:
        incarnation: Which of the trainers that its node has had in the attempt.
        heard_s: When it last said anything.
        moved_s: When it last said that it had come further.
    """

    node: NodeId
    agent: str
    host: str
    heard_s: float
    moved_s: float
    state: TrainerState = TrainerState.LAUNCHED
    incarnation: int = 0
    progress: Progress = field(default_factory=Progress)
    ready: Ready | None = None
    finished: Finished | None = None

    def take(self, event: TrainerEvent) -> None:
        self.state = step(TRAINER, self.state, event, str(self.node))

    def advance(self, new: Progress) -> None:
        """Notes where it is. What was under way for longer than something newer does not count: it never goes back."""
        old = self.progress
        if (old.step, old.phase) != (new.step, new.phase):
            self.moved_s = self.heard_s
        if (new.epoch, new.step) < (old.epoch, old.step):
            return
        self.progress = new
        if new.step > old.step and self.state in (TrainerState.READY, TrainerState.TRAINING):
            self.take(TrainerEvent.PROGRESS)

    @property
    def is_expected(self) -> bool:
        """Whether more is to be heard of it: it has neither failed nor ended."""
        return self.state not in (TrainerState.FAILED, TrainerState.EXITED)


class Failure(NamedTuple):
    """A failure, and when the driver learned of it.

    Attributes:
        is_silence: Nobody told it: the driver waited in vain.
    """

    record: ErrorRecord
    noted_s: float
    is_silence: bool = False


class Lateness(NamedTuple):
    """What is wrong with a trainer that says nothing of it, and since when."""

    trainer: Trainer
    what: str
    since_s: float


def decide(
    trainers: Sequence[Trainer],
    failures: Sequence[Failure],
    now_s: float,
    silence_s: float,
) -> Outcome:
    """Returns where an attempt stands.

    A failure ends it after a moment in which other nodes may report an earlier one. Where only peers of a lost node
    have spoken, it lasts until the lost one is found: until every node has been heard since, or is silent for so long
    that it counts as lost.
    """
    if not failures:
        done = all(trainer.state is TrainerState.FINISHED for trainer in trainers)
        return Outcome.DONE if done else Outcome.RUNNING
    if own := [f.noted_s for f in failures if not f.record.peer]:
        return Outcome.FAILED if now_s - min(own) >= _SETTLE_S else Outcome.RUNNING
    settled_s = min(f.noted_s for f in failures) + _SETTLE_S
    missing = any(trainer.is_expected and trainer.heard_s < settled_s for trainer in trainers)
    limit_s = settled_s + silence_s if missing else settled_s
    return Outcome.FAILED if now_s >= limit_s else Outcome.RUNNING


def late(
    trainers: Iterable[Trainer], now_s: float, started_s: float, fed_s: float, timeouts: TimeoutsConfig
) -> Iterator[Lateness]:
    """Yields the trainers that a timeout has passed for, while nothing else is known to be wrong.

    Args:
        started_s: When the attempt was.
        fed_s: Trainers that wait for Spark to compute their rows are not stuck while it does: when it last gave some.
    """
    for trainer in trainers:
        if trainer.state is TrainerState.LAUNCHED:
            if now_s - started_s > timeouts.start:
                yield Lateness(trainer, f"was not ready within timeouts.start: {timeouts.start:g} s", now_s)
        elif trainer.state in (TrainerState.READY, TrainerState.TRAINING):
            if now_s - trainer.heard_s > timeouts.heartbeat:
                yield _silence(trainer, timeouts.heartbeat)
            elif now_s - max(trainer.moved_s, fed_s) > timeouts.progress:
                what = f"made no progress within timeouts.progress: {timeouts.progress:g} s"
                yield Lateness(trainer, what, now_s)


def left_behind(trainers: Iterable[Trainer], now_s: float, fed_s: float, timeouts: TimeoutsConfig) -> str | None:
    """Returns what is wrong with a hand-written loop that one trainer has left while another one waits for it.

    Args:
        fed_s: As for `late`.
    """
    trainers = list(trainers)
    gone = next((t for t in trainers if t.finished is not None and t.finished.early), None)
    if gone is None or gone.finished is None:
        return None
    limit_s = min(_LEFT_BEHIND_S, timeouts.progress)
    for trainer in trainers:
        still = trainer.state in (TrainerState.READY, TrainerState.TRAINING)
        if still and now_s - max(trainer.moved_s, gone.moved_s, fed_s) > limit_s:
            return (
                f"train(node) has returned on {gone.node} at step {gone.finished.step}, with epochs left, and "
                f"{trainer.node} waits at step {trainer.progress.step}: leave the loop on all nodes at the same step"
            )
    return None


def silent(trainers: Iterable[Trainer], now_s: float, silence_s: float) -> Iterator[Lateness]:
    """Yields the trainers that are silent, whatever they were at: one is what their peers have lost."""
    for trainer in trainers:
        if trainer.is_expected and now_s - trainer.heard_s > silence_s:
            yield _silence(trainer, silence_s)


def root_cause(failures: Iterable[ErrorRecord]) -> ErrorRecord:
    """Returns the earliest failure that is not merely the loss of a peer, or else the earliest of all."""
    return min(failures, key=lambda f: (f.peer, f.time_s))


def _silence(trainer: Trainer, silence_s: float) -> Lateness:
    return Lateness(trainer, f"was silent for {silence_s:g} s", trainer.heard_s)
