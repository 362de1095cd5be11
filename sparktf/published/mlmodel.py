"""The file `MLmodel` of a published model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mlmodel_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a published model's file `MLmodel` says, by which `mlflow.tensorflow.load_model` loads it.

    Args:
        config: The configuration's YAML; empty is returned where it registers no model.
    """
    mlflow = (config.get("output") or {}).get("mlflow") or {}
    if not mlflow.get("registered_model"):
        return {}
    return {"flavors": {"tensorflow": {"model_type": "tf2-module", "saved_model_dir": "."}}}
