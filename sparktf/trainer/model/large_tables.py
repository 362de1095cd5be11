"""Warns of large tables in Keras's own Embedding layers on parameter servers."""

from __future__ import annotations

from typing import Any

from sparktf.layers.model_tables import large_embeddings
from sparktf.trainer.model.trackables import flavour_of


def on_large_tables(model: Any) -> list[str]:
    """Returns a warning for each large Keras Embedding of a model on parameter servers."""
    home = "sparktf.layers.tf_keras" if flavour_of([model]) == "tf_keras" else "sparktf.layers"
    return [
        f"model: Embedding '{name}' is a table of {nbytes / (1 << 20):.1f} MiB on one parameter server, and updates "
        f"may go through all of it: {home}.ShardedEmbedding touches only the rows in use"
        for name, nbytes in large_embeddings(model).items()
    ]
