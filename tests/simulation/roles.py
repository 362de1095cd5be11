"""Simulated nodes under parameter servers: the product's own loop, tally, leases and receipts, without TensorFlow."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, cast

import numpy as np
from simulation.evaluating import WEIGHTS, Counts, read_counts
from simulation.executions import Executions, Result, Task
from simulation.hub import PeerLostError, Waiter
from simulation.leasing import LeasedRows, leased
from simulation.nodes import Agent, Ids, Line, Trainer
from simulation.replays import Lessee, Replays
from simulation.saved import SimCheckpoint, staged_at
from simulation.servers import Execution, Parameters
from simulation.together import Part, Together

from sparktf.errors import NodeLostError, SparkTFError, StorageError
from sparktf.feed.leased_feed import LeasedFeed
from sparktf.feed.receipts import Receipts
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.sequence import Assignment, Stream
from sparktf.topology import NodeId, Role
from sparktf.trainer.node.position import Done, Extent, Position
from sparktf.trainer.parameter_server.accounts import epoch_done, rows_to_train
from sparktf.trainer.parameter_server.async_loop import AsyncLoop, AsyncLoopSettings
from sparktf.trainer.parameter_server.membership.seats import are_there
from sparktf.trainer.parameter_server.tally import LastReceipt, Tally
from sparktf.trainer.parameter_server.telling import Telling
from sparktf.wire.control import Action, TrainerOrder, WorkerPlace, WorkersOrder
from sparktf.wire.leasing import Receipt
from sparktf.wire.trainer_spec import Training
from sparktf.wire.uploads import Finished, Uploaded

_LOOK_S = 0.2
_CONNECTS_S = (0.05, 0.3)
"""So long TensorFlow takes to connect to all; whoever is lost meanwhile is waited for for ever."""

_EVALUATION_S = (0.8, 0.8, 7.0)
"""An evaluation takes so long at most; also longer than it is until a checkpoint by time is due."""

_SLOW = (1.0, 1.0, 1.0, 5.0)
"""By so much slower a worker is that shares updates with others."""

_NO_ROWS = np.empty(0, np.int64)


class AsyncLine(Line, Protocol):
    """What nodes of roles share besides."""

    replays: Replays

    def listen_at(self, address: str, trainer: Member) -> None:
        """Notes who listens at an address from now on."""

    def listens(self, address: str) -> bool:
        """Whether somebody who lives listens there."""

    def worker_at(self, address: str) -> Worker:
        """Returns the worker that has listened there last."""

    def member_at(self, address: str) -> Member | None:
        """Returns whoever has listened there last; None if nobody has."""

    def read(self, assignment: Assignment, epoch: int) -> tuple[Ids, Ids]:
        """Returns rows by content, and at which places of these they do not fail a check."""

    def parameters(self, attempt: int) -> Parameters:
        """Returns those of an attempt."""

    def together(self, attempt: int) -> Together | None:
        """Returns where workers of an attempt make updates together; None where each makes its own."""

    def hold(self, attempt: int, parameters: Parameters, together: Together | None) -> None:
        """Notes those of an attempt."""

    def lessee(self, attempt: int, node: NodeId, incarnation: int) -> Lessee:
        """Returns who leases rows."""

    def violate(self, what: str) -> None:
        """Notes that something is wrong."""

    def fed(self, worker: Worker, epoch: int, receipts: Receipts) -> LeasedFeed:
        """Returns what a worker takes of what Spark feeds."""

    def missed(self, trainer: Member, what: str) -> None:
        """Notes that a trainer does not find what it was told to read."""


class Member(Trainer):
    """A trainer of a gang of roles."""

    line: AsyncLine

    @staticmethod
    def _suffix(spec: Training) -> str:
        return f"{spec.attempt}-{spec.node.role}-{spec.node.index}.{spec.incarnation}"

    @property
    def is_chief(self) -> bool:
        return self.spec.node.role is Role.CHIEF

    @property
    def _evaluates(self) -> bool:
        return self.is_chief and super()._evaluates

    def freeze(self, for_s: float) -> None:
        self.process.freeze(for_s)

    def _listen(self) -> None:
        """Takes a while to start, then listens at the address that its agent has held for it."""
        self.process.sleep(self.process.rng.uniform(0.5, 3.0))
        cluster = self.spec.cluster
        addresses = {Role.CHIEF: cluster.chief, Role.WORKER: cluster.worker, Role.PS: cluster.ps}[self.spec.node.role]
        if addresses[self.spec.node.index] != self._address:
            raise StorageError("another address than the agent holds")
        self.line.listen_at(self._address, self)

    def strike_called(self, kind: str, what: str, within_s: float = 0.1) -> None:
        """Has it die, perhaps, around the moment at which somebody calls it, or it calls somebody."""
        if (chance := self.line.faults.strike(kind, f"{self.process} {what}")) is not None:
            self.line.hit(self.process, kind, lasts=True)
            self.line.hub.at(chance.uniform(0.0, within_s), lambda: self.exit(-9))


class Server(Member):
    """A parameter server: it holds variables, and uploads its own of a checkpoint; see `shard.Shard`.

    Attributes:
        is_busy: It is at the files of a checkpoint.
        error: Why it could not store them; "" if it could.
    """

    is_busy = False
    error = ""

    def _train(self) -> None:
        self._listen()
        self._finished = True
        self._ready()
        self._update(phase="serving")

    def upload(self, step: int, epoch: int, name: str, content: bytes) -> None:
        """Begins to upload a file of a checkpoint, and tells the driver of it."""
        self.is_busy, self.error = True, ""
        message = Uploaded(**self.spec.sender, step=step, epoch=epoch, done=(), keras="keras")
        begin = partial(self.process.spawn, partial(self._upload_file, message, name, content))
        self.process.when_awake(begin)

    def _upload_file(self, message: Uploaded, name: str, content: bytes) -> None:
        said: dict[str, Any]
        try:
            said = {"files": self._put(staged_at(self._rundir, message), {name: content})}
        except StorageError as error:
            self.error = str(error)
            said = {"error": f"{self.spec.node}: {error}"}
        try:
            self._send(Action.UPLOADED, message.model_copy(update=said))
        except SparkTFError as error:
            self.error = str(error)
        self.is_busy = False


class Worker(Member):
    """A worker: executes what comes, as `worker.Worker` does."""

    def __init__(self, line: AsyncLine, agent: Agent, spec: Training) -> None:
        super().__init__(line, agent, spec)
        line.replays.begun(line.lessee(spec.attempt, spec.node, spec.incarnation), self.process)
        self._receipts = Receipts(spec.node, spec.incarnation)
        self._begun: list[Execution] = []
        self._feed: LeasedFeed | None = None
        self._failed: Waiter | None = None
        self._error: SparkTFError | None = None
        self._is_fed = Stream.TRAIN in spec.staged
        self._is_dry = False
        self.slow = self.process.rng.choice(_SLOW)

    def _train(self) -> None:
        self._listen()
        self._finished = True
        self._ready(self.line.listen(self) if self._is_fed else None)
        self._update(phase="training")
        self._failed = Waiter(self.process)
        if self._error is None:
            self.process.wait(self._failed, 1e9)
        assert self._error is not None
        raise self._error

    def execute(self, execution: Execution, task: Task, answer: Callable[[bytes | Exception], None]) -> None:
        """Begins to make updates; answers the receipts that are not acknowledged."""
        self.strike_called("worker-dies", f"executes {task.number}", within_s=1.5)
        self._begun.append(execution)
        self.process.spawn(lambda: self._execute(execution, task, answer))

    def _execute(self, execution: Execution, task: Task, answer: Callable[[bytes | Exception], None]) -> None:
        self._receipts.acknowledge(*task.acknowledged[self.spec.node.index])
        number, ids = self._rows(task)
        lessee = self.line.lessee(self.spec.attempt, self.spec.node, self.spec.incarnation)
        self.line.replays.handed(lessee, task.epoch, len(ids))
        try:
            rows = self._apply(execution, ids, number)
        except PeerLostError as error:
            answer(error)
            return
        if rows is None:
            return
        if self._mark(execution, number, rows):
            self.line.replays.handed(lessee, task.epoch, -len(ids))
        answer(self._receipts.unacknowledged())

    def _apply(self, execution: Execution, ids: Ids, number: int) -> int | None:
        """Makes updates; returns of how many rows, None where it is broken off, and goes no further."""
        batch, parameters = self.spec.config.train.batch_size, self.line.parameters(self.spec.attempt)
        if (together := self.line.together(self.spec.attempt)) is not None:
            has_rows = number > 0 or not self._is_dry
            return Part(self, together, execution, number).train(ids, has_rows=has_rows, batch_size=batch)
        for start in range(0, len(ids), batch):
            self.process.sleep(self.process.rng.uniform(0.05, 0.4))
            parameters.reach(self.process)
            if execution.broke_off and execution.stalls_s:
                self.process.sleep(execution.stalls_s)
                execution.stalls_s = 0.0
            if execution.aborted:
                return None
            parameters.apply(execution, ids[start : start + batch])
        return len(ids)

    def _rows(self, task: Task) -> tuple[int, Ids]:
        try:
            if (feed := self._feed_of(task.epoch)) is not None:
                take = feed.take(task.updates, KNOBS.take_wait_s)
                self._is_dry = take.dry
                return take.number, cast("Ids", take.columns["x"]) if take.rows else _NO_ROWS
        except SparkTFError as error:
            self._error = error
            if self._failed is not None:
                self._failed.wake()
        self.process.sleep(KNOBS.take_wait_s)
        self._is_dry = True
        return 0, _NO_ROWS

    def _mark(self, execution: Execution, number: int, rows: int) -> bool:
        """Marks the first rows of a take as trained; returns whether that counts."""
        trained = self._feed.done(number, 1.0, rows) if self._feed is not None else None
        if trained is None and number and not execution.broke_off:
            # One that broke off, and went on, asked for rows after this one had: each may revoke one take.
            other = next((e for e in self._begun if e.broke_off and not e.has_revoked), None)
            if other is not None:
                other.has_revoked = execution.broke_off = True
        if trained is not None:
            self.line.parameters(self.spec.attempt).receipt(execution, self._receipts.made)
            rows = self._progress.rows_trained + trained.rows
            self._update(step=self._progress.step + trained.steps, rows_trained=rows)
        return trained is not None

    def _feed_of(self, epoch: int) -> LeasedFeed | None:
        train = self.spec.config.train
        if self._feed is not None and epoch > self._feed.epoch:
            self._feed.close()
            self._feed = None
        if self._feed is None:
            if self._is_fed:
                self._feed = self.line.fed(self, epoch, self._receipts)
            else:
                parts = leased(self, epoch, train.batch_size)
                self._feed = LeasedFeed(
                    epoch,
                    self.spec.feed,
                    cast("Any", LeasedRows(self, parts)),
                    self._receipts,
                    batch_rows=train.batch_size,
                    expect=parts.expect,
                )
            self._update(epoch=epoch, rows_trained=0)
        return self._feed if self._feed.epoch == epoch else None


class SimTelling(Telling):
    """Tells the driver, and the truth's book."""

    def __init__(self, coordinator: Coordinator, parameters: Parameters) -> None:
        super().__init__(cast("Any", coordinator._place))
        self._coordinator = coordinator
        self._parameters = parameters

    def add(self, receipts: Iterable[Receipt]) -> None:
        """See `Telling`."""
        receipts, line = list(receipts), self._coordinator.line
        for receipt in receipts:
            self._parameters.tell(receipt.node, receipt.incarnation, receipt.number)
            lessee = line.lessee(self._coordinator.spec.attempt, receipt.node, receipt.incarnation)
            line.replays.told(lessee, receipt.epoch, receipt.rows + receipt.rows_aside)
        super().add(receipts)

    def close(self, lost: Iterable[tuple[NodeId, int]]) -> None:
        """See `Telling`."""
        lost, line = list(lost), self._coordinator.line
        for node, incarnation in lost:
            line.replays.closed(line.lessee(self._coordinator.spec.attempt, node, incarnation))
        super().close(lost)


