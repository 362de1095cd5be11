"""Time and threads as arguments, so that the driver's code also runs under a simulated clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from sparktf.knobs import KNOBS


class Clock(Protocol):
    """Tells the time, waits, and runs work beside the caller."""

    def now_s(self) -> float:
        """Returns monotonic seconds: for waits and limits."""

    def wall_s(self) -> float:
        """Returns seconds since 1970, which other machines share."""

    def wait(self, condition: threading.Condition, limit_s: float) -> None:
        """Waits until the condition, which the caller holds, is notified, or for `limit_s` seconds."""

    def sleep(self, seconds: float) -> None:
        """Sleeps."""

    def beside(self, name: str, work: Callable[[], None]) -> None:
        """Runs `work` beside the caller; it ends with the process, and handles its own errors."""

    def every(self, name: str, interval_s: float, work: Callable[[], bool]) -> None:
        """Runs `work` beside the caller repeatedly until it returns False, first after `interval_s`.

        Calls do not overlap: a long one delays the next. It handles its own errors.
        """


class Stopwatch:
    """Measures the phases of an activity, which follow one another and may come back. For one thread."""

    def __init__(self, now_s: Callable[[], float], phase: str) -> None:
        """Starts in a phase. `now_s` are monotonic seconds."""
        self._now_s = now_s
        self._phase = phase
        self._since_s = now_s()
        self._spent_s: dict[str, float] = {}

    def enter(self, phase: str) -> None:
        """Ends the present phase and begins another one."""
        now_s = self._now_s()
        self._spent_s[self._phase] = self._spent_s.get(self._phase, 0.0) + now_s - self._since_s
        self._phase, self._since_s = phase, now_s

    def seconds(self) -> dict[str, float]:
        """Returns the seconds of each phase until now, to the millisecond, in the order of their first begin.

        Phases that took no time are left out.
        """
        self.enter(self._phase)
        rounded = {phase: round(spent_s, 3) for phase, spent_s in self._spent_s.items()}
        return {phase: spent_s for phase, spent_s in rounded.items() if spent_s}


class SystemClock:
    """This machine's time, and threads."""

    def now_s(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def wall_s(self) -> float:
        """See `Clock`."""
        return time.time()

    def wait(self, condition: threading.Condition, limit_s: float) -> None:
        """See `Clock`."""
        condition.wait(limit_s)

    def sleep(self, seconds: float) -> None:
        """See `Clock`."""
        time.sleep(seconds)

    def beside(self, name: str, work: Callable[[], None]) -> None:
        """See `Clock`."""
        threading.Thread(target=work, name=name, daemon=True).start()

    def every(self, name: str, interval_s: float, work: Callable[[], bool]) -> None:
        """See `Clock`."""

        def again() -> None:
            goes_on = True
            while goes_on:
                time.sleep(interval_s)
                goes_on = work()

        self.beside(name, again)


class ListeningClock:
    """A clock that only counts time in which its process listens, to judge how long others were silent.

    A process at work reads it several times a second, and with every message. If two readings are further apart than
    `KNOBS.listens_s`, the process stood still (SIGSTOP, a paused virtual machine, swap): messages of that time are not
    read yet, so the surplus counts for nobody. Thread-safe.
    """

    def __init__(self, clock: Clock) -> None:
        """Starts at the other clock's time."""
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_s = clock.now_s()
        self._deaf_s = 0.0

    def now_s(self) -> float:
        """See `Clock`; for durations shown to people, use the other clock."""
        with self._lock:
            now_s = self._clock.now_s()
            self._deaf_s += max(now_s - self._looked_s - KNOBS.listens_s, 0.0)
            self._looked_s = now_s
            return now_s - self._deaf_s

    def wall_s(self) -> float:
        """See `Clock`."""
        return self._clock.wall_s()

    def wait(self, condition: threading.Condition, limit_s: float) -> None:
        """See `Clock`."""
        self._clock.wait(condition, limit_s)

    def sleep(self, seconds: float) -> None:
        """See `Clock`."""
        self._clock.sleep(seconds)

    def beside(self, name: str, work: Callable[[], None]) -> None:
        """See `Clock`."""
        self._clock.beside(name, work)

    def every(self, name: str, interval_s: float, work: Callable[[], bool]) -> None:
        """See `Clock`."""
        self._clock.every(name, interval_s, work)
