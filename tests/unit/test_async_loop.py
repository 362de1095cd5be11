"""What the coordinator's loop says with a checkpoint, of workers that a test makes up."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from lakes import lake_config
from pydantic import TypeAdapter
from specs import trainer_spec

from sparktf.config.job import CheckpointConfig
from sparktf.config.train import TrainConfig
from sparktf.knobs import KNOBS
from sparktf.topology import ClusterSpec, NodeId, Role
from sparktf.trainer.node import saving
from sparktf.trainer.node.position import Done, Extent, Position
from sparktf.trainer.parameter_server import async_loop
from sparktf.trainer.parameter_server.async_loop import MANY, AsyncLoop, AsyncLoopSettings
from sparktf.trainer.parameter_server.dispatch import DispatchDecision, End, SaveNow
from sparktf.trainer.parameter_server.shared_updates.rounds import Rounds, Who
from sparktf.trainer.parameter_server.tally import LastReceipt, Tally
from sparktf.wire.control import WorkerPlace
from sparktf.wire.leasing import Receipt

CHIEF = NodeId(role=Role.CHIEF, index=0)
ONE, TWO = NodeId(role=Role.WORKER, index=0), NodeId(role=Role.WORKER, index=1)
BATCH, CALL_STEPS, ROWS = 8, 2, 1_000
RECEIPTS = TypeAdapter(tuple[Receipt, ...])


class Answer(NamedTuple):
    number: int
    value: bytes


class Written:
    """Who writes checkpoints, at once."""

    took_s = 0.0

    def __init__(self) -> None:
        self.done: list[Done] = []

    def save(self, checkpoint: object, position: Position, done: Done, *, last: bool) -> None:
        self.done.append(done)

    def wait(self) -> None:
        pass


class Shared:
    """Who makes updates together, by the product's rounds."""

    steps = 0

    def __init__(self, rounds: Rounds) -> None:
        self.begin_epoch, self.open, self.close = rounds.begin_epoch, rounds.open, rounds.close
        self._rounds = rounds

    def succeed(self, incarnations: Mapping[NodeId, int]) -> None:
        for node, incarnation in incarnations.items():
            self._rounds.succeed(node.index, incarnation)


class Cluster:
    """Two workers, and what their coordinator knows of them; it is also who tells the driver."""

    def __init__(self, every_seconds: float | None = None, rounds: Rounds | None = None) -> None:
        cluster = ClusterSpec(chief=("h:1",), worker=("h:2", "h:3"), ps=("h:4",))
        config = lake_config().model_copy(update={"checkpoint": CheckpointConfig(every_seconds=every_seconds)})
        spec, self.is_save_asked, self.written = (
            trainer_spec(node=CHIEF, cluster=cluster, config=config),
            False,
            Written(),
        )
        place: Any = SimpleNamespace(spec=spec, leads=spec.leads, enter=lambda phase: None)
        self.saves = saving.Saves(place, lambda place, keras: self.written)
        self.saves.restore(SimpleNamespace(), "keras")
        self.places = {node: WorkerPlace(node=node, incarnation=0, address="a:1") for node in (ONE, TWO)}
        self.broken: Counter[tuple[NodeId, int]] = Counter()
        self.answers, self.last_step = True, MANY
        self.sent: list[int] = []
        self.saved: list[Done] = []
        self._receipts: Counter[NodeId] = Counter()
        self._trained = 0
        self._came: list[Answer] = []
        self.rounds, self.late = rounds, list[bool]()
        shared = None if rounds is None else Shared(rounds)
        settings = AsyncLoopSettings(BATCH, CALL_STEPS, Extent.of(TrainConfig()))
        self.loop = AsyncLoop(settings, self, Tally([ONE, TWO]), self, Position(), shared)  # type: ignore[arg-type]
        self.loop.begin(lambda: ROWS)

    def answer(self, node: NodeId, replayed: int = 0) -> None:
        """A worker has made the execution that was sent out first."""
        self._receipts[node] += 1
        rows = BATCH * CALL_STEPS
        receipt = Receipt(
            node=node,
            incarnation=self.places[node].incarnation,
            number=self._receipts[node],
            epoch=0,
            steps=CALL_STEPS,
            intervals=((self._trained, self._trained + rows),),
            rows=rows,
            replayed=replayed,
            loss=float(rows) * self._receipts.total(),
        )
        self._trained += rows
        self._came.append(Answer(self.sent.pop(0), zlib.compress(RECEIPTS.dump_json((receipt,)))))

    def train(self) -> None:
        """The loop sends out as much as it does at once, and takes what has come."""
        for _ in range(20):
            self.loop.do(self.loop.decide())

    def checkpoint(self) -> Done:
        """A checkpoint is written; all that was sent out must have come back, or be given up."""
        self.is_save_asked = True
        return self.next_checkpoint()

    def next_checkpoint(self) -> Done:
        """The next checkpoint is written that is due."""
        while not isinstance(step := self.loop.decide(), SaveNow):
            if self.sent and self.answers and not self._came:
                self.answer(TWO)
            self.loop.do(step)
        self.loop.do(step)
        return self.saved[-1]

    # ---- what the loop needs ----

    def workers(self) -> dict[NodeId, WorkerPlace]:
        return self.places

    def send(self, number: int, epoch: int, updates: int, acknowledged: Sequence[LastReceipt]) -> None:
        self.sent.append(number)

    def next(self, wait_s: float) -> Answer | None:
        return self._came.pop(0) if self._came else None

    def broken_off(self) -> Counter[tuple[NodeId, int]]:
        return self.broken.copy()

    def steps_made(self) -> int:
        return self.loop.position.step

    def take_save_wish(self) -> bool:
        asked, self.is_save_asked = self.is_save_asked, False
        return self.saves.take_wish() or asked

    def is_time_up(self, step: int) -> bool:
        return step >= self.last_step

    def steps_to_save(self, step: int) -> int | None:
        return None

    def save(self, position: Position, done: Done) -> None:
        self.saved.append(done)
        if self.saves.lack(position):
            self.saves.save(position, done)

    def trained(self, position: Position) -> None:
        pass

    # ---- `Telling` ----

    def add(self, receipts: Iterable[Receipt]) -> None:
        pass

    def close(self, lost: Iterable[tuple[NodeId, int]]) -> None:
        """The driver may hand out again what these had: one of them comes with a gradient of it now."""
        if self.rounds is not None:
            late = [Who(node.index, incarnation) for node, incarnation in lost]
            self.late += [self.rounds.enter(who, self.rounds.number, BATCH) for who in late]

    def flush(self) -> None:
        pass


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.train()
    return cluster


