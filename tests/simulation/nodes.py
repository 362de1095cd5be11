"""Simulated nodes: agents and trainers that say what real ones say, when they say it, and train on rows by content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
from simulation.evaluating import Best, Counts, as_files, read_counts, rule_of, values_of
from simulation.faults import Faults
from simulation.hub import CUT, Hub, PeerLostError, Process, Waiter
from simulation.saved import SimCheckpoint, SimWriter, put

from sparktf import errors
from sparktf.errors import (
    ControlError,
    DriverLostError,
    ErrorRecord,
    LinkCutError,
    NotStoredError,
    RefusedError,
    SparkTFError,
    StorageError,
    Verdict,
    record_of,
)
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.results.keep import Evaluation, Kept
from sparktf.rundir import RunDirectory
from sparktf.sequence import Interval, Stream, batch_shares
from sparktf.storage.base import Storage
from sparktf.trainer.node.position import Done, Position
from sparktf.trainer.node.saving import Saves
from sparktf.trainer.sync.book import Book, Word
from sparktf.wire.channel import Numbers
from sparktf.wire.control import (
    Action,
    AgentHeartbeat,
    AssignmentRequest,
    EpochDone,
    Failed,
    Heartbeat,
    Metrics,
    Order,
    Progress,
    Ready,
    Registration,
    StopOrder,
    TrainerExited,
    TrainerOrder,
)
from sparktf.wire.data import DataAddress
from sparktf.wire.trainer_spec import Training
from sparktf.wire.uploads import Finished, StagedFile

_A = TypeVar("_A", bound=Message)
Ids = npt.NDArray[np.int64]

BEAT_S = 1.0
STEPS = 4
"""The most updates of a call."""

KNOBS.driver_gone_s = 1.0


class GoneError(DriverLostError):
    """The driver's process is gone."""


class Share(Protocol):
    """What a node trains on in an epoch.

    Attributes:
        intervals: Its rows in the epoch sequence, as far as they are known.
    """

    @property
    def intervals(self) -> Sequence[tuple[int, int]]: ...

    def first(self, rows: int) -> Ids:
        """Returns so many of its rows by content, fewer where it has no more; may wait for them."""


class Weighty(Protocol):
    """Who has the weights of a model."""

    @property
    def content(self) -> list[Counts]:
        """What its checkpoints hold: the weights, and perhaps what of them is in doubt."""


class Line(Protocol):
    """The way to one driver, and what its nodes share."""

    hub: Hub
    faults: Faults
    driver: Process

    def call(self, caller: Process, action: Action, message: Message, timeout_s: float) -> Any:
        """Returns the driver's answer. Raises as `ControlClient.call` does."""

    def storage(self, process: Process) -> Storage:
        """Returns a node's view of the storage."""

    def collective(self, spec: Training) -> Collective:
        """Returns that of an attempt's trainers."""

    def listen(self, trainer: Trainer) -> DataAddress:
        """Returns where feeders find a trainer from now on."""

    def share(self, trainer: Trainer, answer: Any, epoch: int) -> Share:
        """Returns what a trainer was given."""

    def empty(self) -> npt.NDArray[np.uint8]:
        """Returns the weights of a model that has seen no row: how often it saw each, by epoch."""

    def hit(self, process: Process, what: str, *, lasts: bool = False) -> None:
        """Notes that something happened to a process, for which it may be blamed."""

    def stores(self, trainer: Trainer, path: str) -> None:
        """Notes that a trainer stores a file, which must be nobody else's: their uploads would mix."""

    def trainer(self, agent: Agent, spec: Training) -> Trainer:
        """Starts a trainer of the node's role."""

    def began(self, trainer: Trainer) -> None:
        """Notes a trainer that is started."""

    def ended(self, agent: Agent, *, home: bool) -> None:
        """Notes that an agent's task has ended."""


def patiently(
    line: Line, caller: Process, action: Action, message: Message, patience_s: float, timeout_s: float
) -> Any:
    """Calls as `ControlClient.call_patiently` does."""
    if caller.numbers is None:
        caller.numbers = Numbers()
    with caller.numbers.numbered(action, message) as numbered:
        began_s, pause_s = line.hub.now, 0.1
        while True:
            try:
                return line.call(caller, action, numbered, timeout_s)
            except DriverLostError:
                if line.hub.now - began_s >= patience_s:
                    raise
            caller.sleep(pause_s)
            pause_s = min(pause_s * 2, 2.0)


