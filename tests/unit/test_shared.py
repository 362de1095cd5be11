"""Arrays that another process finds in an anonymous file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from sparktf.feed.arrays.shared import shared, write_shared


def test_arrays_are_found_as_they_were_and_can_be_written_to() -> None:
    random = np.random.default_rng(0)
    texts = np.array([b"", b"a\0", "grün".encode(), b"xyz"], object)
    arrays: dict[str, npt.NDArray[Any]] = {
        "matrix": random.random((5, 3)).astype(np.float32),
        "turned": random.random((3, 5)).T,
        "flags": np.array([True, False]),
        "none": np.empty((0, 4), np.int64),
        "one": np.array(7, np.int16),
        "text": texts,
        "square": texts.reshape(2, 2),
        "no text": np.empty(0, object),
    }
    file = write_shared(arrays)
    found = shared(file)
    os.close(file)
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_array_equal(found[name], array, name)
    assert found["matrix"].ctypes.data % 64 == 0
    found["matrix"][:] = 1
