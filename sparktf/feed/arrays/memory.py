"""Memory for tensors, reused once no view of it is alive."""

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
"""Blocks kept for reuse, so that a node's memory stays level from epoch to epoch."""

_MAPPED_BYTES = 1 << 20
ALIGNMENT = 64
"""A cache line; TensorFlow's kernels crash on tensors with another alignment (`EIGEN_MAX_ALIGN_BYTES`)."""


class SpareMemory:
    """Hands out arrays, and takes their memory back when their last view is gone.

    So rows can be passed on as views and kept for any time. Fresh memory from the system costs more time than packing
    and permuting rows into it.
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
        # Over the buffer, not over the array: then all views reference this owner as their base, and only it.
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
        # The last one returned comes first, since it may still be in the caches. Those that do not fit move to the
        # other end, where they are dropped when there are too many.
        for _ in range(len(self._spares)):
            try:
                spare = self._spares.pop()
            except IndexError:
                break
            # Not a much too large one either: a few large blocks would make all small ones as large.
            if nbytes <= len(spare) <= 2 * nbytes:
                return spare
            self._spares.appendleft(spare)
        return _fresh(nbytes)


def _fresh(nbytes: int) -> Array:
    """Returns memory from the system; large blocks by mmap, which, unlike malloc, gives them back as a whole."""
    if nbytes < _MAPPED_BYTES:
        return np.empty(nbytes, np.uint8)
    mapped = mmap.mmap(-1, nbytes)
    with suppress(OSError):  # a system without huge pages
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapped, np.uint8)
