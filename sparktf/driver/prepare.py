"""The optional `prepare(df, params)` of a model's module: run once on Spark, kept with the run."""

from __future__ import annotations

import importlib
import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sparktf.config import JobConfig
from sparktf.driver.code import defines, failed
from sparktf.driver.dataframe import Data, filtered, open_dataframe
from sparktf.errors import ModelContractError, SparkTFError
from sparktf.storage.base import Storage


def prepare_assets(
    spark: SparkSession, config: JobConfig, storage: Storage, path: str, data: object = None
) -> dict[str, Any]:
    """Returns what `prepare` gives, {} where the module has none; a resumed run gets what it got the first time.

    The module is imported here only if its source defines `prepare`: model modules import TensorFlow, which the driver
    has no other use for.

    Args:
        data: What was handed to `train()`, if anything was.

    Raises:
        ModelError: `prepare` raised.
        ModelContractError: it returned something that JSON cannot hold.
    """
    if storage.exists(path):
        stored: dict[str, Any] = json.loads(storage.read_bytes(path))
        return stored
    if not defines(config.model_module, "prepare"):
        return {}
    assets = _call(config, training_rows(spark, config, data))
    try:
        content = json.dumps(assets, allow_nan=False, sort_keys=True).encode()
    except (TypeError, ValueError) as e:
        raise ModelContractError(f"model: {config.model_module}:prepare must return what JSON can hold: {e}") from e
    if not isinstance(assets, dict):
        raise ModelContractError(
            f"model: {config.model_module}:prepare must return a dict, not {type(assets).__name__}"
        )
    storage.write_bytes(path, content)
    # As every later reader sees it: JSON turns tuples into lists, and keys into text.
    loaded: dict[str, Any] = json.loads(content)
    return loaded


def training_rows(spark: SparkSession, config: JobConfig, data: object = None) -> Data:
    """Returns the rows that `prepare` may look at: the source without what `data.validation.where` holds out."""
    found = open_dataframe(spark, config, data)
    if not isinstance(found, DataFrame):
        return found
    df = filtered(found, config.data.where, "data.where")
    validation = config.data.validation
    if validation is None or validation.where is None:
        return df
    return filtered(df, f"NOT coalesce(({validation.where}), false)", "data.validation.where")


def _call(config: JobConfig, df: Data) -> Any:
    try:
        module = importlib.import_module(config.model_module)
        return module.prepare(df, dict(config.params))
    except SparkTFError:
        raise
    except Exception as e:
        raise failed("prepare", e) from e
