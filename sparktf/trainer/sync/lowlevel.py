"""The low-level contract: `train(node)` with a loop of the user's own, on the same feed, checkpoints and accounting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import tensorflow as tf

from sparktf.errors import ModelContractError, ModelError
from sparktf.sequence import Stream, batch_shares
from sparktf.trainer.model.model import KerasModel
from sparktf.trainer.model.trackables import flavour_of, weights_of
from sparktf.trainer.node.checkpoint import LocalCheckpoint
from sparktf.trainer.node.datasets import Datasets
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Position


class TrainerNode:
    """Implements `sparktf.Node` on a worker.

    Attributes:
        position: Where the user's loop is; nobody else changes it.
    """

    def __init__(self, member: Member) -> None:
        spec = member.place.spec
        self._member = member
        self._extent = member.extent
        self.position = Position.restored(spec.restore)
        self._has_epochs = self._extent.epoch_after(self.position) is not None
        self._epoch_step = 0
        self._feed: Any = None
        self._reports = 0
        self._begun = self._inside = False
        self._checkpoint: LocalCheckpoint | None = None
        self.role = spec.node.role.value
        self.index = spec.node.index
        self.workers = member.place.workers
        self.params: Mapping[str, Any] = spec.config.params
        self.assets: Mapping[str, Any] = spec.assets
        self.strategy = member.strategy
        self.batch_size = batch_shares(spec.config.train.batch_size, self.workers)[spec.node.index]
        self._datasets = Datasets(spec.feed, self.batch_size)
        member.place.follow(self)

    @property
    def step(self) -> int:
        """See `sparktf.Node`."""
        return self.position.step

    @step.setter
    def step(self, step: int) -> None:
        self.position = self.position.advanced(step=step, rows=0, loss=self.position.loss)

    @property
    def coordinator(self) -> NoReturn:
        """See `sparktf.Node`."""
        raise ModelContractError("node.coordinator is there under cluster.strategy: parameter_server alone")

    def run(self, train: Callable[[Any], None]) -> None:
        """Runs a `train(node)` to its end, closes the books and ends the process.

        A loop that leaves `epochs()` early is done, as with early stopping: the rows that it has trained are accounted
        for, and saved.

        Raises:
            ModelContractError: `train.keep` cannot be had.
            ModelError: it returned without having trained, where there was something to train.
            SparkTFError: the feed failed; TensorFlow wraps that into an error of its own.
        """
        if self._member.place.spec.config.train.keep == "best":
            raise ModelContractError("train.keep: best is not for a train(node), which exports what it chooses itself")
        try:
            train(self)
        except tf.errors.OpError as error:
            if self._datasets.error is not None:
                raise self._datasets.error from error
            raise
        early = self._left_early()
        if early:
            self._leave_epoch()
        self._member.finish(self.position, early=early)

    def _left_early(self) -> bool:
        """Whether there are epochs left, the one that the loop was in included."""
        if self._checkpoint is None:
            raise ModelError("train(node) returned without having called node.restore(model=..., ...)")
        if not self._begun and self._has_epochs:
            raise ModelError("train(node) returned without having gone over node.epochs(), of which some are left")
        return self._inside

    def _leave_epoch(self) -> None:
        """Accounts for the epoch that the loop has left, and saves it as the last checkpoint."""
        at, complete = self.position, self._feed.is_all(self.position.rows)
        if not self._reports and not complete:
            raise ModelError(
                f"train(node) returned in epoch {at.epoch} without having reported a row: call "
                "node.report(step=..., rows=...) for every batch of node.dataset()"
            )
        self.position = at.ended(complete=complete)
        if complete or at.rows or at.step > self._epoch_step:
            self._member.input.report(self._feed, self.position)
        self._member.save(self.position, last=True)

    def restore(self, **trackables: Any) -> bool:
        """See `sparktf.Node`."""
        self._checkpoint = LocalCheckpoint(**trackables)
        keras = flavour_of(trackables.values())
        restored = self._member.saves.restore(self._checkpoint, keras)
        self._member.ready(keras=keras, weights=weights_of(trackables.values()))
        return restored

    def epochs(self) -> Iterator[int]:
        """See `sparktf.Node`."""
        if self._checkpoint is None:
            raise ModelError("train(node) must call node.restore(model=..., ...) before node.epochs()")
        self._begun = True
        while (epoch := self._extent.epoch_after(self.position)) is not None:
            self.position, self._epoch_step = self.position.begun(epoch), self.step
            self._member.place.enter("training")
            with self._member.input.open(Stream.TRAIN, epoch) as feed:
                self._feed = feed
                self._inside = True
                yield epoch
                self._inside = False
                rows, complete = self.position.rows, feed.is_all(self.position.rows)
                if not complete and not self._extent.is_exhausted(self.step):
                    raise ModelError(
                        f"train(node) reported {rows} of the {feed.rows} rows of its share of epoch {epoch}, and "
                        "went on: train and report every batch of node.dataset(); to stop early, leave the loop over "
                        "node.epochs()"
                    )
                self.position = self.position.ended(complete=complete)
                self._member.input.report(feed, self.position)
            self._member.save(self.position)

    def dataset(self, stream: str = "train") -> Any:
        """See `sparktf.Node`."""
        if Stream(stream) is Stream.TRAIN:
            return self._datasets.of(lambda: self._feed)
        return self._datasets.of(lambda: self._member.input.open(Stream(stream), self.position.epoch))

    def report(self, *, step: int, rows: int, loss: float | None = None) -> None:
        """See `sparktf.Node`."""
        self.position = self.position.advanced(step=step, rows=rows, loss=loss)
        self._reports += 1
        self._member.place.enter("training")

    def metrics(self, values: Mapping[str, float], *, rows: int, stream: str = "validation") -> None:
        """See `sparktf.Node`."""
        self._member.output.metrics(Stream(stream), self.position, rows, dict(values))

    def checkpoint(self) -> bool:
        """See `sparktf.Node`."""
        saves = self._member.saves
        due = saves.due_at_step(self.step)
        if due:
            self._member.save(self.position)
            saves.rest()
        return due

    def export(self, model: Any) -> None:
        """See `sparktf.Node`."""
        self._member.output.export(KerasModel.wrap(model, self._member.place.spec.feed))
