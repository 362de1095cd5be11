"""What follows, under parameter servers, from what a coordinator, servers and workers report."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from lakes import lake_config, plan_lake, write_lake

from sparktf.config.job import JobConfig
from sparktf.config.nodes import ClusterConfig
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.health import Outcome
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.restart import root_cause
from sparktf.driver.attempt.rows.accounting import inputs
from sparktf.driver.attempt.saves import Start
from sparktf.driver.gang.handlers import Dispatcher
from sparktf.driver.gang.roster import Roster
from sparktf.driver.lifecycle import TrainerState
from sparktf.driver.plan.plan import Plan
from sparktf.errors import ErrorRecord, LifecycleError, RefusedError, Verdict
from sparktf.results.result import NodeInput
from sparktf.sequence import Cursor, EpochOrder, Interval, Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.control import (
    Action,
    AssignmentRequest,
    EpochDone,
    Failed,
    Heartbeat,
    Progress,
    Ready,
    Registration,
    StopOrder,
    TrainerExited,
    TrainerOrders,
    WorkerPlace,
    WorkersOrder,
)
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest, Closed, Fetched, Receipt
from sparktf.wire.sender import Sender
from sparktf.wire.uploads import Finished, StagedFile, Uploaded

CHIEF = NodeId(role=Role.CHIEF, index=0)
PS = NodeId(role=Role.PS, index=0)
ONE, TWO = (NodeId(role=Role.WORKER, index=i) for i in range(2))
NODES = [CHIEF, PS, ONE, TWO]
ROWS = 100


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lake(tmp_path_factory.mktemp("lake"), [60, 40])


def config_of(lake: Path, **data: Any) -> JobConfig:
    cluster = ClusterConfig(strategy="parameter_server", workers=2, ps=1)
    config = lake_config(lake, shuffle_rows=20, **data)
    return config.model_copy(update={"cluster": cluster, "train": config.train.model_copy(update={"batch_size": 8})})


class Gang:
    """An attempt of a coordinator, one server and two workers that train, at a time that the test tells."""

    def __init__(self, lake: Path, cursor: Cursor = Cursor(), **data: Any) -> None:  # noqa: B008
        self.now_s = 100.0
        trainers = [Trainer(node, f"agent {i}", f"h{i}", 100.0, 100.0) for i, node in enumerate(NODES)]
        config = config_of(lake, **data)
        plan = plan_lake(lake, shuffle_rows=20)
        clock, wall = (lambda: self.now_s), (lambda: 1e9 + self.now_s)
        self.attempt = Attempt(1, config, plan, Start(cursor), trainers, clock, wall)
        self.numbers: dict[tuple[NodeId, int], int] = {}

    def start(self) -> None:
        """Every node is ready."""
        for node in NODES:
            self.ready(node)

    def sender(self, node: NodeId) -> Sender:
        return Sender(attempt=1, node=node, incarnation=self.attempt.trainers[node].incarnation)

    def ready(self, node: NodeId) -> None:
        self.attempt.ready(Ready(**self.sender(node), replicas=1, keras="keras", versions={}, weights=1))

    def beat(self, node: NodeId, step: int = 0, **progress: Any) -> TrainerOrders:
        position = Progress(step=step, phase="training", **progress)
        return self.attempt.heartbeat(Heartbeat(**self.sender(node), progress=position))

    def beat_all(self, step: int) -> None:
        """All that live say so; only the coordinator has made steps."""
        for node, trainer in self.attempt.trainers.items():
            if trainer.is_expected:
                self.beat(node, step if node == CHIEF else 0)

    def lease(self, node: NodeId, number: int, rows: int = 1, epoch: int = 0) -> BlockLease:
        return self.attempt.lease_blocks(
            BlockLeaseRequest(**self.sender(node), epoch=epoch, number=number, rows=rows)
        )()

    def train(self, node: NodeId, *intervals: Interval, incarnation: int | None = None, **more: Any) -> Receipt:
        """The next receipt of a worker."""
        number = self.attempt.trainers[node].incarnation if incarnation is None else incarnation
        self.numbers[node, number] = self.numbers.get((node, number), 0) + 1
        return Receipt(
            node=node,
            incarnation=number,
            number=self.numbers[node, number],
            intervals=intervals,
            **{"epoch": 0, "steps": 1, "rows": sum(stop - start for start, stop in intervals), **more},
        )

    def tell(self, *receipts: Receipt, closed: tuple[Closed, ...] = ()) -> None:
        self.attempt.fetched(Fetched(**self.sender(CHIEF), receipts=receipts, closed=closed))

    def train_all(self, node: NodeId, first: int = 1) -> int:
        """A worker leases and trains until nothing is left; returns how many rows it has trained."""
        trained = 0
        while pieces := self.lease(node, first).pieces:
            spans = [(piece.first_row, piece.first_row + piece.rows) for piece in pieces]
            self.tell(self.train(node, *spans))
            first, trained = first + 1, trained + sum(piece.rows for piece in pieces)
        return trained

    def epoch_done(self, fed: int, trained: int, aside: int = 0, *, dropped: int = 0, complete: bool = True) -> None:
        self.attempt.epoch_done(
            EpochDone(
                **self.sender(CHIEF),
                epoch=0,
                step=9,
                rows_fed=fed,
                rows_trained=trained,
                rows_aside=aside,
                dropped=dropped,
                complete=complete,
            )
        )

    def exited(self, node: NodeId, code: int = -9) -> None:
        agent = self.attempt.trainers[node].agent
        gone = {"agent": agent, "exit_code": code, "time_s": 1e9 + self.now_s, "log": "/log", "log_tail": "tail"}
        self.attempt.exited(TrainerExited.model_validate({**self.sender(node), **gone}))

    def failed(self, node: NodeId, verdict: Verdict, *, peer: bool = False) -> None:
        record = ErrorRecord(
            type="E", message=f"{node} says why", verdict=verdict, time_s=1e9 + self.now_s, peer=peer, node=str(node)
        )
        self.attempt.failed(Failed(**self.sender(node), record=record))

    def fall_silent(self, node: NodeId) -> None:
        """Time passes until one is lost by its silence; the others beat."""
        while self.attempt.trainers[node].is_expected:
            self.now_s += 1
            for other, trainer in self.attempt.trainers.items():
                if other != node and trainer.is_expected:
                    self.beat(other, int(self.now_s))
            assert self.attempt.apply(self.attempt.outcome()) is Outcome.RUNNING
            assert self.now_s < 200

    def end(self, last_s: Mapping[NodeId, float]) -> None:
        """Time passes until the attempt has failed; some nodes are heard until then, the others all the time."""
        while self.attempt.apply(self.attempt.outcome()) is Outcome.RUNNING:
            self.now_s += 0.25
            for node in NODES:
                if self.now_s <= last_s.get(node, self.now_s):
                    self.beat(node, int(self.now_s) if node == CHIEF else 0)

    def pass_time(self, seconds: float) -> Outcome:
        """Looks each second; the living beat, and the coordinator makes steps."""
        for _ in range(round(seconds)):
            self.now_s += 1
            self.beat_all(int(self.now_s))
            if (outcome := self.attempt.apply(self.attempt.outcome())) is not Outcome.RUNNING:
                return outcome
        return self.attempt.apply(self.attempt.outcome())


@pytest.fixture
def gang(lake: Path) -> Gang:
    gang = Gang(lake)
    gang.start()
    return gang


# ---- rows ----


def test_an_epoch_adds_up_from_what_the_coordinator_has_fetched(gang: Gang) -> None:
    (piece,) = gang.lease(ONE, 1).pieces
    start, stop = piece.first_row, piece.first_row + piece.rows
    read = NodeInput(rows={"direct": piece.rows}, nbytes=8)
    gang.tell(gang.train(ONE, (start, stop), rows=piece.rows, replayed=4, input=read))
    others = gang.train_all(TWO)
    assert others + piece.rows == ROWS
    assert gang.lease(ONE, 2) == BlockLease(ended=True)
    gang.epoch_done(ROWS, ROWS, dropped=3)

    account = gang.attempt.epochs[0]
    assert (account.planned, account.fed, account.trained, account.aside, account.replayed) == (ROWS, ROWS, ROWS, 0, 4)
    assert account.dropped == 3
    assert account.complete
    assert not gang.attempt.failures
    read_by = inputs(gang.attempt.epochs.values(), gang.attempt.trainers)
    assert read_by == {
        CHIEF: NodeInput(),
        PS: NodeInput(),
        ONE: read,
        TWO: NodeInput(),
    }


def test_an_epoch_that_a_checkpoint_had_begun_adds_up_with_what_was_done_before(lake: Path) -> None:
    gang = Gang(lake, Cursor(epoch=0, done=((10, 40),)), max_bad_rows=9)
    gang.attempt.start = gang.attempt.start._replace(rows_aside=2, rows_replayed=5)
    gang.start()
    (piece,) = gang.lease(ONE, 1).pieces
    span = (piece.first_row, piece.first_row + piece.rows)
    gang.tell(gang.train(ONE, span, rows=piece.rows - 1, rows_aside=1, replayed=4))
    assert gang.train_all(TWO) + piece.rows == 70
    gang.epoch_done(70, 69, 1)
    account = gang.attempt.epochs[0]
    assert (account.fed, account.trained, account.aside, account.replayed) == (ROWS, 97, 3, 9)
    assert [gang.attempt.account(epoch).replayed for epoch in range(2)] == [9, 0]
    assert not gang.attempt.failures


def test_a_coordinator_that_counts_otherwise_than_its_workers_ends_the_attempt(gang: Gang) -> None:
    gang.train_all(ONE)
    gang.epoch_done(ROWS, ROWS - 1, 1)
    assert [failure.type for failure in gang.attempt.failures] == ["RowAccountingError"]
    assert gang.attempt.failures[0].message == (
        "epoch 0: 100 rows planned, 100 fed, 100 trained, 0 set aside; "
        "the coordinator reports 100 fed, 99 trained and 1 set aside in this attempt"
    )


def test_an_epoch_that_misses_rows_ends_the_attempt_unless_it_was_cut_short(gang: Gang, lake: Path) -> None:
    other = Gang(lake)
    other.start()
    for each, complete in ((gang, True), (other, False)):
        (piece,) = each.lease(ONE, 1).pieces
        each.tell(each.train(ONE, (piece.first_row, piece.first_row + piece.rows)))
        each.epoch_done(piece.rows, piece.rows, complete=complete)
        assert each.lease(ONE, 2) == BlockLease(ended=True), "the epoch is over, whatever is left"
    assert [failure.type for failure in gang.attempt.failures] == ["RowAccountingError"]
    assert not other.attempt.failures


def test_rows_that_are_told_of_twice_under_other_numbers_end_the_attempt(gang: Gang) -> None:
    (piece,) = gang.lease(ONE, 1).pieces
    span = (piece.first_row, piece.first_row + piece.rows)
    gang.tell(gang.train(ONE, span))
    with pytest.raises(RefusedError, match="worker 0 has trained rows"):
        gang.tell(gang.train(ONE, span))
    assert [failure.type for failure in gang.attempt.failures] == ["RowAccountingError"]


def test_too_many_bad_rows_end_the_attempt_as_soon_as_they_are_told(gang: Gang) -> None:
    (piece,) = gang.lease(ONE, 1).pieces
    span = (piece.first_row, piece.first_row + piece.rows)
    gang.tell(gang.train(ONE, span, rows=piece.rows - 1, rows_aside=1))
    assert [failure.verdict for failure in gang.attempt.failures] == [Verdict.DATA_REFUSED]


def test_nobody_but_the_coordinator_tells_where_the_run_is(gang: Gang) -> None:
    done = EpochDone(**gang.sender(ONE), epoch=0, step=1, rows_fed=1, rows_trained=1, complete=True)
    with pytest.raises(RefusedError, match="worker 0 does not report progress"):
        gang.attempt.epoch_done(done)
    with pytest.raises(RefusedError, match="ps 0 does not report progress"):
        gang.attempt.fetched(Fetched(**gang.sender(PS)))
    assert not gang.attempt.epochs


def test_only_workers_lease_rows_and_only_the_coordinator_evaluates(gang: Gang) -> None:
    for node in (CHIEF, PS):
        with pytest.raises(RefusedError, match=f"{node} does not lease rows"):
            gang.lease(node, 1)
    for node, stream in ((CHIEF, Stream.TRAIN), (ONE, Stream.TRAIN), (ONE, Stream.VALIDATION), (PS, Stream.VALIDATION)):
        with pytest.raises(RefusedError, match=f"{node} has no share of {stream}"):
            gang.attempt.assignment(AssignmentRequest(**gang.sender(node), stream=stream, epoch=0))


def test_the_coordinator_evaluates_all_of_the_validation_stream(lake: Path) -> None:
    plan = plan_lake(lake, validation={"fraction": 0.3})
    trainers = [Trainer(node, f"agent {i}", f"h{i}", 0.0, 0.0) for i, node in enumerate(NODES)]
    attempt = Attempt(1, config_of(lake), plan, Start(), trainers, lambda: 0.0, lambda: 0.0)
    request = AssignmentRequest(attempt=1, node=CHIEF, stream=Stream.VALIDATION, epoch=0)
    answer = attempt.assignment(request)()
    assert answer.assignment is not None
    assert answer.assignment.rows == plan.rows(Stream.VALIDATION) > 0


def test_a_checkpoint_stands_where_the_coordinator_says_that_all_workers_are(gang: Gang) -> None:
    gang.attempt.uploaded(part_of(gang, PS))
    assert gang.attempt.take_saves() == []
    gang.attempt.uploaded(part_of(gang, CHIEF, done=((0, 10), (30, 40)), rows_aside=1))
    (save,) = gang.attempt.take_saves()
    assert (save.chief.step, save.cursor.done, save.rows_aside) == (7, ((0, 10), (30, 40)), 1)


@pytest.mark.parametrize("first", [CHIEF, PS])
def test_a_checkpoint_is_whole_once_the_servers_have_uploaded_what_they_have_written(first: NodeId, gang: Gang) -> None:
    files = {CHIEF: "ckpt.index", PS: "ckpt.data-1"}
    uploads = {node: part_of(gang, node, files=(file_of(name),)) for node, name in files.items()}
    uploads[CHIEF] = uploads[CHIEF].model_copy(update={"others": ("ckpt.data-1",)})
    gang.attempt.uploaded(uploads.pop(first))
    assert gang.attempt.take_saves() == []
    gang.attempt.uploaded(*uploads.values())
    (save,) = gang.attempt.take_saves()
    assert [file.name for file in save.chief.files] == ["ckpt.data-1", "ckpt.index"]
    assert not save.chief.error


def test_a_checkpoint_that_lacks_a_file_is_not_committed_and_says_which(gang: Gang) -> None:
    gang.attempt.uploaded(part_of(gang, CHIEF, others=("ckpt.data-1", "ckpt.data-2")))
    gang.attempt.uploaded(part_of(gang, PS, files=(file_of("ckpt.data-2"),)))
    (save,) = gang.attempt.take_saves()
    assert save.chief.error == "no node has uploaded ckpt.data-1"


def test_a_checkpoint_that_a_server_could_not_upload_says_why(gang: Gang) -> None:
    gang.attempt.uploaded(part_of(gang, CHIEF, others=("ckpt.data-1",)))
    gang.attempt.uploaded(part_of(gang, PS, error="ps 0: no space"))
    (save,) = gang.attempt.take_saves()
    assert save.chief.error == "ps 0: no space"


def test_a_checkpoint_that_was_not_written_is_not_waited_for(gang: Gang) -> None:
    gang.attempt.uploaded(part_of(gang, CHIEF, error="ps 0: disk full"))
    (save,) = gang.attempt.take_saves()
    assert save.chief.error == "ps 0: disk full"


def part_of(gang: Gang, node: NodeId, **more: Any) -> Uploaded:
    """What a node has uploaded of the checkpoint at step 7."""
    return Uploaded(**{**gang.sender(node), "step": 7, "epoch": 0, "done": (), "keras": "keras", **more})


def file_of(name: str) -> StagedFile:
    return StagedFile(name=name, nbytes=1, sha256="0")


# ---- who is late, and who must be done ----


def test_servers_and_idle_workers_make_no_steps_and_are_not_late(gang: Gang) -> None:
    assert gang.pass_time(1_000) is Outcome.RUNNING
    assert not gang.attempt.vacant()


def test_a_coordinator_that_makes_no_steps_is_late(gang: Gang) -> None:
    gang.attempt._timeouts = gang.attempt._timeouts.model_copy(update={"progress": 50.0})
    for _ in range(60):
        gang.now_s += 1
        for node in NODES:
            gang.beat(node)
        gang.attempt.apply(gang.attempt.outcome())
    assert root_cause(gang.attempt.failures).message == (
        "chief 0 on h0 made no progress within timeouts.progress: 50 s"
    )


def test_the_attempt_is_done_when_the_coordinator_is(gang: Gang) -> None:
    gang.attempt.finished(Finished(**gang.sender(CHIEF), step=9))
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.DONE
    gang.exited(ONE)
    gang.attempt.stop()
    assert not gang.attempt.failures
    assert not gang.attempt.vacant()


def test_where_the_run_is_the_coordinator_says_alone_once_all_have_started(lake: Path) -> None:
    gang = Gang(lake)
    assert len(gang.attempt.progress()) == len(NODES)
    gang.start()
    gang.beat(CHIEF, 8, rows_trained=64)
    gang.beat(ONE, 5, rows_trained=40)
    assert [progress.rows_trained for progress in gang.attempt.progress()] == [64]


# ---- losses ----


def test_a_killed_worker_leaves_its_place_and_its_rows_and_the_attempt_goes_on(gang: Gang) -> None:
    (piece,) = gang.lease(ONE, 1).pieces
    start, stop = piece.first_row, piece.first_row + piece.rows
    trained = gang.train(ONE, (start, start + 5))
    gang.exited(ONE)

    assert gang.pass_time(5) is Outcome.RUNNING
    assert gang.attempt.vacant() == ((ONE, 100.0, "worker 0 on h2 exited with -9 (SIGKILL)"),)
    assert gang.beat(CHIEF).orders == (WorkersOrder(workers=(WorkerPlace(node=ONE, incarnation=1),)),)
    assert gang.beat(TWO).orders == ()

    successor = gang.attempt.succeed(ONE, "agent 7", "h7", "h7:1")
    assert (successor.incarnation, successor.agent, successor.host) == (1, "agent 7", "h7")
    assert not gang.attempt.vacant()
    assert gang.beat(CHIEF).orders == (WorkersOrder(workers=(WorkerPlace(node=ONE, incarnation=1),)),)
    gang.ready(ONE)
    there = WorkerPlace(node=ONE, incarnation=1, address="h7:1")
    assert gang.beat(CHIEF).orders == (WorkersOrder(workers=(there,)),)

    others = gang.train_all(TWO)
    assert others == ROWS - piece.rows, "what the lost worker had leased stays taken until it is closed"
    assert gang.lease(TWO, 99).ended is False
    gang.tell(trained, closed=(Closed(node=ONE, incarnation=0),))
    assert gang.train_all(ONE) == stop - start - 5
    gang.epoch_done(ROWS, ROWS)
    assert not gang.attempt.failures
    assert gang.attempt.losses.records[0].log_tail == "tail"


def test_a_frozen_worker_is_lost_by_its_silence_and_refused_when_it_wakes_up(gang: Gang) -> None:
    gang.fall_silent(ONE)
    assert "worker 0 on h2 was silent for" in gang.attempt.vacant()[0].reason
    old = gang.sender(ONE)
    beat = Heartbeat(**old, progress=Progress())
    with pytest.raises(RefusedError, match="counts as lost"):
        gang.attempt.heartbeat(beat)
    gang.attempt.succeed(ONE, "agent 2", "h2", "h2:9")
    with pytest.raises(
        RefusedError, match="incarnation 0 of worker 0 in attempt 1 is over: incarnation 1 has replaced it"
    ):
        gang.attempt.heartbeat(beat)
    with pytest.raises(RefusedError, match="is over"):
        gang.attempt.lease_blocks(BlockLeaseRequest(**old, epoch=0, number=1, rows=1))


@pytest.mark.parametrize("later_s", [-0.5, 0.0, 4.0], ids=["heard a beat before", "at once", "within its silence"])
def test_a_coordinator_that_falls_silent_with_a_worker_tells_of_it(gang: Gang, later_s: float) -> None:
    """It does so where it traces a function while the worker's host is cut off."""
    gang.end({ONE: 105.0, CHIEF: 105.0 + later_s})
    cause = root_cause(gang.attempt.failures)
    assert cause.node == "chief 0"
    assert cause.message == (
        "chief 0 on h0 was silent for 15 s; it may have waited for a lost node: worker 0 on h2 was silent for 15 s"
    )


