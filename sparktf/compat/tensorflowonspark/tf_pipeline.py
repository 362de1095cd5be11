"""TensorFlowOnSpark's stages of Spark ML's pipelines: a function that trains, and a SavedModel that scores."""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.ml import Estimator, Model
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql import types as t

from sparktf.compat.tensorflowonspark.tf_cluster import InputMode, run
from sparktf.driver.spark.application import file_systems_of
from sparktf.errors import ConfigError, ModelContractError
from sparktf.feature import Feature, FeedSpec, Kind
from sparktf.predict.exported_model import ExportedModel, saved_files
from sparktf.predict.loaded import SIGNATURE, LoadedModel, quoted
from sparktf.storage.base import Storage
from sparktf.wire.exported import ModelFeed, ModelOutput

_TAG = "serve"
_SIGNATURE_MODULE = "sparktf.trainer.signature"
_known: dict[tuple[str, ...], dict[str, Any]] = {}
"""Signatures, by the key of their model, their names and its tags: asking TensorFlow takes seconds."""


def _to_dict(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError(f"must be a dict, not {type(value).__name__}")
    return value


_INT, _TEXT, _TRUTH = TypeConverters.toInt, TypeConverters.toString, TypeConverters.toBoolean
_PARAMS: dict[str, tuple[str, str, Any]] = {
    "batch_size": ("BatchSize", "records of a batch", _INT),
    "cluster_size": ("ClusterSize", "nodes of the cluster", _INT),
    "epochs": ("Epochs", "passes over the rows", _INT),
    "grace_secs": ("GraceSecs", "seconds that nodes may still run after all rows are fed", _INT),
    "input_mapping": ("InputMapping", "input column -> input tensor", _to_dict),
    "input_mode": ("InputMode", "who reads the data: 1, Spark", _INT),
    "master_node": ("MasterNode", "name of the node that is chief", _TEXT),
    "model_dir": ("ModelDir", "where the function keeps its checkpoints", _TEXT),
    "num_ps": ("NumPS", "parameter servers", _INT),
    "driver_ps_nodes": ("DriverPSNodes", "parameter servers run beside the driver", _TRUTH),
    "output_mapping": ("OutputMapping", "output tensor -> output column", _to_dict),
    "protocol": ("Protocol", "without effect: TensorFlow's gRPC", _TEXT),
    "readers": ("Readers", "for the function", _INT),
    "steps": ("Steps", "for the function", _INT),
    "tensorboard": ("Tensorboard", "start TensorBoard", _TRUTH),
    "tfrecord_dir": ("TFRecordDir", "for the function", _TEXT),
    "export_dir": ("ExportDir", "where the function exports a SavedModel", _TEXT),
    "signature_def_key": ("SignatureDefKey", "which signature of the SavedModel scores", _TEXT),
    "tag_set": ("TagSet", "tags of the SavedModel's graph, separated by commas", _TEXT),
}
"""TensorFlowOnSpark's Params: name after `set` and `get`, description, and converter."""


def _with_params(*names: str) -> Any:
    """Returns a decorator that gives a class Params, with their setters and getters."""

    def give(cls: Any) -> Any:
        for name in names:
            suffix, what, convert = _PARAMS[name]
            setattr(cls, name, Param(Params._dummy(), name, what, convert))
            setattr(cls, f"set{suffix}", _setter(name))
            setattr(cls, f"get{suffix}", _getter(name))
        return cls

    return give


def _setter(name: str) -> Any:
    def set_param(self: Any, value: Any) -> Any:
        if name == "input_mode" and value != InputMode.SPARK:
            raise ConfigError("input_mode must be InputMode.SPARK, since Spark feeds a DataFrame")
        return self._set(**{name: value})

    return set_param


def _getter(name: str) -> Any:
    return lambda self: self.getOrDefault(name)


class Namespace:
    """Arguments by name, or as a command line has them."""

    argv: list[str] | None = None

    def __init__(self, given: Any) -> None:
        if isinstance(given, list):
            self.argv = given
        elif isinstance(given, Mapping):
            vars(self).update(given)
        elif isinstance(given, (argparse.Namespace, Namespace)):
            vars(self).update(vars(given))
        else:
            raise ConfigError(f"arguments must be a dict, a list or a Namespace, not {type(given).__name__}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.argv or list(vars(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Namespace) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Namespace({', '.join(f'{key}={value!r}' for key, value in sorted(vars(self).items()))})"


class TFParams(Params):
    """A stage that hands arguments and Params to functions together."""

    args: Namespace

    def merge_args_params(self) -> Namespace:
        """Returns the arguments, with the Params among them."""
        merged = copy.copy(self.args)
        vars(merged).update({param.name: self.getOrDefault(param) for param in self.params})
        return merged


@_with_params(
    "input_mapping", "cluster_size", "num_ps", "driver_ps_nodes", "input_mode", "master_node", "protocol", "grace_secs",
    "tensorboard", "model_dir", "export_dir", "tfrecord_dir", "batch_size", "epochs", "readers", "steps",
)  # fmt: skip
class TFEstimator(Estimator["TFModel"], TFParams):
    """Trains by a function on each node, fed with the columns of a DataFrame."""

    def __init__(self, train_fn: Any, tf_args: Any, export_fn: Any = None) -> None:
        """Takes the function and its arguments.

        Raises:
            ConfigError: there is an `export_fn`, which is of TensorFlow 1.
        """
        super().__init__()
        if export_fn is not None:
            raise ConfigError("export_fn belongs to TensorFlow 1: export the model in the function itself")
        self.train_fn = train_fn
        self.args = Namespace(tf_args)
        self._setDefault(
            input_mapping={}, cluster_size=1, num_ps=0, driver_ps_nodes=False, input_mode=InputMode.SPARK,
            master_node="chief", protocol="grpc", tensorboard=False, model_dir=None, export_dir=None,
            tfrecord_dir=None, batch_size=100, epochs=1, readers=1, steps=1000, grace_secs=30,
        )  # fmt: skip

    def _fit(self, dataset: DataFrame) -> TFModel:
        args = self.merge_args_params()
        cluster = run(
            dataset.sparkSession.sparkContext,
            self.train_fn,
            self.args.argv or args,
            self.getOrDefault("cluster_size"),
            self.getOrDefault("num_ps"),
            self.getOrDefault("tensorboard"),
            InputMode.SPARK,
            master_node=self.getOrDefault("master_node"),
            driver_ps_nodes=self.getOrDefault("driver_ps_nodes"),
        )
        columns = sorted(self.getOrDefault("input_mapping"))
        cluster.train(dataset.select(*map(quoted, columns)).rdd, self.getOrDefault("epochs"))
        cluster.shutdown(grace_secs=self.getOrDefault("grace_secs"))
        return self._copyValues(TFModel(self.args))


@_with_params(
    "input_mapping", "output_mapping", "batch_size", "model_dir", "export_dir", "signature_def_key", "tag_set"
)
class TFModel(Model, TFParams):
    """Scores with any SavedModel, in a process of its own on each executor."""

    def __init__(self, tf_args: Any) -> None:
        """Takes arguments, which scoring ignores."""
        super().__init__()
        self.args = Namespace(tf_args)
        self._setDefault(
            input_mapping={}, output_mapping={}, batch_size=100, model_dir=None, export_dir=None,
            signature_def_key=None, tag_set=None,
        )  # fmt: skip

    def _transform(self, dataset: DataFrame) -> DataFrame:
        folder = self.getOrDefault("export_dir")
        if not folder:
            raise ConfigError("export_dir is not set: set it to the folder of the SavedModel")
        signature = self.getOrDefault("signature_def_key") or SIGNATURE
        tags = tuple((self.getOrDefault("tag_set") or _TAG).split(","))
        model, shapes = saved_model(dataset, folder, signature, tags, self.getOrDefault("input_mapping"))
        outputs = self.getOrDefault("output_mapping") or {name: name for name in model.outputs}
        columns = dict(sorted(outputs.items()))
        scored = model.transform(dataset, columns, keep=(), batch_rows=self.getOrDefault("batch_size"))
        return scored.select(*(_as_theirs(scored, column, shapes[name]) for name, column in columns.items()))


def _as_theirs(scored: DataFrame, name: str, shape: tuple[int | None, ...]) -> Column:
    """Returns a column with the type that TensorFlowOnSpark gives it: a double, a long, bytes, or arrays of these."""
    kind = scored.schema[name].dataType
    column = scored[name]
    if shape and not isinstance(kind, t.ArrayType):  # one value in a list, however deep
        for _ in shape:
            column, kind = sql.array(column), t.ArrayType(kind)
    return column.cast(_wide(kind)).alias(name)


def _wide(kind: t.DataType) -> t.DataType:
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(_wide(kind.elementType))
    if isinstance(kind, t.FractionalType):
        return t.DoubleType()
    if isinstance(kind, t.IntegralType):
        return t.LongType()
    return t.BinaryType() if isinstance(kind, t.StringType) else kind


def saved_model(
    dataset: DataFrame, folder: str, signature: str, tags: tuple[str, ...], inputs: Mapping[str, str]
) -> tuple[LoadedModel, dict[str, tuple[int | None, ...]]]:
    """Returns a SavedModel to score with, whose inputs are columns of a DataFrame; and the shapes of its outputs' rows.

    Args:
        inputs: Column -> input of the signature.

    Raises:
        ConfigError: an input has no column.
        ModelContractError: it cannot be loaded, or has no such signature.
        SourceNotFoundError: there is none.
        StorageError: the storage failed.
    """
    spark = dataset.sparkSession
    file_systems = file_systems_of(spark)
    folder = file_systems.normalise(folder).rstrip("/")
    storage = file_systems.open(folder)
    files, key = saved_files(storage, folder)
    told = _signature(storage, folder, files, key, signature, tags)
    if missing := sorted(set(told["inputs"]).difference(inputs.values())):
        raise ConfigError(f"input_mapping names no column for {', '.join(missing)}")
    features = tuple(_feature(dataset, column, name, *told["inputs"][name]) for column, name in sorted(inputs.items()))
    outputs = tuple(
        ModelOutput(name=name, dtype=dtype, shape=(None,) if shape is None else tuple(shape[1:]))
        for name, (dtype, shape) in sorted(told["outputs"].items())
    )
    feed = ModelFeed(spec=FeedSpec(features=features, shuffle=False), outputs=outputs)
    found = ExportedModel(folder, folder, files, key, feed)
    return LoadedModel(spark, found, signature, tags), {output.name: output.shape for output in outputs}


def _signature(
    storage: Storage, folder: str, files: Sequence[str], key: str, signature: str, tags: tuple[str, ...]
) -> dict[str, Any]:
    """Returns the inputs and outputs of a signature. Raises as `saved_model`."""
    if (known := _known.get((key, signature, *tags))) is not None:
        return known
    with tempfile.TemporaryDirectory(prefix="sparktf-model-") as local:
        for name in files:
            storage.download(f"{folder}/{name}", Path(local, name))
        command = [sys.executable, "-P", "-m", _SIGNATURE_MODULE, local, signature, *tags]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    told: dict[str, Any] = (
        json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {"error": done.stderr[-300:]}
    )
    if "error" in told:
        raise ModelContractError(f"{folder}: {told['error']}")
    _known[key, signature, *tags] = told
    return told


def _feature(dataset: DataFrame, column: str, name: str, dtype: str, shape: list[int | None] | None) -> Feature:
    """Returns the feature of a column for an input: lists have the lengths of the rows, whatever the input's shape."""
    kind = dataset.schema[column].dataType
    places: tuple[int, ...] = ()
    if isinstance(kind, (t.ArrayType, t.UserDefinedType)):
        sizes = (shape or [None])[1:]
        if sizes and all(size is not None for size in sizes):
            places = tuple(size for size in sizes if size is not None)
        else:
            first = dataset.select(quoted(column)).where(f"{quoted(column)} IS NOT NULL").head()
            places = (len(first[0]) if first is not None else 1,)
    return Feature(kind=Kind.INPUT, name=name, columns=(column,), dtype=dtype, shape=places)


def single_node_env(args: Any) -> None:
    """Replaces a function's arguments by those of the command line, if they are a list."""
    if isinstance(args, list):
        sys.argv = args