class Summed(NamedTuple):
    """What all nodes have brought to some updates, and how many these are."""

    rows: int
    updates: int
    words: tuple[Word, ...]  # By rank


def ordered(intervals: Sequence[Interval], first: int, stop: int) -> list[Interval]:
    """Returns where some rows of a share are in the epoch sequence, in the order of the share."""
    found, before = [], 0
    for start, end in intervals:
        a, b = max(first - before, 0), min(stop - before, end - start)
        if a < b:
            found.append((start + a, start + b))
        before += end - start
    return found


class Collective:
    """What TensorFlow is to the trainers of an attempt: sums over all of them, and the weights that these make.

    Attributes:
        weights: How often each row of each epoch was trained on.
    """

    def __init__(self, hub: Hub, nodes: int, weights: npt.NDArray[np.uint8]) -> None:
        self.weights = weights
        self._hub = hub
        self._nodes = nodes
        self._here: dict[int, Trainer] = {}
        self._said: dict[int, tuple[Waiter, Ids, tuple[Interval, ...]]] = {}
        self._ends: dict[int, LinkCutError | None] = {}  # Of the link that is cut, with what they have found
        self.broken_by = ""

    @property
    def content(self) -> list[Counts]:
        """See `Weighty`."""
        return [self.weights]

    def join(self, trainer: Trainer) -> None:
        self._here[trainer.spec.node.index] = trainer
        trainer.process.on_end.append(lambda: self._lose(trainer))

    def sum(
        self,
        trainer: Trainer,
        epoch: int | None,
        rows: Ids,
        steps: int,
        takes_s: float,
        spans: Sequence[Interval] = (),
    ) -> Summed:
        """Waits for all; returns the rows of all nodes, and the updates that they make.

        Args:
            epoch: None where nothing is trained.
            spans: Where the rows are in the epoch sequence.

        Raises:
            PeerLostError: one of them is gone.
            LinkCutError: the network takes nothing to a peer.
        """
        rank = trainer.spec.node.index
        self._check(rank)
        waiter = Waiter(trainer.process)
        self._said[rank] = waiter, rows, tuple(spans)
        if len(self._said) == self._nodes and not self._ends:
            self._add(epoch, steps, takes_s)
        trainer.process.wait(waiter, 1e9)
        if waiter.answer is None:
            self._check(rank)
            raise PeerLostError(self.broken_by)
        answer: Summed = waiter.answer
        return answer

    def _check(self, rank: int) -> None:
        if (cut := self._ends.get(rank)) is not None:
            raise cut
        if self.broken_by:
            raise PeerLostError(self.broken_by)

    def cut(self, trainer: Trainer) -> list[Trainer]:
        """Cuts a trainer's link to the next one; returns the ends, of which each finds out for itself."""
        other = self._here.get((trainer.spec.node.index + 1) % self._nodes)
        if other is None or other is trainer or self.broken_by or self._ends:
            return []
        one, two = ends = sorted((trainer, other), key=lambda end: end.spec.node.index)
        text = f"the network has taken no bytes between {one.spec.node} and {two.spec.node}: {two.spec.node} {CUT}"
        for end in ends:
            self._ends[end.spec.node.index] = None
            self._hub.at(end.process.rng.uniform(1.0, 4.0), partial(self._find, end, LinkCutError(text)))
        return ends

    def _find(self, end: Trainer, cut: LinkCutError) -> None:
        rank = end.spec.node.index
        self._ends[rank] = cut
        if rank in self._said:
            self._said.pop(rank)[0].wake()

    def frozen(self, trainer: Trainer, for_s: float) -> None:
        """Notes that a trainer stands still: TensorFlow's peers give it up after a while, ours wait for the driver."""
        is_ours = trainer.spec.collectives == "sparktf"
        if not is_ours and for_s > 2.0 and self._here.get(trainer.spec.node.index) is trainer:
            self._hub.at(trainer.process.rng.uniform(1.5, 9.0), lambda: self._give_up(trainer))

    def _give_up(self, trainer: Trainer) -> None:
        if trainer.process.frozen:
            self._lose(trainer)

    def _add(self, epoch: int | None, steps: int, takes_s: float) -> None:
        said, self._said = self._said, {}
        total = 0
        for _, rows, _ in said.values():
            total += len(rows)
            if len(rows) and epoch is not None:
                np.add.at(self.weights[epoch], rows, 1)
        updates = max(-(-len(said[rank][1]) // share) for rank, share in enumerate(self._shares))
        words = tuple(Word(len(said[rank][1]), spans=said[rank][2]) for rank in range(self._nodes))
        summed = Summed(total, min(updates, steps), words)
        for waiter, *_ in said.values():
            self._hub.at(takes_s, lambda waiter=waiter: waiter.wake(summed))  # type: ignore[misc]

    def sized(self, batch_size: int) -> None:
        self._shares = [10**9 if share == 0 else share for share in batch_shares(batch_size, self._nodes)]

    def _lose(self, trainer: Trainer) -> None:
        if self.broken_by or trainer.is_done:
            return
        self.broken_by = str(trainer.spec.node)
        said, self._said = self._said, {}
        for waiter, *_ in said.values():
            self._hub.at(trainer.process.rng.uniform(0.0, 0.8), waiter.wake)


class Trainer:
    """A trainer's process.

    Attributes:
        exit_code: None while it lives.
        begun_s: When it was started.
    """

    def __init__(self, line: Line, agent: Agent, spec: Training) -> None:
        self.line = line
        self.spec = spec
        self.agent = agent
        self._address = agent.address
        self.exit_code: int | None = None
        self.begun_s = line.hub.now
        self.is_done = False
        self.stop_asked_s: float | None = None
        name = f"{agent.process.name}/{self._suffix(spec)}"
        self.process = Process(line.hub, name, agent.seed, skew_s=agent.process.skew_s)
        self.process.on_end.append(self._note_end)
        self._storage = line.storage(self.process)
        self._rundir = RunDirectory(spec.run_root, spec.config.name, spec.run_id)
        self._progress = Progress()
        self._last_beat: Heartbeat | None = None
        self._finished = False
        self._rule = rule_of(spec.config) if self._evaluates else None
        restored = spec.restore.best if spec.restore else None
        self._best = Best(self._rule, restored) if self._rule is not None else None
        self._kept: Kept | None = None
        self.process.spawn(self._main)
        self.process.spawn(self._beats)

    @staticmethod
    def _suffix(spec: Training) -> str:
        return f"{spec.attempt}-{spec.node.index}"

    @property
    def is_chief(self) -> bool:
        return self.spec.node.index == 0

    @property
    def leads(self) -> bool:
        """See `Place.leads`."""
        return self.spec.leads

    def exit(self, code: int) -> None:
        """Ends it, with an exit code."""
        if self.exit_code is None and not self.process.dead:
            self.exit_code = code
            self.process.kill()

    def freeze(self, for_s: float) -> None:
        self.process.freeze(for_s)
        self.line.collective(self.spec).frozen(self, for_s)

    def _note_end(self) -> None:
        if self.exit_code is None:
            self.exit_code = -9

    # ---- what it says ----

    def _call(self, action: Action, message: Message) -> Any:
        timeouts = self.spec.config.timeouts
        return patiently(self.line, self.process, action, message, timeouts.driver_lost, timeouts.heartbeat)

    def _send(self, action: Action, message: Message) -> None:
        with suppress(ControlError):
            self._beat()
        self._call(action, message)

    def _beats(self) -> None:
        heard_s = self.line.hub.now
        while True:
            beat_s = BEAT_S
            try:
                beat_s = max(self._beat(), BEAT_S)
                heard_s = self.line.hub.now
            except RefusedError:
                self.exit(143)
            except DriverLostError as error:
                patience_s = (
                    KNOBS.driver_gone_s if isinstance(error, GoneError) else self.spec.config.timeouts.driver_lost
                )
                if self.line.hub.now - heard_s > patience_s:
                    self.exit(70)
            except ControlError:
                pass
            self.process.sleep(beat_s)

    def _beat(self) -> float:
        if self._last_beat is None or self._last_beat.progress is not self._progress:
            self._last_beat = Heartbeat.model_construct(**self.spec.sender, progress=self._progress)
        heartbeat_s = self.spec.config.timeouts.heartbeat
        answer = self.line.call(self.process, Action.HEARTBEAT, self._last_beat, heartbeat_s)
        for order in answer.orders:
            self._obey(order)
        return float(answer.beat_s)

    def _obey(self, order: TrainerOrder) -> None:
        if isinstance(order, StopOrder):
            self.exit(0 if self._finished else 143)

    def _update(self, **changes: Any) -> None:
        self._progress = self._progress.model_copy(update=changes)

    # ---- its life ----

    def _main(self) -> None:
        try:
            self._train()
        except LinkCutError as error:
            self._fail(record_of(error, time_s=0.0).model_copy(update={"peer": True}))
        except PeerLostError as error:
            text = f"{self.spec.node} lost its peers: {error}"
            self._fail(
                ErrorRecord(type="NodeLostError", message=text, verdict=Verdict.INFRASTRUCTURE, time_s=0, peer=True)
            )
        except SparkTFError as error:
            is_of_peer = isinstance(error, errors.PeerLostError)
            self._fail(record_of(error, time_s=0.0).model_copy(update={"peer": is_of_peer}))

    def _fail(self, record: ErrorRecord) -> None:
        time_s = 1_790_000_000.0 + self.line.hub.now + self.process.skew_s
        record = record.model_copy(update={"time_s": time_s, "node": str(self.spec.node)})
        failed = Failed(**self.spec.sender, record=record)
        with suppress(ControlError):
            patiently(self.line, self.process, Action.FAILED, failed, 3.0, self.spec.config.timeouts.heartbeat)
        self.exit(1)

    def _train(self) -> None:
        spec, line, rng = self.spec, self.line, self.process.rng
        self.process.sleep(rng.uniform(0.5, 3.0))
        if spec.cluster.worker[spec.node.index] != self._address:
            raise StorageError("another address than the agent holds")
        weights = self._restored()
        data = line.listen(self) if spec.staged else None
        together = line.collective(spec)
        together.join(self)
        nothing = np.empty(0, np.int64)
        together.sum(self, None, nothing, 0, 0.1)
        if self.is_chief:
            together.weights[:] = weights
        self._ready(data)
        self._update(phase="ready")
        self._saves = self._make_saves(SimCheckpoint(together if self.is_chief else None))
        step = spec.restore.step if spec.restore else 0
        first = spec.restore.cursor.epoch if spec.restore else 0
        share = batch_shares(spec.config.train.batch_size, len(spec.cluster.worker))[spec.node.index]
        every = spec.config.checkpoint.every_steps or 10**9
        if spec.restore and not spec.restore.evaluated and not spec.restore.cursor.rows and first:
            self._evaluate(together, first - 1, step)
        for epoch in range(first, spec.config.train.epochs):
            step = self._epoch(together, epoch, step, share, every)
            self._evaluate(together, epoch, step)
        self._export(together)
        self._saves.wait()
        model = self._model if self.is_chief else ()
        self.is_done = True
        self._send(Action.FINISHED, Finished(**spec.sender, step=step, model=model, kept=self._kept))
        self._update(phase="finished")
        self._finished = True

    def _ready(self, data: DataAddress | None = None) -> None:
        replicas = len(self.spec.cluster.worker) if not self.spec.cluster.ps else 1
        ready = Ready(
            **self.spec.sender, replicas=replicas, keras="keras", versions={}, weights=10, data=data, keep=self._rule
        )
        self._send(Action.READY, ready)

    def _epoch(self, together: Collective, epoch: int, step: int, share: int, every: int) -> int:
        spec, rng = self.spec, self.process.rng
        self._update(epoch=epoch, rows_trained=0, phase="training")
        request = AssignmentRequest(**spec.sender, stream=Stream.TRAIN, epoch=epoch)
        given = self.line.share(self, self._call(Action.ASSIGNMENT, request), epoch)
        rows, book = 0, Book(spec.config.train.batch_size, len(spec.cluster.worker), STEPS)
        while True:
            steps = min(STEPS, every - step % every)
            taken = given.first(rows + share * steps)[rows:]
            self._raise_perhaps()
            spans = ordered(given.intervals, rows, rows + len(taken))
            summed = together.sum(self, epoch, taken, steps, rng.uniform(0.1, 0.6), spans)
            if not summed.rows:
                break
            book.add(book.block(summed.words), summed.updates)
            step, rows = step + summed.updates, rows + len(taken)
            self._update(epoch=epoch, step=step, rows_trained=rows)
            if step % every == 0:
                self._save(Position(epoch, step, rows), book.done)
        done = EpochDone(**spec.sender, epoch=epoch, step=step, rows_fed=rows, rows_trained=rows, complete=True)
        self._send(Action.EPOCH_DONE, done)
        self._save(Position(epoch, step, rows).ended(complete=True), Done(of_all=True))
        return step

    # ---- evaluation ----

    @property
    def _evaluates(self) -> bool:
        """Whether those who train evaluate as well; see `Place.evaluates`."""
        return self.spec.has(Stream.VALIDATION) and not self.spec.config.cluster.evaluator

    def _evaluate(self, together: Collective, epoch: int, step: int) -> None:
        """Evaluates with all others, as the last of an epoch."""
        if not self._evaluates:
            return
        rows = np.zeros(self._validation_rows(epoch), np.int64)
        summed = together.sum(self, None, rows, 0, self.process.rng.uniform(0.1, 0.6))
        if self.is_chief:
            self._offer(epoch, step, summed.rows, [*together.content, self.line.empty()])

    def _validation_rows(self, epoch: int) -> int:
        self._update(phase="evaluating")
        request = AssignmentRequest(**self.spec.sender, stream=Stream.VALIDATION, epoch=epoch)
        answer = self._call(Action.ASSIGNMENT, request)
        return sum(piece.rows for piece in answer.assignment.pieces)

    def _offer(self, epoch: int, step: int, rows: int, content: list[Counts]) -> None:
        """Tells of metrics, and keeps the weights if they are the best."""
        found = Evaluation(epoch=epoch, step=step, rows=rows, values=values_of(content[0], content[1]))
        self._tell_metrics(Metrics(**self.spec.sender, stream=Stream.VALIDATION, **found.model_dump()))
        if self._best is not None:
            self._best.offer(found, content)

    def _tell_metrics(self, metrics: Metrics) -> None:
        self._send(Action.METRICS, metrics)

    def _raise_perhaps(self) -> None:
        if self.line.faults.strike("model-raises", f"{self.process}: the model's code raises", weight=0.05):
            self.line.hit(self.process, "model")
            error = SparkTFError("the model's own code raised")
            error.record = ErrorRecord(
                type="ModelError", message="ValueError: of the model", verdict=Verdict.MODEL_FAILED, time_s=0
            )
            raise error

    # ---- checkpoints ----

    def _restored(self) -> npt.NDArray[np.uint8]:
        restore, weights = self.spec.restore, self.line.empty()
        if restore is None:
            return weights
        return read_counts(self._storage, restore.path, restore.files, weights)[0]

    def _make_saves(self, checkpoint: SimCheckpoint) -> Saves:
        """Returns the product's own, around what is simulated of writing and storing."""
        place = SimPlace(self, self._storage, lambda phase: self._update(phase=phase))
        saves = Saves(cast("Any", place), lambda place, keras: SimWriter(self, self._rundir))
        saves.restore(checkpoint, "keras")
        return saves

    def _save(self, position: Position, done: Done, *, last: bool = False) -> None:
        """See `Member.save`."""
        if self._saves.lack(position):
            self._saves.save(position, done, last=last)

    def _put(self, folder: str, files: dict[str, bytes]) -> tuple[StagedFile, ...]:
        return put(self, self._storage, folder, files)

    # ---- export ----

    def _export(self, together: Weighty) -> None:
        self._model: tuple[StagedFile, ...] = ()
        if not self.is_chief:
            return
        found = self._best.restore(self._storage, self.line.empty()) if self._best is not None else None
        content = together.content
        if found is not None:
            self._kept, content = found
        self._export_as("model", content)

    def _export_as(self, folder: str, content: list[Counts]) -> None:
        self._update(phase="exporting")
        try:
            self._model = self._put(self._rundir.staged(self.spec.attempt, folder), as_files(content))
        except StorageError as error:
            raise NotStoredError(f"the model could not be stored: {error}") from error


class SimPlace(NamedTuple):
    """What `Saves` asks a `Place` for."""

    trainer: Trainer
    storage: Storage
    enter: Callable[[str], None]
    work: None = None

    @property
    def spec(self) -> Training:
        """See `Place`."""
        return self.trainer.spec

    @property
    def leads(self) -> bool:
        """See `Place`."""
        return self.trainer.leads


class Agent:
    """An executor's agent, task after task of one partition, until it goes home or fails.

    Attributes:
        went_home: It was dismissed, so that nobody starts it again.
    """

    def __init__(self, line: Line, partition: int, host: str, number: int, seed: int, *, skew_s: float) -> None:
        self.line = line
        self.partition = partition
        self.host = host
        self.seed = seed
        self.trainer: Trainer | None = None
        self.went_home = False
        self.process = Process(line.hub, f"{line.driver}:{partition}.{number}@{host}", seed, skew_s=skew_s)
        self.process.on_end.append(self._end)
        self._id = f"{self.process.name}"
        self._beats = 0
        self._names = 0
        self._before = ""
        self._task = number
        self._port = 1000 * number
        self._heard_s = line.hub.now
        self.process.spawn(self._run)

    @property
    def id(self) -> str:
        """As it is registered now."""
        return self._id

    def die(self) -> None:
        """Its executor is killed, and the trainer with it."""
        self.process.kill()

    def freeze(self, for_s: float) -> None:
        """Its executor stands still, and the trainer with it."""
        self.process.freeze(for_s)
        if self.trainer is not None:
            self.trainer.freeze(for_s)

    def _end(self) -> None:
        if self.trainer is not None:
            self.trainer.exit(-9)
        self.line.ended(self, home=self.went_home)

    def _run(self) -> None:
        try:
            self._register()
            while self._obey():
                self._begin_anew()
                self._register()
        except RefusedError:
            self.went_home = True
        except GoneError:
            self.went_home = True
        except ControlError:
            return
        self.went_home = True

    def _register(self) -> None:
        while True:
            registration = Registration(
                agent=self._id,
                partition=self.partition,
                task=self._task,
                host=self.host,
                jvm=self.process.name,
                address=self.address,
                before=self._before,
                versions={},
            )
            answer = self._call(Action.REGISTER, registration)
            if answer is not None and answer.accepted:
                return
            self.process.sleep(0.5)

    def _obey(self) -> bool:
        due_s = 0.0
        while True:
            exited = self._reap()
            if exited or self.line.hub.now >= due_s:
                began_s = self.line.hub.now
                trainer = self.trainer.spec.trainer if self.trainer is not None else None
                self._beats += 1
                beat = AgentHeartbeat.model_construct(
                    agent=self._id, number=self._beats, address=self.address, trainer=trainer
                )
                orders = self._call(Action.AGENT_HEARTBEAT, beat)
                due_s = began_s + (BEAT_S if orders is None else max(orders.beat_s, BEAT_S))
                if orders is not None and orders.order in (Order.DISMISS, Order.REJOIN):
                    return bool(orders.order is Order.REJOIN)
                if orders is not None:
                    self._follow(orders.order, orders.trainer)
            self.process.sleep(0.5)

    def _follow(self, order: Order, spec: Training | None) -> None:
        now_s, trainer = self.line.hub.now, self.trainer
        if order is Order.STOP and trainer is not None:
            if trainer.stop_asked_s is None:
                trainer.stop_asked_s = now_s
                trainer.process.thaw()
                if self.process.rng.random() < 0.8:
                    self.line.hub.at(0.1, lambda: trainer.exit(143))
            elif now_s - trainer.stop_asked_s > trainer.spec.timeouts.stop:
                trainer.exit(-9)
        if order is Order.START and trainer is None and spec is not None:
            self.trainer = self.line.trainer(self, spec)
            self.line.began(self.trainer)

    def _reap(self) -> bool:
        trainer = self.trainer
        if trainer is None or trainer.exit_code is None:
            return False
        self.trainer = None
        self._port += 1
        exited = TrainerExited(
            agent=self._id,
            **trainer.spec.sender,
            exit_code=trainer.exit_code,
            time_s=1_790_000_000.0 + self.line.hub.now + self.process.skew_s,
            log="log",
            log_tail="",
        )
        timeouts = trainer.spec.timeouts
        with suppress(RefusedError):
            patiently(self.line, self.process, Action.TRAINER_EXITED, exited, timeouts.driver_lost, 5.0)
        return True

    def _begin_anew(self) -> None:
        if self.trainer is not None:
            self.trainer.exit(-9)
            self.trainer = None
        self._port += 1
        self._names += 1
        self._before, self._id = self._id, f"{self.process.name}+{self._names}"

    def _call(self, action: Action, message: Message) -> Any:
        began_s = self.line.hub.now
        try:
            said = self.line.call(self.process, action, message, HEARTBEAT_S)
        except RefusedError:
            raise
        except ControlError as error:
            patience_s = KNOBS.driver_gone_s if isinstance(error, GoneError) else DRIVER_LOST_S
            if began_s - self._heard_s > patience_s:
                raise
            return None
        self._heard_s = self.line.hub.now
        return said

    @property
    def address(self) -> str:
        """What it holds for its next trainer."""
        return f"{self.host}:{self._port}"


HEARTBEAT_S = 6.0
DRIVER_LOST_S = 20.0
