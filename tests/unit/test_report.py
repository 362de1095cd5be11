"""What the driver knows of a trainer when it is told of an epoch's end: a real control server and reporter."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator

import pytest
from specs import trainer_spec

from sparktf.driver.gang.control_server import HERE, ControlServer
from sparktf.driver.gang.site import Handler
from sparktf.errors import SparkTFError
from sparktf.message import Message
from sparktf.sequence import Stream
from sparktf.trainer.node.position import Position
from sparktf.trainer.node.report import Reporter
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import (
    Ack,
    Action,
    Heartbeat,
    Metrics,
    Progress,
    StopOrder,
    TrainerOrders,
    WorkerPlace,
    WorkersOrder,
)
from sparktf.wire.security import new_secret

SPEC = trainer_spec()
NODE = SPEC.node
METRICS = Metrics(attempt=1, node=NODE, stream=Stream.VALIDATION, epoch=2, step=69, rows=360, values={"loss": 0.5})


class Loop:
    """One that has gone through an epoch."""

    position = Position(epoch=2, step=69, rows=1_438, loss=0.25)


class Driver:
    """Keeps what it is told, in order.

    Attributes:
        is_deaf: Heartbeats fail.
        heard: Counts the heartbeats that have not failed.
    """

    def __init__(self) -> None:
        self.told: list[Message] = []
        self.is_deaf = False
        self.answer = TrainerOrders()
        self.heard = threading.Semaphore(0)
        handlers = {
            Action.HEARTBEAT: Handler(Heartbeat, self._heartbeat),
            Action.METRICS: Handler(Metrics, self._metrics),
        }
        self.server = ControlServer(HERE, 0, new_secret(), None, handlers)

    def reporter(self) -> Reporter:
        """Returns one whose thread is not started: only messages have heartbeats before them."""
        return Reporter(ControlClient(self.server.access()), SPEC)

    def _heartbeat(self, message: Heartbeat) -> TrainerOrders:
        if self.is_deaf:
            raise SparkTFError("not now")
        self.told.append(message)
        answer = self.answer
        self.heard.release()
        return answer

    def _metrics(self, message: Metrics) -> Ack:
        self.told.append(message)
        return Ack()


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.server.shutdown()


def test_an_epochs_metrics_come_when_the_node_is_known_to_be_there(driver: Driver) -> None:
    reporter = driver.reporter()
    reporter.follow(Loop())
    reporter.enter("training")
    reporter.send(Action.METRICS, METRICS)

    where = Progress(epoch=2, step=69, rows_trained=1_438, loss=0.25, phase="training")
    assert driver.told == [Heartbeat(attempt=1, node=NODE, progress=where), METRICS.model_copy(update={"number": 1})]


def test_a_message_does_not_depend_on_the_heartbeat_before_it(driver: Driver) -> None:
    driver.is_deaf = True
    reporter = driver.reporter()
    reporter.send(Action.METRICS, METRICS)
    reporter.send(Action.METRICS, METRICS)

    assert driver.told == [METRICS.model_copy(update={"number": number}) for number in (1, 2)]


class EndingReporter(Reporter):
    """Ends its thread where another ends its process.

    Attributes:
        exits: The code and the reason.
    """

    exits: tuple[tuple[int, str], ...] = ()

    def _exit(self, code: int, reason: str) -> None:
        self.exits += ((code, reason),)
        raise SystemExit


@pytest.mark.filterwarnings("ignore:Exception in thread heartbeat")
def test_a_trainer_whose_threads_all_stood_still_asks_the_driver_again(driver: Driver) -> None:
    timeouts = SPEC.config.timeouts.model_copy(update={"heartbeat": 0.5, "driver_lost": 0.6})
    spec = SPEC.model_copy(update={"config": SPEC.config.model_copy(update={"timeouts": timeouts})})
    driver.answer = TrainerOrders(beat_s=0.01)
    reporter = EndingReporter(ControlClient(driver.server.access()), spec)
    reporter.start()
    assert driver.heard.acquire(timeout=30)
    ctypes.PyDLL(None).usleep(2_000_000)  # as TensorFlow does: a call that keeps Python's lock
    while driver.heard.acquire(blocking=False):
        pass
    assert driver.heard.acquire(timeout=30), reporter.exits
    driver.answer = TrainerOrders(orders=(StopOrder(),))
    reporter.finish()
    assert reporter.exits == ((0, "stopped by the driver"),)


@pytest.mark.filterwarnings("ignore:Exception in thread heartbeat")
def test_who_has_done_its_work_is_told_to_stop_at_once_however_seldom_it_is_to_be_heard(driver: Driver) -> None:
    driver.answer = TrainerOrders(beat_s=3_600)
    reporter = EndingReporter(ControlClient(driver.server.access()), SPEC)
    reporter.start()
    assert driver.heard.acquire(timeout=30)
    driver.answer = TrainerOrders(orders=(StopOrder(),))
    reporter.finish()  # within the test's time limit


def test_a_trainer_says_which_of_its_nodes_trainers_it_is(driver: Driver) -> None:
    spec = SPEC.model_copy(update={"incarnation": 3})
    Reporter(ControlClient(driver.server.access()), spec).send(Action.METRICS, METRICS)
    (beat, _) = driver.told
    assert isinstance(beat, Heartbeat)
    assert (beat.attempt, beat.node, beat.incarnation) == (1, NODE, 3)


def test_who_the_workers_are_is_what_the_driver_told_last(driver: Driver) -> None:
    reporter, known = driver.reporter(), []
    for workers in (
        (WorkerPlace(node=NODE, incarnation=1),),
        (WorkerPlace(node=NODE, incarnation=1, address="h:2"),),
        (),
    ):
        driver.answer = TrainerOrders(orders=(WorkersOrder(workers=workers),))
        reporter.send(Action.METRICS, METRICS)
        known.append([(place.incarnation, place.address) for place in reporter.workers])
    assert known == [[(1, "")], [(1, "h:2")], []]
