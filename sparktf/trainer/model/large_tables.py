"""Tables that a parameter server would hold and Keras's own layer is not made for."""

from __future__ import annotations

from typing import Any

from sparktf.layers.model_tables import large_embeddings
from sparktf.trainer.model.trackables import flavour_of


def on_large_tables(model: Any) -> list[str]:
    """Returns what the owner of a run on parameter servers should know of each large Embedding of Keras's."""
    home = "sparktf.layers.tf_keras" if flavour_of([model]) == "tf_keras" else "sparktf.layers"
    return [
        f"model: Embedding '{name}' is a table of {nbytes / (1 << 20):.1f} MiB on one parameter server, and updates "
        f"may go through all of it: {home}.ShardedEmbedding touches only the rows in use"
        for name, nbytes in large_embeddings(model).items()
    ]
