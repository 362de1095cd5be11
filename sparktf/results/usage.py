"""How the processes of a gang with parameter servers spend their time, as reported and as stored in result.json."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import Self

from sparktf.message import Message


class WorkTime(Message):
    """A worker's time while it had an epoch to train, in seconds."""

    rows_s: float = 0.0  # Waiting for rows, and taking them
    reading_s: float = 0.0  # From an update's begin until the last variable had come from the parameter servers
    computing_s: float = 0.0  # From then until the last gradient was there
    applying_s: float = 0.0  # From then until the parameter servers had applied them all
    function_s: float = 0.0  # A `train(node)` function, or updates made together: their parts cannot be distinguished
    waiting_s: float = 0.0  # Idle, while results were on their way to the coordinator or work on its way back

    @property
    def seconds(self) -> float:
        return self.rows_s + self.reading_s + self.computing_s + self.applying_s + self.function_s + self.waiting_s

    def __add__(self, other: WorkTime) -> WorkTime:
        return WorkTime(**{name: mine + getattr(other, name) for name, mine in self})


class Usage(Message):
    """Resources that a trainer's process has used while the gang trained."""

    seconds: float = 0.0
    cpu_s: float = 0.0  # Processor time of all its threads, on at most `cores` processors
    cores: int = 1
    resident_nbytes: int = 0  # Memory at the end
    received_nbytes: int = 0  # Bytes received over TCP; `sent_nbytes` those sent
    sent_nbytes: int = 0
    work: WorkTime | None = None  # Of a worker, as `staleness`: the number of its updates by staleness
    staleness: dict[int, int] = {}

    @property
    def busy(self) -> float:
        """The share of its processors' time that it used, 0 to 1."""
        return self.cpu_s / (self.seconds * self.cores) if self.seconds else 0.0

    def advanced(self, before: Usage, now: Usage, *, trains: bool) -> Usage:
        """Returns the usage after another report.

        Args:
            before: The process's last report, since its start; `now` is the present one.
            trains: Whether the gang trained in between. A worker's work counts in any case.
        """
        stale = Counter(self.staleness) + (Counter(now.staleness) - Counter(before.staleness))
        work = now.work and (now.work if before.work is None else _since(now.work, before.work))
        share = 1 if trains else 0
        return Usage(
            seconds=self.seconds + share * (now.seconds - before.seconds),
            cpu_s=self.cpu_s + share * (now.cpu_s - before.cpu_s),
            cores=now.cores,
            resident_nbytes=now.resident_nbytes,
            received_nbytes=self.received_nbytes + share * (now.received_nbytes - before.received_nbytes),
            sent_nbytes=self.sent_nbytes + share * (now.sent_nbytes - before.sent_nbytes),
            work=work and (work if self.work is None else self.work + work),
            staleness=dict(sorted(stale.items())),
        )


class Staleness(Message):
    """Number of other updates that were applied between a worker's reading and the application of its own update."""

    median: int  # Of all its updates; `p99` is the 99th percentile
    p99: int

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> Self | None:
        """Returns the summary of the updates by staleness; None for no update."""
        if not counts:
            return None
        stale = sorted(counts)
        reached = list(accumulate(counts[each] for each in stale))
        median, p99 = (stale[bisect_left(reached, share * reached[-1])] for share in (0.5, 0.99))
        return cls(median=median, p99=p99)


class Made(Message):
    """A worker's training."""

    steps: int = 0
    rows: int = 0  # Rows that went into them
    steps_s: float = 0.0  # Updates a second while there was an epoch to train
    staleness: Staleness | None = None  # None if unknown


def _since(now: WorkTime, before: WorkTime) -> WorkTime:
    return WorkTime(**{name: seconds - getattr(before, name) for name, seconds in now})
