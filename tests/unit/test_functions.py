"""What becomes of functions that a gang runs, by a clock that the test moves."""

from __future__ import annotations

import pytest
from pretend import PretendClock

from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.attempt.functions import ATTEMPT, Functions
from sparktf.driver.attempt.health import Outcome
from sparktf.driver.attempt.members import Trainer
from sparktf.errors import ErrorRecord, RefusedError, Verdict
from sparktf.knobs import KNOBS
from sparktf.topology import NodeId, role_of_job
from sparktf.wire.beats import SMALL
from sparktf.wire.control import Failed, Heartbeat, Progress, Ready, StopOrder, TrainerExited
from sparktf.wire.data import DataAddress
from sparktf.wire.guest import DealRequest, GuestNode
from sparktf.wire.sender import Sender
from sparktf.wire.uploads import Finished

SILENCE_S = SMALL.silence_s


class Program:
    """A program's nodes, which have been launched."""

    def __init__(self, *jobs: str) -> None:
        self.clock = PretendClock()
        cluster: dict[str, tuple[str, ...]] = {job: ("h:1",) * jobs.count(job) for job in jobs}
        self.nodes, guests = [], {}
        for number, job in enumerate(jobs):
            index = jobs[:number].count(job)
            node = NodeId(role=role_of_job(job), index=index)
            self.nodes.append(node)
            guests[node] = GuestNode(
                number=number, job=job, index=index, cluster=cluster, default_fs="", working_dir="/", is_fed=job != "ps"
            )
        trainers = [Trainer(node, f"agent{i}", f"h{i}", 0.0, 0.0, jvm=f"jvm{i}") for i, node in enumerate(self.nodes)]
        now_s = self.clock.now_s
        self.functions = Functions(guests, trainers, TimeoutsConfig(), SMALL, now_s, self.clock.wall_s)

    def sender(self, number: int) -> Sender:
        return Sender(attempt=ATTEMPT, node=self.nodes[number], incarnation=0)

    def begin(self) -> None:
        for number in range(len(self.nodes)):
            address = DataAddress(host=f"h{number}", socket="s", location="")
            ready = Ready(**self.sender(number), replicas=1, keras="none", versions={}, weights=0, data=address)
            self.functions.ready(ready)

    def beat(self, number: int, phase: str = "training") -> bool:
        """Says that a node is alive, and whether it is told to stop."""
        beat = Heartbeat(**self.sender(number), progress=Progress(phase=phase))
        return StopOrder() in self.functions.heartbeat(beat).orders

    def returns(self, number: int) -> None:
        self.functions.finished(Finished(**self.sender(number), step=0, model=()))

    def exits(self, number: int, code: int) -> None:
        agent, sender = f"agent{number}", self.sender(number)
        said = TrainerExited(**sender, agent=agent, exit_code=code, time_s=1.0, log="l", log_tail="t")
        self.functions.exited(said)

    def fails(self, number: int, message: str, time_s: float, *, peer: bool = False) -> None:
        record = ErrorRecord(
            type="ModelError",
            message=message,
            verdict=Verdict.MODEL_FAILED,
            time_s=time_s,
            node=str(self.nodes[number]),
            peer=peer,
        )
        self.functions.failed(Failed(**self.sender(number), record=record))

    def pass_s(self, seconds: float) -> Outcome:
        self.clock.advance(seconds)
        return self.functions.look()

    @property
    def cause(self) -> str:
        return self.functions.cause.message if self.functions.cause is not None else ""


def test_a_node_that_says_nothing_for_too_long_is_lost_and_all_others_stop() -> None:
    program = Program("worker", "worker")
    program.begin()
    assert program.pass_s(SILENCE_S - 1) is Outcome.RUNNING
    assert not program.beat(0)
    program.pass_s(2)
    assert program.pass_s(KNOBS.settle_s) is Outcome.FAILED
    assert program.cause == "worker 1 on h1 was silent for 15 s (spark.sparktf.timeouts.heartbeat)"
    assert program.functions.cause is not None
    assert program.functions.cause.time_s == program.clock.wall_s() - SILENCE_S - 1 - KNOBS.settle_s
    program.functions.stop()
    assert program.beat(0)


