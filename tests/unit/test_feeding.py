"""When Spark is set to work for an attempt, and what becomes of its feeders."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lakes import lake_config, plan_lake, write_lake

from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.feeding import Feeding, FeedJob
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.rows.ledger import FeedAddress, Ledger
from sparktf.driver.attempt.saves import Start
from sparktf.errors import DataError, RefusedError, RowAccountingError, SparkTFError, Verdict
from sparktf.sequence import Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.control import AssignmentRequest, Heartbeat, Progress, Ready
from sparktf.wire.data import DataAddress, LeaseRequest, Sealed, Span, StagedShare

TRAIN = Stream.TRAIN
NODES = [NodeId(role=Role.WORKER, index=i) for i in range(2)]


class Feeders:
    """Feeders that end when the test says so."""

    count: int | None = None
    error: SparkTFError | None = None
    cancelled = False

    def splits(self) -> int | None:
        if self.error is not None:
            raise self.error
        return self.count

    def cancel(self) -> None:
        self.cancelled = True


class Fed:
    """An attempt of two nodes whose rows Spark feeds."""

    def __init__(self, lake: Path, **data: Any) -> None:
        self.now_s = 0.0
        config = lake_config(lake, **data)
        self.progress_s = config.timeouts.progress
        config = config.model_copy(update={"train": config.train.model_copy(update={"epochs": 3})})
        plan = dataclasses.replace(plan_lake(lake), staged=(TRAIN,))
        trainers = [Trainer(node, f"agent {node.index}", "h", heard_s=0.0, moved_s=0.0) for node in NODES]
        self.attempt = Attempt(1, config, plan, Start(), trainers, lambda: self.now_s, lambda: self.now_s)
        places = {node: FeedAddress("h", f"jvm {node.index}") for node in NODES}
        self.ledger = Ledger(places, lambda: self.now_s, expected={0: 10}, epoch=0, rebalance=True)
        self.attempt.fed.ledger = self.ledger
        self.started: list[tuple[Stream, int]] = []
        self.feeders: list[Feeders] = []
        self.feeding = Feeding(self.attempt, self.start)

    def start(self, job: FeedJob) -> Feeders:
        assert not job.turn
        self.started.append((job.stream, job.epoch))
        self.feeders.append(Feeders())
        return self.feeders[-1]

    def ready(self, *nodes: NodeId) -> None:
        for node in nodes:
            self.ledger.ready(node, DataAddress(host="h", socket=f"/{node.index}", location="grpc://h:1"))

    def train(self) -> None:
        for node in NODES:
            self.attempt.ready(Ready(attempt=1, node=node, replicas=1, keras="keras", versions={}, weights=1))

    def pass_time(self, seconds: float) -> None:
        """Lets time pass, in which nodes are heard and come no further; the attempt looks for those that are late."""
        self.now_s += seconds
        for node in NODES:
            self.attempt.heartbeat(Heartbeat(attempt=1, node=node, progress=Progress()))
        self.attempt.apply(self.attempt.outcome())

    def ask(self, node: NodeId, epoch: int = 0) -> StagedShare:
        request = AssignmentRequest(attempt=1, node=node, stream=TRAIN, epoch=epoch)
        share = self.attempt.assignment(request)().staged
        assert share is not None
        return share

    def seal(self, split: int, rows: int, epoch: int = 0, attempt: int = 1) -> None:
        span = Span(attempt=attempt, stream=TRAIN, epoch=epoch, split=split)
        self.attempt.lease(LeaseRequest(span=span, host="h", jvm="jvm 0"))
        self.attempt.sealed(Sealed(attempt=attempt, node=NODES[0], span=span, rows=rows))


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Fed]:
    lake = write_lake(tmp_path / "lake", [3])
    return lambda **data: Fed(lake, **data)


def test_the_first_node_that_asks_has_the_epoch_fed_and_the_others_share_it(make: Callable[..., Fed]) -> None:
    fed = make()
    fed.ready(*NODES)
    assert not fed.ask(NODES[0]).again
    fed.ask(NODES[1])
    fed.feeding.start_wanted()
    fed.feeding.start_wanted()
    assert fed.started == [(TRAIN, 0)]


def test_feeders_start_when_every_node_takes_rows(make: Callable[..., Fed]) -> None:
    fed = make()
    fed.ready(NODES[0])
    fed.ask(NODES[0])
    fed.feeding.start_wanted()
    assert fed.started == []
    fed.ready(NODES[1])
    fed.feeding.start_wanted()
    assert fed.started == [(TRAIN, 0)]


def test_the_books_are_closed_when_spark_has_fed_everything(make: Callable[..., Fed]) -> None:
    fed = make()
    fed.ready(*NODES)
    fed.ask(NODES[0])
    fed.feeding.start_wanted()
    fed.seal(0, 10)
    assert fed.feeding.settle() is None
    assert not fed.ledger.book(TRAIN, 0).ended
    fed.feeders[0].count = 1
    assert fed.feeding.settle() is None
    assert fed.ledger.book(TRAIN, 0).ended


def test_a_node_that_got_nothing_while_spark_fed_others_has_its_time_from_the_end_of_that_on(
    make: Callable[..., Fed],
) -> None:
    fed = make()
    fed.ready(*NODES)
    fed.train()
    fed.ask(NODES[0])
    fed.feeding.start_wanted()
    for split in range(3):
        fed.pass_time(fed.progress_s * 0.9)
        fed.seal(split, 10)
    fed.feeders[0].count = 3
    assert fed.feeding.settle() is None

    fed.pass_time(fed.progress_s * 0.9)
    assert fed.attempt.failures == []
    fed.pass_time(fed.progress_s * 0.2)
    assert {"made no progress" in failure.message for failure in fed.attempt.failures} == {True}


def test_partitions_that_never_came_are_an_error(make: Callable[..., Fed]) -> None:
    fed = make()
    fed.ready(*NODES)
    fed.ask(NODES[0])
    fed.feeding.start_wanted()
    fed.feeders[0].count = 2
    assert isinstance(fed.feeding.settle(), RowAccountingError)
    assert fed.feeding.settle() is None, "an error is told once"


def test_what_spark_gives_up_on_is_told(make: Callable[..., Fed]) -> None:
    fed = make()
    fed.ready(*NODES)
    fed.ask(NODES[0])
    fed.feeding.start_wanted()
    fed.feeders[0].error = DataError("no such table")
    assert fed.feeding.settle() is fed.feeders[0].error
    assert fed.feeding.settle() is None


def test_feeders_are_cancelled_with_their_attempt(make: Callable[..., Fed]) -> None:
    fed = make()
    fed.ready(*NODES)
    fed.ask(NODES[0])
    fed.feeding.start_wanted()
    fed.feeding.cancel()
    assert fed.feeders[0].cancelled


@pytest.mark.parametrize(("cache", "again"), [("auto", True), ("on", True), ("off", False)])
def test_a_later_epoch_is_fed_only_if_nothing_was_kept(make: Callable[..., Fed], cache: str, again: bool) -> None:
    fed = make(cache=cache)
    fed.ready(*NODES)
    assert fed.ask(NODES[0]).keep is again
    fed.feeding.start_wanted()
    fed.seal(0, 10)
    fed.feeders[0].count = 1
    fed.feeding.settle()
    assert [fed.ask(node, epoch=1).again for node in NODES] == [again, again]
    fed.feeding.start_wanted()
    assert fed.started == [(TRAIN, 0)] + ([] if again else [(TRAIN, 1)])
    assert fed.ledger.rows(TRAIN, 1) == (10 if again else 0)


def test_a_source_with_other_rows_than_the_checkpoint_knew_fails_the_attempt(make: Callable[..., Fed]) -> None:
    fed = make()
    fed.ready(*NODES)
    fed.ask(NODES[0])
    with pytest.raises(RefusedError, match="partition 0"):
        fed.seal(0, 11)
    (failure,) = fed.attempt.failures
    assert (failure.type, failure.verdict) == ("DataError", Verdict.DATA_REFUSED)


def test_feeders_of_an_earlier_attempt_get_no_lease(make: Callable[..., Fed]) -> None:
    fed = make()
    fed.ready(*NODES)
    fed.ask(NODES[0])
    with pytest.raises(RefusedError, match="attempt 0 is over"):
        fed.seal(0, 10, attempt=0)


class TestTheNextGeneration:
    """A gang that has lost a member has the rest of the epoch fed by another job."""

    def next_job(self, fed: Fed) -> None:
        """Has the first member of generation 2 ask for the epoch."""
        request = AssignmentRequest(attempt=1, node=NODES[0], stream=TRAIN, epoch=0, generation=2)
        fed.attempt.fed.share(request, (), keep=False)

    def test_has_feeders_of_its_own_and_those_before_are_ended(self, make: Callable[..., Fed]) -> None:
        fed = make()
        fed.ready(*NODES)
        fed.ask(NODES[0])
        fed.feeding.start_wanted()
        self.next_job(fed)
        fed.feeders[0].error = DataError("they are refused")
        assert fed.feeding.settle() is None, "nobody waits for them"
        fed.feeding.start_wanted()
        assert [feeders.cancelled for feeders in fed.feeders] == [True, False]
        fed.feeders[1].count = 0
        assert isinstance(fed.feeding.settle(), SparkTFError), "no row has come"

    def test_has_one_job_where_the_first_was_not_started_yet(self, make: Callable[..., Fed]) -> None:
        fed = make()
        fed.ask(NODES[0])
        self.next_job(fed)
        fed.ready(*NODES)
        fed.feeding.start_wanted()
        assert fed.started == [(TRAIN, 0)]
