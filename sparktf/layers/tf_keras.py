"""The ShardedEmbedding of tf_keras."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from sparktf.layers.sharded import DEFAULT_SHARDS, Sharded


@tf_keras.saving.register_keras_serializable(package="sparktf")
class ShardedEmbedding(Sharded, tf_keras.layers.Layer):  # type: ignore[misc]
    """An `Embedding` for large tables, as that of Keras 3: see `sparktf.layers.ShardedEmbedding`."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        shards: int = DEFAULT_SHARDS,
        embeddings_initializer: Any = "uniform",
        mask_zero: bool = False,
        **options: Any,
    ) -> None:
        """Makes no variables yet: see `sparktf.layers.ShardedEmbedding`.

        Raises:
            ValueError: the table has no rows or columns, or more shards than rows.
        """
        super().__init__(autocast=False, **options)  # never round ids
        initializer = tf_keras.initializers.get(embeddings_initializer)
        self._set_up(input_dim, output_dim, shards, initializer, mask_zero=mask_zero)
        self.supports_masking = mask_zero

    def build(self, input_shape: Any = None) -> None:
        self.shard_weights = self._make_shards(
            lambda **options: self.add_weight(**options, experimental_autocast=False)
        )
        super().build(input_shape)

    def call(self, ids: Any) -> Any:
        """Returns the rows of the ids."""
        return tf.cast(self._look_up(ids), self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration from which Keras makes the layer again."""
        config: dict[str, Any] = super().get_config()
        return {**config, **self._config(tf_keras.initializers.serialize(self.embeddings_initializer))}