class ServersCheckpoint(SimCheckpoint):
    """See `ShardedCheckpoint`: each server uploads its part of the weights, the coordinator what none of them holds."""

    def __init__(self, coordinator: Coordinator, servers: Sequence[Server]) -> None:
        super().__init__(coordinator)
        self._process = coordinator.process
        self._servers = servers
        self._parts: dict[str, bytes] = {}

    def write(self, folder: Path) -> tuple[str, ...]:
        """See `Checkpoint`."""
        super().write(folder)
        weights, count = self.files.pop(WEIGHTS), len(self._servers)
        size = -(-len(weights) // count)
        self._parts = {f"{WEIGHTS}-{i}": weights[i * size : (i + 1) * size] for i in range(count)}
        return tuple(self._parts)

    def upload(self, message: Uploaded) -> None:
        """See `Checkpoint`."""
        for server, (name, part) in zip(self._servers, self._parts.items(), strict=True):
            server.upload(message.step, message.epoch, name, part)

    def settle(self) -> str:
        """See `Checkpoint`."""
        while any(server.is_busy for server in self._servers):
            if lost := next((server for server in self._servers if server.process.dead), None):
                raise PeerLostError(str(lost.spec.node))
            self._process.sleep(KNOBS.shard_poll_s)
        return next((f"{server.spec.node}: {server.error}" for server in self._servers if server.error), "")


class Coordinator(Member):
    """The coordinator: the product's loop decides, and this does it; see `coordinator.CoordinatedRun`.

    Attributes:
        seated: Whom it has connected to.
    """

    seated: tuple[WorkerPlace, ...] = ()

    def __init__(self, line: AsyncLine, agent: Agent, spec: Training) -> None:
        super().__init__(line, agent, spec)
        self._places: tuple[WorkerPlace, ...] = ()
        self._loop: AsyncLoop | None = None
        self._together: Together | None = None
        self._told = 0
        self._evaluation_s = random.Random(f"{self.process} {agent.seed} evaluates").choice(_EVALUATION_S)

        def ask(action: Action, message: Message, answer: Any) -> Any:
            del answer
            return self._call(action, message)

        self._place = SimpleNamespace(spec=spec, ask=ask, generation=lambda: 1)

    @property
    def epoch(self) -> int:
        """The one that it trains."""
        return self._loop.position.epoch if self._loop is not None else 0

    @property
    def content(self) -> list[Counts]:
        """See `Weighty`."""
        assert self._loop is not None
        places = {node: place.incarnation for node, place in self.workers().items()}
        return self._parameters.content(self._loop._late, places)

    def _train(self) -> None:
        spec = self.spec
        self._listen()
        self._connect()
        self._parameters = self._restore()
        self._servers = [cast("Server", self.line.member_at(address)) for address in spec.cluster.ps]
        self._parameters.place(self._servers)
        self._together = self._share_updates()
        self.line.hold(spec.attempt, self._parameters, self._together)
        self._executions = Executions(self)
        self._saves = self._make_saves(ServersCheckpoint(self, self._servers))
        train = spec.config.train
        self._loop = loop = AsyncLoop(
            AsyncLoopSettings(train.batch_size, self.spec.config.steps_per_call, Extent.of(train)),
            cast("Any", self),
            Tally(spec.cluster.workers()),
            SimTelling(self, self._parameters),
            Position.restored(spec.restore),
            self._together,
        )
        self._ready()
        self._update(phase="ready")
        self._make_up(loop.position)
        while (epoch := loop.begin_epoch()) is not None:
            self._train_epoch(loop, epoch)
            self._evaluate_at(loop.position)
        self._finish(loop)

    def _share_updates(self) -> Together | None:
        wanted = self.spec.config.train.replicas_to_aggregate
        if wanted is None:
            return None
        return Together(self.process, self._parameters, wanted, len(self.spec.cluster.worker), self._is_closed)

    def _is_closed(self, execution: Execution) -> bool:
        of = execution.worker.spec
        return self.line.replays.is_closed(self.line.lessee(of.attempt, of.node, of.incarnation))

    def _connect(self) -> None:
        """Waits until all others answer where they are now, then connects, as `connect` does.

        Raises:
            NodeLostError: a worker was lost meanwhile: the call to it never ends.
        """
        while not self._all_answer(seated := tuple(self.workers().values())):
            self.process.sleep(_LOOK_S)
        self.seated = seated
        self.process.sleep(self.process.rng.uniform(*_CONNECTS_S))
        while not self._all_answer(seated):
            gone = [place for place in seated if self.workers()[place.node].incarnation > place.incarnation]
            if gone:
                self.process.sleep(self.spec.config.timeouts.stop + KNOBS.reconnect_s)
                raise NodeLostError(f"{gone[0].node} was lost while TensorFlow connected to it")
            self.process.sleep(_LOOK_S)

    def _all_answer(self, seated: Sequence[WorkerPlace]) -> bool:
        addresses = (*(place.address for place in seated), *self.spec.cluster.ps)
        return are_there(seated) and all(self.line.listens(address) for address in addresses)

    def _restore(self) -> Parameters:
        restore, none = self.spec.restore, self.line.empty()
        if restore is None:
            return Parameters(none, none.copy(), 0)
        weights, doubt = read_counts(self._storage, restore.path, restore.files, none)
        return Parameters(weights, doubt, restore.step)

    def _train_epoch(self, loop: AsyncLoop, epoch: int) -> None:
        loop.run_epoch(rows_to_train(cast("Any", self._place), epoch))
        self._send(Action.EPOCH_DONE, epoch_done(self.spec, loop.position, loop.rows_aside, self._dropped()))
        self.save(loop.position, loop.done, last=not loop.position.is_complete)

    def _dropped(self) -> int:
        told, self._told = self._told, self._together.dropped if self._together is not None else 0
        return self._told - told

    def _make_up(self, position: Position) -> None:
        """Evaluates what is restored, where that was not told; see `Weights.make_up`."""
        restore = self.spec.restore
        if restore is None or restore.evaluated:
            return
        if not restore.cursor.rows and restore.cursor.epoch:
            self._evaluate_at(replace(position, epoch=restore.cursor.epoch - 1))
        elif Extent.of(self.spec.config.train).epoch_after(position) is None:
            self._evaluate_at(position)

    def _evaluate_at(self, position: Position) -> None:
        """Evaluates the weights that there are."""
        if not self._evaluates:
            return
        rows = self._validation_rows(position.epoch)
        self._parameters.reach(self.process)
        content = self.content
        self.process.sleep(self.process.rng.uniform(0.05, self._evaluation_s))
        self._offer(position.epoch, position.step, rows, content)

    def _finish(self, loop: AsyncLoop) -> None:
        self.strike_called("coordinator-dies", "exports")
        self._parameters.reach(self.process)
        self._export(self)
        self._saves.wait()
        for found in (*self._parameters.twice, *(self._together.wrong if self._together is not None else ())):
            self.line.violate(f"{self.process}: {found}")
        self._send(
            Action.FINISHED, Finished(**self.spec.sender, step=loop.position.step, model=self._model, kept=self._kept)
        )
        self._update(phase="finished")
        self._finished = True

    def _obey(self, order: TrainerOrder) -> None:
        super()._obey(order)
        if isinstance(order, WorkersOrder):
            for place in order.workers:
                if place.address and self.line.member_at(place.address) is None:
                    self.line.violate(f"{self.process} is told that {place.node} is at {place.address}: nobody is")
                if place.stand_in and not self.seated:
                    self.line.violate(f"{self.process} is told of a stand-in for {place.node} before it begins")
            self._places = order.workers
            if self._loop is not None:
                self._executions.look()

    def _beat(self) -> float:
        if self._loop is not None:
            at = self._loop.position
            self._update(epoch=at.epoch, step=at.step, rows_trained=at.rows, loss=at.loss)
        return super()._beat()

    # ---- what the loop needs ----

    def workers(self) -> dict[NodeId, WorkerPlace]:
        """See `Surroundings`."""
        at_first = self.spec.cluster.workers().items()
        first = (WorkerPlace(node=node, incarnation=0, address=address) for node, address in at_first)
        return {place.node: place for place in (*first, *self._places)}

    def send(self, number: int, epoch: int, updates: int, acknowledged: Sequence[LastReceipt]) -> None:
        """See `Surroundings`."""
        self._raise_perhaps()
        self.strike_called("coordinator-dies", f"sends execution {number}")
        self._executions.send(number, epoch, updates, acknowledged)

    def next(self, wait_s: float) -> Result | None:
        """See `Surroundings`."""
        result = self._executions.next(wait_s)
        if result is not None:
            self.strike_called("coordinator-dies", f"takes execution {result.number}")
        return result

    def broken_off(self) -> Counter[tuple[NodeId, int]]:
        """See `Surroundings`."""
        return self._executions.broken_off.copy()

    def steps_made(self) -> int:
        """See `Surroundings`."""
        self._parameters.reach(self.process)
        return self._parameters.steps

    def take_save_wish(self) -> bool:
        """See `Surroundings`."""
        return self._saves.take_wish()

    def steps_to_save(self, step: int) -> int | None:
        """See `Surroundings`."""
        return self._saves.steps_left(step)

    def is_time_up(self, step: int) -> bool:
        """See `Surroundings`."""
        del step
        return False

    def save(self, position: Position, done: Done, *, last: bool = False) -> None:
        """See `Surroundings`."""
        self.strike_called("coordinator-dies", f"saves step {position.step}")
        self._parameters.reach(self.process)
        teller = self.line.lessee(self.spec.attempt, self.spec.node, self.spec.incarnation)
        self.line.replays.in_doubt(teller, position.epoch, done.in_doubt)
        self._save(position, done, last=last)

    def trained(self, position: Position) -> None:
        """See `Surroundings`."""
        self._update(phase="training")
