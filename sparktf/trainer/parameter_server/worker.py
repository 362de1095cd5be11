"""The life of a worker: its process runs what the coordinator sends, with rows that it reads itself.

TensorFlow calls for rows from a thread of its own. What goes wrong there is raised by the main thread, so that the
driver hears of it from the node it happened to; the coordinator only learns that there are no rows.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

import numpy as np
from tensorflow.python.ops import script_ops

from sparktf.feed.arrays.columns import Array, empty_columns
from sparktf.feed.leased_feed import LeasedFeed, Take
from sparktf.feed.receipts import Receipts, Trained
from sparktf.knobs import KNOBS
from sparktf.trainer.node.inputs import Input
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.position import Position
from sparktf.trainer.parameter_server.listening import listen, ready
from sparktf.trainer.parameter_server.meter import ProcessMeter, WorkMeter
from sparktf.trainer.parameter_server.update.packing import DONE, PART_DONE, PAUSE, ROWS, WHO, flatten


def work(place: Place) -> None:
    """Serves rows until the order to stop, which ends the process, or until something fails.

    Raises:
        DataError: a value or file is refused.
        StorageError: a file system failed.
        ControlError: the driver leases no rows.
    """
    server = listen(place)
    source = Input(place)
    worker = Worker(place, source)
    worker.register()
    place.follow(worker)
    place.measure(ProcessMeter(worker.meter))
    place.expect_stop()
    ready(place, source.address)
    place.enter("training")
    while not (failed := worker.failure(KNOBS.bad_rows_s)):
        source.flush()
    del server  # until here, it must live
    raise failed


class Worker:
    """Answers the PyFuncs of `packing`.

    Attributes:
        position: What this incarnation has trained.
        meter: What its time goes into.
    """

    def __init__(self, place: Place, source: Input) -> None:
        """Opens nothing yet."""
        self.position = Position()
        self.meter = WorkMeter()
        self._spec = place.spec
        self._source = source
        self._receipts = Receipts(place.spec.node, place.spec.incarnation)
        self._failures: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._feed: LeasedFeed | None = None
        # TensorFlow holds them by weak references alone.
        self._functions = {
            ROWS: self.rows,
            DONE: self.done,
            PART_DONE: self.part_done,
            WHO: self.who,
            PAUSE: self.pause,
        }
        self._is_dry = False

    def register(self) -> None:
        """Has TensorFlow call these functions of this object, wherever in this process a graph names them."""
        script_ops._py_funcs._funcs.update(self._functions)

    def failure(self, wait_s: float) -> BaseException | None:
        """Returns what has failed, None where nothing does for so long."""
        try:
            return self._failures.get(timeout=wait_s)
        except queue.Empty:
            return None

    def rows(self, epoch: Any, updates: Any, acknowledged: Array) -> list[Any]:
        """Brings rows: `packing.ROWS`.

        Args:
            epoch: int64, and so are the updates that are made of them at most.
            acknowledged: int64 [workers, 2], for each its incarnation and the last of its receipts that are known.
        """
        self.meter.ask(int(epoch))
        try:
            incarnation, number = acknowledged[self._spec.node.index].tolist()
            self._receipts.acknowledge(incarnation, number)
            taken = self._take(int(epoch), int(updates))
        except BaseException as error:  # noqa: BLE001 - TensorFlow's edge: the main thread raises it
            self._failures.put(error)
            taken = self._none()
        self._is_dry = taken.dry
        self.meter.take()
        return [*flatten(self._spec.feed, taken.columns), np.int64(taken.rows), np.int64(taken.number)]

    def done(self, take: Any, sums: Array, stale: Array) -> bytes:
        """Marks rows as trained, and answers the receipts that are not acknowledged: `packing.DONE`.

        Args:
            take: int64.
            sums: float32 [3]: of the loss over its rows, and of the seconds of reading and of computing, or [1].
            stale: int64 [updates]: how stale each was, if that was measured.
        """
        loss, *stages = sums.tolist()
        self.meter.update(stages, stale)
        return self._done(int(take), None, loss)

    def part_done(self, take: Any, rows: Any, loss: Any) -> bytes:
        """Marks the first rows of a take as trained, and the others as not: `packing.PART_DONE`.

        Args:
            take: int64.
            rows: How many.
            loss: Sum over them.
        """
        self.meter.update((), np.zeros(0, np.int64))
        return self._done(int(take), int(rows), float(loss))

    def who(self, take: Any) -> Array:
        """Says who was asked for a take, whether there are rows, and for which one: `packing.WHO`."""
        node, has_rows = self._spec.node, bool(take) or not self._is_dry
        return np.array([node.index, self._spec.incarnation, has_rows, take], np.int64)

    def pause(self, tries: Any) -> Any:
        """Waits, the longer the more often it has: `packing.PAUSE`."""
        time.sleep(min(KNOBS.pause_s * 1.1 ** int(tries), KNOBS.take_wait_s))
        return np.int64(tries + 1)

    def _done(self, take: int, rows: int | None, loss: float) -> bytes:
        try:
            with self._lock:
                trained = self._feed.done(take, loss, rows) if self._feed is not None else None
                self.position = self._advanced(trained) if trained is not None else self.position
        except BaseException as error:  # noqa: BLE001 - as above
            self._failures.put(error)
        return self._receipts.unacknowledged()

    def _take(self, epoch: int, updates: int) -> Take:
        feed = self._feed_of(epoch)
        return self._none() if feed is None else feed.take(updates, KNOBS.take_wait_s)

    def _none(self) -> Take:
        """Returns no rows, but not at once: the coordinator would ask again and again."""
        time.sleep(KNOBS.take_wait_s)
        return Take(0, empty_columns(self._spec.feed.features), 0, drained=True, dry=True)

    def _feed_of(self, epoch: int) -> LeasedFeed | None:
        """Returns the feed of an epoch, which begins when it is first asked for; None for one that is over."""
        with self._lock:
            if self._feed is not None and epoch > self._feed.epoch:
                self._feed.close()
                self._feed = None
            if self._feed is None:
                self._feed = self._source.lease(epoch, self._receipts)
                self.position = self.position.begun(epoch)
            return self._feed if self._feed.epoch == epoch else None

    def _advanced(self, trained: Trained) -> Position:
        step, loss = self.position.step + trained.steps, trained.loss / trained.rows if trained.rows else None
        return self.position.advanced(step=step, rows=trained.rows, loss=loss)
