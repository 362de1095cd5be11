"""Weights of which the optimizer keeps averages (`use_ema`): these are evaluated and exported, as `fit` leaves them."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainer import begun, lake, reference
from trainer.local_gang import LocalGang, updates_of

from sparktf.sequence import Cursor

ONE_PROCESS = {"strategy": "single"}
TWO_DEVICES = {"strategy": "mirrored", "devices": 2}
TWO_WORKERS = {"strategy": "multi_worker_mirrored", "workers": 2}
SERVED = {"strategy": "parameter_server", "workers": 1, "ps": 2}
TOGETHER = {"replicas_to_aggregate": 1}
TOLERANCE = 1e-5


@pytest.mark.parametrize(
    ("flavour", "first", "second", "train"),
    [
        ("keras", ONE_PROCESS, TWO_WORKERS, {}),
        pytest.param("keras", TWO_DEVICES, SERVED, {}, marks=pytest.mark.more),
        ("tf_keras", SERVED, TWO_DEVICES, {}),
        pytest.param("tf_keras", TWO_WORKERS, ONE_PROCESS, {}, marks=pytest.mark.more),
        pytest.param("keras", SERVED, SERVED, TOGETHER, marks=pytest.mark.more),
    ],
)
def test_averages_are_evaluated_and_exported_and_the_weights_are_trained_on(
    flavour: str,
    first: dict[str, Any],
    second: dict[str, Any],
    train: dict[str, Any],
    tmp_path: Path,
    gang: LocalGang,
    elsewhere: ProcessPoolExecutor,
) -> None:
    """A second attempt goes on under another strategy, with the weights and the averages that the first has left."""
    lake.write(tmp_path / "lake", [400])
    lake.write(tmp_path / "held-out", [150], seed=7)
    updates: list[list[int]] = []
    for epochs, cluster in ((1, first), (2, second)):
        config = lake.job(
            tmp_path,
            "everything",
            cluster=cluster,
            params={"flavour": flavour, "rows": 400, "averages": 0.8, "learning_rate": 0.2},
            data={**lake.EVERYTHING, "validation": {"path": str(tmp_path / "held-out")}, "shuffle": False},
            train={"batch_size": 64, "epochs": epochs, **train},
        )
        result = gang.train(config)
        one_after_the_other = [list(range(start, min(start + 64, 400))) for start in range(0, 400, 64)]
        updates += one_after_the_other if cluster is SERVED else updates_of(config, Cursor(epoch=epochs - 1))

        exported = f"{result.model}/model.keras"
        found = elsewhere.submit(reference.compare_training, config, updates, exported).result()
        assert found.difference <= TOLERANCE
        assert found.moved > 1000 * TOLERANCE
        held_out = str(tmp_path / "held-out")
        evaluated = elsewhere.submit(reference.evaluate, config, held_out, exported).result()
        assert result.validation[-1].values["loss"] == pytest.approx(evaluated["loss"], abs=1e-5)
        Path(result.path, "result.json").unlink()  # as if the driver had been killed before its end
    assert result.attempts[0].from_step == len(updates) // 2


@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_averages_of_a_warm_start_go_on_with_the_optimizers_state_and_else_begin_with_the_weights(
    flavour: str, elsewhere: ProcessPoolExecutor
) -> None:
    ours, theirs, weights = elsewhere.submit(begun.averages_taken_over, flavour, optimizer=True).result()
    np.testing.assert_array_equal(ours["label"], theirs["label"])
    np.testing.assert_array_equal(ours["of_colour"][[0, 1, 3, 4]], theirs["of_colour"][[0, 1, 4, 2]])
    np.testing.assert_array_equal(ours["of_colour"][2], weights["of_colour"][2])  # a new row has made no update
    ours, _, weights = elsewhere.submit(begun.averages_taken_over, flavour, optimizer=False).result()
    for layer, values in ours.items():
        np.testing.assert_array_equal(values, weights[layer])
