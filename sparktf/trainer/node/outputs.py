"""What a leader writes for all nodes: metrics, TensorBoard's summaries, the best weights, the model."""

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
    """The results of a run, of which the leader's count, and an evaluator's.

    Attributes:
        model: Files of the exported model; of who writes alone.
        folder: Where in the staging folder they are.
    """

    def __init__(self, place: Place, rows: Callable[[], Columns], *, evaluates: bool = False) -> None:
        """Writes nothing yet.

        Args:
            rows: Returns some rows that this node has read; no column where it has read none.
            evaluates: This node writes beside the leader, and exports a model beside the leader's.
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
        """Reports metrics of an epoch over all workers: the leader's, which are everybody's, or those of a commit."""
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
        """Looks whether a model can be exported, before it is trained.

        Raises:
            ModelContractError: it cannot be, as `export.formats` has it.
        """
        if self._writes and (said := check_written(model.model, self._place.spec.config.export.formats)):
            self._place.warn(said)

    def export(self, model: UserModel) -> None:
        """Exports the model into the staging folder; the driver publishes it.

        Where readers are to see it, a fresh process has loaded it before.

        Raises:
            ModelContractError: in that process it cannot be loaded, or does not predict as it does here.
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
        """Returns what the model predicts for rows that this node has read; where it has read none, for one of zeros.

        No model need take such a row: it may be a text that no vocabulary has, or no image.
        """
        rows = self._rows()
        if row_count(rows):
            return predictions_of(model, rows)
        try:
            found, compared = predictions_of(model, made_up_rows(model.spec, 1)), "a row of zeros"
        except tf.errors.OpError:
            found, compared = predictions_of(model, made_up_rows(model.spec, 0)), "no row: it takes none of zeros"
        self._place.warn(
            "publish: the node that exports the model has read no rows, so that it is compared with the trained one on "
            f"{compared}"
        )
        return found

    def flush(self) -> None:
        """Stores the summaries; what cannot be stored is kept for the next time, and is no reason to stop."""
        try:
            self._summaries.flush()
        except StorageError as error:
            self._place.warn(f"TensorBoard's summaries are not stored: {error}")
