"""The time of one run, as its driver sees it: since when, what it went to, and until when there is any."""

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
        """Asks nobody yet.

        Args:
            ending_s: Says how long the end of earlier runs took; asked once, where there is a limit.
            committed: Says which steps are trained and committed: one is published also where no time is left.
        """
        self._clock = clock
        self._train = train
        self._ask_ending_s = ending_s
        self._committed = committed
        self._started_s = clock.wall_s()
        self._stopwatch = Stopwatch(clock.now_s, "preflight")

    def enter(self, phase: str) -> None:
        """Ends the phase under way, and begins another one."""
        self._stopwatch.enter(phase)

    def go_on_to(self, phase: str) -> None:
        """Begins a phase that comes before the training, if there is time for any.

        Raises:
            TimeUpError: there is not, and nothing is trained yet that could be published.
            StorageError: it could not be found out whether anything is.
        """
        limit = self.limit()
        if limit is not None:
            complaint = no_time_left(limit, self._train.reserve, self._stopwatch.seconds())
            if complaint is not None and not self._committed():
                raise TimeUpError(complaint)
        self.enter(phase)

    def limit(self) -> TimeLimit | None:
        """Returns what is left until the run has to end; None where it may take as long as it does."""
        return time_limit(self._train, self._started_s, self._clock.wall_s(), lambda: self._ending_s)

    def facts(self) -> dict[str, Any]:
        """Returns what the result says of it."""
        started = datetime.datetime.fromtimestamp(self._started_s, datetime.UTC)
        return {
            "started": started.isoformat(timespec="seconds"),
            "duration_s": round(self._clock.wall_s() - self._started_s, 3),
            "seconds": self._stopwatch.seconds(),
        }

    @cached_property
    def _ending_s(self) -> float:
        return self._ask_ending_s()
