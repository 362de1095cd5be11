"""Chooses the executions that measure where their time goes: one in eight, which costs next to nothing.

At first all measure, so that training need not wait for a second function to be traced, and a short run has figures
too. If tracing takes long, all measure to the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any

ONE_IN = 8
_GOLDEN = (5**0.5 - 1) / 2
"""The fractional parts of its multiples are even and have no period (a low-discrepancy sequence): workers that are
given executions in turn are measured equally often."""
_WORTH = 5
"""Trace once training has taken this many times as long as tracing: the plain function saves a small model a fifth."""
_LONG_S = 2.0
"""A function that takes longer to trace belongs to a large model, whose updates dwarf the cost of measuring."""


def is_measured(number: int, since_new: int, first: int) -> bool:
    """Whether an execution measures.

    Args:
        since_new: Executions sent since the last worker joined.
        first: Executions sent at once: those that follow a join may be the new worker's first.
    """
    return since_new < first or number * _GOLDEN % 1 < 1 / ONE_IN


def is_worth_tracing(trained_s: float, traced_s: float) -> bool:
    """Whether to trace the plain function now, given the seconds of training so far and of the first tracing."""
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
            trace: Traces the plain function.
            traced_s: Seconds that tracing `measured` took.
            first: See `is_measured`.
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
        """Returns the function for the next execution; `workers` changes when a worker joins."""
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