@pytest.mark.parametrize("later_s", [-0.5, 0.0, 4.0, 15.5])
def test_a_coordinator_that_waits_for_a_frozen_worker_has_time_until_that_is_ended(gang: Gang, later_s: float) -> None:
    """It waits so where it traces a function: once the worker is killed, the connection to it breaks."""
    heartbeat, stop = gang.attempt._timeouts.heartbeat, gang.attempt._timeouts.stop
    ended_s = 105.0 + heartbeat + stop + 1.0
    while gang.now_s < ended_s + 3 * heartbeat:
        gang.now_s += 0.25
        for node in NODES:
            is_held = node == CHIEF and 105.0 + later_s < gang.now_s < ended_s
            is_frozen = node == ONE and gang.now_s > 105.0
            if not (is_held or is_frozen):
                gang.beat(node, int(gang.now_s) if node == CHIEF else 0)
        assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.RUNNING, (gang.now_s, gang.attempt.failures)
    assert [vacancy.node for vacancy in gang.attempt.vacant()] == [ONE]


def test_a_coordinator_that_is_never_heard_again_is_lost_though_a_worker_is_too(gang: Gang) -> None:
    heartbeat, stop = gang.attempt._timeouts.heartbeat, gang.attempt._timeouts.stop
    gang.end({ONE: 105.0, CHIEF: 105.0})
    assert gang.now_s < 105.0 + 2 * heartbeat + stop + 2.0


