"""How the processes of a gang with parameter servers spend their time, as they tell it and as result.json holds it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import Self

from sparktf.message import Message


class WorkTime(Message):
    """What a worker's time went into while it had an epoch to train, in seconds.

    Attributes:
        rows_s: Rows were waited for, and taken.
        reading_s: Of updates: until the last variable had come from the parameter servers.
        computing_s: From then until the last gradient was there.
        applying_s: From then until the parameter servers had applied them all.
        function_s: A function of the user's own ran (`train(node)`), or updates were made together: nobody tells these
            apart.
        waiting_s: It had nothing to do: what it had done was on its way to the coordinator, or what was next on its way
            to it.
    """

    rows_s: float = 0.0
    reading_s: float = 0.0
    computing_s: float = 0.0
    applying_s: float = 0.0
    function_s: float = 0.0
    waiting_s: float = 0.0

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.rows_s + self.reading_s + self.computing_s + self.applying_s + self.function_s + self.waiting_s

    def __add__(self, other: WorkTime) -> WorkTime:
        """Returns both together."""
        return WorkTime(**{name: mine + getattr(other, name) for name, mine in self})


class Usage(Message):
    """What a trainer's process has used while the gang trained.

    Attributes:
        seconds: So long that was.
        cpu_s: Processor time of all its threads, which might use so many `cores`.
        resident_nbytes: Memory that it had at the end.
        received_nbytes: Bytes that came over its TCP connections; `sent_nbytes` those that went.
        work: Of a worker, and so is `staleness`: how many of its updates were so stale.
    """

    seconds: float = 0.0
    cpu_s: float = 0.0
    cores: int = 1
    resident_nbytes: int = 0
    received_nbytes: int = 0
    sent_nbytes: int = 0
    work: WorkTime | None = None
    staleness: dict[int, int] = {}

    @property
    def busy(self) -> float:
        """The share of the processors that it might have used which it did use, 0 to 1."""
        return self.cpu_s / (self.seconds * self.cores) if self.seconds else 0.0

    def advanced(self, before: Usage, now: Usage, *, trains: bool) -> Usage:
        """Returns the usage after more of it.

        Args:
            before: What the process had told of itself before, since its start; `now` what it tells now.
            trains: Whether the gang has trained between them. A worker's work counts in any case.
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
    """How many updates of others were applied between a worker's reading and the applying of what came of it.

    Attributes:
        median: Of all its updates; `p99` is the 99th percentile.
    """

    median: int
    p99: int

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> Self | None:
        """Returns what so many updates of each staleness amount to, None for no update at all."""
        if not counts:
            return None
        stale = sorted(counts)
        reached = list(accumulate(counts[each] for each in stale))
        median, p99 = (stale[bisect_left(reached, share * reached[-1])] for share in (0.5, 0.99))
        return cls(median=median, p99=p99)


class Made(Message):
    """What a worker has trained.

    Attributes:
        steps: Updates.
        rows: Rows that went into them.
        steps_s: Updates a second while there was an epoch to train.
        staleness: None where nobody has told of it.
    """

    steps: int = 0
    rows: int = 0
    steps_s: float = 0.0
    staleness: Staleness | None = None


def _since(now: WorkTime, before: WorkTime) -> WorkTime:
    return WorkTime(**{name: seconds - getattr(before, name) for name, seconds in now})
