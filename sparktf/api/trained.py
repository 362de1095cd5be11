"""The result of `train()` for a program: the run's result, its history, and its model."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr
from pyspark.sql import DataFrame, SparkSession

from sparktf.api.edge import with_short_traceback
from sparktf.api.given import frame_of
from sparktf.config.job import JobConfig
from sparktf.console.result_table import ending_of
from sparktf.errors import ConfigError, ModelContractError, StorageNotFoundError
from sparktf.keras_file import read_keras_file, strangers
from sparktf.predict.evaluated import evaluate_model
from sparktf.predict.loaded import load_model
from sparktf.results.events import MetricsSeen, read_events
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.sequence import Stream
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import open_storage_of_runs
from sparktf.told import count_in_words

if TYPE_CHECKING:
    import pandas as pd

    from sparktf.api.history_table import HistoryTable

_VALIDATION = "val_"


class TrainedModel(str):
    """The folder of an exported model, which scores DataFrames too."""

    __slots__ = ()

    def transform(self, df: DataFrame, columns: str | Mapping[str, str] | None = None, **options: Any) -> DataFrame:
        """Returns the DataFrame with the model's predictions: see `LoadedModel.transform`.

        Raises:
            ModelContractError: the run has no model, or it cannot be loaded.
        """
        if not self:
            raise ModelContractError("the run has no model: call node.export(model) in its train(node)")
        return load_model(df.sparkSession, self).transform(df, columns, **options)


class TrainedRun(RunResult):
    """The result of a completed run, as `train()` returns it.

    Attributes:
        model: The folder of the model; `result.model.transform(df)` scores a DataFrame with it.
    """

    _storage: Storage | None = PrivateAttr(default=None)
    _config: JobConfig | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, result: RunResult, storage: Storage, config: JobConfig | None = None) -> TrainedRun:
        """Returns a result with the storage of its model, and the configuration that it is of."""
        found = cls.model_construct(**dict(result))
        object.__setattr__(found, "model", TrainedModel(result.model))
        found._storage = storage
        found._config = config
        return found

    def __repr__(self) -> str:
        """Returns the result in a line or two."""
        shown = [
            f"{prefix}{name} {value:.4g}" for prefix, values in self._by_prefix() for name, value in values.items()
        ]
        facts = [f"{name} {value}" for name, value in self._facts()]
        return f"<{type(self).__name__} {self._title}; {', '.join([*shown, *facts])}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Returns the result as a notebook shows it."""
        from sparktf.api.history_table import card_of  # noqa: PLC0415 - as in `history`

        titles = {Stream.TRAIN.value: "training"}
        metrics = {titles.get(stream, stream): values for stream, values in self._streams().items()}
        return card_of(self._title, self._facts(), metrics)

    @property
    def _title(self) -> str:
        return f"{self.name} / {self.run_id}: {ending_of(self)} in {self.duration_s:.1f} s"

    def _facts(self) -> list[tuple[str, str]]:
        epochs, updates = count_in_words(self.epochs, "epoch"), count_in_words(self.steps, "update")
        facts = [("trained", f"{epochs}, {updates}, {count_in_words(self.rows_trained, 'row')}")]
        facts += [("weights", f"{self.kept.whose}: best {self.kept.metric}")] if self.kept is not None else []
        facts += [("ended", self.stopped.text)] if self.stopped is not None else []
        facts += [("warnings", str(len(self.warnings)))] if self.warnings else []
        return [*facts, ("model", str(self.model) or "none")]

    def _streams(self) -> dict[str, dict[str, float]]:
        """Returns the last metrics by stream, training first."""
        order = [Stream.TRAIN.value, Stream.VALIDATION.value]
        return {stream: self.metrics[stream] for stream in order if self.metrics.get(stream)}

    def _by_prefix(self) -> list[tuple[str, dict[str, float]]]:
        return [(_VALIDATION if name == Stream.VALIDATION.value else "", v) for name, v in self._streams().items()]

    @property
    def history(self) -> HistoryTable:
        """A pandas DataFrame of each epoch's metrics, with Keras's names: `loss`, `mae`, `val_loss`, `val_mae`.

        And `epoch`, from 1 on, and `step`.

        Raises:
            StorageError: the run's files cannot be read.
        """
        from sparktf.api.history_table import history_of  # noqa: PLC0415 - pandas: half a second for whoever asks for it

        return history_of(self._metrics())

    def plot(self) -> HistoryChart:
        """Returns a chart of each metric over the epochs, of the training and the held-out rows; notebooks show it."""
        return HistoryChart(self.history, f"{self.name} / {self.run_id}")

    @with_short_traceback
    def evaluate(self, data: Any) -> dict[str, float]:
        """Returns `loss` and the compiled metrics over all rows, as Keras's `evaluate(..., return_dict=True)`.

        A process on the driver's host has the model, and Spark computes the rows, which are not kept.

        Args:
            data: A DataFrame of Spark's or pandas', or an Arrow table, with the columns of training.

        Raises:
            ColumnError: a column that training used is missing.
            BadValueError: a value is not as in training.
            ConfigError: `data` is something else.
            EmptySourceError: there is no row.
            ModelContractError: it is the result of a `train(node)`, or of another program.
            StorageError: the model cannot be read.
        """
        if self._config is None or not self.model:
            raise ModelContractError("evaluate needs the result of a train() of this program that has exported a model")
        spark = SparkSession.getActiveSession()
        frame = data if isinstance(data, DataFrame) or spark is None else frame_of(spark, data)
        if not isinstance(frame, DataFrame):
            raise ConfigError(f"evaluate takes a DataFrame of Spark's or pandas', not a {type(data).__name__}")
        return evaluate_model(frame, self._config, self._rundir, str(self.model), self._open())

    @property
    def _rundir(self) -> RunDirectory:
        return RunDirectory(self.path.rsplit("/", 2)[0], self.name, self.run_id)

    def keras_model(
        self, custom_objects: Mapping[str, Any] | None = None, build: Callable[[], Any] | None = None
    ) -> Any:
        """Returns the exported Keras model, in this process, which imports TensorFlow for that.

        A model's file is a program. What it names has to be Keras's, sparktf's, or the user's: what is registered with
        Keras in this process, or handed over.

        Args:
            custom_objects: Layers and functions of the user's by name, where they are not registered with Keras.
            build: Makes the model, which then takes the file's weights alone: nothing of the file is run.

        Raises:
            ModelContractError: it names code of others: give `build`, or what it names.
            StorageError: it cannot be read.
        """
        if "tf_keras" in self.versions:
            import tf_keras as keras  # noqa: PLC0415 - whoever asks for a model has an hour for TensorFlow
        else:
            import keras  # noqa: PLC0415 - as above
        with tempfile.TemporaryDirectory(prefix="sparktf-model-") as folder:
            local = Path(folder, "model.keras")
            self._open().download(f"{self.model}/model.keras", local)
            if build is not None:
                model = build()
                model.load_weights(str(local))
                return model
            objects = dict(custom_objects or {})
            _check_code(local, self.model, objects, keras.saving.get_custom_objects())
            return keras.models.load_model(local, custom_objects=objects)

    def _metrics(self) -> list[MetricsSeen]:
        """Returns the reported metrics by time: an epoch that was repeated comes twice."""
        storage = self._open()
        events = self._rundir.events
        try:
            segments = [entry.path for entry in storage.list(events) if entry.path.endswith(".jsonl")]
        except StorageNotFoundError:
            return []
        entries = [entry for path in sorted(segments) for entry in read_events(storage.read_bytes(path).splitlines())]
        entries.sort(key=lambda entry: entry.time_s)
        return [entry.event for entry in entries if isinstance(entry.event, MetricsSeen)]

    def _open(self) -> Storage:
        return self._storage or open_storage_of_runs(self.path)


