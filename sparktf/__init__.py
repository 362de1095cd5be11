"""Trains TensorFlow models on the Spark cluster that already holds the data.

    from sparktf import load_config, train

    result = train(spark, load_config("nightly.yaml", date="2026-11-20"))

Importing the package imports neither pyspark nor tensorflow: its names are loaded when they are first used, because
every process of a run imports it, and none of them needs both.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparktf.api.cluster import Cluster, train
    from sparktf.api.trained import TrainedRun
    from sparktf.config.job import JobConfig
    from sparktf.config.load import load_config
    from sparktf.errors import (
        BadValueError,
        ColumnError,
        ConfigError,
        ControlError,
        CorruptFileError,
        DataError,
        DriverLostError,
        EmptySourceError,
        ExchangeError,
        FencedOffError,
        GatedError,
        LifecycleError,
        LinkCutError,
        ModelContractError,
        ModelError,
        NodeLostError,
        NotComparedError,
        NotReadyError,
        NotStoredError,
        OwnedError,
        PeerLostError,
        PreflightError,
        RefusedError,
        ReservationError,
        RowAccountingError,
        RunInterruptedError,
        SourceNotFoundError,
        SparkTFError,
        StorageError,
        StorageExistsError,
        StorageNotFoundError,
        StoragePermissionError,
        StorageQuotaError,
        StorageUnavailableError,
        TimeUpError,
        TornCheckpointError,
        Verdict,
    )
    from sparktf.node import Node
    from sparktf.predict.loaded import LoadedModel, load_model
    from sparktf.results.result import RunResult

from sparktf.version import __version__

__all__ = [
    "BadValueError",
    "Cluster",
    "ColumnError",
    "ConfigError",
    "ControlError",
    "CorruptFileError",
    "DataError",
    "DriverLostError",
    "EmptySourceError",
    "ExchangeError",
    "FencedOffError",
    "GatedError",
    "JobConfig",
    "LifecycleError",
    "LinkCutError",
    "LoadedModel",
    "ModelContractError",
    "ModelError",
    "Node",
    "NodeLostError",
    "NotComparedError",
    "NotReadyError",
    "NotStoredError",
    "OwnedError",
    "PeerLostError",
    "PreflightError",
    "RefusedError",
    "ReservationError",
    "RowAccountingError",
    "RunInterruptedError",
    "RunResult",
    "SourceNotFoundError",
    "SparkTFError",
    "StorageError",
    "StorageExistsError",
    "StorageNotFoundError",
    "StoragePermissionError",
    "StorageQuotaError",
    "StorageUnavailableError",
    "TimeUpError",
    "TornCheckpointError",
    "TrainedRun",
    "Verdict",
    "__version__",
    "load_config",
    "load_model",
    "train",
]

# Name -> its module; all others are in sparktf.errors.
_HOMES = {
    "Cluster": "sparktf.api.cluster",
    "JobConfig": "sparktf.config.job",
    "LoadedModel": "sparktf.predict.loaded",
    "Node": "sparktf.node",
    "RunResult": "sparktf.results.result",
    "TrainedRun": "sparktf.api.trained",
    "load_config": "sparktf.config.load",
    "load_model": "sparktf.predict.loaded",
    "train": "sparktf.api.cluster",
}

_ON_SPARK = {"sparktf.api.cluster", "sparktf.predict.loaded"}


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use.

    Raises:
        AttributeError: sparktf has no such public name.
        PreflightError: the name needs Spark, and this one lacks what it imports.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "sparktf.errors")
    if home in _ON_SPARK:
        importlib.import_module("sparktf.driver.spark.differences").check_pyspark()
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value  # from now on without this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
