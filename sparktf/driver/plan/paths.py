"""The paths of a configuration, each in the one spelling that every process of the run understands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparktf.config.job import JobConfig


def normalised(config: JobConfig, normalise: Callable[[str], str]) -> JobConfig:
    """Returns the configuration with its paths normalised; see `FileSystems.normalise`.

    Raises:
        ConfigError: a path names no file system.
    """
    data, output = config.data, config.output
    changed: dict[str, Any] = {} if data.path is None else {"path": normalise(data.path)}
    if data.validation is not None and data.validation.path is not None:
        changed["validation"] = data.validation.model_copy(update={"path": normalise(data.validation.path)})
    update: dict[str, Any] = {
        "data": data.model_copy(update=changed),
        "output": output.model_copy(update={"path": normalise(output.path)}),
    }
    if config.train.init_path is not None:
        update["train"] = config.train.model_copy(update={"init_from": normalise(config.train.init_path)})
    return config.model_copy(update=update)
