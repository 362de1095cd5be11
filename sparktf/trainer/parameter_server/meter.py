"""Measures a trainer process's use of resources and how a worker spends its time, for heartbeats."""

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
"""Offset of `tcpi_bytes_acked` in Linux's `struct tcp_info`; `tcpi_bytes_received` follows."""


MOST_STALE = 1_000
"""Higher staleness counts as this."""


class Traffic(NamedTuple):
    """Bytes sent and received over TCP connections."""

    sent: int = 0
    received: int = 0


class Connections:
    """All TCP connections of this process; closed ones count as last seen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, Traffic] = {}

    def look(self) -> Traffic:
        """Returns the traffic of all of them."""
        with self._lock:
            for name in os.listdir("/proc/self/fd"):
                with suppress(OSError):  # it has been closed meanwhile, or carries no TCP
                    if (socket_name := os.readlink(f"/proc/self/fd/{name}")).startswith("socket:"):
                        self._seen[socket_name] = _carried(int(name))
            return Traffic(*map(sum, zip(*self._seen.values(), strict=True))) if self._seen else Traffic()


def _carried(fd: int) -> Traffic:
    # Not by a Python `socket` on it, which may change its blocking mode: most sockets belong to TensorFlow and others.
    told, size = ctypes.create_string_buffer(_TCP_INFO_NBYTES), ctypes.c_uint32(_TCP_INFO_NBYTES)
    if _LIBC.getsockopt(fd, socket.IPPROTO_TCP, socket.TCP_INFO, told, ctypes.byref(size)):
        raise OSError(ctypes.get_errno(), "no TCP connection")
    return Traffic(*_ACKED_AND_RECEIVED.unpack_from(told, _ACKED_OFFSET))


class ProcessMeter:
    """Measures this process from now on, with the working time of a worker."""

    def __init__(self, work: WorkMeter | None = None) -> None:
        self._work = work
        self._connections = Connections()
        self._cores = len(os.sched_getaffinity(0))
        self._began_s = time.monotonic()

    def read(self) -> Usage:
        """Returns the usage since the start; processor time and bytes are of the whole process's life."""
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
    """Measures how a worker spends its time, and the staleness of its updates; thread-safe.

    Attributes:
        staleness: Number of measured updates by their staleness.
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
        """The times so far. Executions that were not measured are divided as those that were."""
        with self._lock:
            return self._work + divided(self._stages, self._stages.seconds + self._unmeasured_s)

    def ask(self, epoch: int) -> None:
        """Notes that an execution asks for rows. The time between two epochs is not counted."""
        with self._lock:
            waited_s = self._lap()
            if epoch == self._epoch:
                self._add(waiting_s=waited_s)
            self._epoch = epoch

    def take(self) -> None:
        """Notes that it got them."""
        with self._lock:
            self._add(rows_s=self._lap())

    def update(self, stages: Sequence[float], stale: Array) -> None:
        """Notes that its updates are made.

        Args:
            stages: Seconds of reading and of computing, NaN if not measured; empty if they cannot be distinguished.
            stale: int64 [updates]: the staleness of each; empty if not measured.
        """
        with self._lock:
            counts = Counter(self.staleness)
            counts.update(np.minimum(stale, MOST_STALE).tolist())
            self.staleness = dict(counts)  # a new dict, since heartbeats read it without a lock
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
    """Divides seconds in the proportions of `stages`; without stages, all are the function's."""
    if not stages.seconds:
        return WorkTime(function_s=seconds)
    return WorkTime(**{name: seconds * each / stages.seconds for name, each in stages})
