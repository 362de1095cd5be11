"""The low-level contract on the coordinator: `train(node)` schedules functions that workers run with their own rows."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from sparktf.errors import ModelContractError, ModelError
from sparktf.feature import FeedSpec
from sparktf.sequence import Stream
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.tensors import example
from sparktf.trainer.model.tracing import traced
from sparktf.trainer.model.trackables import (
    count_atomically,
    flavour_of,
    models_in,
    on_large_tables,
    tensorflow_variable,
    weights_of,
)
from sparktf.trainer.node.low_level import LowLevelNode
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Position
from sparktf.trainer.parameter_server.accounts import epoch_done, rows_to_train
from sparktf.trainer.parameter_server.async_loop import MANY
from sparktf.trainer.parameter_server.checkpoint.checkpoint_in_parts import ShardedCheckpoint
from sparktf.trainer.parameter_server.checkpoint.servers import Servers, server_of
from sparktf.trainer.parameter_server.membership.connect import Connection
from sparktf.trainer.parameter_server.meter import ProcessMeter
from sparktf.trainer.parameter_server.scheduling import Scheduling
from sparktf.wire.control import Action


class CoordinatorNode(LowLevelNode):
    """Implements `sparktf.Node` on the coordinator.

    Attributes:
        coordinator: See `sparktf.Node`.
    """

    def __init__(self, member: Member, connection: Connection) -> None:
        self._spec = member.place.spec
        super().__init__(member, self._spec.config.train.batch_size)
        self.coordinator = Scheduling(member, connection)
        self._loop = self.coordinator.loop
        self._loss: float | None = None
        member.place.follow(self)
        member.place.measure(ProcessMeter())

    @property
    def position(self) -> Position:
        """The loop's position, with the loss that it reported."""
        return replace(self._loop.position, loss=self._loss)

    @property
    def _is_inside(self) -> bool:
        return self.coordinator.is_open

    def _leave_epoch(self) -> None:
        if not self.coordinator.has_sent:
            raise ModelError(
                f"train(node) returned in epoch {self.position.epoch} without scheduling a function: call "
                "node.coordinator.schedule(function) until it returns False"
            )
        self._end_epoch(last=True)

    def restore(self, **trackables: Any) -> bool:
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
        self._begin()
        while (epoch := self._loop.begin_epoch()) is not None:
            self._member.place.enter("training")
            self.coordinator.open(rows_to_train(self._member.place, epoch))
            yield epoch
            self._end_epoch()

    def _end_epoch(self, *, last: bool = False) -> None:
        """Reports an epoch that the loop has left, and saves; after the `last` one nothing more is trained."""
        left = self.coordinator.close()
        at = self._loop.position
        if left and not last and not self._extent.is_exhausted(at.step):
            rows = f"{left} rows" if left < MANY else "rows"
            raise ModelError(
                f"train(node) left {rows} of epoch {at.epoch} untrained: call "
                "node.coordinator.schedule(function) until it returns False; to stop early, leave the loop over "
                "node.epochs()"
            )
        if not left or self._loop.done.intervals:
            self._member.place.send(Action.EPOCH_DONE, epoch_done(self._spec, at, self._loop.rows_aside))
        self._member.save(at, self._loop.done, last=last)

    def dataset(self, stream: str = "train") -> Any:
        if Stream(stream) is Stream.TRAIN:
            raise ModelContractError(
                "node.dataset('train') is not available on a coordinator, which reads no training data: schedule a "
                "function that takes rows, by node.coordinator.schedule"
            )
        return self._dataset(Stream(stream))

    def report(self, *, step: int, rows: int, loss: float | None = None) -> None:
        del rows
        if step > self.step:
            raise ModelError(f"train(node) reported step {step} after {self.step} updates: report node.step")
        self._loss = loss
        self._member.output.loss(self.position)

    def checkpoint(self) -> bool:
        saves = self._member.saves
        due = saves.take_wish() or saves.due_since_saved(self.step)
        if due:
            self.coordinator.join()
            self._member.save(self._loop.position, self._loop.done)
        return due

    def export(self, model: Any) -> None:
        self._member.output.export(local_copy(model, self._spec.feed))


def _weights(objects: Iterable[Any]) -> list[Any]:
    """Returns the tf.Variables of the models among some objects."""
    return [tensorflow_variable(variable) for model in models_in(objects) for variable in model.variables]


def local_copy(model: Any, spec: FeedSpec) -> UserModel:
    """Returns the model if its variables are in this process, else a copy whose variables are.

    Raises:
        ModelContractError: Keras cannot copy it.
    """
    given = UserModel.wrap(model, spec)
    if all(server_of(variable) is None for variable in given.variables()):
        return given
    try:
        copy = UserModel.wrap(importlib.import_module(given.flavour).models.clone_model(model), spec)
        traced(lambda: copy.model(copy.layout.x(example(spec)), training=False))
    except (TypeError, ValueError, NotImplementedError) as error:
        raise ModelContractError(
            f"node.export: Keras cannot copy the model from the parameter servers ({error}): make another model "
            "outside of node.strategy.scope(), set its weights, and export that"
        ) from error
    # One variable at a time: two copies of all may not fit into memory.
    for target, source in zip(copy.model.weights, model.weights, strict=True):
        target.assign(source)
    return copy
