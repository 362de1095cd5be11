"""Whether a gang goes on waiting, for its agents at the start and for its trainers at the end: functions of what is."""

from __future__ import annotations

import enum
from collections.abc import Set
from dataclasses import dataclass

from sparktf.knobs import KNOBS


class Next(enum.Enum):
    """What a gang that gathers does next."""

    WAIT = enum.auto()
    GO = enum.auto()
    GIVE_UP = enum.auto()


@dataclass(frozen=True, slots=True)
class Need:
    """How many agents an attempt waits for.

    Attributes:
        wanted: With so many it is whole.
        least: With so many it goes on at the deadline.
        spares: So many more are on their way, to choose from.
        deadline_s: Monotonic seconds.
    """

    wanted: int
    least: int
    spares: int
    deadline_s: float


def gathered(need: Need, idle: int, enough_since_s: float | None, now_s: float) -> Next:
    """Returns what follows from the agents that are free.

    Args:
        enough_since_s: When there were as many as wanted for the first time; None if there never were.
    """
    if idle >= need.wanted:
        waited_s = 0.0 if enough_since_s is None else now_s - enough_since_s
        if idle >= need.wanted + need.spares or waited_s >= KNOBS.spares_s:
            return Next.GO
    if now_s < need.deadline_s:
        return Next.WAIT
    return Next.GO if idle >= need.least else Next.GIVE_UP


def late_spares(chosen: Set[int], here: Set[int], free: Set[int]) -> Set[int]:
    """Returns the partitions of agents that came when the gang had been chosen, and that it has no use for.

    Args:
        chosen: The gang's partitions; none where there was no choice.
        here: Those of all agents there are.
        free: Those of them that have nothing to do.
    """
    return free - chosen if chosen and chosen <= here else frozenset()


def stopped(quiet: bool, deadline_s: float, now_s: float) -> Next:
    """Returns what follows once trainers are told to stop: GO as soon as none runs, else GIVE_UP at the deadline."""
    if quiet:
        return Next.GO
    return Next.WAIT if now_s <= deadline_s else Next.GIVE_UP
