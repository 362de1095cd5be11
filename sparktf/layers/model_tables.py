"""The tables of a model, and the gradients of their shards as gradients of whole tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from sparktf.layers.sharded import Sharded

LARGE_BYTES = 16 << 20
"""A Keras Embedding of more than this is worth a warning: see `large_embeddings`."""


def sharded_layers(model: Any) -> list[Any]:
    """Returns the model's ShardedEmbeddings, of either flavour."""
    return [layer for layer in _layers(model) if isinstance(layer, Sharded)]


def large_embeddings(model: Any) -> dict[str, int]:
    """Returns the names of Keras's own Embeddings whose tables are large, with their bytes.

    Such a table is on one parameter server. In each step Keras 3 reads all of it, and most optimizers update all of it;
    a ShardedEmbedding touches only the rows in use.
    """
    sizes = {layer.name: _nbytes(layer) for layer in _layers(model) if is_keras_embedding(layer)}
    return {name: nbytes for name, nbytes in sizes.items() if nbytes > LARGE_BYTES}


def is_keras_embedding(layer: Any) -> bool:
    """Whether a layer is an Embedding of Keras's own, of either flavour."""
    return any(
        cls.__name__ == "Embedding" and cls.__module__.startswith(("keras.", "tf_keras."))
        for cls in type(layer).__mro__
    )


def _nbytes(layer: Any) -> int:
    return sum(math.prod(weight.shape) * tf.as_dtype(weight.dtype).size for weight in layer.weights)


def _layers(model: Any) -> Iterator[Any]:
    yield from {id(layer): layer for layer in model._flatten_layers()}.values()


class Table(NamedTuple):
    """A trained ShardedEmbedding, the places of its shards among the trainable variables, and its shape."""

    layer: Any
    places: tuple[int, ...]
    shape: tuple[int, int]


class Tables:
    """The trained tables of a built model.

    The number of rows of a shard that get a gradient depends on the ids, but for the whole table it is the number of
    ids. If that must be known in advance, the gradients of a table's shards are *joined*: into one sparse gradient of
    the whole table, in the place of the first shard's, with None in the places of the others.
    """

    def __init__(self, model: Any) -> None:
        variables = model.trainable_variables
        places = {id(variable): place for place, variable in enumerate(variables)}
        self._shapes = [tuple(variable.shape) for variable in variables]
        self._tables = [
            Table(
                layer, tuple(places[id(weight)] for weight in layer.shard_weights), (layer.input_dim, layer.output_dim)
            )
            for layer in sharded_layers(model)
            if layer.trainable
        ]

    def __len__(self) -> int:
        return len(self._tables)

    def first_places(self) -> list[tuple[Any, int]]:
        """Returns the layer of each table, and the place of its joined gradient."""
        return [(table.layer, table.places[0]) for table in self._tables]

    def joined_shapes(self) -> list[tuple[int, ...]]:
        """Returns the shapes of the variables, with that of the table at the place of its first shard."""
        shapes = list(self._shapes)
        for table in self._tables:
            shapes[table.places[0]] = table.shape
        return shapes

    def shard_places(self) -> list[bool]:
        """Returns for each variable whether it is a shard."""
        places = {place for table in self._tables for place in table.places}
        return [place in places for place in range(len(self._shapes))]

    def is_joined(self, place: int) -> bool:
        """Whether a gradient at this place, once joined, is that of a table."""
        return any(table.places[0] == place for table in self._tables)

    def joined(self, gradients: Sequence[Any]) -> list[Any]:
        """Returns the gradients with those of each table joined; dense ones stay."""
        joined = list(gradients)
        for table in self._tables:
            parts = [joined[place] for place in table.places]
            if not all(isinstance(part, tf.IndexedSlices) for part in parts):
                continue
            for place in table.places:
                joined[place] = None
            joined[table.places[0]] = _join(parts, table.shape)
        return joined

    def parted(self, gradients: Sequence[Any]) -> list[Any]:
        """Returns the gradients of all variables from joined ones, without padding rows, which are below 0."""
        parted = list(gradients)
        for table in self._tables:
            first, *others = (parted[place] for place in table.places)
            if not isinstance(first, tf.IndexedSlices) or any(other is not None for other in others):
                continue
            parts = _part(first, [self._shapes[place] for place in table.places])
            for place, part in zip(table.places, parts, strict=True):
                parted[place] = part
        return parted


def _join(parts: Sequence[Any], shape: tuple[int, int]) -> Any:
    ids = [tf.cast(part.indices, tf.int64) * len(parts) + i for i, part in enumerate(parts)]
    values = tf.concat([part.values for part in parts], 0)
    return tf.IndexedSlices(values, tf.concat(ids, 0), tf.constant(shape, tf.int64))


def _part(gradient: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    count, ids = len(shapes), tf.cast(gradient.indices, tf.int64)
    owners = tf.cast(tf.where(ids < 0, tf.constant(count, tf.int64), ids % count), tf.int32)
    values = tf.dynamic_partition(gradient.values, owners, count + 1)
    rows = tf.dynamic_partition(ids // count, owners, count + 1)
    return [tf.IndexedSlices(v, r, tf.constant(s, tf.int64)) for v, r, s in zip(values, rows, shapes, strict=False)]
