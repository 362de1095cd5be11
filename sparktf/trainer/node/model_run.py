"""The life of a compiled Keras model, whatever the strategy: it is made ready, trained epoch by epoch, and exported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from sparktf.trainer.model.evaluate import Sharing
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.node.checkpoint import Checkpoint
from sparktf.trainer.node.epoch_end import EpochEnd
from sparktf.trainer.node.first_weights import first_weights
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Done, Position
from sparktf.trainer.node.weights import PlainCopy, Weights


class EpochLoop(Protocol):
    """The loop over rows and epochs."""

    @property
    def position(self) -> Position:
        """Where the training is."""

    def begin_epoch(self) -> int | None:
        """Goes on to the epoch that is next; returns which it is, None where nothing is left to train."""


class ModelRun(ABC):
    """Everything between a built model and its export; a strategy adds its loop, and what that trains an epoch on."""

    _loop: EpochLoop

    def __init__(
        self,
        member: Member,
        model: UserModel,
        build: Callable[..., Any],
        *,
        copy: PlainCopy,
        checkpoint: Checkpoint,
        sharing: Sharing,
    ) -> None:
        """Brings the model to the weights that this attempt begins with.

        Args:
            build: The user's function that has made the model.
            checkpoint: Of the model and its optimizer.
            sharing: Who evaluates it.
        """
        self._member = member
        self._model = model
        self._weights = Weights(member, copy, sharing)
        self._epoch_end = EpochEnd(member, self._weights, model.optimizer, sharing.sum)
        restored = member.saves.restore(checkpoint, model.flavour)
        self._carried = None if restored else first_weights(member.place, model, build)

    def run(self) -> None:
        """Trains, evaluates after each epoch, exports, and ends the process."""
        member = self._member
        rule = self._weights.prepare()
        self._epoch_end.prepare()
        member.ready(
            keras=self._model.flavour, weights=int(self._model.model.count_params()), keep=rule, carried=self._carried
        )
        self._weights.make_up(self._loop.position)
        over = self._epoch_end.is_over_before(self._loop.position)
        while not over and (epoch := self._loop.begin_epoch()) is not None:
            self._train_epoch(epoch)
            self._weights.evaluate(self._loop.position)
            over = self._epoch_end.is_over(self._loop.position)
        exported = self._weights.export(self._loop.position)
        stopped, ending = self._epoch_end.stopped, self._epoch_end.ending
        member.finish(self._loop.position, **exported._asdict(), stopped=stopped, ending=ending)

    def _train_epoch(self, epoch: int) -> None:
        self._member.place.enter("training")
        self._epoch_end.begun(epoch)
        done = self._train(epoch)
        at = self._loop.position
        self._epoch_end.trained(at)
        self._member.save(at, done, last=not at.is_complete)

    @abstractmethod
    def _train(self, epoch: int) -> Done | None:
        """Trains an epoch and tells the driver of it; returns what is done of it, None for what this node has done."""
