"""Keras models as Transformers of Spark ML."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Self, TypeVar
from weakref import finalize

from pyspark.ml import Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from sparktf.api.trained import TrainedRun
from sparktf.driver.spark.application import file_systems_of
from sparktf.driver.spark.differences import for_metadata
from sparktf.errors import ConfigError
from sparktf.ml.keras_params import ScoringParams, VectorParams
from sparktf.predict.loaded import LoadedModel, load_model, quoted
from sparktf.storage.base import Storage

_MODEL = "model"
OUTPUT = "sparktf_output"
"""The column of the model's output, while others are made of it."""

M = TypeVar("M", bound="FittedModel")


class FittedModel(Model, ScoringParams, MLReadable[Any], MLWritable):
    """The model of an estimator: adds predictions to DataFrames. Each class of them says which columns these are.

    Attributes:
        path: Folder of the exported model.
        result: Of the run that trained it, with its `history`; None for a loaded model.
        kept: A copy of its files on the driver's disk, for a fitted or loaded model; deleted with the session, or with
            the last model that uses it.
    """

    def __init__(self, path: str = "") -> None:
        """Uses an exported model in its place."""
        super().__init__()
        self.path = path
        self.result: TrainedRun | None = None
        self.kept: KeptFiles | None = None

    def keep(self, spark: SparkSession) -> Self:
        """Copies its files to the driver's disk, and returns itself.

        Overwriting a saved pipeline deletes its folder first, which may be the one that holds them.

        Raises:
            StorageError: they cannot be read.
        """
        file_systems = file_systems_of(spark)
        source = file_systems.normalise(self.path)
        kept = KeptFiles(spark)
        _copy_down(file_systems.open_runs(source), source, kept.folder)
        self.kept = kept
        return self

    @property
    def _is_in_its_run(self) -> bool:
        return self.result is not None and self.path == str(self.result.model)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        model = load_model(dataset.sparkSession, self.path)
        if len(model.outputs) > 1:
            raise ConfigError(
                f"the model has several outputs ({', '.join(model.outputs)}): sparktf.load_model(spark, "
                f"{self.path!r}).transform(df) has a column for each"
            )
        rows = self._reading(model).transform(dataset, OUTPUT, batch_rows=self.getBatchRows())
        made = self._columns(sql.col(OUTPUT), model)
        for name in made:
            if name in dataset.columns:
                raise ConfigError(f"there is a column {name!r} already: set another name for the model's column")
        return rows.select(
            *(quoted(name) for name in dataset.columns), *(column.alias(name) for name, column in made.items())
        )

    def _reading(self, model: LoadedModel) -> LoadedModel:
        """Returns the exported model reading the columns of this one's Params."""
        if self.isSet("inputCols"):
            names = self.getInputCols()
        elif self.isSet("featuresCol"):
            names = [self.getFeaturesCol()]
        else:
            return model
        trained = model.columns
        if len(names) != len(trained):
            raise ConfigError(
                f"the model was trained on {len(trained)} columns ({', '.join(trained)}), and cannot read "
                f"{len(names)} in their place ({', '.join(names)})"
            )
        return model.reading(dict(zip(trained, names, strict=True)))

    @abstractmethod
    def _columns(self, output: Column, model: LoadedModel) -> dict[str, Column]:
        """Returns the columns made of the model's output, by name."""

    def write(self) -> MLWriter:
        """Returns the writer, which copies the model's own files."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[Self]:
        """Returns the reader."""
        return _Reader(cls)


class KerasModel(FittedModel, VectorParams):
    """The model of `KerasEstimator.fit`.

    Without `probabilityCol` and `rawPredictionCol`, predictionCol has the model's output: a double for one value, else
    an array. With one of them it is a classifier: its output is the probability of the second class, or one of each
    class, and predictionCol is the likeliest one, as a double.
    """

    def _columns(self, output: Column, model: LoadedModel) -> dict[str, Column]:
        is_one = model.feed.outputs[0].is_single
        probability, raw = self.getProbabilityCol(), self.getRawPredictionCol()
        if not (probability or raw):
            return {self.getPredictionCol(): output.cast("double") if is_one else output.cast("array<double>")}
        if model.feed.from_logits:
            raise ConfigError(
                "probabilityCol and rawPredictionCol: the model gives logits, which are no probabilities: train it by "
                "KerasClassifier, which makes both columns of them"
            )
        if is_one:
            single = output.cast("double")
            chances = sql.array(sql.lit(1.0) - single, single)
        else:
            chances = output.cast("array<double>")
        vector = array_to_vector(chances)
        found = {name: vector for name in (raw, probability) if name}
        if self.getPredictionCol():
            likeliest = sql.call_function("array_position", chances, sql.array_max(chances)) - sql.lit(1)
            found[self.getPredictionCol()] = likeliest.cast("double")
        return found


class KeptFiles:
    """A folder on the driver's disk, deleted with its last user: a grid search fits many models."""

    def __init__(self, spark: SparkSession) -> None:
        self.folder = Path(mkdtemp(prefix="sparktf-model-", dir=str(spark.sparkContext._temp_dir)))
        finalize(self, rmtree, self.folder, ignore_errors=True)


class _Writer(MLWriter):
    def __init__(self, model: FittedModel) -> None:
        super().__init__()
        self._model = model

    def save(self, path: str) -> None:
        """Saves the model.

        Raises:
            ConfigError: overwriting would delete the model's own files, or the run that they belong to.
        """
        model, file_systems = self._model, file_systems_of(self.sparkSession)
        source, target = file_systems.normalise(model.path), file_systems.normalise(path).rstrip("/")
        is_alone = model.kept is None or model._is_in_its_run
        if self.shouldOverwrite and is_alone and f"{source}/".startswith(f"{target}/"):
            raise ConfigError(f"{path} has the model's own files, which overwriting would delete: save it elsewhere")
        super().save(path)

    def saveImpl(self, path: str) -> None:
        """Saves the Params as Spark's own stages do, and copies the model's files."""
        spark = self.sparkSession
        DefaultParamsWriter.saveMetadata(self._model, path, for_metadata(spark))
        file_systems = file_systems_of(spark)
        target = file_systems.normalise(path)
        to = file_systems.open(target)
        source = file_systems.normalise(self._model.path)
        saved = f"{target.rstrip('/')}/{_MODEL}"
        with ExitStack() as stack:
            if self._model.kept is None:
                kept = Path(stack.enter_context(TemporaryDirectory(prefix="sparktf-model-")))
                _copy_down(file_systems.open_runs(source), source, kept)
            else:
                kept = self._model.kept.folder
            for file in sorted(kept.rglob("*")):
                if file.is_file():
                    to.upload(file, f"{saved}/{file.relative_to(kept).as_posix()}")
        if not file_systems.open_runs(source).exists(source):  # a pipeline was saved over the run that they were of
            self._model.path = saved


class _Reader(MLReader[M]):
    def __init__(self, kind: type[M]) -> None:
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> M:
        """Returns the model, and keeps a copy of its files."""
        spark: SparkSession = self.sparkSession
        metadata: dict[str, Any] = DefaultParamsReader.loadMetadata(path, for_metadata(spark))
        model = self._kind(f"{path.rstrip('/')}/{_MODEL}")
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model.keep(spark)


def _copy_down(storage: Storage, folder: str, local: Path) -> None:
    """Copies the files below a folder into a local one. Raises `StorageError`."""
    for entry in storage.walk(folder):
        storage.download(entry.path, local / entry.path.removeprefix(folder.rstrip("/")).lstrip("/"))
