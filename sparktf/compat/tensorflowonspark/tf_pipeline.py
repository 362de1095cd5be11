"""TensorFlowOnSpark's stages of Spark ML's pipelines: a function that trains, and a SavedModel that scores."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.ml import Estimator, Model
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql import types as t

from sparktf.compat.tensorflowonspark import tf_util
from sparktf.compat.tensorflowonspark.tf_cluster import InputMode, run
from sparktf.compat.tensorflowonspark.tf_inside import inside_names
from sparktf.compat.tensorflowonspark.tf_params import (
    HasBatchSize,
    HasClusterSize,
    HasEpochs,
    HasExportDir,
    HasGraceSecs,
    HasInputMapping,
    HasInputMode,
    HasMasterNode,
    HasModelDir,
    HasNumPS,
    HasOutputMapping,
    HasProtocol,
    HasReaders,
    HasSignatureDefKey,
    HasSteps,
    HasTagSet,
    HasTensorboard,
    HasTFRecordDir,
    Namespace,
    TFParams,
    TFTypeConverters,  # noqa: F401 - programs import it from here
)
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


class TFEstimator(
    Estimator["TFModel"], TFParams, HasInputMapping, HasClusterSize, HasNumPS, HasInputMode, HasMasterNode, HasProtocol,
    HasGraceSecs, HasTensorboard, HasModelDir, HasExportDir, HasTFRecordDir, HasBatchSize, HasEpochs, HasReaders,
    HasSteps,
):  # fmt: skip
    """Trains by a function on each node, fed with the columns of a DataFrame."""

    train_fn: Any = None
    export_fn: Any = None

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
        try:
            cluster.train(dataset.select(*map(quoted, columns)).rdd, self.getOrDefault("epochs"))
            cluster.shutdown(grace_secs=self.getOrDefault("grace_secs"))
        except BaseException:
            cluster.abandon()
            raise
        return self._copyValues(TFModel(self.args))


class TFModel(
    Model, TFParams, HasInputMapping, HasOutputMapping, HasBatchSize, HasModelDir, HasExportDir, HasSignatureDefKey,
    HasTagSet,
):  # fmt: skip
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
        raise ConfigError(f"input_mapping names no column for {', '.join(missing)}: the model reads one for each input")
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
    """Replaces the command line by a function's arguments, if they have one, and chooses the processors as there.

    Args:
        args: A list, or a Namespace; its `num_gpus` is the number of graphics processors.
    """
    arguments = args if isinstance(args, list) else getattr(args, "argv", None)
    if arguments:
        sys.argv = arguments
    tf_util.single_node_env(getattr(args, "num_gpus", 1))


def yield_batch(iterable: Iterable[Any], batch_size: int, num_tensors: int = 1) -> Iterator[list[list[Any]]]:
    """Yields the rows of a partition in batches, each as a list of its values for each column."""
    left = iter(iterable)
    while batch := list(itertools.islice(left, batch_size)):
        yield [[row[i] for row in batch] for i in range(num_tensors)]


globals().update(inside_names("pipeline"))
