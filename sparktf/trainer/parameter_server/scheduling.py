"""Scheduling for hand-written loops: they give functions, and the built-in loop decides when and how much to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from sparktf.errors import ModelError
from sparktf.feature import FeedSpec
from sparktf.topology import NodeId
from sparktf.trainer.model.tensors import Layout, Tensors, rows_of
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Done, Position
from sparktf.trainer.parameter_server.async_loop import AsyncLoop, AsyncLoopSettings, CountRows
from sparktf.trainer.parameter_server.dispatch import IN_FLIGHT, End, Send
from sparktf.trainer.parameter_server.fetching import ExecutionResult, Executions
from sparktf.trainer.parameter_server.membership.connect import Connection
from sparktf.trainer.parameter_server.tally import LastReceipt, Tally
from sparktf.trainer.parameter_server.telling import Telling
from sparktf.trainer.parameter_server.update.packing import asked_for, bring_rows, mark_trained
from sparktf.wire.control import WorkerPlace


class Scheduling:
    """Implements `sparktf.node.Coordinator`, and the loop's `Surroundings`.

    Attributes:
        loop: Has the training position.
        is_open: Whether an epoch is in progress.
        has_sent: Whether any function was scheduled.
    """

    def __init__(self, member: Member, connection: Connection) -> None:
        cluster, self._succession = connection
        place = member.place
        spec, config = place.spec, place.spec.config
        self.is_open = self.has_sent = False
        self._member = member
        self._executions = Executions(
            cluster.coordinator, threads=2 * IN_FLIGHT * place.workers, patience_s=config.timeouts.progress
        )
        self._functions: dict[Callable[..., Any], ScheduledFunction] = {}
        self._next: tuple[Any, tuple[Any, ...]] = (None, ())
        self._results: list[Any] = []
        settings = AsyncLoopSettings(config.train.batch_size, config.steps_per_call, member.extent)
        tally = Tally(spec.cluster.workers())
        self.loop = AsyncLoop(settings, self, tally, Telling(place), Position.restored(spec.restore))

    def open(self, rows: CountRows) -> None:
        """Begins to train the rest of an epoch."""
        self.loop.begin(rows)
        self.is_open = True

    def close(self) -> int:
        """Waits for executions in progress and ends the epoch; returns the rows of it that are left."""
        self.loop.drain()
        self.loop.end()
        self.is_open = False
        return self.loop.left

    # ---- the user's calls ----

    def schedule(self, function: Callable[..., Any], args: Sequence[Any] = ()) -> bool:
        if not self.is_open:
            raise ModelError(
                "node.coordinator.schedule was called outside of an epoch: call it in `for epoch in node.epochs()`"
            )
        self._next = (self._function(function), tuple(tf.convert_to_tensor(arg) for arg in args))
        while not isinstance(step := self.loop.decide(), End):
            self.loop.do(step)
            if isinstance(step, Send):
                self.has_sent = True
                return True
        return False

    def results(self) -> Iterator[Any]:
        results, self._results = self._results, []
        return iter(results)

    def join(self) -> None:
        self.loop.drain()

    def _function(self, function: Callable[..., Any]) -> Any:
        if function not in self._functions:
            spec = self._member.place.spec
            self._functions[function] = ScheduledFunction(function, spec.feed, spec.config.train.batch_size)
        return self._functions[function].traced

    # ---- Surroundings ----

    def workers(self) -> dict[NodeId, WorkerPlace]:
        return self._member.place.workers_now()

    def send(self, number: int, epoch: int, updates: int, acknowledged: Sequence[LastReceipt]) -> None:
        function, args = self._next
        self._executions.send(number, function, (asked_for(epoch, updates, acknowledged), *args))

    def next(self, wait_s: float) -> ExecutionResult | None:
        result = self._executions.next(wait_s)
        if result is None:
            return None
        receipts, rows, value = result.value
        if rows:
            self._results.append(value)
        return result._replace(value=receipts)

    def broken_off(self) -> Counter[tuple[NodeId, int]]:
        return self._succession.broken_off

    def steps_made(self) -> int:
        """See `Surroundings`. A loop may have any number of optimizers, so trained batches count."""
        return self.loop.position.step

    def take_save_wish(self) -> bool:
        """See `Surroundings`. A hand-written loop saves by `node.checkpoint()`."""
        return False

    def steps_to_save(self, step: int) -> int | None:
        """See `Surroundings`. As above."""
        del step
        return None

    def is_time_up(self, step: int) -> bool:
        """See `Surroundings`. A hand-written loop ends by itself."""
        del step
        return False

    def save(self, position: Position, done: Done) -> None:
        """See `Surroundings`. As above."""

    def trained(self, position: Position) -> None:
        del position
        self._member.place.enter("training")


class BatchesOfRows:
    """Implements `sparktf.node.Rows`."""

    def __init__(self, layout: Layout, rows: Tensors, count: Any, batch_size: int) -> None:
        self.count = count
        self.batches = (count + batch_size - 1) // batch_size
        self._layout = layout
        self._rows = rows
        self._batch_size = batch_size

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def batch(self, number: Any) -> tuple[Any, ...]:
        start = tf.cast(number, tf.int64) * self._batch_size
        return self._layout.batch(rows_of(self._rows, start, tf.minimum(start + self._batch_size, self.count)))


class ScheduledFunction:
    """Wraps a user's function: takes rows before it, and marks them as trained after it.

    Attributes:
        traced: Takes the result of `packing.asked_for` and the user's arguments; returns receipts as JSON, the number
            of rows, and the user's result.
    """

    def __init__(self, function: Callable[..., Any], spec: FeedSpec, batch_size: int) -> None:
        # AutoGraph is for the user's code alone.
        self.traced = tf.function(self._run, autograph=False)
        is_traced = isinstance(function, tf.types.experimental.GenericFunction)
        self._function = function if is_traced else tf.function(function)
        self._spec = spec
        self._layout = Layout(spec)
        self._batch_size = batch_size

    def _run(self, asked: Any, *args: Any) -> tuple[Any, Any, Any]:
        rows, count, take = bring_rows(self._spec, asked)
        value = self._function(BatchesOfRows(self._layout, rows, count, self._batch_size), *args)
        with tf.control_dependencies(_effects()):
            return mark_trained(take, tf.zeros(1), tf.zeros(0, tf.int64)), count, value


def _effects() -> Sequence[Any]:
    """Returns all operations with side effects in the graph that is being recorded."""
    operations = tf.compat.v1.get_default_graph().get_operations()
    return [operation for operation in operations if operation.op_def is None or operation.op_def.is_stateful]
