"""Runs that begin with the weights of another run's model."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pretend import unmeasured
from trainer import lake, reference
from trainer.local_gang import LocalGang

from sparktf.carried import CarriedVariable
from sparktf.clock import SystemClock
from sparktf.config.job import JobConfig
from sparktf.nightly.night import Night
from sparktf.storage import FileSystems

TWO_WORKERS = {"strategy": "multi_worker_mirrored", "workers": 2}
ONE_PROCESS = {"strategy": "single"}
SERVED = {"strategy": "parameter_server", "workers": 1, "ps": 2}

FIRST = {"colours": ["red", "green", "blue"], "items": list(range(lake.ITEMS))}
SECOND = {"colours": ["grey", "blue", "red"], "items": [3, 99, 12, 7]}
"""Green and most items are gone, grey and an item are new, and none is where it was."""


def night(folder: Path, name: str, cluster: dict[str, Any], params: dict[str, Any], **train: Any) -> JobConfig:
    return lake.job(
        folder,
        "carried",
        name=name,
        cluster=cluster,
        params={"optimizer": "Adam", **params},
        data={"inputs": {"colour": "colour", "item": "item", "numbers": lake.NUMBERS}, "targets": {"label": "label"}},
        train={"batch_size": 64, **train},
    )


def hooks() -> Night:
    return Night(FileSystems(), SystemClock(), unmeasured)


def assert_rows(ours: Any, theirs: Any, moved: dict[int, int], new: list[int]) -> None:
    """Checks rows of a table: those taken over are theirs, the new ones are Keras's own small numbers."""
    for here, there in moved.items():
        np.testing.assert_array_equal(ours[here], theirs[there])
    assert np.abs(ours[new]).max() <= 0.05
    assert np.abs(ours[new]).min() > 0


@pytest.mark.parametrize(
    ("flavour", "first", "others"),
    [("keras", TWO_WORKERS, [ONE_PROCESS, SERVED]), ("tf_keras", SERVED, [TWO_WORKERS])],
)
def test_a_run_begins_with_another_ones_weights_and_its_tables_entry_by_entry(
    flavour: str,
    first: dict[str, Any],
    others: list[dict[str, Any]],
    tmp_path: Path,
    gang: LocalGang,
    elsewhere: ProcessPoolExecutor,
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    gang.assets = FIRST
    params = {"flavour": flavour, "shards": 3}
    begun = gang.train(night(tmp_path, "first", first, params, epochs=2), hooks())
    theirs = elsewhere.submit(reference.weights_by_layer, f"{begun.model}/model.keras").result()
    # Nothing moves at this rate, so that what is exported is what training began with.
    params = {"flavour": flavour, "shards": 2, "width": 6, "learning_rate": 0.0}
    for number, cluster in enumerate(others):
        gang.assets = SECOND
        config = night(
            tmp_path, f"second-{number}", cluster, params, init_from=begun.model, init_tables={"of_shade": "colours"}
        )
        said = gang.output.tell()
        result = gang.train(config, hooks())
        ours = elsewhere.submit(reference.weights_by_layer, f"{result.model}/model.keras").result()

        # Two rows for unknown colours, then the entries; of items one.
        assert_rows(ours["of_colour"][0], theirs["of_colour"][0], {0: 0, 1: 1, 3: 4, 4: 2}, [2])
        assert_rows(ours["of_item"][0], theirs["of_item"][0], {0: 0, 1: 4, 3: 13, 4: 8}, [2])
        assert_rows(ours["of_shade"][0], theirs["of_shade"][0], {0: 0, 3: 3, 5: 6, 6: 4}, [4])
        np.testing.assert_array_equal(ours["of_number"][0], theirs["of_number"][0])
        for mine, other in zip(ours["label"], theirs["label"], strict=True):
            np.testing.assert_array_equal(mine, other)
        assert ours["widened"][0].shape == (4, 6)

        carried = result.carried
        assert carried is not None
        assert carried.source == begun.model
        assert carried.left[:2] == ("widened/kernel", "widened/bias")
        by_name = {v.name: v for v in carried.variables}
        assert by_name["of_colour"] == CarriedVariable(
            name="of_colour", shape=(5, 3), how="entries", kept=2, new=1, left=1
        )
        assert by_name["of_item"] == CarriedVariable(
            name="of_item", shape=(5, 2), how="entries", kept=3, new=1, left=17
        )
        assert by_name["widened/kernel"].how == "new"
        assert by_name["widened/kernel"].why == "its shape is another one: [4, 6] here, [4, 4] there"
        assert by_name["dense/bias"].how == "kept"
        gang.output.seek(said)
        out = gang.output.read()
        assert f"begins from {begun.model}: 7 of 14 variables kept, 3 tables: 7 entries kept, 3 new, 19 gone" in out
