"""Keras layers for clusters: embedding tables of which a step touches only the rows in use.

    from sparktf.layers import ShardedEmbedding            # for Keras 3
    from sparktf.layers.tf_keras import ShardedEmbedding   # for tf_keras

May import the contracts in `sparktf` itself, TensorFlow and, only in the module of each flavour, Keras: users of one
flavour never import the other. Models use it in any process, with or without a cluster. Importing the package itself
imports none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparktf.layers.keras import ShardedEmbedding
    from sparktf.layers.model_tables import large_embeddings
    from sparktf.layers.row_updates import update_rows

__all__ = ["ShardedEmbedding", "large_embeddings", "update_rows"]

_HOMES = {
    "ShardedEmbedding": "sparktf.layers.keras",
    "large_embeddings": "sparktf.layers.model_tables",
    "update_rows": "sparktf.layers.row_updates",
}


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use.

    Raises:
        AttributeError: there is no such public name.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value  # from now on without this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
