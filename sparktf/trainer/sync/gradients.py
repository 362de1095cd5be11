"""Sums of gradients over all replicas of a gang, inside of a traced update."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import tensorflow as tf

from sparktf.errors import SparkTFError
from sparktf.feed.arrays.columns import Array

JOINED_NBYTES = 16_384
"""Copying a tensor of up to this size takes less time than handing it to Python."""


class Summing(Protocol):
    """An exchange that makes an update's sums in one operation; see `GenerationsExchange`."""

    def sum_and_gather(self, dense: Sequence[Array], rows: Sequence[Array]) -> list[Array]:
        """Returns the sum over all members of each dense array, then the rows of all of each other one."""


class GradientSum(Protocol):
    """Sums the loss and the gradients of a replica over all replicas."""

    @property
    def is_padded(self) -> bool:
        """Whether sparse gradients need one number of rows on all replicas and in all updates."""

    @property
    def error(self) -> SparkTFError | None:
        """Why a sum has failed, if its own code has raised: TensorFlow raises an error of its own for it."""

    @property
    def losses(self) -> list[float]:
        """The loss of each update whose sums were made, since the list was cleared; none where nobody is told."""

    def __call__(self, parts: list[Any]) -> list[Any]:
        """Returns the sums of tensors, and the rows of all replicas for each IndexedSlices; called in a replica."""


class CollectiveSum:
    """See `GradientSum`: by TensorFlow's collectives.

    They keep the shape of their first run, and all-reduce IndexedSlices by gathering them.
    """

    is_padded = True
    error = None

    @property
    def losses(self) -> list[float]:
        """See `GradientSum`."""
        return []

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
    """See `GradientSum`: by an exchange; a node's own replicas are added first.

    A Python function stands in the graph for it, which XLA does not compile: it stays outside of `jit_compile`. It is
    stateful, so TensorFlow runs one after another.
    """

    is_padded = False

    def __init__(self, exchange: Summing, summed: Callable[[float], None] = lambda began_s: None) -> None:
        self._exchange = exchange
        self._tell = summed
        self.error: SparkTFError | None = None
        self.losses: list[float] = []

    def __call__(self, parts: list[Any]) -> list[Any]:
        """See `GradientSum`."""
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync == 1:
            return self._over_nodes(parts)
        return list(context.merge_call(self._merged, args=(parts,)))

    def _merged(self, strategy: Any, parts: list[Any]) -> list[Any]:
        """Returns the sums, the same tensors to each replica of the node."""
        return self._over_nodes([_added(strategy.experimental_local_results(part)) for part in parts])

    def _over_nodes(self, parts: list[Any]) -> list[Any]:
        joined = _Joined([part for part in parts if not isinstance(part, tf.IndexedSlices)])
        sparse = [part for part in parts if isinstance(part, tf.IndexedSlices)]
        rows = [tensor for part in sparse for tensor in (part.values, part.indices)]
        given = [*joined.tensors, *rows]
        dense = len(joined.tensors)
        found = tf.numpy_function(lambda *arrays: self._summed(arrays, dense), given, [t.dtype for t in given])
        for tensor, original in zip(found, joined.tensors, strict=False):
            tensor.set_shape(original.shape)
        for tensor, original in zip(found[dense:], rows, strict=True):
            tensor.set_shape((None, *original.shape[1:]))
        sums, gathered = iter(joined.parted(found[:dense])), iter(found[dense:])
        return [
            tf.IndexedSlices(next(gathered), next(gathered), dense_shape=part.dense_shape)
            if isinstance(part, tf.IndexedSlices)
            else next(sums)
            for part in parts
        ]

    def _summed(self, arrays: tuple[Array, ...], dense: int) -> list[Array]:
        began_s = time.perf_counter()
        try:
            summed = self._exchange.sum_and_gather(arrays[:dense], arrays[dense:])
        except SparkTFError as error:
            self.error = error
            raise
        self._tell(began_s)
        self.losses.append(float(summed[0].reshape(-1)[0]))  # the loss is the first of what is summed
        return summed


def _added(parts: Sequence[Any]) -> Any:
    """Returns the sum of the replicas' tensors, or the rows of all of their IndexedSlices."""
    if not isinstance(parts[0], tf.IndexedSlices):
        return tf.add_n(parts)
    values, indices = (
        tf.concat(rows, 0) for rows in zip(*((part.values, part.indices) for part in parts), strict=True)
    )
    return tf.IndexedSlices(values, indices, dense_shape=parts[0].dense_shape)


class _Joined:
    """Dense tensors, of which small ones of one type are one: each that goes into Python costs some microseconds.

    Attributes:
        tensors: The tensors in place of those given.
    """

    def __init__(self, parts: list[Any]) -> None:
        self._parts = parts
        self._places: dict[Any, list[int]] = {}  # Of small ones, by type
        for place, part in enumerate(parts):
            size = part.shape.num_elements()  # None if its gradient's shape is known in the run alone
            if size is not None and size * part.dtype.size <= JOINED_NBYTES:
                self._places.setdefault(part.dtype, []).append(place)
        small = {place for places in self._places.values() for place in places}
        self._large = [place for place in range(len(parts)) if place not in small]
        flat = [tf.concat([tf.reshape(parts[place], [-1]) for place in places], 0) for places in self._places.values()]
        self.tensors = [*flat, *(parts[place] for place in self._large)]

    def parted(self, sums: list[Any]) -> list[Any]:
        """Returns the sums of `tensors` as those of the parts."""
        found: dict[int, Any] = dict(zip(self._large, sums[len(self._places) :], strict=True))
        for flat, places in zip(sums, self._places.values(), strict=False):
            sizes = [self._parts[place].shape.num_elements() for place in places]
            for place, values in zip(places, tf.split(flat, sizes), strict=True):
                found[place] = tf.reshape(values, self._parts[place].shape)
        return [found[place] for place in range(len(self._parts))]
