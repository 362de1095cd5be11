"""The leader's output for all nodes: metrics, TensorBoard summaries, the exported model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from sparktf.errors import NotStoredError, StorageError
from sparktf.feed.arrays.columns import Columns, row_count
from sparktf.knobs import KNOBS
from sparktf.results.keep import KeepRule
from sparktf.sequence import Stream
from sparktf.storage.transactions.checkpoints import upload_folder
from sparktf.trainer.model.export import export_model
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.predict import made_up_rows, predictions_of
from sparktf.trainer.model.predictions import Predictions
from sparktf.trainer.model.written import check_written
from sparktf.trainer.node.best import BestEpoch
from sparktf.trainer.node.fresh import check_loads
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.position import Position
from sparktf.trainer.node.summaries import Summaries
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
        self.folder = f"best-model.{spec.incarnation}" if evaluates else "model"
        self._writes = place.leads or evaluates
        hasty = place.file_systems.open(spec.run_root, deadline_s=KNOBS.summaries_s)
        self.model: tuple[StagedFile, ...] = ()
        self._place = place
        self._rows = rows
        self._summaries = Summaries(hasty, place.rundir.tensorboard, place.work, spec.attempt)

    def loss(self, position: Position) -> None:
        """Keeps the loss of the last updates for TensorBoard."""
        if self._writes and position.loss is not None:
            self._summaries.scalar("train", "loss", position.loss, position.step)

    def metrics(self, stream: Stream, position: Position, rows: int, values: dict[str, float]) -> None:
        """Reports an epoch's metrics over all workers, or those of a commit."""
        if not self._writes:
            return
        for name, value in values.items():
            self._summaries.scalar(stream.value, f"epoch_{name}", value, position.step)
        message = Metrics(
            **self._place.spec.sender,
            stream=stream,
            epoch=position.epoch,
            step=position.step,
            rows=rows,
            values=values,
        )
        self._place.send(Action.METRICS, message)

    def best_epoch(self, rule: KeepRule, sum_over_workers: Callable[[Any], Any]) -> BestEpoch:
        """Returns where the best weights are kept, those that the attempt before has left among them."""
        return BestEpoch(rule, self._place, sum_over_workers)

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
