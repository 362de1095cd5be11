"""The time limit of a run, a time of day or a number of seconds, and the work that has to fit into it."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol, Self

from sparktf.knobs import KNOBS
from sparktf.message import Message

_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})\s+(\S+)")
_WORTH_SAYING_S = 1.0

_REMEDIES = {"deadline": "set a later one, or submit the run earlier", "max_seconds": "set a greater one"}


class TimeOfDay(NamedTuple):
    """A time of day in a time zone."""

    time: dt.time
    zone: zoneinfo.ZoneInfo

    @classmethod
    def of(cls, text: str) -> Self:
        """Returns the time of a text like `06:00 Europe/Berlin`. Raises `ValueError` if it is invalid."""
        found = _TIME_OF_DAY.fullmatch(text.strip())
        if found is None or int(found[1]) > 23 or int(found[2]) > 59:
            raise ValueError(f"{text!r} is not a time of day with a time zone: write 06:00 Europe/Berlin")
        try:
            return cls(dt.time(int(found[1]), int(found[2])), zoneinfo.ZoneInfo(found[3]))
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{found[3]} is not a known time zone: write Europe/Berlin, or UTC") from None

    def after(self, wall_s: float) -> float:
        """Returns the next such time, in seconds since 1970.

        When clocks are put back, the first of two counts; a time that they skip is shifted by the same amount.
        """
        day = dt.datetime.fromtimestamp(wall_s, self.zone).date()
        while (found := dt.datetime.combine(day, self.time, self.zone).timestamp()) <= wall_s:
            day += dt.timedelta(days=1)
        return found


class TimeLimit(Message):
    """The time left for a run, from the moment that it was told."""

    reason: Literal["deadline", "max_seconds"]
    said: str  # The setting, for people
    left_s: float
    before_s: float = 0.0  # The longest time that earlier runs of the name took after their training; 0 if unknown


class Ending(Message):
    """Time that the end of a run's training took, in seconds, as the leading trainer measured it."""

    evaluation_s: float = 0.0  # The longest evaluation
    checkpoint_s: float = 0.0  # The longest writing and storing of a checkpoint
    total_s: float = 0.0  # From the last update on: checkpoint, evaluation and export


class TimeSettings(Protocol):
    """The settings of `train` that limit a run's time."""

    @property
    def deadline(self) -> str | None: ...
    @property
    def max_seconds(self) -> float | None: ...
    @property
    def reserve(self) -> float | None: ...


def time_limit(
    train: TimeSettings, started_s: float, now_s: float, before_s: Callable[[], float] = lambda: 0.0
) -> TimeLimit | None:
    """Returns the time left of a run by the earlier limit; None without a limit.

    Args:
        started_s: When the run was submitted, in seconds since 1970, as `now_s`.
        before_s: Returns how long the end of earlier runs took; called only without `train.reserve`.
    """
    limits = []
    if train.deadline is not None:
        left_s = TimeOfDay.of(train.deadline).after(started_s) - now_s
        limits.append(TimeLimit(reason="deadline", said=f"train.deadline: {train.deadline}", left_s=left_s))
    if train.max_seconds is not None:
        left_s = started_s + train.max_seconds - now_s
        limits.append(TimeLimit(reason="max_seconds", said=f"train.max_seconds: {train.max_seconds:g}", left_s=left_s))
    first = min(limits, key=lambda limit: limit.left_s, default=None)
    return first if first is None or train.reserve is not None else first.model_copy(update={"before_s": before_s()})


class Took(NamedTuple):
    """The longest times so far, in seconds; 0 for none yet."""

    call_s: float = 0.0  # A call into TensorFlow, which cannot be interrupted
    evaluation_s: float = 0.0
    checkpoint_s: float = 0.0  # Writing and storing a checkpoint, about as long as a model takes
    before_s: float = 0.0  # All that followed the training of an earlier run of the name


def reserve_s(stated_s: float | None, took: Took) -> float:
    """Returns the time to leave for the work after the training; `stated_s` is `train.reserve`."""
    if stated_s is not None:
        return stated_s
    # A last checkpoint, and a model: half as much again, since a busy cluster is slower at times. The times of earlier
    # runs are known from the first epoch on, and include comparing and publishing, which no attempt measures.
    own_s = KNOBS.publish_s + 1.5 * (took.evaluation_s + 2 * took.checkpoint_s)
    return max(own_s, 1.5 * took.before_s)


def is_time_up(left_s: float, stated_s: float | None, took: Took) -> bool:
    """Whether another call would leave too little time; `stated_s` is `train.reserve`."""
    return left_s - took.call_s < reserve_s(stated_s, took)


def no_time_left(limit: TimeLimit, stated_s: float | None, spent_s: Mapping[str, float]) -> str | None:
    """Returns why no time is left to train, and which phases took it (`spent_s`); None if some is left.

    `stated_s` is `train.reserve`.
    """
    needed_s = reserve_s(stated_s, Took(before_s=limit.before_s))
    return None if limit.left_s >= needed_s else no_time(limit, limit.left_s, stated_s, needed_s, spent_s)


def no_time(
    limit: TimeLimit, left_s: float, stated_s: float | None, needed_s: float, spent_s: Mapping[str, float]
) -> str:
    """Returns the message of a run whose time is up before it has trained, as `no_time_left`."""
    went = sorted(((s, phase) for phase, s in spent_s.items() if s >= _WORTH_SAYING_S), reverse=True)
    took = f" ({', '.join(f'{phase} took {s:.0f} s' for s, phase in went)})" if went else ""
    left, remedy = f"it was over {-left_s:.0f} s ago", _REMEDIES[limit.reason]
    if left_s >= 0:
        left = f"{left_s:.0f} s are left, and {needed_s:.0f} s are kept for what comes after it"
        remedy += "" if stated_s is None else ", or a lower train.reserve"
    return f"{limit.said} leaves no time to train: {left}{took}: {remedy}"