def test_a_node_that_does_not_begin_is_named_with_the_limit() -> None:
    program = Program("worker")
    program.pass_s(TimeoutsConfig().start - 1)
    program.beat(0)
    assert program.pass_s(2) is Outcome.RUNNING
    assert program.pass_s(KNOBS.settle_s) is Outcome.FAILED
    assert "worker 0 on h0 was not ready within spark.sparktf.timeouts.start: 180 s" in program.cause


def test_of_two_failures_the_earlier_is_the_cause_and_a_lost_peer_is_none() -> None:
    program = Program("chief", "worker", "worker")
    program.begin()
    program.fails(0, "lost its peers", 1.0, peer=True)
    program.fails(1, "late", 3.0)
    assert program.functions.cause is None, "somebody may still tell of an earlier one"
    program.fails(2, "early", 2.0)
    assert program.pass_s(KNOBS.settle_s) is Outcome.FAILED
    assert program.cause == "early"


def test_a_process_that_ends_before_its_function_has_returned_is_lost_with_what_it_said() -> None:
    program = Program("worker", "worker")
    program.begin()
    program.returns(0)
    program.exits(0, 0)
    assert program.pass_s(KNOBS.settle_s) is Outcome.RUNNING
    program.exits(1, -9)
    program.pass_s(0)
    assert program.pass_s(KNOBS.settle_s) is Outcome.FAILED
    assert program.cause == "worker 1 on h1 exited with -9 (SIGKILL)"
    assert program.functions.failures[0].log_tail == "t"
    with pytest.raises(RefusedError, match="counts as lost"):
        program.beat(1)


def test_who_has_returned_and_says_no_more_is_not_the_cause_of_what_others_fail_of() -> None:
    program = Program("worker", "worker")
    program.begin()
    program.returns(0)
    program.pass_s(SILENCE_S / 2)
    program.beat(1)
    program.pass_s(SILENCE_S + 1)
    assert program.pass_s(KNOBS.settle_s) is Outcome.FAILED
    assert program.cause.startswith("worker 1 on h1 was silent")


def test_nobody_waits_for_servers_and_they_may_fail_until_all_are_stopped() -> None:
    program = Program("ps", "chief", "worker", "evaluator")
    program.begin()
    program.returns(1)
    assert not program.functions.is_done
    program.returns(2)
    assert program.functions.is_done
    assert program.pass_s(1) is Outcome.DONE
    assert not program.functions.is_over
    program.functions.agent_lost("agent3", "lost its agent: silent")
    assert not program.functions.is_done
    assert program.pass_s(KNOBS.settle_s) is Outcome.FAILED
    assert program.cause == "evaluator 0 on h3 lost its agent: silent"
    assert program.functions.wants_rows, "an evaluator that is fed, here"


def test_nobody_waits_for_a_worker_that_only_serves_and_its_loss_is_one_until_the_others_are_done() -> None:
    program = Program("ps", "chief", "worker", "worker")
    program.begin()
    for number in (2, 3):
        program.beat(number, "serving")
    assert [str(trainer.node) for trainer in program.functions.unreturned] == ["chief 0"]
    program.returns(1)
    assert program.functions.is_done
    program.exits(2, -9)
    assert not program.functions.is_done
    assert program.pass_s(KNOBS.settle_s) is Outcome.FAILED
    assert program.cause == "worker 0 on h2 exited with -9 (SIGKILL)"


def test_feeders_are_told_what_ended_the_nodes() -> None:
    program = Program("worker", "worker")
    program.begin()
    assert program.functions.deal(DealRequest(rows=0)).cause is None
    program.fails(0, "no luck", 1.0)
    program.pass_s(0)
    program.pass_s(KNOBS.settle_s)
    program.functions.stop()
    told = program.functions.deal(DealRequest(rows=0)).cause
    assert told is not None
    assert told.message == "no luck"


def test_what_ends_because_it_was_told_to_is_no_failure() -> None:
    program = Program("worker")
    program.begin()
    program.functions.stop()
    program.exits(0, 143)
    program.pass_s(100)
    assert program.functions.failures == []


def test_each_node_gets_as_many_rows_as_the_others() -> None:
    program = Program("ps", "worker", "worker")
    assert program.functions.places() == ()
    program.begin()
    assert [place.number for place in program.functions.places()] == [1, 2]
    assert [program.functions.deal(DealRequest(rows=rows)).first for rows in (3, 2, 1)] == [0, 1, 1]
    program.returns(1)
    program.returns(2)
    assert program.functions.deal(DealRequest(rows=1)).is_over
