"""The memory that tensors lie in: used again, and never while somebody reads it."""

from __future__ import annotations

import numpy as np

from sparktf.feature import Feature, Kind
from sparktf.feed.arrays.memory import SpareMemory

FEATURES = (
    Feature(kind=Kind.INPUT, name="x", columns=("a", "b", "c"), dtype="float32", shape=(3,)),
    Feature(kind=Kind.INPUT, name="flag", columns=("f",), dtype="bool"),
    Feature(kind=Kind.INPUT, name="text", columns=("t",), dtype="string"),
    Feature(kind=Kind.TARGET, name="y", columns=("y",), dtype="int64"),
)


def address(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> int:
    return int(array.__array_interface__["data"][0])


def test_arrays_have_the_features_dtypes_and_shapes_and_do_not_overlap() -> None:
    arrays = SpareMemory(FEATURES).arrays(5)
    assert {key: (a.dtype.name, a.shape) for key, a in arrays.items()} == {
        "input:x": ("float32", (5, 3)),
        "input:flag": ("bool", (5,)),
        "target:y": ("int64", (5,)),
    }
    for value, array in enumerate(arrays.values()):
        array[:] = value
        assert address(array) % 64 == 0
    assert [array.flat[0] for array in arrays.values()] == [0, True, 2]
    assert [array.flat[-1] for array in arrays.values()] == [0, True, 2]


def test_no_rows_need_no_memory() -> None:
    assert SpareMemory(FEATURES).arrays(0)["input:x"].shape == (0, 3)


def test_memory_comes_back_once_the_last_view_is_gone() -> None:
    memory = SpareMemory(FEATURES)
    arrays = memory.arrays(100)
    first = address(arrays["input:x"])
    view = arrays.pop("target:y")[10:20].reshape(2, 5)
    arrays.clear()
    view[:] = 7
    others = [memory.arrays(100) for _ in range(3)]
    for other in others:
        for array in other.values():
            array[:] = 0
    assert (view == 7).all()
    assert first not in [address(other["input:x"]) for other in others]
    del view
    assert address(memory.arrays(90)["input:x"]) == first


def test_memory_that_is_much_too_large_is_given_up() -> None:
    memory = SpareMemory(FEATURES)
    large = memory.arrays(100_000)
    nbytes = large["input:x"].nbytes
    del large
    small = memory.arrays(10)["input:x"]
    base = small.base
    assert isinstance(base, np.ndarray)
    assert base.nbytes < nbytes / 100
