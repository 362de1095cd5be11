"""The file `MLmodel` of a published model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mlmodel_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of `MLmodel`, by which `mlflow.tensorflow.load_model` loads a published model.

    Args:
        config: The configuration's YAML; the content is empty if that registers no model.
    """
    mlflow = (config.get("output") or {}).get("mlflow") or {}
    if not mlflow.get("registered_model"):
        return {}
    return {"flavors": {"tensorflow": {"model_type": "tf2-module", "saved_model_dir": "."}}}
