"""The ShardedEmbedding of Keras 3."""

from __future__ import annotations

from typing import Any

import keras

from sparktf.layers.sharded import DEFAULT_SHARDS, Sharded


@keras.saving.register_keras_serializable(package="sparktf")
class ShardedEmbedding(Sharded, keras.layers.Layer):  # type: ignore[misc]
    """An `Embedding` for large tables: in each step only the rows in use are read, and only they are updated.

    Its rows are divided over `shards` variables, which several parameter servers can hold. The number belongs to the
    model: a checkpoint fits any number of servers. SGD, Adagrad and Adam update its rows (docs/use/layers.md).

        embedded = ShardedEmbedding(4_000_000, 16, shards=4, name="user")(ids)   # [batch, ...] -> [batch, ..., 16]

    Integers of any shape, ragged ones too, become the rows of these ids; an id outside of the table is an error.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        shards: int = DEFAULT_SHARDS,
        embeddings_initializer: Any = "uniform",
        mask_zero: bool = False,
        **options: Any,
    ) -> None:
        """Makes no variables yet.

        Args:
            input_dim: Rows of the table: the greatest id + 1.
            output_dim: Width of a row.
            shards: Number of variables that hold the rows: the most parameter servers to be used, or a multiple.
            embeddings_initializer: Called for each shard, with a different seed each.
            mask_zero: Whether id 0 is padding, masked for the following layers.
            options: `name`, `trainable`, `dtype`.

        Raises:
            ValueError: the table has no rows or columns, or more shards than rows.
        """
        super().__init__(autocast=False, **options)  # never round ids
        initializer = keras.initializers.get(embeddings_initializer)
        self._set_up(input_dim, output_dim, shards, initializer, mask_zero=mask_zero)
        self.supports_masking = mask_zero
        self.supports_jit = False  # the number of ids for a shard is unknown at compile time

    def build(self, input_shape: Any = None) -> None:
        del input_shape
        self.shard_weights = self._make_shards(lambda **options: self.add_weight(**options, autocast=False))
        for i, shard in enumerate(self.shard_weights):
            # TensorFlow's checkpoints would not track a shard in a list, except as the optimizer's.
            setattr(self, f"shard_{i}", shard)
        self.built = True

    def call(self, ids: Any) -> Any:
        """Returns the rows of the ids."""
        return keras.ops.cast(self._look_up(ids), self.compute_dtype)

    def compute_output_spec(self, ids: Any) -> Any:
        """Returns the rows' shape; they are as ragged as the ids."""
        shape, ragged = self.compute_output_shape(ids.shape), getattr(ids, "ragged", False)
        return keras.KerasTensor(shape, dtype=self.compute_dtype, ragged=ragged)

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration from which Keras makes the layer again."""
        config: dict[str, Any] = super().get_config()
        config.pop("autocast", None)
        return {**config, **self._config(keras.initializers.serialize(self.embeddings_initializer))}
