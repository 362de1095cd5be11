"""Messages that come twice, late, or after a later one: each is served once, and whoever sends it again is answered."""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lakes import lake_config, plan_lake, write_lake

from sparktf.config.nodes import ClusterConfig
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.saves import Start
from sparktf.driver.gang.handlers import Answers, Dispatcher
from sparktf.driver.gang.roster import Roster
from sparktf.errors import DriverLostError, ErrorRecord, RefusedError, Verdict
from sparktf.message import Message
from sparktf.sequence import Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.channel import ControlClient, Numbers
from sparktf.wire.control import (
    Ack,
    Action,
    AgentHeartbeat,
    AssignmentRequest,
    EpochDone,
    Failed,
    Metrics,
    Order,
    Orders,
    Printed,
    Ready,
    Registration,
    Warned,
)
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest
from sparktf.wire.restore import Committed, NextCommit, NextCommitRequest
from sparktf.wire.sender import NodeMessage, Sender, TrainerKey
from sparktf.wire.uploads import Finished, Uploaded

CLUSTER = ClusterConfig(strategy="parameter_server", workers=2, ps=1, evaluator=True)
CHIEF, WORKER, EVALUATOR = (NodeId(role=role, index=0) for role in (Role.CHIEF, Role.WORKER, Role.EVALUATOR))


class Gang:
    """A driver with an attempt, asked through its handlers."""

    def __init__(self, folder: Path) -> None:
        write_lake(folder, [60, 40])
        config = lake_config(folder, validation={"fraction": 0.3}).model_copy(update={"cluster": CLUSTER})
        trainers = [
            Trainer(node, f"agent {i}", f"h{i}", 100.0, 100.0)
            for i, node in enumerate(CLUSTER.shape.members(CLUSTER.nodes))
        ]
        self.roster = Roster(lambda: 0.0, silence_s=15.0)
        self.dispatcher = Dispatcher(self.roster)
        plan = plan_lake(folder, validation={"fraction": 0.3})
        self.attempt = Attempt(1, config, plan, Start(), trainers, lambda: 100.0, lambda: 1e9)
        self.dispatcher.attempt = self.attempt
        self.handlers = self.dispatcher.handlers()

    def say(self, action: Action, message: Message) -> Message:
        return self.handlers[action].answer(message)

    def seen(self) -> list[Any]:
        """Returns what a message may change."""
        attempt = self.attempt
        known = [attempt.metrics, attempt.warnings, attempt.epochs, attempt.failures, attempt._uploads._by_step]
        return copy.deepcopy([attempt.trainers, *known])


@pytest.fixture
def gang(tmp_path: Path) -> Gang:
    return Gang(tmp_path)


def sender(node: NodeId, number: int) -> dict[str, Any]:
    return {**Sender(attempt=1, node=node, incarnation=0), "number": number}


POSITION: dict[str, Any] = {"epoch": 0, "step": 1, "rows_fed": 1, "rows_trained": 1, "complete": False}
FAILURE = ErrorRecord(type="E", message="no", verdict=Verdict.MODEL_FAILED, time_s=1.0, node="chief 0")
METRICS: dict[str, Any] = {"stream": Stream.TRAIN, "epoch": 0, "step": 1, "rows": 1, "values": {"loss": 1.0}}
UPLOADED: dict[str, Any] = {"step": 1, "epoch": 0, "done": (), "keras": "keras"}
SAID: dict[Action, Callable[[int], NodeMessage]] = {
    Action.READY: lambda n: Ready(**sender(CHIEF, n), replicas=1, keras="keras", versions={}, weights=1),
    Action.METRICS: lambda n: Metrics(**sender(CHIEF, n), **METRICS),
    Action.EPOCH_DONE: lambda n: EpochDone(**sender(CHIEF, n), **POSITION),
    Action.UPLOADED: lambda n: Uploaded(**sender(CHIEF, n), **UPLOADED),
    Action.FAILED: lambda n: Failed(**sender(CHIEF, n), record=FAILURE),
    Action.WARNING: lambda n: Warned(**sender(CHIEF, n), text="a word"),
    Action.PRINTED: lambda n: Printed(**sender(CHIEF, n), text="a line"),
    Action.LEASE_BLOCKS: lambda n: BlockLeaseRequest(**sender(WORKER, n), epoch=0, rows=5),
    Action.NEXT_COMMIT: lambda n: NextCommitRequest(**sender(EVALUATOR, n)),
}


