"""Functions that answer the rows of partitions, well or badly: the product's queue in simulated processes.

What a node's server does beside the queue, and what a feeder does with its answers, is played here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from greenlet import getcurrent
from simulation.hub import Process, SimClock, SimCondition, Waiter
from simulation.nodes import HEARTBEAT_S

from sparktf.errors import ModelError
from sparktf.feed.channel.any_rows import rows_to_batch
from sparktf.feed.channel.brought_rows import BroughtRows
from sparktf.feed.channel.guest_queue import GuestQueue

FEED_TIMEOUT_S, AFTER_FEED_S = 20.0, 15.0
ASK_S = 2.0
BATCH = 10
GOOD = "answers"
HABITS = ("leaves-out", "takes-nothing", "answers-nothing", "returns", "returns-amid", "stays")
"""What bad functions do; they fail, if rows come to them that show it."""
RESET = "the node is gone"
CAUSE_S = HEARTBEAT_S + 5.0
_CHUNK_ROWS = 16


class Answering:
    """A function that takes rows and answers them, by its habit."""

    def __init__(self, process: Process, node: str, habit: str, note: Callable[[str], None], *, others: bool) -> None:
        """Makes one that has not begun.

        Args:
            note: Is told what it does that must fail it.
            others: Whether it might have other threads that give results.
        """
        self.process, self.habit, self._note = process, habit, note
        self.queue = GuestQueue(1 << 12, SimClock(process), lambda: id(getcurrent()))
        self.queue._changed = SimCondition(process, 0.0)
        self.queue.function = f"main on {node}"
        self.queue.others = lambda: others

    def work(self) -> None:
        """Runs until no more rows come, or as its habit is. Raises `ModelError` as the queue does."""
        queue, process, batches = self.queue, self.process, 0
        while not queue.is_over:
            if self.habit == "takes-nothing" and batches == 2:
                self._note(self.habit)
                process.sleep(1e6)
            batch = queue.take(BATCH)
            batches += 1
            process.sleep(process.rng.uniform(0.0, 0.3))
            if self._answers(batch, batches):
                queue.answer([2 * row for row in batch])
            if self.habit.startswith("returns") and batches == 3:
                break
        if self.habit == "stays":
            self._note(self.habit)
            process.sleep(1e6)
        queue.returned()

    def _answers(self, batch: Sequence[int], batches: int) -> bool:
        """Whether it gives the results of a batch."""
        if not batch:
            return False
        short = len(batch) < BATCH
        amid = self.habit == "returns-amid" and batches == 3
        if self.habit == "answers-nothing" or amid or (self.habit == "leaves-out" and short):
            self._note(self.habit)
            return False
        return True


class Asker:
    """A feeder that wants results of a partition.

    Attributes:
        got: The results that have come.
        end: "done", or why they are not complete; None while it waits.
    """

    def __init__(self, process: Process, partition: int, rng: random.Random) -> None:
        self.process, self.partition = process, partition
        self.rows = [1000 * partition + i for i in range(rng.choice((0, 4, 10, 25, 60)))]
        self.got: list[int] = []
        self.end: str | None = None

    def ask(self, at: Answering, cause: Callable[[], str]) -> None:
        """Brings the rows, and waits for their results; asks the driver meanwhile what became of the node.

        Args:
            cause: Asks the driver; "" while it knows of no failure.
        """
        served = Served(self, at)
        at.process.on_end.append(served.breaks)
        for work in (served.bring, served.answer):
            at.process.spawn(work)
        while self.end is None:
            served.waiter = waiter = Waiter(self.process)
            if not self.process.wait(waiter, ASK_S) and (found := cause()):
                self.end = self.end or found
        if self.end == RESET:
            until_s = self.process.hub.now + CAUSE_S
            while not (found := cause()) and self.process.hub.now < until_s:
                self.process.sleep(0.2)
            self.end = found or self.end


class Served:
    """A call of a feeder, as a node's server serves it: one thread brings rows, one waits for results."""

    def __init__(self, asker: Asker, at: Answering) -> None:
        self._asker, self._queue = asker, at.queue
        self._stream = BroughtRows(True, asker.partition, FEED_TIMEOUT_S)
        self._process = at.process
        self.waiter: Waiter | None = None

    def bring(self) -> None:
        """Brings the rows in their turn."""
        with self._says(), self._queue.answered(self._stream):
            for start in range(0, len(self._asker.rows), _CHUNK_ROWS):
                self._process.sleep(self._process.rng.uniform(0.0, 0.2))
                self._queue.put(rows_to_batch(self._asker.rows[start : start + _CHUNK_ROWS]), self._stream)

    def answer(self) -> None:
        """Gives the results back."""
        with self._says():
            while results := self._queue.wait_answers(self._stream):
                self._asker.got += results
            whole = len(self._asker.got) == len(self._asker.rows)
            self._tell("done" if whole else "the function takes no more rows")

    def breaks(self) -> None:
        """The node's process has ended."""
        self._process.hub.at(0.05, lambda: self._tell(RESET))

    @contextmanager
    def _says(self) -> Iterator[None]:
        try:
            yield
        except ModelError as error:
            self._tell(str(error))

    def _tell(self, end: str) -> None:
        if self._asker.end is None:
            self._asker.end = end
            if self.waiter is not None:
                self.waiter.wake()


def wrong(asker: Asker) -> str | None:
    """Returns what is wrong with the results of a partition, if anything: they are its own, as many as it was told."""
    right: list[Any] = [2 * row for row in asker.rows]
    if asker.got != right[: len(asker.got)]:
        return f"partition {asker.partition} got {asker.got[:3]}... for {asker.rows[:3]}..."
    if asker.end == "done" and asker.got != right:
        return f"partition {asker.partition} is done with {len(asker.got)} of {len(right)} results"
    return None
