"""The rows of one partition on their way through a guest's function, and who is late: functions of counts and time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from sparktf.told import count_in_words

MOST_ANSWERS, MOST_ANSWERS_NBYTES = 64 * 1024, 64 << 20
"""Upper bounds of unsent results: beyond them the function waits."""


@dataclass(slots=True)
class BroughtRows:
    """Rows that one call brings."""

    wants_answers: bool = False  # Whether each row has a result, which is sent back
    partition: int | None = None  # Of the RDD; None if unknown
    limit_s: float = math.inf  # `feed_timeout`: for the function to take rows, or give results
    rows: int = 0  # Number of rows so far
    left: int = 0  # Number of rows that are not taken yet; `owed` counts taken rows without a result
    owed: int = 0
    taken: int = 0
    given: int = 0  # Number of results so far
    has_ended: bool = False  # Whether no more rows come
    answers: list[Any] = field(default_factory=list)  # Results to be sent, and about how many bytes they have
    answers_nbytes: int = 0
    is_gone: bool = False  # Whether the caller has gone: further results are dropped
    lacks_room: bool = False  # Whether its next rows wait until others are taken
    since_s: float = 0.0  # When it began to wait for the function, if it does

    @property
    def is_answered(self) -> bool:
        """Whether all results are given."""
        return self.has_ended and not self.left and not self.owed

    @property
    def has_many(self) -> bool:
        """Whether the function is to wait until its results are sent."""
        return len(self.answers) >= MOST_ANSWERS or self.answers_nbytes >= MOST_ANSWERS_NBYTES

    @property
    def is_short(self) -> bool:
        """Whether the caller lacks results of rows that have come."""
        return self.wants_answers and not self.is_gone and self.given < self.rows

    @property
    def waits(self) -> bool:
        """Whether it is the function's turn: to take rows, or to give results."""
        return bool(self.left or self.owed or self.lacks_room)

    def due_in_s(self, moved_s: float, now_s: float) -> float:
        """Returns the seconds that the function has left; `moved_s`: when it last took rows or gave results."""
        return self.limit_s - (now_s - max(moved_s, self.since_s)) if self.waits else math.inf

    @property
    def in_words(self) -> str:
        """The rows and results, for people."""
        place = "a partition" if self.partition is None else f"partition {self.partition}"
        rows = f"the {'' if self.has_ended else 'first '}{count_in_words(self.rows, 'row')} of {place}"
        if self.wants_answers:
            return f"{count_in_words(self.given, 'result')} for {rows}"
        return f"{self.taken:,} of {rows}"


@dataclass(slots=True)
class Hands:
    """The threads of a function that have taken rows, and those that have given results."""

    takers: set[int] = field(default_factory=set)
    givers: set[int] = field(default_factory=set)

    def leaves_out(self, thread: int, *, others: bool) -> bool:
        """Whether results that are missing when a thread asks for the next rows will never come.

        They may where another thread gives them, which may not have begun to.

        Args:
            others: Whether the function has threads that have neither taken nor given.
        """
        alone = self.takers | self.givers == {thread}
        return alone and (bool(self.givers) or not others)
