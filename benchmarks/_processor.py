"""Processor time of this process and of all that it has started, by what they are, over time."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

import numpy as np
import psutil

_INTERVAL_S = 0.1
SPARK, TRAINERS = "spark", "trainers"


class ProcessorTime:
    """Looks at the processes from a thread of its own; use it as a context manager."""

    def __init__(self) -> None:
        self._kinds: dict[int, str] = {}
        self._seen: dict[int, float] = {}
        self._samples: list[tuple[float, dict[str, float]]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def between(self, start: float, stop: float, kind: str) -> float:
        """Returns the processor seconds of a kind of process between two times of the clock."""
        times, used = [t for t, _ in self._samples], [counts[kind] for _, counts in self._samples]
        first, last = np.interp([start, stop], times, used)
        return float(last - first)

    def _run(self) -> None:
        root = psutil.Process()
        while not self._ended.wait(_INTERVAL_S):
            for process in [root, *root.children(recursive=True)]:
                try:
                    kind = self._kinds.get(process.pid)
                    if kind is None:
                        kind = TRAINERS if "sparktf.trainer" in process.cmdline() else SPARK
                        self._kinds[process.pid] = kind
                    used = process.cpu_times()
                    self._seen[process.pid] = used.user + used.system
                except psutil.Error:  # it has ended meanwhile: what was seen of it stays
                    continue
            counts = {SPARK: 0.0, TRAINERS: 0.0}
            for pid, seconds in self._seen.items():
                counts[self._kinds[pid]] += seconds
            self._samples.append((time.time(), counts))
