"""What the nodes of an attempt are dealt of an epoch: a function of (plan, cursor, hosts), outside of any lock.

It takes seconds where a plan has a million row groups, and heartbeats must be answered meanwhile. So the lock under
which nodes report covers only who asks, and for what; the first that asks deals, and those that come meanwhile wait for
it alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from sparktf.config.data_section import DataConfig
from sparktf.config.job import JobConfig
from sparktf.driver.plan.plan import Plan
from sparktf.sequence import Assignment, Cursor, Interval, Stream, remaining
from sparktf.wire.control import AssignmentAnswer


def done_of(cursor: Cursor, stream: Stream, epoch: int) -> tuple[Interval, ...]:
    """Returns what is done of a stream in an epoch, where an attempt begins at `cursor`."""
    return cursor.done if stream is Stream.TRAIN and epoch == cursor.epoch else ()


def keeps(config: JobConfig) -> bool:
    """Returns whether nodes keep what Spark feeds them for later epochs."""
    return config.data.cache != "off" and config.train.epochs > 1


def deal(
    plan: Plan, cursor: Cursor, hosts: Sequence[str], data: DataConfig, stream: Stream, epoch: int
) -> Sequence[Assignment]:
    """Deals what is left of a stream in an epoch.

    Args:
        cursor: Where the attempt begins.
        hosts: Of each node, by index.
    """
    todo = remaining(plan.rows(stream), done_of(cursor, stream, epoch))
    rebalance = data.rebalance or stream is Stream.VALIDATION
    return plan.assignments(stream, epoch, todo, hosts, rebalance=rebalance, locality=data.locality)


class Shares:
    """One stream in one epoch, dealt when a node's share is first asked for. Thread-safe."""

    def __init__(
        self, plan: Plan, cursor: Cursor, hosts: Sequence[str], data: DataConfig, stream: Stream, epoch: int
    ) -> None:
        """Deals nothing yet; see `deal`."""
        self.epoch = epoch
        self._asked = (plan, cursor, hosts, data, stream, epoch)
        self._lock = threading.Lock()
        self._dealt: Sequence[Assignment] | None = None

    def answer(self, number: int) -> AssignmentAnswer:
        """Returns the share of a number. May take long: not to be called under the lock of those who report."""
        with self._lock:
            if self._dealt is None:
                self._dealt = deal(*self._asked)
        return AssignmentAnswer(assignment=self._dealt[number])


class Dealing:
    """The shares of each stream in the epoch that was last asked for; not thread-safe, as they are."""

    def __init__(self, plan: Plan, data: DataConfig) -> None:
        """Deals nothing yet."""
        self._plan = plan
        self._data = data
        self._shares: dict[Stream, Shares] = {}

    def shares(self, cursor: Cursor, hosts: Callable[[], Sequence[str]], stream: Stream, epoch: int) -> Shares:
        """Returns the shares of an epoch, which take the place of the epoch's before: nobody asks for those any more.

        Args:
            cursor: Where the attempt begins.
            hosts: Says the host of each node among which the epoch is dealt; of many, they are listed once.
        """
        shares = self._shares.get(stream)
        if shares is None or shares.epoch != epoch:
            shares = self._shares[stream] = Shares(self._plan, cursor, hosts(), self._data, stream, epoch)
        return shares