def test_a_coordinator_that_falls_silent_alone_is_lost_as_soon_as_any_node(gang: Gang) -> None:
    gang.end({CHIEF: 105.0})
    assert gang.now_s < 105.0 + gang.attempt._timeouts.heartbeat + 2.0


def test_a_coordinator_that_falls_silent_after_a_worker_was_lost_is_alone_to_blame(gang: Gang) -> None:
    gang.exited(ONE)
    gang.end({ONE: 100.0, CHIEF: 103.0})
    assert root_cause(gang.attempt.failures).message == "chief 0 on h0 was silent for 15 s"


def test_the_loss_of_its_executor_says_more_than_a_workers_silence_unless_that_is_explained(gang: Gang) -> None:
    gang.fall_silent(ONE)
    since_s = gang.attempt.vacant()[0].since_s
    gang.now_s += 1
    gang.attempt.agent_lost("agent 2", "lost its executor: Container killed on request", "http://log")
    (loss,) = gang.attempt.losses.records
    assert (loss.message, loss.log) == ("worker 0 on h2 lost its executor: Container killed on request", "http://log")
    assert gang.attempt.vacant()[0].since_s == since_s
    gang.attempt.agent_lost("agent 2", "lost its executor: again")

    gang.fall_silent(TWO)
    with pytest.raises(RefusedError, match="counts as lost"):
        gang.exited(TWO, -9)  # its agent has ended it
    gang.attempt.agent_lost("agent 3", "lost its executor: much later")
    assert [record.message.partition(" on ")[2] for record in gang.attempt.losses.records] == [
        "h2 lost its executor: Container killed on request",
        "h3 was silent for 15 s",
    ]


