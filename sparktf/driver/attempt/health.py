"""The health of an attempt: functions of the observations of its trainers, and of the time."""

from __future__ import annotations

import enum
import signal
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sparktf.config.job import JobConfig
from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.lifecycle import TrainerState
from sparktf.errors import ErrorRecord, Verdict
from sparktf.knobs import KNOBS
from sparktf.topology import NodeId
from sparktf.wire.beats import Beats, beats


class Outcome(enum.Enum):
    """Where an attempt stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Now(NamedTuple):
    """One moment, in monotonic seconds and in seconds since 1970."""

    s: float
    wall_s: float


class Since(NamedTuple):
    """Times before which a trainer is not late."""

    started_s: float  # The attempt's start
    fed_s: float  # When Spark last gave rows, or had given all: trainers that wait for it are not stuck
    held_up: Container[NodeId] = ()  # Nodes whose silence may be that of a lost one, for which they wait


class Failure(NamedTuple):
    """A failure, and when the driver learned of it."""

    record: ErrorRecord
    noted_s: float
    is_silence: bool = False  # The driver concluded it from silence
    heard_s: float = 0.0  # When the silent node was last heard


class Failures:
    """The failures of an attempt, in the order of their reports.

    Attributes:
        told: All of them.
    """

    def __init__(self) -> None:
        self.told: list[Failure] = []

    def note(self, failure: Failure) -> None:
        """Notes one, unless another node has told the same."""
        if failure.record not in [told.record for told in self.told]:
            self.told.append(failure)

    def add_log(self, node: str, log: dict[str, Any]) -> bool:
        """Adds a process's exit code and log to its node's failures; returns whether there are any."""
        known = [f.record.node == node and f.record.exit_code is None for f in self.told]
        self.told = [
            f._replace(record=f.record.model_copy(update=log)) if found else f
            for f, found in zip(self.told, known, strict=True)
        ]
        return any(known)

    def forget_silence(self, node: str) -> bool:
        """Drops a node's silence as a failure, as more is known now; returns whether it was one."""
        before, self.told = self.told, [f for f in self.told if not (f.is_silence and f.record.node == node)]
        return len(self.told) < len(before)


class Lateness(NamedTuple):
    """Why a trainer that reports no failure is late, and since when."""

    trainer: Trainer
    what: str
    since_s: float
    stands_still: bool = False  # It is heard, and makes no progress


def rhythm_of(config: JobConfig) -> Beats:
    """Returns how often the nodes of a run's gang are heard, and the longest silence allowed."""
    timeouts = config.timeouts
    return beats(config.cluster.nodes, heartbeat_s=timeouts.heartbeat, driver_lost_s=timeouts.driver_lost)


def decide(
    trainers: Iterable[Trainer], failures: Sequence[Failure], now_s: float, silence_s: float, *, done: bool
) -> Outcome:
    """Returns the state of an attempt.

    A failure ends it after a moment in which other nodes may report an earlier one, or at once if all have failed or
    ended. Where only peers of a lost node have reported, it lasts until the lost one is found: until every node has
    been heard since, or counts as lost by its silence.

    Args:
        done: Whether its work is done, if nothing has failed.
    """
    if not failures:
        return Outcome.DONE if done else Outcome.RUNNING
    expected = [trainer for trainer in trainers if trainer.is_expected]
    if not expected:
        return Outcome.FAILED
    if own := [f.noted_s for f in failures if not f.record.peer]:
        return Outcome.FAILED if now_s - min(own) >= KNOBS.settle_s else Outcome.RUNNING
    settled_s = min(f.noted_s for f in failures) + KNOBS.settle_s
    missing = any(trainer.heard_s < settled_s for trainer in expected)
    limit_s = settled_s + silence_s if missing else settled_s
    return Outcome.FAILED if now_s >= limit_s else Outcome.RUNNING


def missed(
    trainers: Iterable[Trainer],
    failures: Sequence[Failure],
    now: Now,
    since: Since,
    timeouts: TimeoutsConfig,
    movers: Container[NodeId],
) -> list[Lateness]:
    """Returns the trainers that report nothing, or no progress, while no other node is known to be the cause.

    A node may be silent because it waits for one that has fallen silent before it.

    Args:
        movers: See `late`.
    """
    if not failures:
        return list(late(trainers, now.s, since, timeouts, movers))
    if all(failure.record.peer or failure.is_silence for failure in failures):
        return list(silent(trainers, now.s, timeouts.heartbeat))
    return []


