"""The low-level contract on the coordinator: `train(node)`, whose functions workers run with rows of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import tensorflow as tf

from sparktf.errors import ModelContractError, ModelError
from sparktf.sequence import Stream
from sparktf.trainer.model.large_tables import on_large_tables
from sparktf.trainer.model.trackables import count_atomically, flavour_of, models_in, tensorflow_variable, weights_of
from sparktf.trainer.node.datasets import Datasets
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Position
from sparktf.trainer.parameter_server.accounts import epoch_done, rows_to_train
from sparktf.trainer.parameter_server.async_loop import MANY
from sparktf.trainer.parameter_server.checkpoint_in_parts import ShardedCheckpoint
from sparktf.trainer.parameter_server.connect import Connection
from sparktf.trainer.parameter_server.local_copy import local_copy
from sparktf.trainer.parameter_server.meter import Meter
from sparktf.trainer.parameter_server.scheduling import Scheduling
from sparktf.trainer.parameter_server.servers import Servers
from sparktf.wire.control import Action


class CoordinatorNode:
    """Implements `sparktf.Node` on the coordinator.

    Attributes:
        coordinator: See `sparktf.Node`.
    """

    def __init__(self, member: Member, connection: Connection) -> None:
        spec = member.place.spec
        self.coordinator = Scheduling(member, connection.coordinator)
        self._member = member
        self._spec = spec
        self._extent = member.extent
        self._loop = self.coordinator.loop
        self._has_epochs = self._extent.epoch_after(self._loop.position) is not None
        self._loss: float | None = None
        self._begun = self._restored = False
        self.role = spec.node.role.value
        self.index = spec.node.index
        self.workers = member.place.workers
        self.params: Mapping[str, Any] = spec.config.params
        self.assets: Mapping[str, Any] = spec.assets
        self.strategy = member.strategy
        self.batch_size = spec.config.train.batch_size
        self._datasets = Datasets(spec.feed, self.batch_size)
        member.place.follow(self)
        member.place.measure(Meter())

    @property
    def position(self) -> Position:
        """Where the loop is, and the loss that it has told of."""
        return replace(self._loop.position, loss=self._loss)

    @property
    def step(self) -> int:
        """See `sparktf.Node`."""
        return self._loop.position.step

    def run(self, train: Callable[[Any], None]) -> None:
        """Runs a `train(node)` to its end, closes the books and ends the process.

        Raises:
            ModelContractError: `train.keep` cannot be had.
            ModelError: it returned without having trained, where there was something to train.
            SparkTFError: the validation stream failed; TensorFlow wraps that into an error of its own.
        """
        if self._spec.config.train.keep == "best":
            raise ModelContractError("train.keep: best is not for a train(node), which exports what it chooses itself")
        try:
            train(self)
        except tf.errors.OpError as error:
            if self._datasets.error is not None:
                raise self._datasets.error from error
            raise
        early = self._left_early()
        if early:
            self._end_epoch(last=True)
        self._member.finish(self.position, early=early)

    def _left_early(self) -> bool:
        """Whether there are epochs left, the one that the loop was in included."""
        if not self._restored:
            raise ModelError("train(node) returned without having called node.restore(model=..., ...)")
        if not self._begun and self._has_epochs:
            raise ModelError("train(node) returned without having gone over node.epochs(), of which some are left")
        if self.coordinator.is_open and not self.coordinator.has_sent:
            raise ModelError(
                f"train(node) returned in epoch {self.position.epoch} without having scheduled anything: call "
                "node.coordinator.schedule(function) until it returns False"
            )
        return self.coordinator.is_open

    def restore(self, **trackables: Any) -> bool:
        """See `sparktf.Node`."""
        objects = list(trackables.values())
        count_atomically(objects)
        for text in (text for model in models_in(objects) for text in on_large_tables(model)):
            self._member.place.warn(text)
        servers = Servers(len(self._spec.cluster.ps))
        checkpoint = ShardedCheckpoint(servers, _weights(objects), **trackables)
        keras = flavour_of(objects)
        self._restored = True
        restored = self._member.saves.restore(checkpoint, keras)
        self._member.ready(keras=keras, weights=weights_of(objects))
        return restored

    def epochs(self) -> Iterator[int]:
        """See `sparktf.Node`."""
        if not self._restored:
            raise ModelError("train(node) must call node.restore(model=..., ...) before node.epochs()")
        self._begun = True
        while (epoch := self._loop.begin_epoch()) is not None:
            self._member.place.enter("training")
            self.coordinator.open(rows_to_train(self._member.place, epoch))
            yield epoch
            self._end_epoch()

    def _end_epoch(self, *, last: bool = False) -> None:
        """Accounts for an epoch that the loop has left, and saves.

        Args:
            last: Nothing more is trained, whatever is left.
        """
        left = self.coordinator.close()
        at = self._loop.position
        if left and not last and not self._extent.is_exhausted(at.step):
            rows = f"{left} rows" if left < MANY else "rows"
            raise ModelError(
                f"train(node) left {rows} of epoch {at.epoch} untrained, and went on: call "
                "node.coordinator.schedule(function) until it returns False; to stop early, leave the loop over "
                "node.epochs()"
            )
        if not left or self._loop.done.intervals:
            self._member.place.send(Action.EPOCH_DONE, epoch_done(self._spec, at, self._loop.rows_aside))
        self._member.save(at, self._loop.done, last=last)

    def dataset(self, stream: str = "train") -> Any:
        """See `sparktf.Node`."""
        if Stream(stream) is Stream.TRAIN:
            raise ModelContractError(
                "node.dataset('train') is not for a coordinator, which reads no training data: a function that "
                "node.coordinator.schedule is given gets rows"
            )
        return self._datasets.of(lambda: self._member.input.open(Stream(stream), self.position.epoch))

    def report(self, *, step: int, rows: int, loss: float | None = None) -> None:
        """See `sparktf.Node`."""
        del rows
        if step > self.step:
            raise ModelError(f"train(node) reported step {step}, and {self.step} updates are made: report node.step")
        self._loss = loss
        self._member.output.loss(self.position)

    def metrics(self, values: Mapping[str, float], *, rows: int, stream: str = "validation") -> None:
        """See `sparktf.Node`."""
        self._member.output.metrics(Stream(stream), self.position, rows, dict(values))

    def checkpoint(self) -> bool:
        """See `sparktf.Node`."""
        saves = self._member.saves
        due = saves.wanted() or saves.due_since_saved(self.step)
        if due:
            self.coordinator.join()
            self._member.save(self._loop.position, self._loop.done)
            saves.rest()
        return due

    def export(self, model: Any) -> None:
        """See `sparktf.Node`."""
        self._member.output.export(local_copy(model, self._spec.feed))


def _weights(objects: Iterable[Any]) -> list[Any]:
    """Returns the tf.Variables of the models among some objects."""
    return [tensorflow_variable(variable) for model in models_in(objects) for variable in model.variables]