@pytest.mark.parametrize("action", SAID)
def test_what_comes_twice_changes_nothing_and_is_answered_as_before(gang: Gang, action: Action) -> None:
    said = SAID[action](7)
    first = gang.say(action, said)
    before = gang.seen()
    assert gang.say(action, said) is first
    assert gang.seen() == before
    with pytest.raises(RefusedError, match=f"{action} 6 came too late, after {action} 7 was answered"):
        gang.say(action, SAID[action](6))
    assert gang.seen() == before


def test_a_checkpoint_that_is_told_again_once_it_was_taken_is_taken_once(gang: Gang) -> None:
    said = SAID[Action.UPLOADED](1)
    gang.say(Action.UPLOADED, said)
    assert len(gang.attempt.take_saves()) == 1
    gang.say(Action.UPLOADED, said)
    assert gang.attempt.take_saves() == []


def test_a_share_is_the_same_however_often_it_is_asked_for_and_is_not_kept(gang: Gang) -> None:
    said = AssignmentRequest(**sender(EVALUATOR, 1), stream=Stream.VALIDATION, epoch=0)
    first = gang.say(Action.ASSIGNMENT, said)
    assert gang.say(Action.ASSIGNMENT, said) == first
    kept = weakref.ref(first)
    del first
    assert kept() is None, "of a thousand nodes, answers would take hundreds of megabytes"


def test_the_end_of_a_node_is_noted_once(gang: Gang) -> None:
    gang.say(Action.READY, SAID[Action.READY](1))
    end = Finished(**sender(CHIEF, 1), step=3)
    assert gang.say(Action.FINISHED, end) is gang.say(Action.FINISHED, end)
    assert gang.attempt.trainers[CHIEF].finished == end


def test_rows_are_leased_once_however_often_a_worker_asks_for_them_and_others_when_it_asks_anew(gang: Gang) -> None:
    def ask(number: int) -> BlockLease:
        answer = gang.say(Action.LEASE_BLOCKS, SAID[Action.LEASE_BLOCKS](number))
        assert isinstance(answer, BlockLease)
        return answer

    first, again, other = ask(1), ask(1), ask(2)
    assert first.pieces == again.pieces
    assert not {piece.first_row for piece in first.pieces} & {piece.first_row for piece in other.pieces}


def test_a_question_that_is_asked_twice_lets_go_of_nothing_that_is_read(gang: Gang) -> None:
    for step in (10, 20):
        gang.attempt.commits.add(Committed(path=f"/c/{step}", step=step, epoch=0, files=()))
    first = gang.say(Action.NEXT_COMMIT, SAID[Action.NEXT_COMMIT](1))
    assert isinstance(first, NextCommit)
    assert first.commit is not None
    gang.attempt.commits.add(Committed(path="/c/30", step=30, epoch=0, files=()))
    assert gang.say(Action.NEXT_COMMIT, SAID[Action.NEXT_COMMIT](1)) == first
    assert gang.attempt.commits.release([20], None) == ()


def test_whoever_has_lost_its_place_is_refused_also_what_it_was_answered_before(gang: Gang) -> None:
    said = SAID[Action.LEASE_BLOCKS](1)
    gang.say(Action.LEASE_BLOCKS, said)
    gang.attempt.trainers[WORKER].incarnation = 1
    with pytest.raises(RefusedError, match="incarnation 0 of worker 0 in attempt 1 is over"):
        gang.say(Action.LEASE_BLOCKS, said)


