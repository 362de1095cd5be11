"""What follows, with an evaluator in the gang, from what it and the others report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lakes import lake_config, plan_lake, write_lake

from sparktf.config.nodes import ClusterConfig
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.health import Outcome
from sparktf.driver.attempt.losses import FRUITLESS
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.saves import Start
from sparktf.errors import ErrorRecord, RefusedError, Verdict
from sparktf.sequence import Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.control import AssignmentRequest, Failed, Heartbeat, Metrics, Progress, Ready, TrainerExited
from sparktf.wire.restore import Committed, NextCommit, NextCommitRequest
from sparktf.wire.sender import Sender
from sparktf.wire.uploads import Finished, Uploaded

EVALUATOR = NodeId(role=Role.EVALUATOR, index=0)
CLUSTERS = {
    "sync": ClusterConfig(workers=2, evaluator=True),
    "async": ClusterConfig(strategy="parameter_server", workers=2, ps=1, evaluator=True),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lake(tmp_path_factory.mktemp("lake"), [60, 40])


class Gang:
    """An attempt of a gang with an evaluator, at a time that the test tells."""

    def __init__(self, lake: Path, cluster: ClusterConfig) -> None:
        config = lake_config(lake, validation={"fraction": 0.3}).model_copy(update={"cluster": cluster})
        self.plan = plan_lake(lake, validation={"fraction": 0.3})
        self.now_s = 100.0
        self.nodes = cluster.shape.members(cluster.nodes)
        trainers = [Trainer(node, f"agent {i}", f"h{i}", 100.0, 100.0) for i, node in enumerate(self.nodes)]
        clock, wall = (lambda: self.now_s), (lambda: 1e9 + self.now_s)
        self.attempt = Attempt(1, config, self.plan, Start(), trainers, clock, wall)
        self.leaders = [node for node in self.nodes if node.role is Role.CHIEF] or [
            node for node in self.nodes if node.role is Role.WORKER
        ]
        self.limits = self.attempt._timeouts

    def sender(self, node: NodeId) -> Sender:
        return Sender(attempt=1, node=node, incarnation=self.attempt.trainers[node].incarnation)

    def ready(self, *nodes: NodeId) -> None:
        for node in nodes:
            self.attempt.ready(Ready(**self.sender(node), replicas=1, keras="keras", versions={}, weights=1))

    def beat(self, node: NodeId, **progress: Any) -> float:
        said = Progress(**{"phase": "training", **progress})
        return self.attempt.heartbeat(Heartbeat(**self.sender(node), progress=said)).beat_s

    def ask(self, node: NodeId = EVALUATOR) -> NextCommit:
        return self.attempt.next_commit(NextCommitRequest(**self.sender(node)))

    def commit(self, step: int) -> None:
        self.attempt.commits.add(Committed(path=f"/c/{step}", step=step, epoch=0, files=()))

    def tell(self, step: int) -> None:
        self.attempt.metrics_reported(
            Metrics(**self.sender(EVALUATOR), stream=Stream.VALIDATION, epoch=0, step=step, rows=5, values={"loss": 1})
        )

    def finish(self, *nodes: NodeId) -> None:
        for node in nodes:
            self.attempt.finished(Finished(**self.sender(node), step=30))

    def exit(self, node: NodeId, code: int = -9) -> None:
        gone = {"agent": "a", "exit_code": code, "time_s": 1e9 + self.now_s, "log": "/log", "log_tail": ""}
        self.attempt.exited(TrainerExited.model_validate({**self.sender(node), **gone}))

    def fail(self, verdict: Verdict) -> None:
        record = ErrorRecord(
            type="E", message="says why", verdict=verdict, time_s=1e9 + self.now_s, node=str(EVALUATOR)
        )
        self.attempt.failed(Failed(**self.sender(EVALUATOR), record=record))

    def succeed(self) -> None:
        self.attempt.succeed(EVALUATOR, "agent 9", "h9", "h9:1")
        self.ready(EVALUATOR)

    def lose(self) -> None:
        self.exit(EVALUATOR)
        assert self.attempt.apply(self.attempt.outcome()) is Outcome.RUNNING
        self.succeed()

    def pass_time(self, seconds: float, *silent: NodeId) -> Outcome:
        """Looks each second; all that live beat, those who make steps make some, and the evaluator asks."""
        for second in range(round(seconds)):
            self.now_s += 1
            for node, trainer in self.attempt.trainers.items():
                if trainer.is_expected and node not in silent:
                    self.beat(node, step=second if node in self.leaders and trainer.finished is None else 0)
                    if node == EVALUATOR and trainer.finished is None:
                        self.ask()
            if (outcome := self.attempt.apply(self.attempt.outcome())) is not Outcome.RUNNING:
                return outcome
        return self.attempt.apply(self.attempt.outcome())


@pytest.fixture(params=["sync", "async"])
def gang(request: pytest.FixtureRequest, lake: Path) -> Gang:
    gang = Gang(lake, CLUSTERS[request.param])
    gang.ready(*gang.nodes)
    return gang


def test_the_evaluator_alone_reads_all_of_the_validation_stream_and_nothing_of_the_other(gang: Gang) -> None:
    request = AssignmentRequest(**gang.sender(EVALUATOR), stream=Stream.VALIDATION, epoch=0)
    answer = gang.attempt.assignment(request)()
    assert answer.assignment is not None
    assert answer.assignment.rows == gang.plan.rows(Stream.VALIDATION) > 0
    with pytest.raises(RefusedError, match="evaluator 0 has no share of train"):
        gang.attempt.assignment(request.model_copy(update={"stream": Stream.TRAIN}))


def test_those_who_train_share_the_rows_among_themselves(lake: Path) -> None:
    gang = Gang(lake, CLUSTERS["sync"])
    shares = [
        gang.attempt.assignment(AssignmentRequest(**gang.sender(node), stream=Stream.TRAIN, epoch=0))()
        for node in gang.leaders
    ]
    rows = [share.assignment.rows for share in shares if share.assignment is not None]
    assert len(rows) == 2
    assert sum(rows) == gang.plan.rows(Stream.TRAIN)


def test_a_checkpoint_is_whole_without_the_evaluator(gang: Gang) -> None:
    for node in gang.leaders:
        gang.attempt.uploaded(Uploaded(**gang.sender(node), step=7, epoch=0, done=(), keras="keras"))
    (save,) = gang.attempt.take_saves()
    assert save.chief.step == 7


def test_nobody_but_the_evaluator_asks_for_commits_or_is_taken_for_one_that_has_evaluated(gang: Gang) -> None:
    with pytest.raises(RefusedError, match=f"{gang.leaders[0]} does not evaluate commits"):
        gang.ask(gang.leaders[0])


def test_the_run_ends_when_the_last_commit_is_evaluated(gang: Gang) -> None:
    gang.commit(10)
    assert gang.ask().commit is not None
    gang.finish(*gang.leaders)
    assert gang.pass_time(30) is Outcome.RUNNING
    gang.tell(10)
    gang.commit(20)  # is whole only now
    gang.attempt.all_committed()
    found = gang.ask().commit
    assert found is not None
    assert found.step == 20
    assert gang.pass_time(30) is Outcome.RUNNING
    gang.tell(20)
    assert gang.ask().is_over
    gang.finish(EVALUATOR)
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.DONE
    assert gang.attempt.evaluation.failed is None


def test_an_evaluator_has_to_do_while_others_train(gang: Gang) -> None:
    gang.commit(10)
    gang.ask()
    gang.tell(10)
    gang.attempt.all_committed()
    assert not gang.ask().is_over


def test_nobody_is_missed_once_the_training_is_done(gang: Gang) -> None:
    gang.finish(*gang.leaders)
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.RUNNING
    for node in gang.nodes:
        if node != EVALUATOR:
            gang.exit(node, 1)
    assert gang.pass_time(30) is Outcome.RUNNING
    assert not gang.attempt.failures
    assert not gang.attempt.vacant()
    gang.finish(EVALUATOR)
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.DONE


def test_those_that_wait_for_the_evaluator_are_heard_as_seldom_as_if_they_trained(gang: Gang) -> None:
    steady_s = gang.beat(gang.leaders[0])
    gang.finish(*gang.leaders)
    gang.attempt.apply(gang.attempt.outcome())
    assert gang.beat(gang.leaders[0]) == steady_s
    gang.finish(EVALUATOR)
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.DONE
    assert gang.beat(gang.leaders[0]) < steady_s


def test_nobody_follows_a_worker_once_the_training_is_done(lake: Path) -> None:
    gang = Gang(lake, CLUSTERS["async"])
    gang.ready(*gang.nodes)
    gang.exit(NodeId(role=Role.WORKER, index=0))
    gang.finish(*gang.leaders)
    assert gang.pass_time(2 * gang.limits.replace) is Outcome.RUNNING
    assert not gang.attempt.vacant()
    gang.finish(EVALUATOR)
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.DONE


# ---- losses ----


def test_a_lost_evaluator_is_named_and_followed_while_training_goes_on(gang: Gang) -> None:
    gang.commit(10)
    gang.ask()
    gang.exit(EVALUATOR)
    assert gang.pass_time(5) is Outcome.RUNNING
    (vacancy,) = gang.attempt.vacant()
    host = gang.attempt.trainers[EVALUATOR].host
    assert vacancy.reason == f"evaluator 0 on {host} exited with -9 (SIGKILL)"
    gang.succeed()
    assert not gang.attempt.vacant()
    found = gang.ask().commit
    assert found is not None
    assert found.step == 10
    assert gang.attempt.losses.records[0].log == "/log"


@pytest.mark.parametrize("verdict", [Verdict.MODEL_FAILED, Verdict.DATA_REFUSED, Verdict.REFUSED])
def test_what_every_evaluator_would_fail_at_ends_the_attempt(gang: Gang, verdict: Verdict) -> None:
    gang.fail(verdict)
    assert gang.pass_time(3) is Outcome.FAILED
    assert not gang.attempt.vacant()


def test_an_evaluator_that_is_lost_before_all_are_ready_ends_the_attempt(lake: Path) -> None:
    gang = Gang(lake, CLUSTERS["sync"])
    gang.ready(gang.nodes[0], EVALUATOR)
    gang.exit(EVALUATOR)
    assert gang.pass_time(3) is Outcome.FAILED


def test_an_evaluator_that_is_not_ready_in_time_ends_the_attempt(lake: Path) -> None:
    gang = Gang(lake, CLUSTERS["sync"])
    gang.ready(*gang.leaders)
    for _ in range(round(gang.limits.start) + 3):
        gang.now_s += 1
        for node in gang.nodes:
            gang.beat(node, step=int(gang.now_s))
        gang.attempt.apply(gang.attempt.outcome())
    assert "evaluator 0 on h2 was not ready within timeouts.start" in gang.attempt.failures[0].message


def test_those_who_train_are_followed_first(lake: Path) -> None:
    gang = Gang(lake, CLUSTERS["async"])
    gang.ready(*gang.nodes)
    gang.exit(EVALUATOR)
    worker = NodeId(role=Role.WORKER, index=0)
    gang.exit(worker)
    assert [vacancy.node for vacancy in gang.attempt.vacant()] == [worker, EVALUATOR]


def test_evaluators_that_are_lost_again_and_again_without_a_result_are_given_up(gang: Gang) -> None:
    for _ in range(FRUITLESS - 1):
        gang.lose()
    gang.commit(10)
    gang.ask()
    gang.tell(10)
    for _ in range(FRUITLESS - 1):
        gang.lose()
    assert gang.attempt.evaluation.failed is None, "there was a result"
    gang.exit(EVALUATOR)
    assert gang.pass_time(5) is Outcome.RUNNING
    assert not gang.attempt.vacant()
    failed = gang.attempt.evaluation.failed
    assert failed is not None
    assert failed.message == (
        "evaluation has failed, the training has not: evaluator 0 on h9 exited with -9 (SIGKILL); "
        f"{FRUITLESS} evaluators in a row were lost without a result"
    )
    assert gang.attempt.warnings == [failed.message]
    gang.finish(*gang.leaders)
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.DONE


def test_an_evaluator_that_nobody_follows_is_waited_for_while_others_train_and_not_much_longer(gang: Gang) -> None:
    gang.exit(EVALUATOR)
    assert gang.pass_time(2 * gang.limits.replace) is Outcome.RUNNING
    assert gang.attempt.vacant()
    gang.finish(*gang.leaders)
    assert gang.pass_time(gang.limits.replace - 2) is Outcome.RUNNING
    assert gang.pass_time(5) is Outcome.DONE
    failed = gang.attempt.evaluation.failed
    assert failed is not None
    assert failed.message.endswith(
        f"exited with -9 (SIGKILL); it was not replaced within timeouts.replace: {gang.limits.replace:g} s"
    )
    assert not gang.attempt.failures


def test_an_evaluation_that_stands_still_is_lost_and_one_that_waits_or_reads_is_not(gang: Gang) -> None:
    gang.attempt._timeouts = gang.limits.model_copy(update={"progress": 50.0})
    assert gang.pass_time(200) is Outcome.RUNNING, "it asks"
    gang.commit(10)
    gang.ask()
    for second in range(200):
        gang.now_s += 1
        for node in gang.nodes:
            gang.beat(node, step=1000 + second if node in gang.leaders else 0, rows_trained=min(second, 100))
        gang.attempt.apply(gang.attempt.outcome())
        if second < 140:
            assert not gang.attempt.vacant()
        elif gang.attempt.vacant():
            break
    (vacancy,) = gang.attempt.vacant()
    assert "made no progress within timeouts.progress: 50 s" in vacancy.reason
