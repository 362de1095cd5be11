"""The rows of an epoch that each node of an attempt is dealt: a function of (plan, cursor, hosts), outside of any lock.

Dealing a plan with a million row groups takes seconds, during which heartbeats must be answered. So the lock under
which nodes report is not held: the first request deals, and only the other requests for shares wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from sparktf.config.data_section import DataConfig
from sparktf.config.job import JobConfig
from sparktf.driver.plan.plan import Plan
from sparktf.sequence import Assignment, Cursor, Interval, Stream, remaining
from sparktf.wire.control import AssignmentAnswer


def done_of(cursor: Cursor, stream: Stream, epoch: int) -> tuple[Interval, ...]:
    """Returns the intervals of a stream's epoch that are done, where an attempt begins at `cursor`."""
    return cursor.done if stream is Stream.TRAIN and epoch == cursor.epoch else ()


def keeps(config: JobConfig) -> bool:
    """Returns whether nodes keep the rows that Spark feeds for later epochs."""
    return config.data.cache != "off" and config.train.epochs > 1


class Shares:
    """One stream in one epoch, dealt when a node's share is first asked for. Thread-safe.

    Attributes:
        of: Its epoch, and the generation of members that it is dealt to.
    """

    def __init__(self, of: tuple[int, int], deal: Callable[[], Sequence[Assignment]]) -> None:
        self.of = of
        self._deal = deal
        self._lock = threading.Lock()
        self._dealt: Sequence[Assignment] | None = None

    def answer(self, number: int) -> AssignmentAnswer:
        """Returns the share of a number. May take long: not to be called under the lock that nodes report under."""
        with self._lock:
            if self._dealt is None:
                self._dealt = self._deal()
        return AssignmentAnswer(assignment=self._dealt[number])


class Dealing:
    """The shares of each stream in the epoch that was last asked for; not thread-safe, as they are."""

    def __init__(self, plan: Plan, data: DataConfig) -> None:
        self._plan = plan
        self._data = data
        self._shares: dict[Stream, Shares] = {}

    def shares(self, cursor: Cursor, hosts: Sequence[str], stream: Stream, epoch: int, generation: int = 1) -> Shares:
        """Returns the shares of an epoch, and drops those of the epoch before.

        Args:
            cursor: Where the attempt, or its present generation, begins.
            hosts: The host of each node that gets a share.
            generation: Of the members.
        """
        shares = self._shares.get(stream)
        if shares is None or shares.of != (epoch, generation):
            deal = partial(self._deal, cursor, hosts, stream, epoch)
            shares = self._shares[stream] = Shares((epoch, generation), deal)
        return shares

    def _deal(self, cursor: Cursor, hosts: Sequence[str], stream: Stream, epoch: int) -> Sequence[Assignment]:
        plan, data = self._plan, self._data
        todo = remaining(plan.rows(stream), done_of(cursor, stream, epoch))
        rebalance = data.rebalance or stream is Stream.VALIDATION
        by_place = {"locality": data.locality, "sticky": data.cache == "disk"}
        return plan.assignments(stream, epoch, todo, hosts, rebalance=rebalance, **by_place)
