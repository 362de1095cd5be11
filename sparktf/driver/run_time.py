"""The time of one run as its driver sees it: its begin, its phases, and its limit, if there is one."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from sparktf.clock import Clock, Stopwatch
from sparktf.errors import TimeUpError
from sparktf.results.time_limit import TimeLimit, TimeSettings, no_time_left, time_limit


class RunTime:
    """Begins with the run, in the phase `preflight`. For one thread."""

    def __init__(
        self,
        clock: Clock,
        train: TimeSettings,
        ending_s: Callable[[], float],
        committed: Callable[[], Sequence[int]],
    ) -> None:
        """Calls nothing yet.

        Args:
            ending_s: Returns how long the end of earlier runs took; called once, if there is a limit.
            committed: Returns the steps that are trained and committed: these are published even if no time is left.
        """
        self._clock = clock
        self._train = train
        self._ask_ending_s = ending_s
        self._committed = committed
        self._started_s = clock.wall_s()
        self._stopwatch = Stopwatch(clock.now_s, "preflight")

    def enter(self, phase: str) -> None:
        """Ends the current phase, and begins another one."""
        self._stopwatch.enter(phase)

    def go_on_to(self, phase: str) -> None:
        """Begins a phase that precedes the training, if any time is left.

        Raises:
            TimeUpError: no time is left, and nothing is trained yet that could be published.
            StorageError: it could not be found out whether anything is.
        """
        limit = self.limit()
        if limit is not None:
            complaint = no_time_left(limit, self._train.reserve, self._stopwatch.seconds())
            if complaint is not None and not self._committed():
                raise TimeUpError(complaint)
        self.enter(phase)

    def limit(self) -> TimeLimit | None:
        """Returns the time left until the run has to end; None without a limit."""
        return time_limit(self._train, self._started_s, self._clock.wall_s(), lambda: self._ending_s)

    def facts(self) -> dict[str, Any]:
        """Returns the result's fields about time."""
        started = datetime.datetime.fromtimestamp(self._started_s, datetime.UTC)
        return {
            "started": started.isoformat(timespec="seconds"),
            "duration_s": round(self._clock.wall_s() - self._started_s, 3),
            "seconds": self._stopwatch.seconds(),
        }

    @cached_property
    def _ending_s(self) -> float:
        return self._ask_ending_s()
