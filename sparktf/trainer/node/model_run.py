"""The run of a compiled Keras model under any strategy: prepare, train epoch by epoch, export."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from sparktf.trainer.model.exchange import Exchange
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.node.begun_from import first_weights
from sparktf.trainer.node.checkpoint import Checkpoint
from sparktf.trainer.node.epoch_end import EpochEnd, EpochMetrics
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Done, Position
from sparktf.trainer.node.weights import Exported, PlainCopy, Weights


class EpochLoop(Protocol):
    """The loop over rows and epochs."""

    @property
    def position(self) -> Position:
        """The training position."""

    def begin_epoch(self) -> int | None:
        """Begins the next epoch; returns its number, None if training is complete."""


class ModelRun(ABC):
    """Everything between a built model and its export; a strategy adds its loop and the training of an epoch."""

    _loop: EpochLoop

    def __init__(
        self,
        member: Member,
        model: UserModel,
        build: Callable[..., Any],
        *,
        copy: PlainCopy,
        checkpoint: Checkpoint,
        exchange: Exchange,
        measured: EpochMetrics | None = None,
        reads: bool = True,
    ) -> None:
        """Gives the model the weights that this attempt begins with; `checkpoint` has model and optimizer.

        Args:
            measured: The metrics of the rows as they are trained; None where nobody measures them.
            reads: Whether this node reads them; else another one gives it its values.
        """
        self._member = member
        self._model = model
        self._done: Done | None = None  # Of the last epoch
        self._weights = Weights(member, copy, exchange)
        self._epoch_end = EpochEnd(member, self._weights, model.optimizer, exchange, measured)
        restored = member.saves.restore(checkpoint, model.flavour, reads=reads)
        self._carried = None if restored or not reads else first_weights(member.place, model, build)

    def run(self) -> None:
        """Trains, evaluates after each epoch, exports, and ends the process."""
        member = self._member
        rule = self._weights.prepare()
        self._epoch_end.prepare()
        member.ready(
            keras=self._model.flavour, weights=int(self._model.model.count_params()), keep=rule, carried=self._carried
        )
        over = self._begin()
        while not over and (epoch := self._loop.begin_epoch()) is not None:
            self._train_epoch(epoch)
            self._weights.evaluate(self._loop.position)
            over = self._epoch_end.is_over(self._loop.position)
        exported = self._export()
        stopped = self._epoch_end.stopped if member.place.leads else None
        ending = self._epoch_end.ending
        member.finish(self._loop.position, **exported._asdict(), stopped=stopped, ending=ending)

    def _export(self) -> Exported:
        """Has the leader export; called on all nodes."""
        return self._weights.export(self._loop.position)

    def _begin(self) -> bool:
        """Begins as all others do; returns whether nothing is left to train."""
        self._weights.make_up(self._loop.position)
        return self._epoch_end.is_over_before(self._loop.position)

    def _train_epoch(self, epoch: int) -> None:
        self._member.place.enter("training")
        self._begin_epoch(epoch)
        self._done = self._train(epoch)
        at = self._loop.position
        self._epoch_end.trained(at)
        self._member.save(at, self._done, last=not at.is_complete)

    def _begin_epoch(self, epoch: int) -> None:
        self._epoch_end.begun(epoch)

    @abstractmethod
    def _train(self, epoch: int) -> Done | None:
        """Trains and reports an epoch; returns the part done, None for this node's own part."""
