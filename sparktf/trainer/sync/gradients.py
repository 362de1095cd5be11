"""Sums of gradients over all replicas of a gang, inside of a traced update."""

from __future__ import annotations

from typing import Any, Protocol

import tensorflow as tf


class GradientSum(Protocol):
    """Sums the loss and the gradients of a replica over all replicas."""

    @property
    def is_padded(self) -> bool:
        """Whether sparse gradients need one number of rows on all replicas and in all updates."""

    def __call__(self, parts: list[Any]) -> list[Any]:
        """Returns the sums of tensors, and the rows of all replicas for each IndexedSlices; called in a replica."""


class CollectiveSum:
    """See `GradientSum`: by TensorFlow's collectives.

    They keep the shape of their first run, and all-reduce IndexedSlices by gathering them.
    """

    is_padded = True

    def __call__(self, parts: list[Any]) -> list[Any]:
        """See `GradientSum`."""
        summed: list[Any] = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, parts)
        return summed
