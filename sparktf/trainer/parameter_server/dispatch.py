"""What the coordinator does next: a function of where the training is and of the time. Nothing here does it."""

from __future__ import annotations

from typing import NamedTuple

IN_FLIGHT = 3
"""Executions that are under way for each worker: one runs, and others are there when it ends."""


class EpochState(NamedTuple):
    """Where an epoch's training is.

    Attributes:
        rows_left: Rows of the epoch that nobody has told of yet.
        budgets: Of each execution that is under way, how many updates it may make.
        late: Updates that executions may still make which nobody waits for any more.
        workers: How many can be given work.
        until_end: Updates until the run's last one, None where there is no such limit.
        until_save: Updates until a checkpoint is due by steps, None where there is no such rule.
        together: Executions make the same updates, each a part of them: their budgets do not add up.
        save: A checkpoint is due, whatever the steps.
        rested_s: How long nothing has been sent out, nor come back, since that was decided.
    """

    rows_left: int
    budgets: tuple[int, ...]
    late: int
    workers: int
    until_end: int | None
    until_save: int | None
    together: bool = False
    save: bool = False
    rested_s: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be trained any more."""
        return self.rows_left <= 0 or (self.until_end is not None and self.until_end <= 0)

    @property
    def is_save_due(self) -> bool:
        """Whether a checkpoint is to be written before anything is trained."""
        return self.save or (self.until_save is not None and self.until_save <= 0)

    @property
    def spare(self) -> int | None:
        """Updates that may still be sent out before the end or a checkpoint; None for any number."""
        busy, late = (0, 0) if self.together else (sum(self.budgets), self.late)
        before_end = None if self.until_end is None else self.until_end - busy - late
        before_save = None if self.until_save is None else self.until_save - busy
        return min((limit for limit in (before_end, before_save) if limit is not None), default=None)


class Pace(NamedTuple):
    """Sizes of what is sent out.

    Attributes:
        batch_size: Rows of an update.
        call_steps: Updates of one execution.
        drain_s: So long it is waited for something to come back, where nothing is sent out.
    """

    batch_size: int
    call_steps: int
    drain_s: float


class Send(NamedTuple):
    """An execution is sent out, which may make so many updates."""

    updates: int


class Await(NamedTuple):
    """It is waited for what is under way, and for workers."""


class Rest(NamedTuple):
    """Nothing more is sent out until what is under way has come back."""


class Abandon(NamedTuple):
    """It is not waited any longer for what is under way: a worker is frozen, or its host is gone."""


class SaveNow(NamedTuple):
    """A checkpoint is written."""


class End(NamedTuple):
    """The epoch is over, or the run."""


DispatchDecision = Send | Await | Rest | Abandon | SaveNow | End


def decide(course: EpochState, pace: Pace) -> DispatchDecision:
    """Returns what to do next; it is asked again after each step, and whenever something has come back."""
    spare, count = course.spare, len(course.budgets)
    if course.is_over or course.is_save_due:
        if count:
            return _rest(course, pace)
        return End() if course.is_over else SaveNow()
    if spare is not None and spare <= 0:
        return _rest(course, pace)  # with nothing under way, too: what nobody waits for may still come
    if count >= IN_FLIGHT * course.workers or _is_enough(course, pace):
        return Await()
    if spare is None:
        return Send(pace.call_steps)
    # What is left before a limit is shared, so that all workers come to it at about the same time.
    return Send(min(pace.call_steps, spare if course.together else -(-spare // course.workers)))


def next_call_steps(before: int, most: int, *, steps: int, seconds: float, workers: int, call_s: float) -> int:
    """Returns how many updates an execution should have, which is to take about `call_s`.

    Args:
        before: How many it had.
        most: `train.steps_per_call`.
        steps: Updates that all workers have made in `seconds`.
    """
    wanted = int(call_s * steps / max(seconds, 1e-6) / max(workers, 1))
    return max(1, min(most, wanted, 4 * before))


def _rest(course: EpochState, pace: Pace) -> Rest | Abandon:
    return Abandon() if course.rested_s >= pace.drain_s else Rest()


def _is_enough(course: EpochState, pace: Pace) -> bool:
    """Whether what is under way could train all rows that are left, and each worker has something to wait for them in.

    More of it would be under way for nothing at the epoch's end.
    """
    needed = -(-course.rows_left // pace.batch_size)
    return len(course.budgets) >= course.workers and sum(course.budgets) >= needed