def test_a_worker_is_lost_once_however_many_say_so(gang: Gang) -> None:
    gang.failed(ONE, Verdict.INFRASTRUCTURE, peer=True)
    gang.exited(ONE, 1)
    gang.attempt.agent_lost("agent 2", "lost its executor: silent for 20 s")
    assert [vacancy.reason for vacancy in gang.attempt.vacant()] == ["worker 0 says why"]
    assert [(record.message, record.exit_code) for record in gang.attempt.losses.records] == [("worker 0 says why", 1)]
    gang.attempt.succeed(ONE, "agent 2", "h2", "h2:9")
    gang.attempt.agent_lost("agent 2", "lost its executor: silent for 20 s")
    reasons = [vacancy.reason for vacancy in gang.attempt.vacant()]
    assert reasons == ["worker 0 on h2 lost its executor: silent for 20 s"]
    assert gang.beat(CHIEF).orders == (WorkersOrder(workers=(WorkerPlace(node=ONE, incarnation=2),)),)
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.RUNNING


def test_two_workers_lost_at_once_are_both_followed(gang: Gang) -> None:
    gang.exited(TWO)
    gang.now_s += 1
    gang.attempt.agent_lost("agent 2", "lost its executor: gone")
    assert [vacancy.node for vacancy in gang.attempt.vacant()] == [TWO, ONE]
    gang.attempt.succeed(ONE, "agent 8", "h8", "h8:1")
    assert [vacancy.node for vacancy in gang.attempt.vacant()] == [TWO]
    places = (WorkerPlace(node=ONE, incarnation=1), WorkerPlace(node=TWO, incarnation=1))
    assert gang.beat(CHIEF).orders == (WorkersOrder(workers=places),)