def _check_code(file: Path, label: str, objects: Mapping[str, Any], registered: Mapping[str, Any]) -> None:
    modules = {str(getattr(found, "__module__", "")) for found in objects.values()}
    foreign = strangers(read_keras_file(file, label).config, modules, {*registered, *objects})
    if foreign:
        raise ModelContractError(
            f"{label} names code that belongs neither to Keras nor to this program ({', '.join(foreign[:3])}) and is "
            "not run: give it in custom_objects if it is yours, or load the weights alone by build=, a function "
            "that returns the model"
        )


class HistoryChart:
    """A chart of a history, which notebooks show whatever their backend is.

    Attributes:
        figure: The Matplotlib Figure: `figure.savefig("history.png")`.
    """

    def __init__(self, history: pd.DataFrame, title: str) -> None:
        """Draws it."""
        from matplotlib.figure import Figure  # noqa: PLC0415 - most programs draw nothing
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - as above

        names = list(dict.fromkeys(name.removeprefix(_VALIDATION) for name in history.columns[2:]))
        self.figure = Figure(figsize=(4.5 * max(len(names), 1), 3.2), layout="constrained")
        self.figure.suptitle(title)
        for i, name in enumerate(names):
            axes = self.figure.add_subplot(1, len(names), i + 1)
            lines = ((name, "training", "C0"), (f"{_VALIDATION}{name}", "validation", "C1"))
            for column, label, colour in lines:
                if column in history:
                    axes.plot(history["epoch"], history[column], color=colour, marker="o", markersize=3, label=label)
            axes.set_xlabel("epoch")
            axes.set_title(name, fontsize="medium")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.grid(alpha=0.3)
            axes.legend()

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.figure.savefig(content, format="png", dpi=100)
        return content.getvalue()
