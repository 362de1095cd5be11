"""What is sampled of an attempt: few looks, in which every row that a node has trained is counted once."""

from __future__ import annotations

import pytest

from sparktf.driver.attempt.course import AttemptCourse
from sparktf.driver.attempt.members import Members, Trainer
from sparktf.driver.attempt.rows.accounting import EpochAccount, EpochReceipts, MadeByWorker
from sparktf.topology import NodeId, Role
from sparktf.wire.control import EpochDone, Progress

NODES = (NodeId(role=Role.WORKER, index=0), NodeId(role=Role.WORKER, index=1))
CHIEF = NodeId(role=Role.CHIEF, index=0)


def members(*progress: Progress, nodes: tuple[NodeId, ...] = NODES) -> Members:
    found = {}
    for node, at in zip(nodes, progress, strict=True):
        found[node] = Trainer(node, str(node), "host", heard_s=0.0, moved_s=0.0, progress=at)
    return found


def at(step: int, rows: int, epoch: int = 0, phase: str = "training", loss: float | None = 0.5) -> Progress:
    return Progress(epoch=epoch, step=step, rows_trained=rows, loss=loss, phase=phase)


def account(epoch: int, rows: dict[NodeId, int]) -> EpochAccount:
    found = EpochAccount(epoch, planned=100, nodes=2)
    for node, trained in rows.items():
        found.add(
            EpochDone(
                attempt=1,
                node=node,
                epoch=epoch,
                step=0,
                rows_fed=trained,
                rows_trained=trained,
                complete=True,
            )
        )
    return found


def test_a_sample_has_the_loss_the_update_and_the_rows_of_each_node() -> None:
    course = AttemptCourse(began_s=100.0)
    course.look(101.0, members(at(3, 30), at(3, 28)), {})
    course.look(102.5, members(at(6, 60, loss=0.25), at(6, 55)), {})
    seen = course.samples()
    assert (seen.seconds, seen.steps, seen.losses) == ((1.0, 2.5), (3, 6), (0.5, 0.25))
    assert seen.rows == {"worker 0": (30, 60), "worker 1": (28, 55)}


def test_rows_go_on_over_epochs_whoever_has_told_their_end_first() -> None:
    course, ended = AttemptCourse(began_s=0.0), account(0, {NODES[0]: 50})
    course.look(1.0, members(at(5, 50), at(5, 40)), {0: ended})
    course.look(2.0, members(at(6, 10, epoch=1), at(5, 50)), {0: ended})
    ended.add(account(0, {NODES[1]: 50}).reports[NODES[1]])
    course.look(3.0, members(at(7, 20, epoch=1), at(7, 15, epoch=1)), {0: ended, 1: account(1, {})})
    course.look(4.0, members(at(9, 5, epoch=2), at(9, 5, epoch=2)), {0: ended, 1: account(1, dict.fromkeys(NODES, 50))})
    assert course.samples().rows == {"worker 0": (50, 60, 70, 105), "worker 1": (40, 50, 65, 105)}


def test_rows_of_workers_that_lease_them_are_those_of_their_receipts() -> None:
    course, leased = AttemptCourse(began_s=0.0), EpochAccount(0, planned=100, nodes=1)
    leased.receipts = EpochReceipts(made={NODES[0]: MadeByWorker(3, 30), NODES[1]: MadeByWorker(2, 20)})
    course.look(1.0, members(at(5, 50), at(0, 0), at(0, 0), nodes=(CHIEF, *NODES)), {0: leased})
    leased.receipts.made[NODES[1]] = MadeByWorker(4, 40)
    course.look(2.0, members(at(7, 70), at(0, 0), at(0, 0), nodes=(CHIEF, *NODES)), {0: leased})
    rows = course.samples().rows
    assert {node: rows[node] for node in ("worker 0", "worker 1")} == {"worker 0": (30, 30), "worker 1": (20, 40)}


def test_nothing_is_sampled_before_there_is_an_update_nor_twice_at_one() -> None:
    course = AttemptCourse(began_s=0.0)
    course.look(1.0, members(at(0, 0, phase="starting"), at(0, 0, phase="starting")), {})
    assert course.samples().steps == ()
    for now_s in (2.0, 3.0, 4.0):
        course.look(now_s, members(at(3, 30), at(3, 30)), {})
    assert course.samples().steps == (3,)


@pytest.mark.parametrize(("nodes", "most"), [(2, 200), (250, 80), (1_000, 20)])
def test_samples_stay_few_however_long_it_takes_and_however_many_nodes(nodes: int, most: int) -> None:
    course = AttemptCourse(began_s=0.0)
    gang = tuple(NodeId(role=Role.WORKER, index=index) for index in range(nodes))
    trainers = members(*[at(0, 0)] * nodes, nodes=gang)
    for second in range(1, 1_000):
        trainers[gang[0]].progress = at(second, 10 * second)
        course.look(float(second), trainers, {})
    seen = course.samples()
    assert most / 2 <= len(seen.steps) <= most
    assert seen.steps[0] == 1
    gaps = {later - earlier for earlier, later in zip(seen.steps, seen.steps[1:], strict=False)}
    assert len(gaps) == 1
    assert seen.steps[-1] > 850


def test_what_is_known_is_told_now_and_then_and_ever_more_rarely() -> None:
    course, told = AttemptCourse(began_s=0.0), []
    for second in range(1, 20_000, 5):
        course.look(float(second), members(at(second, second), at(second, second)), {})
        if course.is_due(float(second)):
            told.append(second)
    assert told[0] == 61
    assert len(told) < 20
    assert told[-1] > 10_000


def test_the_last_sample_is_that_of_the_end() -> None:
    course = AttemptCourse(began_s=0.0)
    course.look(1.0, members(at(3, 30), at(3, 30)), {})
    course.look(1.2, members(at(3, 30), at(3, 30)), {0: account(0, dict.fromkeys(NODES, 50))}, is_last=True)
    assert course.samples().rows == {"worker 0": (50,), "worker 1": (50,)}
    course.look(1.4, members(at(4, 40, epoch=1), at(3, 30)), {}, is_last=True)
    assert course.samples().steps == (3, 4)
