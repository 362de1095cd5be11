"""Where an attempt stands: looked at as often as anybody likes, it is the same, and nothing has changed."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lakes import lake_config, plan_lake, write_lake

from sparktf.config.nodes import ClusterConfig
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.discipline import GoOn, Replace
from sparktf.driver.attempt.disciplines import DISCIPLINES
from sparktf.driver.attempt.evaluation import Evaluating
from sparktf.driver.attempt.losses import FRUITLESS, Vacancy
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.saves import Start
from sparktf.driver.lifecycle import TrainerState
from sparktf.errors import ErrorRecord, Verdict
from sparktf.topology import NodeId, Role
from sparktf.wire.control import Ready, TrainerExited
from sparktf.wire.uploads import Finished

CLUSTERS = {
    "sync": ClusterConfig(workers=2, evaluator=True),
    "async": ClusterConfig(strategy="parameter_server", workers=3, ps=1, min_workers=1, evaluator=True),
}
EVALUATOR, WORKER = NodeId(role=Role.EVALUATOR, index=0), NodeId(role=Role.WORKER, index=0)


class Gang:
    """An attempt whose nodes are all ready, at a time that the test tells."""

    def __init__(self, folder: Path, cluster: ClusterConfig) -> None:
        write_lake(folder, [60, 40])
        config = lake_config(folder, validation={"fraction": 0.3}).model_copy(update={"cluster": cluster})
        self.now_s = 100.0
        nodes = cluster.shape.members(cluster.nodes)
        trainers = [Trainer(node, f"agent {i}", f"h{i}", 100.0, 100.0) for i, node in enumerate(nodes)]
        plan = plan_lake(folder, validation={"fraction": 0.3})
        self.attempt = Attempt(1, config, plan, Start(), trainers, lambda: self.now_s, lambda: 1e9 + self.now_s)
        for node in nodes:
            self.attempt.ready(Ready(attempt=1, node=node, replicas=1, keras="keras", versions={}, weights=1))

    def exit(self, node: NodeId) -> None:
        sender = {"attempt": 1, "node": node, "incarnation": self.attempt.trainers[node].incarnation}
        gone = {"agent": "a", "exit_code": -9, "time_s": 1e9, "log": "/log", "log_tail": ""}
        self.attempt.exited(TrainerExited.model_validate({**sender, **gone}))

    def finish(self) -> None:
        for node in [n for n in self.attempt.trainers if n.role in (Role.CHIEF, Role.WORKER)]:
            self.attempt.finished(Finished(attempt=1, node=node, step=3))

    def seen(self) -> list[Any]:
        """Returns all that anybody can see of the attempt."""
        attempt = self.attempt
        told = [attempt.state, attempt.failures, tuple(attempt.warnings), attempt.evaluation, attempt.losses.records]
        places = attempt.losses.order(attempt.trainers.values())
        return [copy.deepcopy(attempt.trainers), *told, places, attempt.vacant(), attempt.fed.in_doubt(0)]


def silent(gang: Gang) -> None:
    gang.now_s += 1000


def without_a_worker(gang: Gang) -> None:
    gang.exit(WORKER)
    gang.now_s += gang.attempt._timeouts.replace + 1
    for trainer in gang.attempt.trainers.values():
        trainer.heard_s = trainer.moved_s = gang.now_s


def without_the_evaluator(gang: Gang) -> None:
    gang.finish()
    gang.attempt.apply(gang.attempt.outcome())
    gang.exit(EVALUATOR)
    gang.now_s += gang.attempt._timeouts.replace + 1


def trained(gang: Gang) -> None:
    gang.finish()
    gang.attempt.finished(Finished(attempt=1, node=EVALUATOR, step=3))


@pytest.mark.parametrize("strategy", list(CLUSTERS))
@pytest.mark.parametrize("happens", [silent, without_a_worker, without_the_evaluator, trained])
def test_to_look_where_an_attempt_stands_changes_nothing(
    tmp_path: Path, strategy: str, happens: Callable[[Gang], None]
) -> None:
    gang = Gang(tmp_path, CLUSTERS[strategy])
    happens(gang)
    before = gang.seen()
    first = gang.attempt.outcome()
    assert gang.attempt.outcome() == first
    assert gang.seen() == before
    gang.attempt.apply(first)
    assert gang.seen() != before, "there was something to be noted"


# ---- the evaluator, as a value ----


def walks() -> Iterator[tuple[int, random.Random]]:
    return ((seed, random.Random(seed)) for seed in range(300))


def record(text: str) -> ErrorRecord:
    return ErrorRecord(type="E", message=text, verdict=Verdict.INFRASTRUCTURE, time_s=1.0)


def test_an_evaluator_is_given_up_by_its_losses_and_by_nothing_else_and_stays_so() -> None:
    nodes = CLUSTERS["sync"].shape.members(3)
    limit_s, given_up = 60.0, 0
    for seed, chance in walks():
        members = {node: Trainer(node, "a", "h", 0.0, 0.0, met=True) for node in nodes}
        found = Evaluating.beside(DISCIPLINES["multi_worker_mirrored"], nodes)
        now_s, in_a_row, trained_s, vacant_s = 0.0, set[int](), None, None
        hopeless = False
        for _ in range(30):
            before, copied = found, copy.copy(found)
            now_s += chance.choice((0.0, 1.0, 20.0, 70.0))
            match chance.choice(("lost", "lost", "followed", "result", "trained", "time", "time")):
                case "lost":
                    assert found.on_loss(members[EVALUATOR], record("gone"), members) == Replace(EVALUATOR)
                    found = found.with_loss(members[EVALUATOR], record("gone"))
                    in_a_row.add(members[EVALUATOR].incarnation)
                    vacant_s = now_s if vacant_s is None else vacant_s
                    hopeless = hopeless or len(in_a_row) >= FRUITLESS
                case "followed" if vacant_s is not None and found.failed is None:
                    members[EVALUATOR], vacant_s = members[EVALUATOR].successor("a", "h", "h:1", now_s), None
                case "result" if vacant_s is None:
                    found, in_a_row = found.with_result(), set()
                case "trained":
                    for node in nodes[:2]:
                        members[node].state = TrainerState.FINISHED
                case _:
                    vacancies = [] if vacant_s is None else [Vacancy(EVALUATOR, vacant_s, "gone")]
                    found = found.at(now_s, members, vacancies, limit_s)
                    assert found.at(now_s, members, vacancies, limit_s) == found, seed
                    if members[nodes[0]].state is TrainerState.FINISHED:
                        trained_s = now_s if trained_s is None else trained_s
                    if trained_s is not None and vacant_s is not None:
                        hopeless = hopeless or now_s - max(vacant_s, trained_s) > limit_s
            assert before == copied, f"seed {seed}: an older value has changed"
            assert (found.failed is not None) == hopeless, seed
            assert found.trained_s == trained_s, seed
            assert found.is_done(members) == (members[nodes[0]].state is TrainerState.FINISHED and hopeless), seed
            assert not (hopeless and found.vacant([Vacancy(EVALUATOR, 0.0, "gone")])), seed
            if trained_s is not None:
                assert not found.vacant([Vacancy(nodes[0], 0.0, "gone")]), seed
                assert found.on_loss(members[nodes[0]], record("gone"), members) == GoOn(), seed
        given_up += hopeless
    assert 50 < given_up < 300, "both ends are seen"


def test_an_attempt_without_an_evaluator_is_done_as_its_trainers_are() -> None:
    nodes = ClusterConfig(workers=2).shape.members(2)
    members = {node: Trainer(node, "a", "h", 0.0, 0.0, state=TrainerState.FINISHED) for node in nodes}
    plain = Evaluating.beside(DISCIPLINES["multi_worker_mirrored"], nodes)
    assert plain.at(5.0, members, [], 60.0) == plain
    assert plain.is_done(members)
    assert not plain.is_waited_for(members)
