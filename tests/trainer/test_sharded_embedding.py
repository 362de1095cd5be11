"""ShardedEmbedding: only the rows in use are touched, and they become what NumPy makes of them."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from split import only
from trainer import lake, reference, tables
from trainer.local_gang import PROCESSES, LocalGang, keep_files_in, updates_of
from trainer.tables import Step, Values

FLAVOURS = ("keras", "tf_keras")
RATE = 0.1
EPSILON = 1e-7
TOLERANCE = 1e-5

# Optimizer and options, for both flavours or one.
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("SGD", {"momentum": 0.5, "global_clipnorm": 1.5}),
    ("SGD", {"decay_steps": 2}),
    ("Adagrad", {}),
    ("Adagrad", {"clipvalue": 0.7}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "beta_1": 0.7, "beta_2": 0.8}),
    ("AdamW", {"beta_1": 0.7}),
    ("Adam", {"global_clipnorm": 1.5, "decay_steps": 2, "epsilon": 0.1}),
]
CASES = [(flavour, *setting) for flavour in FLAVOURS for setting in SETTINGS]
CASES.append(("tf_keras", "Adam", {"adaptive_epsilon": True, "epsilon": 0.1}))


def steps_over(rows: Sequence[int], width: int, *, seed: int = 0, count: int = 6) -> list[Step]:
    """Returns updates of the rows, of a few of them each, most of them several times."""
    draw = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        some = draw.choice(np.array(rows), 5, replace=False)
        ids = draw.choice(some, (4, 3))
        factors, dense = draw.normal(size=(4, 3, width)), draw.normal(size=10)
        made.append(Step(ids.astype(np.int64), factors.astype(np.float32), dense.astype(np.float32)))
    return made


class Reference:
    """The same updates, written down row by row."""

    def __init__(self, table: Values, kind: str, options: Mapping[str, Any]) -> None:
        self.table, self.dense = table.astype(np.float64), np.zeros(10)
        self.kind = kind
        self.options = {
            "momentum": 0.0,
            "nesterov": False,
            "beta_1": 0.9,
            "beta_2": 0.999,
            "epsilon": EPSILON,
            **options,
        }
        start = 0.1 if kind == "Adagrad" else 0.0
        self.slots = {name: np.full(table.shape, start) for name in ("a", "m", "v", "v_hat")}
        self.dense_slots = {name: np.full(10, start) for name in self.slots}
        self.count = 0
        self.clipped = 0

    def update(self, step: Step) -> None:
        """Makes one update."""
        rows = np.unique(step.ids)
        gradients = [step.factors[step.ids == row].sum(axis=0, dtype=np.float64) for row in rows]
        dense = step.dense.astype(np.float64)
        gradients, dense = self._clip(gradients, dense)
        self.count += 1
        for row, gradient in zip(rows, gradients, strict=True):
            slots = {name: slot[row] for name, slot in self.slots.items()}
            self._move(self.table[row], gradient, slots)
        self._move(self.dense, dense, self.dense_slots)

    def _clip(self, gradients: list[Any], dense: Any) -> tuple[list[Any], Any]:
        every = [*gradients, dense]
        if limit := self.options.get("global_clipnorm"):
            norm = np.sqrt(sum(np.sum(g**2) for g in every))
            self.clipped += norm > limit
            every = [g * min(1.0, limit / norm) for g in every]
        if limit := self.options.get("clipvalue"):
            self.clipped += any(np.any(np.abs(g) > limit) for g in every)
            every = [np.clip(g, -limit, limit) for g in every]
        return every[:-1], every[-1]

    def _move(self, values: Any, gradient: Any, slots: dict[str, Any]) -> None:
        """Changes values and slots in place."""
        o = self.options
        rate = RATE * 0.5 ** ((self.count - 1) / o["decay_steps"]) if "decay_steps" in o else RATE
        if self.kind == "SGD":
            slots["m"][:] = o["momentum"] * slots["m"] - rate * gradient
            values += o["momentum"] * slots["m"] - rate * gradient if o["nesterov"] else slots["m"]
        elif self.kind == "Adagrad":
            slots["a"] += gradient**2
            values -= rate * gradient / np.sqrt(slots["a"] + o["epsilon"])
        else:
            slots["m"][:] = o["beta_1"] * slots["m"] + (1 - o["beta_1"]) * gradient
            slots["v"][:] = o["beta_2"] * slots["v"] + (1 - o["beta_2"]) * gradient**2
            slots["v_hat"][:] = np.maximum(slots["v_hat"], slots["v"])
            correction = np.sqrt(1 - o["beta_2"] ** self.count)
            epsilon = o["epsilon"] * (correction if o.get("adaptive_epsilon") else 1)
            root = np.sqrt(slots["v_hat"] if o.get("amsgrad") else slots["v"])
            values -= rate * correction / (1 - o["beta_1"] ** self.count) * slots["m"] / (root + epsilon)


NAMES = {"momentums": "m", "_momentums": "m", "_velocities": "v", "_velocity_hats": "v_hat", "_accumulators": "a"}


@pytest.mark.parametrize(("flavour", "kind", "options"), CASES, ids=str)
def test_rows_and_their_slots_are_updated_as_written_in_numpy(
    flavour: str, kind: str, options: dict[str, Any], elsewhere: ProcessPoolExecutor
) -> None:
    used, width = range(3, 20), 2
    steps = steps_over(used, width)
    assert any(len(np.unique(step.ids)) < step.ids.size for step in steps)
    assert {row % 3 for step in steps for row in step.ids.flat} == {0, 1, 2}
    found = elsewhere.submit(
        tables.train, flavour, (23, width, 3), kind, {"learning_rate": RATE, **options}, steps
    ).result()

    reference = Reference(found.before, kind, options)
    for step in steps:
        reference.update(step)
    assert found.gradients == {"IndexedSlices"}
    np.testing.assert_allclose(found.after, reference.table, atol=TOLERANCE)
    np.testing.assert_allclose(found.dense, reference.dense, atol=TOLERANCE)
    for name, slot in found.slots.items():
        if kind != "SGD" or "momentum" in options:
            np.testing.assert_allclose(slot, reference.slots[NAMES[name]], atol=TOLERANCE, err_msg=name)
    if {"global_clipnorm", "clipvalue"} & set(options):
        assert reference.clipped > 0
    unused = [row for row in range(23) if not any(row in step.ids for step in steps)]
    assert np.array_equal(found.after[unused], found.before[unused])


@pytest.mark.parametrize(
    ("flavour", "kind"),
    only(("keras", "Adam"), ("tf_keras", "Adagrad"), of=[*itertools.product(FLAVOURS, ("Adagrad", "Adam"))]),
)
def test_rows_are_updated_on_parameter_servers_beside_their_slots(flavour: str, kind: str, tmp_path: Path) -> None:
    steps = steps_over(range(3, 20), 2)
    with ProcessPoolExecutor(1, mp_context=PROCESSES, initializer=keep_files_in, initargs=(str(tmp_path),)) as fresh:
        found, devices, slots = fresh.submit(
            tables.train_on_servers, flavour, (23, 2, 3), kind, {"learning_rate": RATE}, steps
        ).result()

    reference = Reference(found.before, kind, {})
    for step in steps:
        reference.update(step)
    np.testing.assert_allclose(found.after, reference.table, atol=TOLERANCE)
    np.testing.assert_allclose(found.dense, reference.dense, atol=TOLERANCE)
    assert found.slots
    for name, slot in found.slots.items():
        np.testing.assert_allclose(slot, reference.slots[NAMES[name]], atol=TOLERANCE, err_msg=name)
    assert {device.partition("/device")[0] for device in devices} == {f"/job:ps/replica:0/task:{i}" for i in (0, 1)}
    for name, where in slots.items():
        assert where == devices, name


# Of these, Keras's own pass over the table.
@pytest.mark.parametrize(
    ("flavour", "kind"), [("keras", "Adagrad"), ("keras", "Adam"), ("tf_keras", "SGD"), ("tf_keras", "Adam")]
)
def test_a_large_table_is_touched_in_the_rows_in_use_alone(
    flavour: str, kind: str, elsewhere: ProcessPoolExecutor
) -> None:
    size = (1_000_000, 4, 4)
    steps = steps_over(range(0, size[0], 12_345), size[1], count=3)
    options = {"learning_rate": RATE} | ({"momentum": 0.9} if kind == "SGD" else {})
    found = elsewhere.submit(tables.train, flavour, size, kind, options, steps).result()

    assert found.gradients == {"IndexedSlices"}
    assert found.ops == {"ResourceGather", "ResourceScatterSub", "ResourceScatterUpdate"}
    used = np.unique(np.concatenate([step.ids.ravel() for step in steps]))
    untouched = np.ones(size[0], bool)
    untouched[used] = False
    assert np.array_equal(found.after[untouched], found.before[untouched])
    assert (found.after[used] != found.before[used]).all(axis=1).all()
    assert found.slots
    for slot in found.slots.values():
        assert (slot[untouched] == (np.float32(0.1) if kind == "Adagrad" else 0)).all()
        assert (slot[used] != slot[untouched][0]).any(axis=1).all()


SHARDED: dict[str, Any] = {
    "inputs": {"row": "row", "item": "item", "numbers": lake.NUMBERS},
    "targets": {"label": "label"},
}


BY_TENSORFLOW = {"collectives": "tensorflow"}
TWO_DEVICES = {"strategy": "mirrored", "devices": 2}


# Over sparktf's collectives, tables are in `test_exactness.py`.
@pytest.mark.parametrize(
    ("flavour", "workers", "cluster"),
    only(
        ("keras", 2, BY_TENSORFLOW),
        ("tf_keras", 1, TWO_DEVICES),
        of=[
            (flavour, *how)
            for flavour in FLAVOURS
            for how in ((2, BY_TENSORFLOW), (1, TWO_DEVICES), (2, {}), (2, {"devices": 2}))
        ],
    ),
)
def test_a_run_updates_rows_as_one_process_does(
    flavour: str,
    workers: int,
    cluster: dict[str, Any],
    tmp_path: Path,
    gang: LocalGang,
    elsewhere: ProcessPoolExecutor,
) -> None:
    sizes = (300, 37)
    lake.write(tmp_path / "lake", sizes)
    config = lake.job(
        tmp_path,
        "sharded",
        workers=workers,
        params={
            "flavour": flavour,
            "rows": sum(sizes),
            "optimizer": "Adam",
            "learning_rate": 0.05,
            "global_clipnorm": 0.27,
        },
        data={**SHARDED, "rebalance": False, "shuffle_rows": 1},
        train={"batch_size": 64, "steps_per_call": 4},
        cluster=cluster,
    )
    result = gang.train(config)
    assert result.rows[0].trained == sum(sizes)
    found = elsewhere.submit(
        reference.compare_training, config, updates_of(config), f"{result.model}/model.keras"
    ).result()
    assert found.difference <= 1e-5
    assert found.moved > 0.05
    assert min(found.norms) < 0.27 < max(found.norms)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_each_shard_starts_with_values_of_its_own(flavour: str, elsewhere: ProcessPoolExecutor) -> None:
    (shards, made), (again, _), (unseeded, _) = (
        elsewhere.submit(tables.first_values, flavour, seed).result() for seed in (7, 7, None)
    )
    assert [len(shard) for shard in shards] == [4, 4, 3]
    assert set(made) == {(4, 2), (3, 2)}  # never the whole table
    for some in (shards, unseeded):
        assert len(np.unique(np.concatenate(some))) == 22
    for one, other in zip(shards, again, strict=True):
        assert np.array_equal(one, other)


IDS = np.array([[0, 10, 3], [7, 0, 0]])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float32"])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_ids_become_their_rows(flavour: str, dtype: str, elsewhere: ProcessPoolExecutor) -> None:
    table, rows, mask, _ = elsewhere.submit(tables.looked_up, flavour, IDS, dtype, mask_zero=True).result()
    assert np.array_equal(rows, table[IDS])
    assert np.array_equal(mask, IDS != 0)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_ragged_ids_become_ragged_rows(flavour: str, elsewhere: ProcessPoolExecutor) -> None:
    ids = [[1, 2], [], [10]]
    table, rows, mask, _ = elsewhere.submit(tables.looked_up, flavour, ids, "int64").result()
    assert rows == [[table[i].tolist() for i in some] for some in ids]
    assert mask is None


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_rows_of_a_narrow_dtype_are_kept_wide(flavour: str, elsewhere: ProcessPoolExecutor) -> None:
    found = elsewhere.submit(tables.looked_up, flavour, IDS, "int64", dtype="mixed_bfloat16").result()
    table, rows, _, dtype = found
    assert dtype == "bfloat16"
    assert np.abs(rows - table[IDS]).max() < 0.001
    assert not np.array_equal(rows, table[IDS])


@pytest.mark.parametrize("ids", [[3, 11], [-1, 3]], ids=str)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_an_id_outside_of_the_table_is_an_error_that_says_so(
    flavour: str, ids: list[int], elsewhere: ProcessPoolExecutor
) -> None:
    said = elsewhere.submit(tables.error_of, flavour, ids).result()
    assert f"user: an id is not in [0, 11): the least and the greatest are] [{min(ids)}] [{max(ids)}]" in said


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_large_embeddings_of_keras_are_told_by_name(flavour: str, elsewhere: ProcessPoolExecutor) -> None:
    found, (said,) = elsewhere.submit(tables.large, flavour).result()
    assert found == {"large": (2**18 + 1) * 16 * 4}
    home = {"keras": "sparktf.layers", "tf_keras": "sparktf.layers.tf_keras"}[flavour]
    assert said.startswith("model: Embedding 'large' is a table of 16.0 MiB on one parameter server, ")
    assert said.endswith(f": {home}.ShardedEmbedding touches only the rows in use")


@pytest.mark.parametrize(
    ("sizes", "said"),
    [((0, 2, 1), "input_dim must be a whole number above 0"), ((9, 2, 10), "shards is 10, more than the 9 rows")],
)
def test_a_table_that_cannot_be_is_refused(
    sizes: tuple[int, int, int], said: str, elsewhere: ProcessPoolExecutor
) -> None:
    for flavour in FLAVOURS:
        with pytest.raises(ValueError, match=said):
            elsewhere.submit(tables.layer_of, flavour, *sizes).result()


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_layer_in_a_model_of_the_other_flavour_says_which_one_to_import(
    flavour: str, elsewhere: ProcessPoolExecutor
) -> None:
    (other,) = set(FLAVOURS) - {flavour}
    with pytest.raises(TypeError, match=f"user: for a model of {other}, import .* from sparktf.layers.{other}$"):
        elsewhere.submit(tables.mixed, flavour, other).result()


READ = """
import sys
import numpy as np

