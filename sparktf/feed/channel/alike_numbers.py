"""Long lists of numbers that are all of one type, as arrays: the types and the numbers are read in one pass.

The pass is that of `marshal`, which is in C, and writes before each number what type it is, exactly: no subclass of
float is one, nor is True an integer. What it writes is looked at, and goes no further; nothing is read by `marshal`.
"""

from __future__ import annotations

import marshal
from typing import Any

import numpy as np
import numpy.typing as npt

LONG = 64
"""Number of items from which on this is worth it."""
_VERSION = 2
"""Of what `marshal` writes: floats in binary, no references."""
_HEAD_NBYTES = 5
"""Of a list: its type, and its length."""
_WRITTEN: dict[type, tuple[int, np.dtype[np.void]]] = {
    float: (ord("g"), np.dtype([("type", "u1"), ("number", "<f8")])),
    int: (ord("i"), np.dtype([("type", "u1"), ("number", "<i4")])),
}
"""Type -> how each number is written."""


def alike_numbers(values: list[Any] | tuple[Any, ...]) -> npt.NDArray[Any] | None:
    """Returns the numbers of a list or tuple of floats alone, or of integers of 32 bits alone; None of any other."""
    if len(values) < LONG:
        return None
    first, last = values[0], values[-1]
    kind = type(first)
    if kind not in _WRITTEN or type(last) is not kind or (kind is int and not (_fits(first) and _fits(last))):
        return None  # what differs or is wide is often seen at the ends, which costs nothing
    code, written = _WRITTEN[kind]
    try:
        content = marshal.dumps(values, _VERSION)
    except ValueError:  # it contains what cannot be written
        return None
    if len(content) != _HEAD_NBYTES + len(values) * written.itemsize:
        return None
    found = np.frombuffer(content, written, len(values), _HEAD_NBYTES)
    # The first number of another type stands where it is looked for: those before it have their lengths.
    return found["number"] if (found["type"] == code).all() else None


def _fits(number: int) -> bool:
    return -(1 << 31) <= number < 1 << 31