def late(
    trainers: Iterable[Trainer], now_s: float, since: Since, timeouts: TimeoutsConfig, movers: Container[NodeId]
) -> Iterator[Lateness]:
    """Yields the trainers that have passed a timeout, while nothing else is known to be wrong.

    Args:
        movers: The nodes that make the run's steps: others may have nothing to do.
    """
    for trainer in trainers:
        if trainer.state is TrainerState.LAUNCHED:
            if now_s - max(since.started_s, trainer.launched_s) > timeouts.start:
                yield Lateness(trainer, f"was not ready within timeouts.start: {timeouts.start:g} s", now_s)
        elif trainer.is_at_work:
            if now_s - trainer.heard_s > timeouts.heartbeat:
                if trainer.node not in since.held_up:
                    yield _silence(trainer, timeouts.heartbeat)
            elif trainer.node in movers and now_s - max(trainer.moved_s, since.fed_s) > timeouts.progress:
                what = f"made no progress within timeouts.progress: {timeouts.progress:g} s"
                yield Lateness(trainer, what, now_s, stands_still=True)


def silent(trainers: Iterable[Trainer], now_s: float, silence_s: float) -> Iterator[Lateness]:
    """Yields the trainers that are silent, in any phase: one of them is the lost peer that others report."""
    for trainer in trainers:
        if trainer.is_expected and now_s - trainer.heard_s > silence_s:
            yield _silence(trainer, silence_s)


def gone(trainers: Iterable[Trainer], now_s: float, beat_s: float) -> Iterator[Lateness]:
    """Yields those of some trainers that have ended: their peers have seen that, and nothing is heard of them.

    One that lives, and closes its connections since it has lost somebody itself, says so at once.

    Args:
        trainers: Those that have closed their connections.
        beat_s: Interval of their heartbeats.
    """
    silence_s = KNOBS.closed_beats * beat_s
    for trainer in trainers:
        if trainer.is_at_work and now_s - trainer.heard_s > silence_s:
            yield Lateness(trainer, f"has closed its connections, and was silent for {silence_s:g} s", trainer.heard_s)


def left_behind(trainers: Iterable[Trainer], now: Now, fed_s: float, timeouts: TimeoutsConfig) -> ErrorRecord | None:
    """Returns the error of a hand-written loop that one trainer has left while another one waits for it, if any.

    Args:
        fed_s: As of `Since`.
    """
    trainers = list(trainers)
    gone = next((t for t in trainers if t.finished is not None and t.finished.early), None)
    if gone is None or gone.finished is None:
        return None
    limit_s = min(KNOBS.left_behind_s, timeouts.progress)
    for trainer in trainers:
        if trainer.is_at_work and now.s - max(trainer.moved_s, gone.moved_s, fed_s) > limit_s:
            what = (
                f"train(node) returned on {gone.node} at step {gone.finished.step} before its last epoch, while "
                f"{trainer.node} waits at step {trainer.progress.step}: leave the loop at the same step on all nodes"
            )
            return ErrorRecord(type="ModelError", message=what, verdict=Verdict.MODEL_FAILED, time_s=now.wall_s)
    return None


def loss(trainer: Trainer, what: str, time_s: float) -> ErrorRecord:
    """Returns the failure of a trainer that is gone or counts as gone."""
    return ErrorRecord(
        type="NodeLostError",
        message=f"{trainer.node} on {trainer.host} {what}",
        verdict=Verdict.INFRASTRUCTURE,
        time_s=time_s,
        node=str(trainer.node),
        host=trainer.host,
    )


def exit_text(exit_code: int) -> str:
    """Returns an exit code as people read it: "-9 (SIGKILL)"."""
    if exit_code >= 0:
        return str(exit_code)
    try:
        return f"{exit_code} ({signal.Signals(-exit_code).name})"
    except ValueError:
        return str(exit_code)


def _silence(trainer: Trainer, silence_s: float) -> Lateness:
    return Lateness(trainer, f"was silent for {silence_s:g} s", trainer.heard_s)
