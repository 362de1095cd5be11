"""Packs rows of tables: an update sends each server the distinct ids of its shards in one message.

The rows come back in one message, and their gradients go in one to where the ids are already. Otherwise each shard
would need its own messages, and repeated ids and their rows would be sent repeatedly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import tensorflow as tf

from sparktf.layers.row_updates import RowGradient, summed


class _Crossed(NamedTuple):
    """Rows that were read from shards of one server, with their ids and the ids' counts, on the server."""

    shards: list[Any]
    ids: list[Any]
    sizes: Any


class PackedRows:
    """The tables of an update in the graph that is being recorded.

    Attributes:
        anchor: Ask for the gradient by this tensor, which makes those of the rows.
        values: The rows that were read, on the worker.
    """

    def __init__(self, layers: Sequence[Any]) -> None:
        """Reads nothing yet; `layers` are trained ShardedEmbeddings."""
        self.anchor = tf.zeros(())
        self.values: list[Any] = []
        self._layers = layers
        self._graph = tf.compat.v1.get_default_graph()
        self._gradients: dict[int, list[Any]] = {}

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Makes the layers look up rows here; functions, branches and loops in the graph read by themselves."""
        for layer in self._layers:
            # Keeps tf_keras's AutoGraph, which converts a layer's call, from converting this function, too.
            layer.rows_of = tf.autograph.experimental.do_not_convert(partial(self._rows_of, layer.rows_of))
        try:
            yield
        finally:
            for layer in self._layers:
                del layer.rows_of

    def gradients(self, variables: Sequence[Any], found: Sequence[Any]) -> list[Any]:
        """Returns the gradients by all variables of the update; those of rows are on their servers.

        `found` are other contributions to them, such as of a regularizer.
        """
        merged = list(found)
        for place, variable in enumerate(variables):
            parts = self._gradients.get(id(variable), [])
            if not parts:
                continue
            with tf.device(variable.device):
                rows = parts[0] if len(parts) == 1 else summed(_joined(parts))
                other = merged[place]
                merged[place] = rows if other is None else tf.add_n([tf.convert_to_tensor(g) for g in (rows, other)])
        return merged

    def _rows_of(self, alone: Any, shards: Sequence[Any], ids: Any) -> Any:
        """Returns the rows of ids [n]; looks them up as the layer does by itself if packing is impossible."""
        if tf.compat.v1.get_default_graph() is not self._graph:
            return alone(shards, ids)
        count = len(shards)
        rows, places = tf.unique(ids)
        owners = tf.cast(rows % count, tf.int32)
        own = tf.dynamic_partition(rows // count, owners, count)
        at = tf.dynamic_partition(tf.range(tf.size(rows)), owners, count)
        found: dict[int, Any] = {}
        devices = [str(shard.device) for shard in shards]
        for device, group in groupby(sorted(range(count), key=lambda i: devices[i]), lambda i: devices[i]):
            numbers = list(group)
            some = self._read(device, [shards[i] for i in numbers], [own[i] for i in numbers])
            found |= zip(numbers, some, strict=True)
        unique = tf.dynamic_stitch(at, [found[i] for i in range(count)])
        return tf.gather(unique, places)

    def _read(self, device: str, shards: list[Any], ids: list[Any]) -> list[Any]:
        """Reads rows from some shards of one server."""
        sizes = tf.stack([tf.size(own, out_type=own.dtype) for own in ids])
        packed = tf.concat([sizes, *ids], 0)
        with tf.device(device):
            sizes_there, ids_there = tf.split(tf.identity(packed), [len(ids), -1])
            parts = tf.split(ids_there, sizes_there, num=len(ids))
            flat = tf.concat([tf.gather(shard, part) for shard, part in zip(shards, parts, strict=True)], 0)
        come = self._crossing(flat, device, _Crossed(shards, parts, sizes_there))
        self.values.append(come)
        return list(tf.split(come, sizes, num=len(ids)))

    def _crossing(self, flat: Any, device: str, crossed: _Crossed) -> Any:
        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def come(anchor: Any) -> tuple[Any, Any]:
            def gradient(by_rows: Any) -> Any:
                self._keep(by_rows, device, crossed)
                return tf.zeros_like(anchor)

            return tf.identity(flat), gradient

        return come(self.anchor)

    def _keep(self, by_rows: Any, device: str, crossed: _Crossed) -> None:
        with tf.device(device):
            parts = tf.split(tf.identity(by_rows), crossed.sizes, num=len(crossed.shards))
            for shard, ids, values in zip(crossed.shards, crossed.ids, parts, strict=True):
                shape = tf.constant(shard.shape.as_list(), tf.int64)
                self._gradients.setdefault(id(shard), []).append(RowGradient(values, ids, shape))


def _joined(parts: Sequence[Any]) -> Any:
    values, ids = (tf.concat(some, 0) for some in ([p.values for p in parts], [p.indices for p in parts]))
    return tf.IndexedSlices(values, ids, parts[0].dense_shape)
