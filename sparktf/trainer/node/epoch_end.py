"""What follows from the metrics of an epoch: whether there is another one.

The leader decides, and the others come to know it in a sum over all: metrics may differ in their last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparktf.config.patience import WatchedMetric
from sparktf.errors import PreflightError
from sparktf.keep import Evaluation, KeepRule, merged, metric_rule
from sparktf.plateau import by_epoch, in_words, is_enough, standstill
from sparktf.sequence import Stream
from sparktf.stopping import Stopped
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Position
from sparktf.trainer.node.weights import Weights


class EpochEnd:
    """Looks at the metrics after each epoch, those that earlier attempts have left among them.

    Attributes:
        stopped: Why the training has ended with epochs left; of the leader alone.
    """

    def __init__(self, member: Member, weights: Weights, sum_over_workers: Callable[[Any], Any]) -> None:
        """Looks at nothing yet.

        Args:
            sum_over_workers: Sums an array over all nodes that train, each of which calls it.
        """
        spec = member.place.spec
        self.stopped: Stopped | None = None
        self._member = member
        self._weights = weights
        self._sum = sum_over_workers
        self._train = spec.config.train
        self._validates = spec.config.data.validation is not None
        self._trained: tuple[Evaluation, ...] = spec.restore.training if spec.restore else ()
        self._rules: dict[str, KeepRule] = {}

    def prepare(self) -> None:
        """Finds the metrics that the configuration names, once the weights can be evaluated.

        Raises:
            ModelContractError: the model has no such metric.
            PreflightError: there are no rows to evaluate on.
        """
        self._rules = {key: self._rule(key, watched) for key, watched in self._train.watched().items()}

    def _rule(self, key: str, watched: WatchedMetric) -> KeepRule:
        if self._validates and not self._weights.metrics:
            raise PreflightError(f"{key} looks at validation metrics, and data.validation has no rows")
        names = self._weights.metrics if self._validates else ["loss"]
        return metric_rule(watched.metric, watched.mode, names, (f"{key}.metric", f"{key}.mode"))

    def trained(self, position: Position) -> None:
        """Tells the training loss of an epoch, before its checkpoint, where anybody looks at that."""
        loss = position.epoch_loss
        if self._validates or not self._rules or not loss.rows:
            return
        told = Evaluation(epoch=position.epoch, step=position.step, rows=loss.rows, values={"loss": loss.mean})
        self._trained = merged((*self._trained, told))
        self._member.output.metrics(Stream.TRAIN, position, told.rows, told.values)

    def is_over_before(self, position: Position) -> bool:
        """Whether nothing more is trained where an attempt begins; all nodes call it."""
        # Of an epoch that is begun, the metrics are to come; those of the one before were looked at when it began.
        history = self._history
        is_between = bool(history) and history[-1].step == position.step and history[-1].epoch < position.epoch
        return is_between and self.is_over(position)

    def is_over(self, position: Position) -> bool:
        """Whether nothing more is trained after an epoch whose metrics are known; all nodes call it."""
        if not self._rules or self._member.extent.epoch_after(position) is None:
            return False
        self.stopped = self._decide(position) if self._member.place.leads else None
        return bool(self._sum(np.array([self.stopped is not None], np.int64))[0])

    @property
    def _history(self) -> list[Evaluation]:
        return by_epoch(self._weights.evaluations if self._validates else self._trained)

    def _decide(self, position: Position) -> Stopped | None:
        settings, rule, history = self._train.early_stopping, self._rules["train.early_stopping"], self._history
        if settings is None or not is_enough(rule, settings, history):
            return None
        epoch = history[-1].epoch
        name = f"val_{rule.metric}" if self._validates else rule.metric
        text = in_words(name, settings, standstill(rule, settings, history), epoch)
        return Stopped(reason="early_stopping", epoch=epoch, step=position.step, text=text)