def test_a_place_that_nobody_takes_in_time_gets_a_stand_in_and_then_whoever_comes_late(gang: Gang) -> None:
    limit_s = gang.attempt._timeouts.replace
    gang.exited(ONE)
    assert gang.pass_time(limit_s + 1) is Outcome.RUNNING
    (loss,) = gang.attempt.losses.records
    assert loss.message == (
        f"worker 0 on h2 exited with -9 (SIGKILL); it was not replaced within timeouts.replace: {limit_s:g} s"
    )
    held = WorkersOrder(workers=(WorkerPlace(node=ONE, incarnation=1, stand_in=True),))
    assert gang.beat(CHIEF).orders == (held,)
    assert [vacancy.node for vacancy in gang.attempt.vacant()] == [ONE]

    gang.attempt.succeed(ONE, "agent 7", "h7", "h7:1")
    assert gang.beat(CHIEF).orders == (held,), "until the new one is ready"
    gang.ready(ONE)
    there = WorkerPlace(node=ONE, incarnation=1, address="h7:1")
    assert gang.beat(CHIEF).orders == (WorkersOrder(workers=(there,)),)
    gang.exited(ONE)
    assert gang.beat(CHIEF).orders == (WorkersOrder(workers=(WorkerPlace(node=ONE, incarnation=2),)),)
    assert gang.pass_time(limit_s) is Outcome.RUNNING


