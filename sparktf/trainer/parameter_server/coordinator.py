"""The coordinator: connects to the cluster, and trains a Keras model or runs a hand-written loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from sparktf.errors import ModelContractError
from sparktf.feed.arrays.columns import Array
from sparktf.topology import NodeId
from sparktf.trainer.model.exchange import ALONE
from sparktf.trainer.model.model import UserModel, is_low_level, load_function
from sparktf.trainer.model.trackables import on_large_tables
from sparktf.trainer.node.checkpoint_writer import CheckpointWriter
from sparktf.trainer.node.inputs import Input
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.model_run import ModelRun
from sparktf.trainer.node.outputs import Output
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.position import Done, Position
from sparktf.trainer.node.report import log_line
from sparktf.trainer.node.saving import Saves
from sparktf.trainer.parameter_server.accounts import epoch_done, rows_to_train
from sparktf.trainer.parameter_server.async_loop import AsyncLoop, AsyncLoopSettings
from sparktf.trainer.parameter_server.checkpoint.checkpoint_in_parts import ShardedCheckpoint
from sparktf.trainer.parameter_server.checkpoint.plain_copy import CommittedCopy
from sparktf.trainer.parameter_server.checkpoint.servers import Servers
from sparktf.trainer.parameter_server.coordinator_node import CoordinatorNode
from sparktf.trainer.parameter_server.dispatch import IN_FLIGHT
from sparktf.trainer.parameter_server.fetching import ExecutionResult, Executions
from sparktf.trainer.parameter_server.membership.connect import Connection, connect
from sparktf.trainer.parameter_server.meter import ProcessMeter
from sparktf.trainer.parameter_server.sampling import Sampling
from sparktf.trainer.parameter_server.shared_updates.aggregated_closure import AggregatedClosure
from sparktf.trainer.parameter_server.shared_updates.aggregation import Aggregation
from sparktf.trainer.parameter_server.shared_updates.rounds import Rounds
from sparktf.trainer.parameter_server.tally import LastReceipt, Tally
from sparktf.trainer.parameter_server.telling import Telling
from sparktf.trainer.parameter_server.update.closure import Closure
from sparktf.trainer.parameter_server.update.metric_states import MetricStates
from sparktf.trainer.parameter_server.update.packing import asked_for
from sparktf.wire.control import Action, WorkerPlace


def coordinate(place: Place) -> None:
    """Trains as specified; ends the process, or raises.

    Connect before anything else, even before importing the user's module, which may already touch TensorFlow.

    Raises:
        ModelContractError: a `train(node)` is to aggregate replicas, or the user's code breaks its contract.
    """
    tf.get_logger().setLevel("ERROR")
    connection = connect(place)
    function: Callable[..., Any] = load_function(place.spec.config)
    read = Input(place)
    saves, output = Saves(place, CheckpointWriter), Output(place, read.sampled)
    member = Member(place, connection.cluster.strategy, read, saves, output)
    if is_low_level(function):
        if place.spec.config.train.replicas_to_aggregate is not None:
            raise ModelContractError(
                "train.replicas_to_aggregate applies to a model from build(params, assets), and train(node) makes its "
                "own updates: leave the setting out"
            )
        CoordinatorNode(member, connection).run(function)
    else:
        CoordinatedRun(member, connection, function).run()


class CoordinatedRun(ModelRun):
    """See `ModelRun`: workers update a model on parameter servers. Also the loop's `Surroundings`."""

    def __init__(self, member: Member, connection: Connection, build: Callable[..., Any]) -> None:
        place = member.place
        spec, config = place.spec, place.spec.config
        self._spec = spec
        cluster, self._succession = connection
        with cluster.strategy.scope():
            with place.listening():
                model = UserModel(build, config, spec.assets, spec.feed, unseen=True)
            member.output.check(model)
            wanted = config.train.replicas_to_aggregate
            kind = Closure if wanted is None else AggregatedClosure
            self._closure: Closure | AggregatedClosure = kind(
                cluster.strategy, model, batch_size=config.train.batch_size
            )
        for index, nbytes in enumerate(cluster.placement.nbytes):
            log_line(f"sparktf: ps {index} holds {nbytes} bytes of variables")
        for text in on_large_tables(model.model):
            place.warn(text)
        trains = config.train.init_optimizer  # later runs then begin with this one's optimizer state, too
        plain = partial(UserModel, build, config, spec.assets, spec.feed, trains=trains)
        copy = CommittedCopy(place, member.saves, model, plain, trains=trains)
        servers = Servers(len(spec.cluster.ps))
        checkpoint = ShardedCheckpoint(servers, model.variables(), model=model.model, optimizer=model.optimizer)
        if self._closure.metrics.unmeasured:
            place.warn(f"model: the history has no metrics of training: {self._closure.metrics.unmeasured}")
        measured = ReceiptMetrics(self._closure.metrics, lambda: self._loop.added)
        super().__init__(member, model, build, copy=copy, checkpoint=checkpoint, exchange=ALONE, measured=measured)
        self._executions = Executions(
            cluster.coordinator,
            threads=2 * IN_FLIGHT * place.workers,
            patience_s=config.timeouts.progress,
        )
        self._together = None
        if isinstance(self._closure, AggregatedClosure):
            rounds = Rounds(config.train.replicas_to_aggregate or 1, place.workers)
            sending = self._succession.sending
            self._together = Aggregation(rounds, self._closure.update, self._closure.throw_away, sending)
            self._together.start()
        self._sampling = None
        if isinstance(self._closure, Closure):
            plain = partial(self._trace_plain, self._closure)
            first = IN_FLIGHT * place.workers
            self._sampling = Sampling(self._closure.function, plain, traced_s=self._closure.traced_s, first=first)
        self._dropped = 0
        self._telling = Telling(place)
        settings = AsyncLoopSettings(config.train.batch_size, config.steps_per_call, member.extent)
        tally = Tally(spec.cluster.workers())
        at = Position.restored(spec.restore)
        self._counted_before = self._counted() - at.step
        self._loop: AsyncLoop = AsyncLoop(settings, self, tally, self._telling, at, self._together)
        place.follow(self._loop)
        place.measure(ProcessMeter())

    def _train(self, epoch: int) -> Done:
        self._loop.run_epoch(rows_to_train(self._member.place, epoch))
        message = epoch_done(self._spec, self._loop.position, self._loop.rows_aside, self._dropped_since_told())
        self._member.place.send(Action.EPOCH_DONE, message)
        return self._loop.done

    def _dropped_since_told(self) -> int:
        """Returns the number of gradients dropped since the previous epoch."""
        told, self._dropped = self._dropped, self._together.dropped if self._together is not None else 0
        return self._dropped - told

    def _trace_plain(self, closure: Closure) -> Any:
        # TFE_ContextAddFunction holds the GIL, and does not return while the host of a busy worker is cut off: this
        # process sends no heartbeat then, and the driver allows for it; see `Losses.may_hold_up`.
        with self._succession.sending:
            return closure.plain()

    # ---- Surroundings ----

    def workers(self) -> dict[NodeId, WorkerPlace]:
        return self._member.place.workers_now()

    def send(self, number: int, epoch: int, updates: int, acknowledged: Sequence[LastReceipt]) -> None:
        function = self._closure.function
        if self._sampling is not None:
            incarnations = tuple(place.incarnation for place in self.workers().values())
            function = self._sampling.choose(number, incarnations)
        self._executions.send(number, function, (asked_for(epoch, updates, acknowledged),))

    def next(self, wait_s: float) -> ExecutionResult | None:
        return self._executions.next(wait_s)

    def broken_off(self) -> Counter[tuple[NodeId, int]]:
        return self._succession.broken_off

    def steps_made(self) -> int:
        return self._counted() - self._counted_before

    def _counted(self) -> int:
        """Returns the updates that the optimizer has counted, including those of the run it began from."""
        return int(self._model.optimizer.iterations.numpy())

    def take_save_wish(self) -> bool:
        return self._member.saves.take_wish()

    def steps_to_save(self, step: int) -> int | None:
        return self._member.saves.steps_left(step)

    def is_time_up(self, step: int) -> bool:
        return self._epoch_end.is_time_up(step)

    def save(self, position: Position, done: Done) -> None:
        self._member.save(position, done)

    def trained(self, position: Position) -> None:
        self._member.place.enter("training")
        self._member.output.loss(position)


class ReceiptMetrics:
    """See `EpochMetrics`: the metrics of the rows that have receipts."""

    def __init__(self, states: MetricStates, added: Callable[[], Array | None]) -> None:
        """Reads nothing yet.

        Args:
            added: Returns what the rows of the epoch add to the states; None if not measured.
        """
        self._states = states
        self._added = added

    def begin(self) -> None:
        """See `EpochMetrics`. Receipts are counted by epoch anyway."""

    def take(self) -> dict[str, float]:
        added = self._added()
        return {} if added is None else self._states.values(added)
