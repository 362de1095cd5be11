"""The leader's output for all nodes: metrics, TensorBoard summaries, the exported model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from sparktf.errors import NotStoredError, StorageError
from sparktf.feed.arrays.columns import Columns, row_count
from sparktf.knobs import KNOBS
from sparktf.sequence import Stream
from sparktf.storage.base import Storage
from sparktf.storage.transactions.checkpoints import upload_folder
from sparktf.trainer.model.export import export_model
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.predict import made_up_rows, predictions_of
from sparktf.trainer.model.predictions import Predictions
from sparktf.trainer.model.written import check_written
from sparktf.trainer.node.fresh import check_loads
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.position import Position
from sparktf.wire.control import Action, Metrics
from sparktf.wire.uploads import StagedFile


class Output:
    """The results of a run; only the leader and an evaluator write them.

    Attributes:
        model: Files of the exported model.
        folder: Their folder inside the staging folder.
    """

    def __init__(self, place: Place, rows: Callable[[], Columns], *, evaluates: bool = False) -> None:
        """Writes nothing yet.

        Args:
            rows: Returns some rows that this node has read; no column if it has read none.
            evaluates: This node writes and exports beside the leader.
        """
        spec = place.spec
        self.folder = f"best-model.{spec.incarnation}" if evaluates else spec.upload_name("model")
        self._evaluates = evaluates
        self._told: dict[Stream, Metrics] = {}
        hasty = place.file_systems.open_runs(spec.run_root, deadline_s=KNOBS.summaries_s)
        self.model: tuple[StagedFile, ...] = ()
        self._place = place
        self._rows = rows
        self._summaries = Summaries(hasty, place.rundir.tensorboard, place.work, spec.attempt)

    @property
    def _writes(self) -> bool:
        return self._place.leads or self._evaluates

    def loss(self, position: Position) -> None:
        """Keeps the loss of the last updates for TensorBoard."""
        if self._writes and position.loss is not None:
            self._summaries.scalar("train", "loss", position.loss, position.step)

    def metrics(self, stream: Stream, position: Position, rows: int, values: dict[str, float]) -> None:
        """Reports an epoch's metrics over all workers, or those of a commit."""
        message = Metrics(
            **self._place.spec.sender,
            stream=stream,
            epoch=position.epoch,
            step=position.step,
            rows=rows,
            values=values,
        )
        self._told[stream] = message
        if self._writes:
            self._tell(message)

    def tell_again(self) -> None:
        """Reports the last metrics of each stream once more: the node that was to report them is lost."""
        for message in self._told.values():
            self._tell(message)

    def _tell(self, message: Metrics) -> None:
        for name, value in message.values.items():
            self._summaries.scalar(message.stream.value, f"epoch_{name}", value, message.step)
        self._place.send(Action.METRICS, message)

    def check(self, model: UserModel) -> None:
        """Checks before training that a model can be exported.

        Raises:
            ModelContractError: it cannot be exported in all of `export.formats`.
        """
        if self._writes and (said := check_written(model.model, self._place.spec.config.export.formats)):
            self._place.warn(said)

    def export(self, model: UserModel) -> None:
        """Exports the model into the staging folder, from which the driver commits it.

        A model to be published is first loaded by a fresh process.

        Raises:
            ModelContractError: the fresh process cannot load it, or gets other predictions.
            NotStoredError: it could not be uploaded.
        """
        place = self._place
        if not self._writes:
            return
        place.enter("exporting")
        folder = place.work / "model"
        formats = place.spec.config.export.formats
        export_model(model, place.spec.assets, folder, source_version=place.spec.source_version, formats=formats)
        if place.spec.config.publish is not None:
            self._try_out(model, folder)
        try:
            self.model = upload_folder(place.storage, folder, place.rundir.staged(place.spec.attempt, self.folder))
        except StorageError as error:
            raise NotStoredError(f"the model could not be stored: {error}") from error

    def _try_out(self, model: UserModel, folder: Path) -> None:
        place, config = self._place, self._place.spec.config
        self._predictions(model).write(folder)
        imports = config.publish.imports if config.publish is not None else ()
        refused = {module.partition(".")[0] for module in config.modules.values()} - {"sparktf"}
        check_loads(folder, place.work, limit_s=config.timeouts.upload, refused=refused, imports=imports)

    def _predictions(self, model: UserModel) -> Predictions:
        """Returns the model's predictions for rows that this node has read, or for a row of zeros if it has read none.

        A model may refuse a row of zeros, such as a text outside of its vocabulary; then no row is compared.
        """
        rows = self._rows()
        if row_count(rows):
            return predictions_of(model, rows)
        try:
            found, compared = predictions_of(model, made_up_rows(model.spec, 1)), "a row of zeros"
        except tf.errors.OpError:
            found, compared = predictions_of(model, made_up_rows(model.spec, 0)), "no row: it takes none of zeros"
        self._place.warn(
            "publish: the node that exports the model has read no rows, so the export is compared with the trained "
            f"model on {compared}"
        )
        return found

    def flush(self) -> None:
        """Stores the summaries; if that fails, they are kept for the next time, and training goes on."""
        try:
            self._summaries.flush()
        except StorageError as error:
            self._place.warn(f"TensorBoard's summaries are not stored: {error}")


# As `tf.summary.scalar` writes it; that function needs the tensorboard package, which only readers need.
_SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"),
    data_class=1,  # DATA_CLASS_SCALAR
)


class Summaries:
    """Collects scalars, and writes whole event files for TensorBoard (HDFS has no shared append), by stream."""

    def __init__(self, storage: Storage, target: str, work: Path, attempt: int) -> None:
        self._storage = storage
        self._target = target
        self._work = work / "tensorboard"
        self._attempt = attempt
        self._segment = 0
        self._scalars: list[tuple[str, str, float, int]] = []

    def scalar(self, stream: str, name: str, value: float, step: int) -> None:
        """Keeps one value for the next `flush`."""
        self._scalars.append((stream, name, value, step))

    def flush(self) -> None:
        """Writes and uploads the values since the last flush.

        Raises:
            StorageError: a file could not be written or uploaded; the values are kept.
        """
        if not self._scalars:
            return
        self._segment += 1
        try:
            self._write()
            upload_folder(self._storage, self._work, self._target)
        except StorageError:
            raise
        except (tf.errors.OpError, OSError) as error:
            raise StorageError(f"{self._work} cannot be written: {error}") from error
        finally:
            shutil.rmtree(self._work, ignore_errors=True)
        self._scalars.clear()

    def _write(self) -> None:
        """Writes one event file for each stream into the local folder."""
        for stream in sorted({stream for stream, *_ in self._scalars}):
            suffix = f".{self._attempt:03d}-{self._segment:05d}"
            writer = tf.summary.create_file_writer(str(self._work / stream), filename_suffix=suffix)
            with writer.as_default():
                for _, name, value, step in (s for s in self._scalars if s[0] == stream):
                    tf.summary.write(name, tf.constant(value, tf.float32), step=step, metadata=_SCALAR)
            writer.close()
