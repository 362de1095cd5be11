"""Reads many numbers at a time at any places of a byte buffer, aligned or not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparktf.sequence import Integers

Bytes = npt.NDArray[np.uint8]

WORD = 8
PADDING = 256
"""Bytes before and after a buffer's content, so that no number or short string read there leaves the buffer."""


def padded(content: bytes | memoryview) -> Bytes:
    """Returns a copy with `PADDING` zeros before and after it."""
    found = np.zeros(len(content) + 2 * PADDING, np.uint8)
    found[PADDING : PADDING + len(content)] = np.frombuffer(content, np.uint8)
    return found


def words_at(buffer: Bytes, at: Integers) -> npt.NDArray[np.uint64]:
    """Returns the 8 bytes from each place on, as little-endian numbers, in the shape of `at`."""
    found: npt.NDArray[np.uint64] = _sliding(buffer, np.dtype("<u8"))[at]
    return found


def halves_at(buffer: Bytes, at: Integers) -> npt.NDArray[np.uint32]:
    """Returns the 4 bytes from each place on, as little-endian numbers, in the shape of `at`."""
    found: npt.NDArray[np.uint32] = _sliding(buffer, np.dtype("<u4"))[at]
    return found


def _sliding(buffer: Bytes, kind: np.dtype) -> np.ndarray:
    return np.ndarray(len(buffer) - kind.itemsize + 1, kind, buffer, strides=(1,))


def strings_at(buffer: Bytes, starts: Integers, stops: Integers) -> pa.LargeBinaryArray:
    """Returns copies of `buffer[starts[i]:stops[i]]`, which do not overlap.

    Arrow makes the copies: it gets the whole buffer as an array in which they alternate with the gaps between them.
    """
    if len(starts) and (starts[1:] < stops[:-1]).any():
        order = np.argsort(starts, kind="stable")
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return strings_at(buffer, starts[order], stops[order]).take(pa.array(back))
    n = len(starts)
    offsets = np.empty(2 * n + 1, np.int64)
    offsets[0 : 2 * n : 2], offsets[1::2] = starts, stops
    offsets[2 * n] = stops[-1] if n else 0
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * n, buffers).take(pa.array(np.arange(0, 2 * n, 2)))


def joined_bytes(strings: pa.LargeBinaryArray) -> Bytes:
    """Returns the bytes of all strings in sequence, without a copy."""
    if not len(strings):
        return np.zeros(0, np.uint8)
    _, offsets, data = strings.buffers()
    bounds = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    found: Bytes = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    return found
