"""The optional `prepare(df, params)` of a model's module: run once on Spark, kept with the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from sparktf.config.job import JobConfig
from sparktf.driver.code.module import UsersCode, binds, load_module, search_path
from sparktf.driver.source.dataframe import Data, filtered
from sparktf.driver.source.origin import Origin
from sparktf.errors import ModelContractError
from sparktf.storage.base import Storage


def prepare_assets(
    config: JobConfig, storage: Storage, path: str, origin: Origin, put: Callable[[str, bytes], None]
) -> dict[str, Any]:
    """Returns the result of `prepare`, {} for a module without one; a resumed run gets the result of its first time.

    The module is imported here only if its source defines `prepare`, or may: model modules import TensorFlow, which the
    driver has no other use for.

    Args:
        origin: Opened only if `prepare` is called.
        put: Writes a file of the run.

    Raises:
        ModelError: `prepare` raised, or the import of its module.
        ConfigError: another module of this name was imported before.
        ModelContractError: it returned an object that JSON cannot hold.
    """
    if storage.exists(path):
        stored: dict[str, Any] = json.loads(storage.read_bytes(path))
        return stored
    prepare = _prepare(config)
    if prepare is None:
        return {}
    rows = training_rows(config, origin.data)
    with UsersCode("prepare"):
        assets = prepare(rows, dict(config.params))
    try:
        content = json.dumps(assets, allow_nan=False, sort_keys=True).encode()
    except (TypeError, ValueError) as e:
        raise ModelContractError(
            f"model: {config.model_module}:prepare must return a value that JSON can hold: {e}"
        ) from e
    if not isinstance(assets, dict):
        raise ModelContractError(
            f"model: {config.model_module}:prepare must return a dict, not {type(assets).__name__}"
        )
    put(path, content)
    loaded: dict[str, Any] = json.loads(content)  # as every later reader sees it: lists for tuples, and keys are text
    return loaded


def training_rows(config: JobConfig, data: Data) -> Data:
    """Returns the rows for `prepare`: the source without the rows held out by `data.validation.where`."""
    if not isinstance(data, DataFrame):
        return data
    df = filtered(data, config.data.where, "data.where")
    validation = config.data.validation
    if validation is None or validation.where is None:
        return df
    return filtered(df, f"NOT coalesce(({validation.where}), false)", "data.validation.where")


def _prepare(config: JobConfig) -> Callable[..., Any] | None:
    if binds(config.model_module, "prepare", search_path(config.code_folder)) is False:
        return None
    with UsersCode("prepare"):
        module = load_module("model", config.model_module, config.code_folder)
    found = getattr(module, "prepare", None)
    return found if callable(found) else None
