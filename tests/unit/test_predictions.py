"""Predictions beside a model: what is kept, what counts as the same, and the process that compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparktf.feature import Feature, FeedSpec, Kind
from sparktf.feed.arrays.columns import Columns, Ragged, Strings, row_count
from sparktf.feed.sample import RowSample
from sparktf.trainer.model.predictions import About, Predictions, Tolerance, as_arrays, difference, tolerance
from sparktf.trainer.reloaded import own_code

EXACT = tolerance(["float32", "int64"])
ONES = np.ones((4, 2), np.float32)


# --- what counts as the same ---


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (ONES, None),
        (ONES + 1e-5, None),
        (ONES * (1 + 1e-4), None),
        (ONES + 2e-4, "output 'y' differs in 8 of 8 values, by up to 0.0002"),
        (ONES.astype(np.float64), None),
        (ONES[:3], "output 'y' has shape [3, 2], not [4, 2]"),
        (ONES * np.float32(np.nan), "output 'y' differs in 8 of 8 values, by up to nan"),
        (np.where([[True, False]] * 4, ONES, 1.5), "output 'y' differs in 4 of 8 values, by up to 0.5"),
    ],
)
def test_predictions_are_the_same_within_what_rounding_explains(found: Any, said: str | None) -> None:
    assert difference({"y": ONES}, {"y": found}, EXACT) == said


@pytest.mark.parametrize(
    ("stored", "found", "said"),
    [
        ([np.nan, np.inf, 1.0], [np.nan, np.inf, 1.0], None),
        ([np.nan, 1.0], [1.0, 1.0], "output 'y' is finite where it was infinite or NaN, or vice versa"),
        ([np.inf, 1.0], [-np.inf, 1.0], "output 'y' is finite where it was infinite or NaN, or vice versa"),
        # Sums of large numbers cancel: what is left of them is as exact as they are.
        ([1e6, 0.0], [1e6, 5.0], None),
        ([1e6, 0.0], [1e6, 50.0], "output 'y' differs in 1 of 2 values, by up to 50"),
        ([3, 4], [3, 4], None),
        ([3, 4], [3, 5], "output 'y' differs in 1 of 2 values"),
        ([True, False], [True, True], "output 'y' differs in 1 of 2 values"),
        ([b"de", b"fr"], [b"de", b"fr"], None),
        ([b"de", b"fr"], [b"de", b"nl"], "output 'y' differs in 1 of 2 values"),
        ([], [], None),
    ],
)
def test_values_of_every_kind_are_compared(stored: list[Any], found: list[Any], said: str | None) -> None:
    assert difference({"y": np.array(stored)}, {"y": np.array(found)}, EXACT) == said


def test_outputs_are_compared_by_name() -> None:
    assert difference({"y": ONES}, {"z": ONES}, EXACT) == "its outputs are z, not y"
    assert difference({"y": ONES, "z": ONES}, {"y": ONES, "z": 2 * ONES}, EXACT) == (
        "output 'z' differs in 8 of 8 values, by up to 1"
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_model_that_computes_in_16_bits_is_as_exact_as_that(dtype: str) -> None:
    assert difference({"y": ONES}, {"y": ONES * 1.01}, tolerance(["float32", dtype])) is None
    assert difference({"y": ONES}, {"y": ONES * 1.1}, tolerance(["float32", dtype])) is not None


# --- what is kept ---


def feature(name: str, dtype: str, shape: tuple[int, ...] = (), kind: Kind = Kind.INPUT, **rest: Any) -> Feature:
    return Feature(kind=kind, name=name, columns=(name,), dtype=dtype, shape=shape, **rest)


SPEC = FeedSpec(
    features=(
        feature("x", "float32", (2,)),
        feature("text", "string"),
        feature("lists", "string", ragged=True),
        feature("y", "int64", kind=Kind.TARGET),
    )
)


def columns(first: int, rows: int) -> Columns:
    """Returns rows that are told by their numbers; of their lists, each has one value more than the one before."""
    numbers = np.arange(first, first + rows)
    texts = Strings(np.arange(rows, dtype=np.int32), np.array([b"%d" % n for n in numbers], object))
    splits = np.concatenate([[0], np.cumsum(np.arange(rows))]).astype(np.int64)
    codes = np.repeat(np.arange(rows, dtype=np.int32), np.arange(rows))
    return {
        "input:x": np.stack([numbers, -numbers], axis=1).astype(np.float32),
        "input:text": texts,
        "input:lists": Ragged(Strings(codes, texts.values), splits),
        "target:y": numbers,
    }


def test_the_first_rows_are_kept_in_memory_of_their_own() -> None:
    sample, given = RowSample(SPEC), [columns(0, 5), columns(5, 20), columns(25, 40)]
    assert sample.columns == {}
    for part in given:
        sample.offer(part)
        x = part["input:x"]
        assert isinstance(x, np.ndarray)
        x[:] = 1e9  # as kernels do that work in the feed's memory
    kept = sample.columns
    assert sorted(kept) == ["input:lists", "input:text", "input:x"]
    assert row_count(kept) == 32
    x, text, lists = kept["input:x"], kept["input:text"], kept["input:lists"]
    assert isinstance(x, np.ndarray)
    assert isinstance(text, Strings)
    assert isinstance(lists, Ragged)
    assert x[:, 1].tolist() == [-n for n in range(32)]
    assert text.to_numpy().tolist() == [b"%d" % n for n in range(32)]
    assert np.diff(lists.splits).tolist() == [*range(5), *range(20), *range(7)]


def test_of_rows_as_large_as_pictures_some_are_kept_and_one_at_least() -> None:
    for side, rows in ((64, 32), (512, 4), (2048, 1)):
        sample = RowSample(FeedSpec(features=(feature("x", "float32", (side, side)),)))
        sample.offer({"input:x": np.zeros((8, side, side), np.float32)})
        sample.offer({"input:x": np.zeros((50, side, side), np.float32)[:40]})
        assert row_count(sample.columns) == rows


def test_a_file_of_predictions_holds_what_was_put_into_it(tmp_path: Path) -> None:
    about = About("keras", {"words": True, "file": False}, ("a", "b"), ("a",), Tolerance(1e-4, 1e-5))
    inputs = {"words": np.array([b"x", b"\xff\xc3"], "S"), "words_row_splits": np.array([0, 0, 2]), "file": ONES[:2]}
    outputs = as_arrays({"a": ONES[:2], "b": np.array([b"one", b""], object)})
    Predictions(about, inputs, outputs).write(tmp_path)
    found = Predictions.read(tmp_path)
    assert found.about == about
    assert found.rows == 2
    assert {name: array.tolist() for name, array in {**found.inputs, **found.outputs}.items()} == {
        **{name: array.tolist() for name, array in inputs.items()},
        "a": ONES[:2].tolist(),
        "b": [b"one", b""],
    }


# --- what Keras can load by itself ---


@pytest.mark.parametrize(
    ("part", "own"),
    [
        ({"module": "keras.layers", "class_name": "Dense", "registered_name": None}, []),
        ({"module": "tf_keras.src.engine.functional", "class_name": "Functional", "registered_name": "Functional"}, []),
        ({"module": "sparktf.layers.keras", "class_name": "S", "registered_name": "sparktf>ShardedEmbedding"}, []),
        ({"module": None, "class_name": "Own", "registered_name": "zoo>Own"}, ["zoo>Own"]),
        ({"module": "models.churn", "class_name": "Own", "registered_name": None}, ["Own"]),
        ({"module": None, "class_name": "Own", "registered_name": "Own"}, ["Own"]),
        ({"module": "keras.layers", "class_name": "Lambda", "registered_name": None}, ["Lambda"]),
        ({"module": "builtins", "class_name": "function", "config": "swish2", "registered_name": "x"}, ["swish2"]),
        ({"class_name": "__keras_tensor__"}, []),
    ],
)
def test_a_models_own_code_is_told_by_its_configuration(part: dict[str, Any], own: list[str]) -> None:
    layer = {"config": {}, **part}
    model = {"module": "keras", "class_name": "Functional", "registered_name": None, "config": {"layers": [layer]}}
    assert list(own_code(model)) == own
