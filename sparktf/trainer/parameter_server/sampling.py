"""Which executions measure where their time goes: enough of them for the figures, few enough to cost next to nothing.

All do until there is time to trace the function that does not: a run that is over by then has its figures, and none
begins later for it. Where tracing takes long, all do to the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any

ONE_IN = 8
"""Of so many executions one measures."""
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, without what is before the point, fall evenly between 0 and 1, and with no period: workers that
take their turns have one that measures as often as each other."""
_WORTH = 5
"""Tracing is worth its time once training has gone on for so many times as long: it saves a small model a fifth."""
_LONG_S = 2.0
"""A function that takes longer to trace is that of a large model, beside whose updates measuring is nothing."""


def is_measured(number: int, since_new: int, first: int) -> bool:
    """Whether an execution measures.

    Args:
        number: Of the execution.
        since_new: So many were sent out since some worker came.
        first: So many are sent out at once: those after a worker came may be its first ones.
    """
    return since_new < first or number * _GOLDEN % 1 < 1 / ONE_IN


def is_worth_tracing(trained_s: float, traced_s: float) -> bool:
    """Whether the other function is traced now.

    Args:
        trained_s: So long training has gone on.
        traced_s: So long tracing took the first time.
    """
    return traced_s <= _LONG_S and trained_s >= _WORTH * traced_s


class Sampling:
    """Chooses a function for each execution."""

    def __init__(
        self,
        measured: Any,
        trace: Callable[[], Any],
        *,
        traced_s: float,
        first: int,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Traces nothing yet.

        Args:
            measured: The function that measures.
            trace: Traces the one that does not.
            traced_s: So long that took for the function that measures.
            first: As of `is_measured`.
        """
        self._measured = measured
        self._plain: Any = None
        self._trace = trace
        self._traced_s = traced_s
        self._first = first
        self._now_s = now_s
        self._began_s: float | None = None
        self._workers: Hashable = None
        self._new = 0

    def choose(self, number: int, workers: Hashable) -> Any:
        """Returns the function of an execution.

        Args:
            number: Of the execution, one more each time.
            workers: Who they are.
        """
        now_s = self._now_s()
        self._began_s = now_s if self._began_s is None else self._began_s
        if workers != self._workers:
            self._workers, self._new = workers, number
        if is_measured(number, number - self._new, self._first):
            return self._measured
        if self._plain is None:
            if not is_worth_tracing(now_s - self._began_s, self._traced_s):
                return self._measured
            self._plain = self._trace()
        return self._plain