def given(flavour):
    return dict(np.load(f"{flavour}/inputs.npz"))

sys.modules["sparktf"] = None
import tensorflow as tf
for flavour in ("keras", "tf_keras"):
    tensors = {name: tf.constant(value) for name, value in given(flavour).items()}
    (rows,) = tf.saved_model.load(f"{flavour}/saved_model").signatures["serving_default"](**tensors).values()
    np.save(f"{flavour}/served.npy", rows.numpy())
del sys.modules["sparktf"]

sys.modules["tf_keras"] = None
import keras
from sparktf.layers import ShardedEmbedding
ShardedEmbedding(9, 2)
np.save("keras/called.npy", keras.models.load_model("keras/model.keras")(given("keras")).numpy())
del sys.modules["tf_keras"]

import tf_keras
from sparktf.layers.tf_keras import ShardedEmbedding
np.save("tf_keras/called.npy", tf_keras.models.load_model("tf_keras/model.keras")(given("tf_keras")).numpy())
"""


def test_exports_load_without_our_cluster_and_who_has_keras_3_needs_no_tf_keras(
    tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    expected = {}
    for flavour in FLAVOURS:
        folder = tmp_path / flavour
        params = {"flavour": flavour, "rows": 10, "optimizer": "Adam"}
        config = lake.job(folder, "sharded", params=params, data=SHARDED)
        expected[flavour] = elsewhere.submit(tables.export, config, str(folder)).result()
        np.savez(folder / "inputs.npz", **tables.EXAMPLE)  # type: ignore[arg-type]
    subprocess.run([sys.executable, "-c", READ], cwd=tmp_path, check=True, timeout=120)
    for flavour, rows in expected.items():
        for how in ("served", "called"):
            np.testing.assert_allclose(np.load(tmp_path / flavour / f"{how}.npy"), rows, atol=1e-6)
