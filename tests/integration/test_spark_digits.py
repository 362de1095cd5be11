"""The examples on real data, on executors of their own and with a hand-written loop; test_readme has `make train`."""

from __future__ import annotations

from pathlib import Path

from integration.application import Application
from integration.digits import HELD_OUT, TRAINED, accuracy_in_a_fresh_process, assert_is_a_whole_result, digits_job


def test_the_example_of_a_hand_written_loop_trains(local: Application, digits: Path, tmp_path: Path) -> None:
    config = digits_job(digits, local.sandbox.runs, "digits_loop.yaml", train={"epochs": 4})
    result = local.train(config, "r", own_gang=True).done
    assert [(e.planned, e.fed, e.trained) for e in result.rows] == [(TRAINED + HELD_OUT,) * 3] * 4
    assert accuracy_in_a_fresh_process(Path(result.model), digits, tmp_path) >= 0.8


def test_digits_train_on_three_executors(cluster: Application, digits: Path) -> None:
    config = digits_job(digits, cluster.sandbox.runs, cluster={"workers": 3})
    outcome = cluster.train(config, "three")
    assert len(set(outcome.done.attempts[0].hosts)) == 1
    assert outcome.done.attempts[0].workers == 3
    assert_is_a_whole_result(cluster.run(config, "three"))
    assert not cluster.family.trainers()
