"""What all members of a gang hold alike over sparktf's collectives, and the models that are refused for it."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from split import only
from trainer import lake, members
from trainer.local_gang import LocalGang
from trainer.members import LEADER, MEMBERS

from sparktf.config.job import JobConfig
from sparktf.errors import ModelContractError, PreflightError, Verdict

FLAVOURS = ("keras", "tf_keras")
SUM = "model: its code calls {} of tf.distribute's replica context, which would return this worker's own values: leave"
OWN = "centre:0' has aggregation MEAN, and each worker would have its own value: "
NUMBER = (
    "model: its code asks tf.distribute for num_replicas_in_sync, which over sparktf's collectives counts this "
    "worker's alone: give it the number in params, or set cluster.collectives to tensorflow"
)
READ = f"{OWN}set cluster.collectives to tensorflow"
WRITTEN = f"{OWN}leave the aggregation out, or write a train(node)"


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_all_begin_with_the_leaders_values_whoever_has_drawn_them(flavour: str, elsewhere: ProcessPoolExecutor) -> None:
    before, after = elsewhere.submit(members.begun, flavour).result()
    for name in ("raw", "seen", "mean", "kernel", "slot"):
        assert not np.array_equal(before[0][name], before[LEADER][name]), name
    for values in after:
        for name, value in values.items():
            np.testing.assert_array_equal(value, before[LEADER][name], err_msg=name)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_one_who_joins_gets_all_values_of_another_one_and_nobody_else_any(
    flavour: str, elsewhere: ProcessPoolExecutor
) -> None:
    before, after = elsewhere.submit(members.joined, flavour).result()
    for values, expected in zip(after, [before[MEMBERS - 1], *before[1:]], strict=True):
        for name, value in values.items():
            np.testing.assert_array_equal(value, expected[name], err_msg=name)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_what_differs_in_its_last_bits_becomes_the_leaders_with_a_warning_that_counts_them(
    flavour: str, elsewhere: ProcessPoolExecutor
) -> None:
    found = elsewhere.submit(members.checked, flavour, {0: {"kernel": 1e-6}, 2: {"slot": 2e-6}}).result()
    (said,) = set(found.said)
    assert said.startswith("the weights of 2 workers differed from the leader's in their last bits, by up to ")
    assert found.again == [""] * MEMBERS
    for values in found.after:
        for name in ("kernel", "slot"):
            np.testing.assert_array_equal(values[name], found.before[LEADER][name])


@pytest.mark.parametrize(
    ("member", "name", "by"), [(2, "kernel", 0.1), (0, "slot", 0.1), (2, "kernel", np.nan), (0, "iterations", 1)]
)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_what_differs_by_more_fails_the_run_and_names_the_worker(
    flavour: str, member: int, name: str, by: float, elsewhere: ProcessPoolExecutor
) -> None:
    found = elsewhere.submit(members.checked, flavour, {member: {name: by}}).result()
    (said,) = set(found.said)
    assert said.startswith(f"ExchangeError: the weights of worker {member} differ from the leader's by ")
    for before, after in zip(found.before, found.after, strict=True):
        np.testing.assert_array_equal(after[name], before[name])


def test_a_leader_that_differs_from_all_is_told_by_the_first_of_them(elsewhere: ProcessPoolExecutor) -> None:
    found = elsewhere.submit(members.checked, "keras", {LEADER: {"kernel": 0.1}}).result()
    (said,) = set(found.said)
    assert said.startswith("ExchangeError: the weights of worker 0 differ from the leader's by ")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_no_numbers_at_all_are_no_difference_where_all_have_them(flavour: str, elsewhere: ProcessPoolExecutor) -> None:
    found = elsewhere.submit(members.checked, flavour, {rank: {"kernel": np.nan} for rank in range(MEMBERS)}).result()
    assert found.said == [""] * MEMBERS


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_moving_statistics_are_averaged_and_what_else_a_layer_changes_is_the_leaders(
    flavour: str, elsewhere: ProcessPoolExecutor
) -> None:
    changes = {rank: {name: float(rank) for name in ("mean", "seen", "raw")} for rank in range(MEMBERS)}
    kept = elsewhere.submit(members.checked, flavour, changes).result()
    averaged = elsewhere.submit(members.checked, flavour, changes, average=True).result()
    for found in (kept, averaged):
        assert found.said == found.again == [""] * MEMBERS
        for values in found.after:
            for name in ("seen", "raw"):
                np.testing.assert_array_equal(values[name], found.before[LEADER][name])
    for rank in range(MEMBERS):
        np.testing.assert_array_equal(kept.after[rank]["mean"], kept.before[rank]["mean"])
        mean = np.mean([values["mean"] for values in averaged.before], axis=0)
        np.testing.assert_allclose(averaged.after[rank]["mean"], mean, rtol=1e-6)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("all_reduce", SUM.format("all_reduce")),
        ("all_gather", SUM.format("all_gather")),
        ("a mean", WRITTEN),
        ("a mean when read", READ),
        ("a trained mean", ""),
        ("their number", NUMBER),
        ("their number in a replica", NUMBER),
    ],
)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_model_that_asks_for_other_workers_values_is_refused_by_name(
    flavour: str, how: str, said: str, elsewhere: ProcessPoolExecutor
) -> None:
    refused = elsewhere.submit(members.refusal, flavour, how).result()
    assert said in refused
    assert refused[:27] == ("ModelContractError: model: " if said else "")


def asking(folder: Path, flavour: str, how: str, cluster: dict[str, Any], workers: int = 2) -> JobConfig:
    config = lake.job(
        folder,
        "anything",
        workers=workers,
        params={"flavour": flavour, "how": how},
        data=lake.NUMBERS_TO_LABEL,
        train={"batch_size": 32},
        cluster=cluster,
    )
    return config.model_copy(update={"model": "trainer.asking:build"})


@pytest.mark.parametrize(
    ("flavour", "how", "said"),
    only(
        ("tf_keras", "a mean when read", READ),
        of=[
            ("keras", "all_reduce", SUM.format("all_reduce")),
            ("tf_keras", "all_reduce", SUM.format("all_reduce")),
            ("keras", "a mean", WRITTEN),
            ("tf_keras", "a mean when read", READ),
            ("keras", "their number", NUMBER),
        ],
    ),
)
def test_a_run_ends_with_that_refusal_before_it_trains_and_trains_where_the_refusal_says_so(
    flavour: str, how: str, said: str, tmp_path: Path, gang: LocalGang
) -> None:
    lake.write(tmp_path / "lake", [100, 40])
    with pytest.raises(ModelContractError) as refusal:
        gang.train(asking(tmp_path, flavour, how, {}))
    assert said in str(refusal.value)
    result = refusal.value.result
    assert (result.verdict, len(result.attempts), result.steps) == (Verdict.REFUSED, 1, 0)
    if "set cluster.collectives to tensorflow" in said:
        result = gang.train(asking(tmp_path, flavour, how, {"collectives": "tensorflow"}))
        assert result.rows[0].trained == 140


@pytest.mark.more("trainer/test_training.py::test_devices_of_a_node_train_as_one")
def test_several_replicas_of_one_node_share_such_a_variable(tmp_path: Path, gang: LocalGang) -> None:
    lake.write(tmp_path / "lake", [100, 40])
    two = {"strategy": "mirrored", "devices": 2}
    result = gang.train(asking(tmp_path, "tf_keras", "a mean when read", two, workers=1))
    assert result.rows[0].trained == 140


def test_devices_that_tensorflow_would_not_use_are_refused_before_its_nodes_meet(
    tmp_path: Path, gang: LocalGang
) -> None:
    lake.write(tmp_path / "lake", [100, 40])
    with pytest.raises(PreflightError) as refusal:
        gang.train(asking(tmp_path, "keras", "a trained mean", {"collectives": "tensorflow", "devices": 2}))
    assert str(refusal.value).endswith(
        "cluster.devices: 2, but TensorFlow's collectives use a node's CPU as one device: set cluster.devices to 1, or "
        "cluster.collectives to sparktf"
    )
    assert refusal.value.result.verdict is Verdict.REFUSED
