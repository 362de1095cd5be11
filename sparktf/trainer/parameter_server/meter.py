"""What a trainer's process uses, and what a worker's time goes into; heartbeats tell of it."""

from __future__ import annotations

import ctypes
import math
import os
import resource
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sparktf.feed.arrays.columns import Array
from sparktf.results.usage import Usage, WorkTime

_LIBC = ctypes.CDLL(None, use_errno=True)
_TCP_INFO_NBYTES = 256
_ACKED_AND_RECEIVED = struct.Struct("@QQ")
_ACKED_OFFSET = 120
"""Of `tcpi_bytes_acked` in Linux's `struct tcp_info`; `tcpi_bytes_received` follows."""


MOST_STALE = 1_000
"""More counts as this."""


class Traffic(NamedTuple):
    """Bytes that have gone over a TCP connection, or several."""

    sent: int = 0
    received: int = 0


class Connections:
    """The TCP connections of this process, those that are closed by now among them, as they were last seen."""

    def __init__(self) -> None:
        """Looks at nothing yet."""
        self._lock = threading.Lock()
        self._seen: dict[str, Traffic] = {}

    def look(self) -> Traffic:
        """Returns what all of them have carried."""
        with self._lock:
            for name in os.listdir("/proc/self/fd"):
                with suppress(OSError):  # it has been closed meanwhile, or carries no TCP
                    if (socket_name := os.readlink(f"/proc/self/fd/{name}")).startswith("socket:"):
                        self._seen[socket_name] = _carried(int(name))
            return Traffic(*map(sum, zip(*self._seen.values(), strict=True))) if self._seen else Traffic()


def _carried(fd: int) -> Traffic:
    # Not a `socket` of Python's for it, which may change how it blocks: most are others', such as TensorFlow's.
    told, size = ctypes.create_string_buffer(_TCP_INFO_NBYTES), ctypes.c_uint32(_TCP_INFO_NBYTES)
    if _LIBC.getsockopt(fd, socket.IPPROTO_TCP, socket.TCP_INFO, told, ctypes.byref(size)):
        raise OSError(ctypes.get_errno(), "no TCP connection")
    return Traffic(*_ACKED_AND_RECEIVED.unpack_from(told, _ACKED_OFFSET))


class ProcessMeter:
    """Of one process, from the time it is made."""

    def __init__(self, work: WorkMeter | None = None) -> None:
        """Begins.

        Args:
            work: Of a worker.
        """
        self._work = work
        self._connections = Connections()
        self._cores = len(os.sched_getaffinity(0))
        self._began_s = time.monotonic()

    def read(self) -> Usage:
        """Returns what was used since; of processor time and bytes what was before, too."""
        times = resource.getrusage(resource.RUSAGE_SELF)
        carried = self._connections.look()
        return Usage(
            seconds=time.monotonic() - self._began_s,
            cpu_s=times.ru_utime + times.ru_stime,
            cores=self._cores,
            resident_nbytes=int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
            received_nbytes=carried.received,
            sent_nbytes=carried.sent,
            work=None if self._work is None else self._work.work,
            staleness={} if self._work is None else self._work.staleness,
        )


class WorkMeter:
    """What a worker's time goes into, and how stale its updates are; thread-safe.

    Attributes:
        staleness: How many updates were so stale, of those that were measured.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """Measures from the first call on."""
        self.staleness: dict[int, int] = {}
        self._work = WorkTime()
        self._stages = WorkTime()
        self._unmeasured_s = 0.0
        self._now_s = now_s
        self._lock = threading.Lock()
        self._epoch: int | None = None
        self._since_s = 0.0

    @property
    def work(self) -> WorkTime:
        """So far. Executions that did not measure their stages count as those that did have spent their time."""
        with self._lock:
            return self._work + divided(self._stages, self._stages.seconds + self._unmeasured_s)

    def ask(self, epoch: int) -> None:
        """An execution asks for rows. What lies between two epochs is not counted."""
        with self._lock:
            waited_s = self._lap()
            if epoch == self._epoch:
                self._add(waiting_s=waited_s)
            self._epoch = epoch

    def take(self) -> None:
        """It has been answered."""
        with self._lock:
            self._add(rows_s=self._lap())

    def update(self, stages: Sequence[float], stale: Array) -> None:
        """Its updates are made.

        Args:
            stages: So many seconds they were reading, and computing, NaN where that was not measured; empty where
                nobody can tell that.
            stale: int64 [updates]: how stale each was; empty where that was not measured.
        """
        with self._lock:
            counts = Counter(self.staleness)
            counts.update(np.minimum(stale, MOST_STALE).tolist())
            self.staleness = dict(counts)  # another one: heartbeats read them without a lock
            seconds = self._lap()
            if not stages:
                self._add(function_s=seconds)
                return
            reading_s, computing_s = stages
            if math.isnan(reading_s):
                self._unmeasured_s += seconds
                return
            applying_s = max(seconds - reading_s - computing_s, 0.0)
            self._stages += WorkTime(reading_s=reading_s, computing_s=computing_s, applying_s=applying_s)

    def _lap(self) -> float:
        since_s, self._since_s = self._since_s, self._now_s()
        return self._since_s - since_s

    def _add(self, **seconds: float) -> None:
        self._work += WorkTime(**seconds)


def divided(stages: WorkTime, seconds: float) -> WorkTime:
    """Returns so many seconds, divided as those of `stages` are; all of them as a function's where these are none."""
    if not stages.seconds:
        return WorkTime(function_s=seconds)
    return WorkTime(**{name: seconds * each / stages.seconds for name, each in stages})
