"""How synchronous nodes spend the time of their updates, as they report it and as it is stored in result.json."""

from __future__ import annotations

import math
from collections import Counter
from itertools import accumulate

from sparktf.message import Message

_STEP = math.log(1.1)
"""Times are counted in classes, each a tenth longer than the one before: a percentile is known to 5 %."""

_LEAST_S = 1e-6


class Times(Message):
    """One kind of time, over many updates."""

    total_s: float = 0.0
    counts: dict[int, int] = {}  # Updates by the class of their time, see `time_class`

    def __add__(self, other: Times) -> Times:
        counts = Counter(self.counts)
        counts.update(other.counts)
        return Times(total_s=self.total_s + other.total_s, counts=dict(counts))

    def percentile(self, share: float) -> float:
        """Returns the seconds that this share of the updates took at most; 0.0 without updates."""
        classes = sorted(self.counts)
        reached = list(accumulate(self.counts[each] for each in classes))
        for each, count in zip(classes, reached, strict=True):
            if count >= share * reached[-1]:
                return middle_s(each)
        return 0.0

    @property
    def percentiles(self) -> Percentiles:
        """Its summary, rounded to three digits."""
        return Percentiles(
            p50_s=_rounded(self.percentile(0.5)), p95_s=_rounded(self.percentile(0.95)), total_s=round(self.total_s, 3)
        )


class Percentiles(Message):
    """Seconds of an update: the median, what 95 % of the updates took at most, and the sum over all of them."""

    p50_s: float = 0.0
    p95_s: float = 0.0
    total_s: float = 0.0


class Strain(Message):
    """How a node's host keeps it from computing: seconds since any beginning; None where that is not known."""

    at_s: float = 0.0  # When, by a clock of its own
    steal_s: float | None = None  # That a processor was given to other virtual machines, the mean over all processors
    throttled_s: float | None = None  # That its control group was held up by its limit of processor time
    memory_s: float | None = None  # That some process of the host waited for memory

    def in_words(self, before: Strain) -> str:
        """Returns the shares of the time since an earlier one; "" where nothing is known."""
        seconds = self.at_s - before.at_s
        kinds = {
            "taken by other virtual machines (steal)": (before.steal_s, self.steal_s),
            "held up by its limit of processor time": (before.throttled_s, self.throttled_s),
            "waiting for memory": (before.memory_s, self.memory_s),
        }
        known = {what: (a, b) for what, (a, b) in kinds.items() if a is not None and b is not None and seconds > 0}
        return ", ".join(f"{max(b - a, 0.0) / seconds:.0%} {what}" for what, (a, b) in known.items())


class UpdatePace(Message):
    """The updates that a trainer has made since its start, without those of its first call, which traces."""

    updates: int = 0
    rows: int = 0  # Its own rows in them
    computing: Times = Times()
    rows_wait: Times = Times()  # Waiting for rows, and taking them
    peers_wait: Times = Times()  # In operations with the others: waiting for them, and exchanging
    strain: Strain | None = None

    def __add__(self, other: UpdatePace) -> UpdatePace:
        return UpdatePace(
            updates=self.updates + other.updates,
            rows=self.rows + other.rows,
            computing=self.computing + other.computing,
            rows_wait=self.rows_wait + other.rows_wait,
            peers_wait=self.peers_wait + other.peers_wait,
            strain=other.strain,
        )

    @property
    def seconds(self) -> float:
        """All of its time."""
        return self.computing.total_s + self.rows_wait.total_s + self.peers_wait.total_s


class NodePace(Message):
    """A node's updates, for result.json."""

    updates: int
    computing: Percentiles
    rows_wait: Percentiles
    peers_wait: Percentiles

    @classmethod
    def of(cls, pace: UpdatePace | None) -> NodePace | None:
        """Returns the summary of a pace; None without updates."""
        if pace is None or not pace.updates:
            return None
        kinds = (pace.computing, pace.rows_wait, pace.peers_wait)
        computing, rows_wait, peers_wait = (times.percentiles for times in kinds)
        return cls(updates=pace.updates, computing=computing, rows_wait=rows_wait, peers_wait=peers_wait)


class SlowNode(Message):
    """A node that computed longer than the others."""

    node: str
    host: str
    step: int  # Updates of the whole run when it was found
    computing_s: float  # Its seconds of computing an update, in the time before; `median_s` are those of the gang
    median_s: float
    seconds: float  # For so long it had been slow
    strain: str = ""  # What is known of its host, in words

    def in_words(self) -> str:
        """Returns a line for people."""
        host = self.strain or "nothing is known of what keeps it from computing"
        return (
            f"{self.node} on {self.host} is slow: in the last {self.seconds:.0f} s it has computed for "
            f"{_rounded(self.computing_s):g} s an update, and the median of the gang is {_rounded(self.median_s):g} s, "
            f"so that the others wait for it; its host's time: {host}"
        )


def time_class(seconds: float) -> int:
    """Returns the class of a time."""
    return round(math.log(max(seconds, _LEAST_S) / _LEAST_S) / _STEP)


def middle_s(of_class: int) -> float:
    """Returns the time in the middle of a class; 0.0 of the first one, whose times are too short."""
    return _LEAST_S * math.exp(of_class * _STEP) if of_class else 0.0


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.3g}")
