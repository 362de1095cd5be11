"""Measures how a synchronous node spends the time of its updates: computing, waiting for rows, and with its peers.

Computing is the rest of a call into TensorFlow: what is not in an operation with the others. The measure costs a few
readings of a clock an update. The first call of a process traces, and is left out.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from sparktf.results.pace import Strain, Times, UpdatePace, time_class


class UpdateMeter:
    """See the module; the loop calls it in the order of the methods, and `read` is for any thread."""

    def __init__(
        self, strain: Callable[[], Strain | None] = lambda: None, now_s: Callable[[], float] = time.perf_counter
    ) -> None:
        """Has measured nothing.

        Args:
            strain: Returns what keeps this host from computing.
        """
        self._strain = strain
        self._now_s = now_s
        self._lock = threading.Lock()
        self._updates = self._rows = self._calls = 0
        self._totals = [0.0, 0.0, 0.0]
        self._counts: tuple[Counter[int], ...] = (Counter(), Counter(), Counter())
        self._at_s = self._took_rows_s = self._agreed_s = 0.0
        self._sums: list[tuple[float, float]] = []

    def begin(self) -> None:
        """Notes that the loop asks for the rows of a call."""
        self._at_s = self._now_s()

    def took_rows(self) -> None:
        """Notes that it has them."""
        self._took_rows_s = self._lap()

    def agreed(self) -> None:
        """Notes that all have agreed on the call."""
        self._agreed_s = self._lap()

    def call(self) -> None:
        """Notes that the call begins."""
        self._sums = []
        self._at_s = self._now_s()

    def summed(self, began_s: float) -> None:
        """Notes that an update's gradients are summed, since `began_s` by `time.perf_counter`."""
        self._sums.append((began_s, self._now_s()))

    def made(self, updates: int, rows: int) -> None:
        """Notes that the call has made its updates, of this node's rows."""
        self._calls += 1
        began_s, sums = self._at_s, self._sums
        ended_s = self._now_s()
        if self._calls == 1:
            return
        computing = self._computing(updates, began_s, ended_s)
        peers = [end_s - begin_s for begin_s, end_s in sums] if len(sums) == updates else [0.0] * updates
        agreed_s, rows_s = self._agreed_s / updates, self._took_rows_s / updates
        kinds = (computing, [rows_s] * updates, [seconds + agreed_s for seconds in peers])
        with self._lock:
            self._updates, self._rows = self._updates + updates, self._rows + rows
            for kind, each in enumerate(kinds):
                self._totals[kind] += sum(each)
                self._counts[kind].update(map(time_class, each))

    def read(self) -> UpdatePace:
        """Returns the pace so far."""
        with self._lock:
            found = [Times(total_s=s, counts=dict(c)) for s, c in zip(self._totals, self._counts, strict=True)]
            updates, rows = self._updates, self._rows
        return UpdatePace(
            updates=updates,
            rows=rows,
            computing=found[0],
            rows_wait=found[1],
            peers_wait=found[2],
            strain=self._strain(),
        )

    def _computing(self, updates: int, began_s: float, ended_s: float) -> list[float]:
        """Returns the seconds of each update until its sum, the last one's with the rest of the call."""
        if len(self._sums) != updates:  # One node's, which sums nothing
            return [(ended_s - began_s) / updates] * updates
        found = []
        for begin_s, end_s in self._sums:
            found.append(begin_s - began_s)
            began_s = end_s
        found[-1] += ended_s - began_s
        return found

    def _lap(self) -> float:
        before, self._at_s = self._at_s, self._now_s()
        return self._at_s - before
