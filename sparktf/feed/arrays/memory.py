"""Memory for tensors, used again once nobody reads it any more."""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from sparktf.feature import Feature
from sparktf.feed.arrays.columns import Array

_SPARES = 64
"""What was read ahead once is held for the next time: a node's memory stays level from epoch to epoch."""

_MAPPED_BYTES = 1 << 20
ALIGNMENT = 64
"""A cache line; TensorFlow's kernels end the process over tensors that begin elsewhere (`EIGEN_MAX_ALIGN_BYTES`)."""


class SpareMemory:
    """Hands out arrays, and takes their memory back when the last view of them is gone.

    So rows can be handed on as views, to whoever keeps them for however long. Fresh memory from the system costs more
    time than packing and permuting rows into it.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self._features = [feature for feature in features if feature.is_array]
        # Emptied and refilled by several threads; each step of a deque is atomic.
        self._spares: deque[Array] = deque(maxlen=_SPARES)

    def arrays(self, rows: int) -> dict[str, Array]:
        """Returns uninitialised arrays [rows, *shape] for the features that are arrays."""
        sizes = [rows * feature.row_nbytes for feature in self._features]
        starts = np.cumsum([0, *(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]).tolist()
        memory = self._take(starts[-1] + ALIGNMENT)
        # Not an array over an array: all views, and views of views, keep this one alive, and nothing else does.
        owner: Array = np.frombuffer(memory.data, np.uint8)
        weakref.finalize(owner, self._spares.append, memory).atexit = False
        aligned = -memory.ctypes.data % ALIGNMENT
        return {
            feature.key: owner[aligned + start : aligned + start + size]
            .view(feature.numpy_dtype)
            .reshape(rows, *feature.shape)
            for feature, start, size in zip(self._features, starts, sizes, strict=False)
        }

    def _take(self, nbytes: int) -> Array:
        # The last that came back first: it may still be in the caches. What does not fit moves to the other end, where
        # it is given up when there are too many.
        for _ in range(len(self._spares)):
            try:
                spare = self._spares.pop()
            except IndexError:
                break
            # Much too large is no use either: a few large blocks would make all small ones as large.
            if nbytes <= len(spare) <= 2 * nbytes:
                return spare
            self._spares.appendleft(spare)
        return _fresh(nbytes)


def _fresh(nbytes: int) -> Array:
    """Returns memory from the system. Much of it goes back there as a whole, which the C library's would not always."""
    if nbytes < _MAPPED_BYTES:
        return np.empty(nbytes, np.uint8)
    mapped = mmap.mmap(-1, nbytes)
    with suppress(OSError):  # a system without huge pages
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapped, np.uint8)
