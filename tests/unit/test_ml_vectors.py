"""A vector for which a model of Spark ML predicts becomes the columns that the model reads."""

from __future__ import annotations

import numpy as np
import pytest

from sparktf.errors import BadValueError, ConfigError
from sparktf.feature import Feature, Kind
from sparktf.ml.predictor import as_columns

VECTOR = np.array([1.0, 2.5, 3.0])


def feature(*columns: str, shape: tuple[int, ...] = (), dtype: str = "float32", ragged: bool = False) -> Feature:
    return Feature(kind=Kind.INPUT, name="-".join(columns), columns=columns, dtype=dtype, shape=shape, ragged=ragged)


def test_a_column_of_vectors_is_one_and_packed_columns_are_each_a_number() -> None:
    assert as_columns([feature("v", shape=(3,))], VECTOR) == ({"v": "c0"}, {"c0": [1.0, 2.5, 3.0]})
    packed = as_columns([feature("a", "user.b", "c", shape=(3,))], VECTOR)
    assert packed == ({"a": "c0", "user.b": "c1", "c": "c2"}, {"c0": 1.0, "c1": 2.5, "c2": 3.0})
    assert as_columns([feature("a")], VECTOR[:1]) == ({"a": "c0"}, {"c0": 1.0})
    _, found = as_columns([feature("v", shape=(2,), dtype="int64")], VECTOR[::2])
    assert found == {"c0": [1, 3]} and type(found["c0"][0]) is int


def test_what_one_vector_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(BadValueError, match=r"shape \(3,\), and the model takes vectors of 4 features"):
        as_columns([feature("v", shape=(4,))], VECTOR)
    with pytest.raises(BadValueError, match=r"shape \(1, 3\)"):
        as_columns([feature("v", shape=(3,))], VECTOR[np.newaxis])
    with pytest.raises(ConfigError, match=r"several inputs \(a, b\).*: use transform"):
        as_columns([feature("a"), feature("b")], VECTOR[:2])
    with pytest.raises(ConfigError, match="input word is no vector of numbers"):
        as_columns([feature("word", dtype="string")], VECTOR[:1])
    with pytest.raises(ConfigError, match="input items is no vector of numbers"):
        as_columns([feature("items", ragged=True)], VECTOR)
    with pytest.raises(ConfigError, match="packed of lists"):
        as_columns([feature("v", "w", shape=(2, 2))], np.arange(4.0))