def test_a_heartbeat_that_comes_after_a_later_one_says_nothing_of_today(gang: Gang) -> None:
    gang.roster.register(Registration(agent="a", partition=0, host="h", jvm="1@2", address="h:1", versions={}))

    def beat(number: int, address: str) -> Message:
        return gang.say(Action.AGENT_HEARTBEAT, AgentHeartbeat(agent="a", number=number, address=address))

    answer = beat(2, "h:2")
    assert isinstance(answer, Orders)
    assert answer.order is Order.WAIT
    with pytest.raises(RefusedError, match="agent-heartbeat 1 came too late"):
        beat(1, "h:1")
    assert [agent.address for agent in gang.roster.here()] == ["h:2"], "the next trainer begins where a port is held"


# ---- answers and numbers by themselves ----


def test_every_incarnation_is_answered_by_its_own_numbers() -> None:
    answers = Answers()
    keys = [TrainerKey(1, WORKER, incarnation) for incarnation in (0, 1)]
    assert answers.once(keys[0], Action.WORK, 1, Ack) == Ack()
    assert answers.once(keys[1], Action.WORK, 1, NextCommit) == NextCommit()


def test_what_could_not_be_served_is_served_when_it_is_sent_again() -> None:
    answers = Answers()

    def broken() -> Message:
        raise RefusedError("not yet")

    with pytest.raises(RefusedError, match="not yet"):
        answers.once("a", Action.WORK, 1, broken)
    assert answers.once("a", Action.WORK, 1, Ack) == Ack()


def test_a_copy_that_comes_while_the_first_is_served_waits_for_its_answer() -> None:
    answers, served, begun, goes_on = Answers(), [], threading.Event(), threading.Event()

    def slow() -> Message:
        served.append(1)
        begun.set()
        assert goes_on.wait(30)
        return Ack()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(answers.once, "a", Action.LEASE_BLOCKS, 1, slow)
        assert begun.wait(30)
        copied = threads.submit(answers.once, "a", Action.LEASE_BLOCKS, 1, slow)
        assert answers.once("b", Action.LEASE_BLOCKS, 1, Ack) == Ack(), "others are answered meanwhile"
        goes_on.set()
        assert first.result(30) is copied.result(30)
    assert served == [1]


class Unlucky(ControlClient):
    """Reaches the driver each second time that it sends."""

    def __init__(self) -> None:
        self._numbers, self.sent = Numbers(), list[int]()

    def call(self, action: Action, request: Message, answer: type[Any], *, timeout_s: float = 10.0) -> Any:
        assert isinstance(request, Warned)
        self.sent.append(request.number)
        if len(self.sent) % 2:
            raise DriverLostError("no answer")
        return answer()


def test_a_message_keeps_its_number_however_often_it_is_sent() -> None:
    client = Unlucky()
    warned = Warned(**Sender(attempt=1, node=CHIEF, incarnation=0), text="a word")
    for _ in range(2):
        client.call_patiently(Action.WARNING, warned, Ack, patience_s=5.0)
    assert client.sent == [1, 1, 2, 2]


def test_messages_of_an_action_go_one_after_the_other_and_those_of_others_beside_them() -> None:
    numbers, sent = Numbers(), []
    warned = Warned(**Sender(attempt=1, node=CHIEF, incarnation=0), text="a word")

    def send() -> None:
        with numbers.numbered(Action.WARNING, warned) as numbered:
            assert isinstance(numbered, Warned)
            sent.append(numbered.number)

    with ThreadPoolExecutor(8) as threads:
        with numbers.numbered(Action.WARNING, warned) as first:
            waiting = [threads.submit(send) for _ in range(20)]
            with numbers.numbered(Action.METRICS, warned) as other:
                assert first == other == warned.model_copy(update={"number": 1})
            assert sent == []
        for one in waiting:
            one.result(30)
    assert sent == list(range(2, 22)), "each begins when the one before has its answer"
