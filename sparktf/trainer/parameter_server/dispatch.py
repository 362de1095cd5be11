"""Decides the coordinator's next action: a function of the training's state and of time."""

from __future__ import annotations

from typing import NamedTuple

IN_FLIGHT = 3
"""Executions in flight for each worker: one runs while the others wait at the worker."""


class EpochState(NamedTuple):
    """The state of an epoch's training."""

    rows_left: int  # Rows of the epoch without a receipt
    budgets: tuple[int, ...]  # The most updates of each execution in flight
    late: int  # Updates that abandoned executions may still make
    workers: int  # Workers that can be given work
    until_end: int | None  # Updates until the run's last one; None for no limit
    until_save: int | None  # Updates until a checkpoint is due by steps; None for no such rule
    # Updates are aggregated: executions contribute to the same ones, so that budgets do not add up
    together: bool = False
    save: bool = False  # A checkpoint is due for another reason
    rested_s: float = 0.0  # Seconds of rest in which nothing was sent or came back

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to train."""
        return self.rows_left <= 0 or (self.until_end is not None and self.until_end <= 0)

    @property
    def is_save_due(self) -> bool:
        """Whether a checkpoint is due before further training."""
        return self.save or (self.until_save is not None and self.until_save <= 0)

    @property
    def spare(self) -> int | None:
        """Updates that may still be sent before the end or a checkpoint; None for any number."""
        busy, late = (0, 0) if self.together else (sum(self.budgets), self.late)
        before_end = None if self.until_end is None else self.until_end - busy - late
        before_save = None if self.until_save is None else self.until_save - busy
        return min((limit for limit in (before_end, before_save) if limit is not None), default=None)


class Pace(NamedTuple):
    """Sizes of executions."""

    batch_size: int  # Rows of an update
    call_steps: int  # Updates of one execution
    drain_s: float  # The longest wait for executions in flight while nothing is sent


class Send(NamedTuple):
    """Send an execution of at most this many updates."""

    updates: int


class Await(NamedTuple):
    """Wait for results and for workers."""


class Rest(NamedTuple):
    """Send nothing more until all executions in flight have come back."""


class Abandon(NamedTuple):
    """Wait no longer for executions in flight: a worker is frozen, or its host is gone."""


class SaveNow(NamedTuple):
    """Write a checkpoint."""


class End(NamedTuple):
    """End the epoch, or the run."""


DispatchDecision = Send | Await | Rest | Abandon | SaveNow | End


def decide(course: EpochState, pace: Pace) -> DispatchDecision:
    """Returns the next action; called after each action, and whenever a result has come."""
    spare, count = course.spare, len(course.budgets)
    if course.is_over or course.is_save_due:
        if count:
            return _rest(course, pace)
        return End() if course.is_over else SaveNow()
    if spare is not None and spare <= 0:
        return _rest(course, pace)  # even with nothing in flight: abandoned executions may still make updates
    if count >= IN_FLIGHT * course.workers or _is_enough(course, pace):
        return Await()
    if spare is None:
        return Send(pace.call_steps)
    # The updates left before a limit are shared, so that all workers reach it at about the same time.
    return Send(min(pace.call_steps, spare if course.together else -(-spare // course.workers)))


def next_call_steps(before: int, most: int, *, steps: int, seconds: float, workers: int, call_s: float) -> int:
    """Returns the updates of an execution that takes about `call_s`.

    Args:
        before: The number so far.
        most: `train.steps_per_call`.
        steps: Updates that all workers made in `seconds`.
    """
    wanted = int(call_s * steps / max(seconds, 1e-6) / max(workers, 1))
    return max(1, min(most, wanted, 4 * before))


def _rest(course: EpochState, pace: Pace) -> Rest | Abandon:
    return Abandon() if course.rested_s >= pace.drain_s else Rest()


def _is_enough(course: EpochState, pace: Pace) -> bool:
    """Whether the executions in flight could train all rows that are left, with one for each worker to wait for rows.

    More would come back empty at the epoch's end.
    """
    needed = -(-course.rows_left // pace.batch_size)
    return len(course.budgets) >= course.workers and sum(course.budgets) >= needed