def test_a_stand_in_stays_when_whoever_was_to_follow_it_is_lost_before_it_is_ready(gang: Gang) -> None:
    gang.exited(ONE)
    gang.pass_time(gang.attempt._timeouts.replace + 1)
    gang.attempt.succeed(ONE, "agent 7", "h7", "h7:1")
    gang.exited(ONE)
    held = WorkerPlace(node=ONE, incarnation=2, stand_in=True)
    assert gang.beat(CHIEF).orders == (WorkersOrder(workers=(held,)),)


def test_without_any_worker_the_attempt_ends_with_the_last_that_was_lost(gang: Gang) -> None:
    limit_s = gang.attempt._timeouts.replace
    gang.exited(ONE)
    assert gang.pass_time(limit_s + 1) is Outcome.RUNNING
    gang.exited(TWO)
    assert gang.pass_time(limit_s) is Outcome.RUNNING
    assert gang.pass_time(5) is Outcome.FAILED
    assert gang.attempt.vacant() == ()
    late = f"exited with -9 (SIGKILL); it was not replaced within timeouts.replace: {limit_s:g} s"
    assert root_cause(gang.attempt.failures).message == f"worker 1 on h3 {late}, and no worker is left"
    assert gang.attempt.losses.records[0].message == f"worker 0 on h2 {late}"


