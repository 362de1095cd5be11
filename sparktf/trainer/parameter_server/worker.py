"""A worker under parameter servers: runs the coordinator's executions with rows that it reads itself.

TensorFlow asks for rows in its own threads. The main thread raises their errors, so that the driver hears of them from
this node; the coordinator only learns that there are no rows.
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
from sparktf.trainer.parameter_server.meter import ProcessMeter, WorkMeter
from sparktf.trainer.parameter_server.ps import listen, ready
from sparktf.trainer.parameter_server.update.packing import DONE, PART_DONE, PAUSE, ROWS, WHO, flatten


def work(place: Place) -> None:
    """Serves rows until the order to stop, which ends the process, or until an error.

    Raises:
        DataError: a value or file is refused.
        StorageError: a file system failed.
        ControlError: the driver could not be asked for rows.
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
    del server  # it must live until here
    raise failed


class Worker:
    """Answers the PyFuncs of `packing`.

    Attributes:
        position: Progress of this incarnation.
        meter: Measures its time.
    """

    def __init__(self, place: Place, source: Input) -> None:
        self.position = Position()
        self.meter = WorkMeter()
        self._spec = place.spec
        self._source = source
        self._receipts = Receipts(place.spec.node, place.spec.incarnation)
        self._failures: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._feed: LeasedFeed | None = None
        # TensorFlow holds them only by weak references.
        self._functions = {
            ROWS: self.rows,
            DONE: self.done,
            PART_DONE: self.part_done,
            WHO: self.who,
            PAUSE: self.pause,
        }
        self._is_dry = False

    def register(self) -> None:
        """Registers this object's PyFuncs with TensorFlow, for any graph that runs in this process."""
        script_ops._py_funcs._funcs.update(self._functions)

    def failure(self, wait_s: float) -> BaseException | None:
        """Returns the first error; None if there is none in time."""
        try:
            return self._failures.get(timeout=wait_s)
        except queue.Empty:
            return None

    def rows(self, epoch: Any, updates: Any, acknowledged: Array) -> list[Any]:
        """Brings rows: `packing.ROWS`.

        Args:
            epoch: int64.
            updates: int64: the most updates to make of them.
            acknowledged: int64 [workers, 2]: incarnation and last known receipt of each.
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

    def done(self, take: Any, sums: Array, stale: Array, metrics: Array) -> bytes:
        """Marks a take as trained, and returns the receipts that are not acknowledged: see `packing.DONE`."""
        loss, *stages = sums.tolist()
        self.meter.update(stages, stale)
        return self._done(int(take), None, loss, metrics)

    def part_done(self, take: Any, rows: Any, loss: Any, metrics: Array) -> bytes:
        """Marks only the first rows of a take as trained: see `packing.PART_DONE`."""
        self.meter.update((), np.zeros(0, np.int64))
        return self._done(int(take), int(rows), float(loss), metrics)

    def who(self, take: Any) -> Array:
        """Identifies this worker and the take: see `packing.WHO`."""
        node, has_rows = self._spec.node, bool(take) or not self._is_dry
        return np.array([node.index, self._spec.incarnation, has_rows, take], np.int64)

    def pause(self, tries: Any) -> Any:
        """Waits, longer with each try: see `packing.PAUSE`."""
        time.sleep(min(KNOBS.pause_s * 1.1 ** int(tries), KNOBS.take_wait_s))
        return np.int64(tries + 1)

    def _done(self, take: int, rows: int | None, loss: float, metrics: Array) -> bytes:
        try:
            with self._lock:
                added = tuple(metrics.tolist())
                trained = self._feed.done(take, loss, rows, added) if self._feed is not None else None
                self.position = self._advanced(trained) if trained is not None else self.position
        except BaseException as error:  # noqa: BLE001 - as above
            self._failures.put(error)
        return self._receipts.unacknowledged()

    def _take(self, epoch: int, updates: int) -> Take:
        feed = self._feed_of(epoch)
        return self._none() if feed is None else feed.take(updates, KNOBS.take_wait_s)

    def _none(self) -> Take:
        """Returns no rows, but not at once, or the coordinator would ask in a busy loop."""
        time.sleep(KNOBS.take_wait_s)
        return Take(0, empty_columns(self._spec.feed.features), 0, drained=True, dry=True)

    def _feed_of(self, epoch: int) -> LeasedFeed | None:
        """Returns the feed of an epoch, opened when first asked for; None if the epoch is over."""
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
