"""What follows from what trainers report: decisions without network, processes or a real clock."""

from __future__ import annotations

import pytest

from sparktf.data_messages import NodeInput
from sparktf.driver.accounting import EpochAccount
from sparktf.driver.attempt import Outcome, decide, root_cause
from sparktf.errors import ErrorRecord, Verdict
from sparktf.lifecycle import TrainerState
from sparktf.messages import EpochDone
from sparktf.topology import NodeId, Role

SILENCE_S = 15.0
RUNNING = [TrainerState.TRAINING, TrainerState.TRAINING]


def failure(time_s: float, *, peer: bool = False) -> ErrorRecord:
    return ErrorRecord(
        type="NodeLostError", message=f"at {time_s:g}", verdict=Verdict.INFRASTRUCTURE, time_s=time_s, peer=peer
    )


def test_an_attempt_runs_until_every_trainer_has_finished() -> None:
    half = [TrainerState.FINISHED, TrainerState.TRAINING]
    assert decide(half, [], 0.0, 1.0, SILENCE_S) is Outcome.RUNNING
    assert decide([TrainerState.FINISHED] * 2, [], 0.0, 1.0, SILENCE_S) is Outcome.DONE


def test_a_failure_ends_it_after_a_moment_for_earlier_ones() -> None:
    assert decide(RUNNING, [failure(5.0)], 100.0, 100.5, SILENCE_S) is Outcome.RUNNING
    assert decide(RUNNING, [failure(5.0)], 100.0, 101.0, SILENCE_S) is Outcome.FAILED


def test_where_only_peers_have_spoken_the_lost_node_gets_until_its_silence_shows() -> None:
    peers = [failure(5.0, peer=True)]
    assert decide(RUNNING, peers, 100.0, 110.0, SILENCE_S) is Outcome.RUNNING
    assert decide(RUNNING, [*peers, failure(9.0)], 100.0, 110.0, SILENCE_S) is Outcome.FAILED
    assert decide(RUNNING, peers, 100.0, 116.0, SILENCE_S) is Outcome.FAILED


def test_the_root_cause_is_the_earliest_that_is_not_the_loss_of_a_peer() -> None:
    assert root_cause([failure(1.0, peer=True), failure(3.0), failure(2.0)]).message == "at 2"
    assert root_cause([failure(4.0, peer=True), failure(3.0, peer=True)]).message == "at 3"


def epoch_done(index: int, fed: int, trained: int, *, complete: bool = True) -> EpochDone:
    return EpochDone(
        attempt=1,
        node=NodeId(role=Role.WORKER, index=index),
        epoch=0,
        step=1,
        rows_fed=fed,
        rows_trained=trained,
        complete=complete,
    )


@pytest.mark.parametrize(
    ("second", "is_wrong"),
    [
        (epoch_done(1, 40, 40), False),
        (epoch_done(1, 41, 41), True),
        (epoch_done(1, 40, 39), True),
        (epoch_done(1, 10, 10, complete=False), False),
    ],
    ids=["all rows once", "a row too many", "a row not trained", "cut short by max_steps"],
)
def test_an_epochs_account_is_wrong_if_rows_are_lost_or_trained_twice(second: EpochDone, is_wrong: bool) -> None:
    account = EpochAccount(epoch=0, planned=100, before=30, nodes=2)
    account.add(epoch_done(0, 30, 30))
    assert not account.is_wrong, "the other node has not reported yet"

    account.add(second)

    assert account.is_wrong is is_wrong


def test_what_a_node_has_read_is_the_sum_over_its_epochs_and_what_it_keeps_is_what_the_last_one_kept() -> None:
    first = NodeInput(rows={"unix": 70, "peer": 5}, nbytes=700, memory_nbytes=400, disk_nbytes=300, wait_s=1.5)
    second = NodeInput(rows={"peer": 20, "tcp": 1}, given=3, nbytes=10, memory_nbytes=410, disk_nbytes=300, wait_s=0.5)
    assert sum([first, second], NodeInput()) == NodeInput(
        rows={"unix": 70, "peer": 25, "tcp": 1},
        given=3,
        nbytes=710,
        memory_nbytes=410,
        disk_nbytes=300,
        wait_s=2.0,
    )