def test_a_worker_that_is_lost_again_and_again_without_training_anything_gets_no_other(gang: Gang) -> None:
    for _ in range(2):
        gang.exited(ONE)
        gang.attempt.succeed(ONE, "agent 2", "h2", "h2:9")
    (piece,) = gang.lease(ONE, 1).pieces
    gang.tell(gang.train(ONE, (piece.first_row, piece.first_row + piece.rows)))
    for _ in range(4):
        gang.exited(ONE)
        assert gang.attempt.losses.may_be_followed(gang.attempt.trainers[ONE])
        assert gang.pass_time(1) is Outcome.RUNNING
        assert gang.beat(CHIEF).orders[0].workers[0].stand_in is False  # type: ignore[union-attr]
        gang.attempt.succeed(ONE, "agent 2", "h2", "h2:9")
    gang.exited(ONE)
    lost = gang.attempt.trainers[ONE]
    assert not gang.attempt.losses.may_be_followed(lost)
    assert gang.pass_time(1) is Outcome.RUNNING
    assert gang.beat(CHIEF).orders[0].workers[0].stand_in is True  # type: ignore[union-attr]
    assert gang.attempt.losses.records[-1].message == (
        "worker 0 on h2 exited with -9 (SIGKILL); the last 4 processes of worker 0 trained no row: it is not restarted"
    )


def test_a_successor_gets_its_own_time_to_start(gang: Gang) -> None:
    limit_s = gang.attempt._timeouts.start
    gang.pass_time(limit_s)
    gang.exited(ONE)
    gang.attempt.succeed(ONE, "agent 2", "h2", "h2:9")
    assert gang.pass_time(limit_s - 1) is Outcome.RUNNING
    assert not gang.attempt.vacant()
    assert gang.pass_time(2) is Outcome.RUNNING
    assert [vacancy.reason for vacancy in gang.attempt.vacant()] == [
        f"worker 0 on h2 was not ready within timeouts.start: {limit_s:g} s"
    ]


def test_nobody_takes_the_place_of_one_that_lives(gang: Gang) -> None:
    with pytest.raises(LifecycleError, match="worker 0 is ready and cannot be replaced"):
        gang.attempt.succeed(ONE, "agent 9", "h9", "h9:1")


@pytest.mark.parametrize("node", [CHIEF, PS], ids=str)
def test_without_a_coordinator_or_a_server_there_is_a_new_attempt(gang: Gang, node: NodeId) -> None:
    gang.failed(TWO, Verdict.INFRASTRUCTURE, peer=True)
    gang.exited(node)
    assert gang.pass_time(3) is Outcome.FAILED
    assert root_cause(gang.attempt.failures).message.startswith(f"{node} on ")
    gang.attempt.stop()
    assert gang.beat(ONE).orders == (StopOrder(),)
    assert not gang.attempt.vacant()


@pytest.mark.parametrize("verdict", [Verdict.MODEL_FAILED, Verdict.DATA_REFUSED, Verdict.REFUSED])
def test_what_every_worker_would_fail_at_ends_the_attempt(gang: Gang, verdict: Verdict) -> None:
    gang.failed(ONE, verdict)
    gang.exited(ONE, 1)
    assert not gang.attempt.vacant()
    assert gang.pass_time(3) is Outcome.FAILED
    assert [failure.message for failure in gang.attempt.failures] == ["worker 0 says why"]


@pytest.fixture
def starting(lake: Path) -> Gang:
    """A gang whose second worker and coordinator are not ready yet."""
    gang = Gang(lake)
    gang.ready(PS)
    gang.ready(ONE)
    return gang


@pytest.mark.parametrize("lost", [ONE, TWO], ids=["that was ready", "that was not"])
def test_a_worker_that_is_lost_while_the_gang_starts_is_followed_and_the_coordinator_told_where(
    starting: Gang, lost: NodeId
) -> None:
    starting.exited(lost)
    assert [vacancy.node for vacancy in starting.attempt.vacant()] == [lost]
    starting.attempt.succeed(lost, "agent 9", "h9", "h9:1")
    assert _places(starting) == {lost: ""}
    if lost == ONE:
        starting.ready(TWO)
    assert _places(starting) == {lost: ""}
    starting.ready(lost)
    assert _places(starting) == {lost: "h9:1"}
    starting.ready(CHIEF)
    assert starting.attempt.apply(starting.attempt.outcome()) is Outcome.RUNNING
    assert [record.node for record in starting.attempt.losses.records] == [str(lost)]


