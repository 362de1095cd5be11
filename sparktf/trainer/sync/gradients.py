"""Sums of gradients over all replicas of a gang, inside of a traced update."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from sparktf.errors import SparkTFError
from sparktf.feed.arrays.columns import Array
from sparktf.trainer.model.exchange import Exchange


class GradientSum(Protocol):
    """Sums the loss and the gradients of a replica over all replicas."""

    @property
    def is_padded(self) -> bool:
        """Whether sparse gradients need one number of rows on all replicas and in all updates."""

    @property
    def error(self) -> SparkTFError | None:
        """Why a sum has failed, if its own code has raised: TensorFlow raises an error of its own for it."""

    def __call__(self, parts: list[Any]) -> list[Any]:
        """Returns the sums of tensors, and the rows of all replicas for each IndexedSlices; called in a replica."""


class CollectiveSum:
    """See `GradientSum`: by TensorFlow's collectives.

    They keep the shape of their first run, and all-reduce IndexedSlices by gathering them.
    """

    is_padded = True
    error = None

    def __call__(self, parts: list[Any]) -> list[Any]:
        """See `GradientSum`."""
        return sum_over_replicas(parts)


def sum_over_replicas(parts: list[Any]) -> list[Any]:
    """Returns the sums of tensors by TensorFlow's collectives; called in a replica.

    One call takes one type: it joins small tensors without a look at theirs.
    """
    context = tf.distribute.get_replica_context()
    sums = {
        kind: iter(context.all_reduce(tf.distribute.ReduceOp.SUM, [part for part in parts if part.dtype == kind]))
        for kind in dict.fromkeys(part.dtype for part in parts)
    }
    return [next(sums[part.dtype]) for part in parts]


class ExchangeSum:
    """See `GradientSum`: by an exchange; a node has one replica.

    A Python function stands in the graph for it, which XLA does not compile: it stays outside of `jit_compile`. It is
    stateful, so TensorFlow runs one after another.
    """

    is_padded = False

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.error: SparkTFError | None = None

    def __call__(self, parts: list[Any]) -> list[Any]:
        """See `GradientSum`."""
        dense = [part for part in parts if not isinstance(part, tf.IndexedSlices)]
        sparse = [part for part in parts if isinstance(part, tf.IndexedSlices)]
        rows = [tensor for part in sparse for tensor in (part.values, part.indices)]
        found = tf.numpy_function(
            lambda *arrays: self._summed(arrays, len(dense)), [*dense, *rows], [t.dtype for t in (*dense, *rows)]
        )
        for tensor, original in zip(found, dense, strict=False):
            tensor.set_shape(original.shape)
        for tensor, original in zip(found[len(dense) :], rows, strict=True):
            tensor.set_shape((None, *original.shape[1:]))
        sums, gathered = iter(found[: len(dense)]), iter(found[len(dense) :])
        return [
            tf.IndexedSlices(next(gathered), next(gathered), dense_shape=part.dense_shape)
            if isinstance(part, tf.IndexedSlices)
            else next(sums)
            for part in parts
        ]

    def _summed(self, arrays: tuple[Array, ...], dense: int) -> list[Array]:
        try:
            summed = self._exchange.sum(arrays[:dense])
            return [*summed, *(np.concatenate(self._exchange.gather(rows)) for rows in arrays[dense:])]
        except SparkTFError as error:
            self.error = error
            raise
