"""The common part of both flavours' ShardedEmbedding: shards, initial values, lookup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

DEFAULT_SHARDS = 4

_MODULES = {"keras": "sparktf.layers.keras", "tf_keras": "sparktf.layers.tf_keras"}
"""Flavour of Keras -> module of its layer."""


class Sharded:
    """The part of a ShardedEmbedding that both flavours share; row `i` is row `i // shards` of shard `i % shards`."""

    name: str
    input_dim: int  # Rows of the table
    output_dim: int  # Width of a row
    shards: int  # Variables that hold the rows
    mask_zero: bool  # Whether id 0 is padding
    embeddings_initializer: Any
    shard_weights: Sequence[Any]

    def _set_up(self, input_dim: int, output_dim: int, shards: int, initializer: Any, *, mask_zero: bool) -> None:
        """Keeps the layer's arguments.

        Raises:
            ValueError: the table has no rows or columns, or more shards than rows.
        """
        for name, value in (("input_dim", input_dim), ("output_dim", output_dim), ("shards", shards)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a whole number above 0, not {value!r}")
        if shards > input_dim:
            raise ValueError(f"shards is {shards}, more than the {input_dim} rows of input_dim: lower it")
        self.input_dim, self.output_dim, self.shards = input_dim, output_dim, shards
        self.embeddings_initializer, self.mask_zero = initializer, mask_zero

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Returns the rows of the ids, as any layer does.

        Raises:
            TypeError: the ids are a model's input of the other flavour of Keras.
        """
        for value in args:
            flavour = type(value).__module__.partition(".")[0]
            if flavour in _MODULES and _MODULES[flavour] != type(self).__module__:
                raise TypeError(
                    f"{self.name}: for a model of {flavour}, import {type(self).__name__} from {_MODULES[flavour]}"
                )
        return super().__call__(*args, **options)  # type: ignore[misc]

    def shard_variables(self) -> list[Any]:
        """Returns the tf.Variable of every shard; none before the layer is built."""
        weights = getattr(self, "shard_weights", ())
        return [weight if isinstance(weight, tf.Variable) else weight.value for weight in weights]

    def _make_shards(self, add_weight: Callable[..., Any]) -> list[Any]:
        """Makes the shards one by one, so that the initial values of the whole table are never in one place."""
        return [
            add_weight(
                name=f"shard_{i}",
                shape=(-(-(self.input_dim - i) // self.shards), self.output_dim),
                initializer=_for_shard(self.embeddings_initializer, i),
            )
            for i in range(self.shards)
        ]

    def _look_up(self, ids: Any) -> Any:
        """Returns the rows of ids of any shape, also ragged; reads only these."""
        if isinstance(ids, tf.RaggedTensor):
            return ids.with_flat_values(self._look_up(ids.flat_values))
        if ids.dtype not in (tf.int32, tf.int64):
            ids = tf.cast(ids, tf.int64)
        flat = tf.reshape(ids, [-1])
        with tf.control_dependencies([self._check(flat)]):
            flat = tf.identity(flat)
        rows = self.rows_of(self.shard_variables(), flat)
        return tf.ensure_shape(
            tf.reshape(rows, tf.concat([tf.shape(ids), [self.output_dim]], 0)), [*ids.shape, self.output_dim]
        )

    @staticmethod
    def rows_of(shards: Sequence[Any], ids: Any) -> Any:
        """Returns the rows of ids [n].

        `tf.nn.embedding_lookup` would read mirrored variables whole; `tf.gather` reads rows from each kind of variable.
        """
        if len(shards) == 1:
            return tf.gather(shards[0], ids)
        owners = tf.cast(ids % len(shards), tf.int32)
        places = tf.dynamic_partition(tf.range(tf.size(ids)), owners, len(shards))
        rows = tf.dynamic_partition(ids // len(shards), owners, len(shards))
        return tf.dynamic_stitch(places, [tf.gather(shard, own) for shard, own in zip(shards, rows, strict=True)])

    def _check(self, ids: Any) -> Any:
        """Refuses ids without a row, for which some devices would return zeros."""
        said = f"{self.name}: an id is not in [0, {self.input_dim}): the least and the greatest are"
        least, greatest = tf.reduce_min(ids), tf.reduce_max(ids)
        inside = tf.logical_or(tf.equal(tf.size(ids), 0), tf.logical_and(least >= 0, greatest < self.input_dim))
        return tf.debugging.Assert(inside, [said, least, greatest])

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Returns which ids are not padding, with `mask_zero`."""
        del mask
        return tf.not_equal(inputs, 0) if self.mask_zero else None

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """Returns the shape of the ids and the width of a row."""
        return (*input_shape, self.output_dim)

    def _config(self, initializer: Any) -> dict[str, Any]:
        return {
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "shards": self.shards,
            "embeddings_initializer": initializer,
            "mask_zero": self.mask_zero,
        }


def _for_shard(initializer: Any, shard: int) -> Any:
    """Returns an initializer of the same kind for one shard, since one initializer repeats its values at each call."""
    config = initializer.get_config() if hasattr(initializer, "get_config") else {}
    if "seed" not in config:
        return initializer
    if isinstance(config["seed"], int):
        config["seed"] += shard
    return type(initializer).from_config(config)