def test_the_others_may_take_as_long_to_start_as_one_that_follows_a_lost_one(starting: Gang) -> None:
    start_s = starting.attempt._timeouts.start
    starting.now_s += start_s - 1
    starting.exited(TWO)
    starting.attempt.succeed(TWO, "agent 9", "h9", "h9:1")
    for node in (PS, ONE):
        starting.beat(node)
    assert starting.pass_time(start_s - 1) is Outcome.RUNNING
    assert starting.pass_time(5) is Outcome.FAILED
    assert "chief 0 on h0 was not ready within timeouts.start" in starting.attempt.failures[0].message


def test_an_attempt_does_not_begin_with_a_stand_in(starting: Gang) -> None:
    starting.exited(TWO)
    assert starting.pass_time(starting.attempt._timeouts.replace) is Outcome.RUNNING
    assert starting.pass_time(3) is Outcome.FAILED
    cause = root_cause(starting.attempt.failures).message
    assert "it was not replaced within timeouts.replace" in cause
    assert "only 1 of 2 workers would be left, but at least 2 are needed" in cause


def test_a_worker_whose_trainers_all_end_while_the_gang_starts_ends_the_attempt(starting: Gang) -> None:
    for number in range(4):
        assert starting.pass_time(2) is Outcome.RUNNING
        starting.exited(TWO, -11)
        if number < 3:
            starting.attempt.succeed(TWO, f"agent {number}", "h9", f"h9:{number}")
    assert starting.pass_time(3) is Outcome.FAILED
    assert "the last 4 processes of worker 1 trained no row" in root_cause(starting.attempt.failures).message


def test_a_coordinator_that_a_worker_takes_with_it_while_the_gang_starts_is_followed_too(starting: Gang) -> None:
    starting.exited(TWO)
    starting.attempt.succeed(TWO, "agent 9", "h9", "h9:1")
    starting.failed(CHIEF, Verdict.INFRASTRUCTURE)
    assert [vacancy.node for vacancy in starting.attempt.vacant()] == [CHIEF]
    starting.attempt.succeed(CHIEF, "agent 8", "h8", "h8:1")
    starting.ready(TWO)
    assert _places(starting) == {TWO: "h9:1"}
    starting.ready(CHIEF)
    starting.exited(CHIEF)
    assert starting.pass_time(3) is Outcome.FAILED, "it has the run's place by now"


def test_a_coordinator_that_ends_by_itself_while_the_gang_starts_ends_the_attempt(starting: Gang) -> None:
    starting.exited(CHIEF)
    assert starting.pass_time(3) is Outcome.FAILED


def _places(gang: Gang) -> dict[NodeId, str]:
    """Where the coordinator is told that workers are."""
    orders = gang.attempt.heartbeat(Heartbeat(**gang.sender(CHIEF), progress=Progress(phase="starting"))).orders
    return {place.node: place.address for order in orders if isinstance(order, WorkersOrder) for place in order.workers}


# ---- the control server's side ----


@dataclasses.dataclass(frozen=True)
class WatchedPlan(Plan):
    """Says that the order of an epoch is made, before it is."""

    before: Callable[[], None] = lambda: None

    def order(self, stream: Stream, epoch: int) -> EpochOrder:
        """See `Plan`."""
        self.before()
        return super().order(stream, epoch)


def test_while_the_books_of_an_epoch_are_opened_everybody_else_is_answered(lake: Path) -> None:
    answered: list[bool] = []

    def beat_from_elsewhere() -> None:
        beat = Heartbeat(attempt=1, node=CHIEF, progress=Progress())
        told = Fetched(attempt=1, node=CHIEF)
        for action, message in ((Action.HEARTBEAT, beat), (Action.FETCHED, told)):
            thread = threading.Thread(target=handlers[action].answer, args=(message,), daemon=True)
            thread.start()
            thread.join(10)
            answered.append(not thread.is_alive())

    plan = plan_lake(lake, shuffle_rows=20)
    fields = {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)}
    roster = Roster(lambda: 0.0, silence_s=15.0)
    trainers = [Trainer(node, f"a{i}", "h", 0.0, 0.0, state=TrainerState.TRAINING) for i, node in enumerate(NODES)]
    for i, trainer in enumerate(trainers):
        agent = Registration(agent=trainer.agent, partition=i, host="h", jvm="1", address=f"h:{i}", versions={})
        roster.register(agent)
    dispatcher = Dispatcher(roster)
    watched = WatchedPlan(**fields, before=beat_from_elsewhere)
    dispatcher.attempt = Attempt(1, config_of(lake), watched, Start(), trainers, lambda: 0.0, lambda: 0.0)
    handlers = dispatcher.handlers()

    answer = handlers[Action.LEASE_BLOCKS].answer(BlockLeaseRequest(attempt=1, node=ONE, epoch=0, number=1, rows=8))
    assert isinstance(answer, BlockLease)
    assert answer.pieces
    assert answered == [True, True]