def test_nothing_is_in_doubt_where_nothing_broke_off(cluster: Cluster) -> None:
    done = cluster.checkpoint()
    assert done.intervals
    assert done.in_doubt == 0


def test_an_execution_that_broke_off_on_a_living_worker_is_in_doubt_until_that_has_told_of_its_rows(
    cluster: Cluster,
) -> None:
    cluster.broken[ONE, 0] += 1
    assert cluster.checkpoint().in_doubt == BATCH * CALL_STEPS, "the other worker has made it again, with other rows"
    cluster.train()
    cluster.answer(ONE, replayed=3)
    assert cluster.checkpoint().in_doubt == BATCH * CALL_STEPS - 3
    cluster.train()
    cluster.answer(ONE, replayed=BATCH * CALL_STEPS - 3)
    assert cluster.checkpoint().in_doubt == 0


def test_what_a_lost_worker_may_have_trained_is_counted_by_the_driver(cluster: Cluster) -> None:
    cluster.broken[ONE, 0] += 1
    cluster.places[ONE] = WorkerPlace(node=ONE, incarnation=1, address="a:2")
    assert cluster.checkpoint().in_doubt == 0
    cluster.broken[ONE, 1] += 1
    assert cluster.checkpoint().in_doubt == BATCH * CALL_STEPS


def test_executions_that_nobody_waits_for_any_more_are_in_doubt(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KNOBS, "drain_s", 0.0)
    sent, cluster.answers = len(cluster.sent), False
    assert cluster.checkpoint().in_doubt == sent * BATCH * CALL_STEPS


def test_what_was_in_doubt_in_an_epoch_that_is_trained_is_in_doubt_no_more(cluster: Cluster) -> None:
    cluster.broken[ONE, 0] += 1
    cluster.checkpoint()
    cluster.loop.begin(lambda: ROWS)
    assert cluster.checkpoint().in_doubt == 0


def test_when_time_is_up_nothing_is_sent_out_and_what_is_under_way_counts(cluster: Cluster) -> None:
    cluster.answer(ONE)
    cluster.train()
    cluster.last_step, under_way = cluster.loop.position.step, len(cluster.sent)
    while not isinstance(step := cluster.loop.decide(), End):
        if cluster.sent:
            cluster.answer(TWO)
        cluster.loop.do(step)
    cluster.loop.end()
    assert cluster.loop.position.step == cluster.last_step + under_way * CALL_STEPS
    assert cluster.loop.position.rows == cluster.loop.position.step * BATCH
    assert not cluster.loop.position.is_complete


def test_the_loss_of_an_epoch_is_the_mean_over_all_rows_that_are_told(cluster: Cluster) -> None:
    for _ in range(3):  # with mean losses of 1, 2 and 3
        cluster.answer(TWO)
    cluster.checkpoint()
    loss = cluster.loop.position.epoch_loss
    assert loss.rows == cluster.loop.position.rows
    answers = loss.rows // (BATCH * CALL_STEPS)
    assert loss.mean == (answers + 1) / 2


def test_no_update_takes_the_gradient_of_a_lost_worker_whose_rows_are_handed_out_again() -> None:
    cluster = Cluster(rounds=Rounds(2, 2))
    cluster.train()
    cluster.places[ONE] = WorkerPlace(node=ONE, incarnation=1, address="a:2")
    cluster.train()
    assert cluster.late == [False]


class Clock:
    """The time that the loop and its checkpoints go by."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(saving, "time", clock)
    monkeypatch.setattr(async_loop, "time", clock)
    return clock


def test_an_epoch_begins_although_a_checkpoint_by_time_fell_due_while_nothing_was_trained(clock: Clock) -> None:
    cluster = Cluster(every_seconds=4.0)
    cluster.train()
    cluster.checkpoint()
    clock.now_s += 6.0  # an evaluation, or Spark's first rows
    before = len(cluster.sent)
    steps = [_done(cluster) for _ in range(20)]
    assert sum(isinstance(step, SaveNow) for step in steps) <= 1
    assert len(cluster.sent) > before


def test_the_time_until_the_next_checkpoint_counts_from_when_there_was_nothing_to_save(clock: Clock) -> None:
    cluster = Cluster(every_seconds=4.0)
    cluster.train()
    cluster.checkpoint()
    clock.now_s += 6.0
    cluster.train()
    cluster.answer(TWO)
    clock.now_s += 3.9
    cluster.train()
    assert len(cluster.written.done) == 1
    clock.now_s += 0.1
    cluster.next_checkpoint()
    assert len(cluster.written.done) == 2


def _done(cluster: Cluster) -> DispatchDecision:
    """The loop does its next step, which is returned."""
    step = cluster.loop.decide()
    cluster.loop.do(step)
    return step
