"""What follows from the metrics of an epoch, and from the time: whether, and how fast, the training goes on.

The leader decides, and the others come to know it in a sum over all: metrics may differ in their last bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sparktf.config.patience import WatchedMetric
from sparktf.errors import PreflightError
from sparktf.keep import Evaluation, KeepRule, merged, metric_rule
from sparktf.plateau import by_epoch, in_words, is_enough, is_reduction_due, standstill
from sparktf.sequence import Stream
from sparktf.stopping import Stopped
from sparktf.time_limit import Took, is_time_up, reserve_s
from sparktf.trainer.model.learning_rate import LearningRate
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Position
from sparktf.trainer.node.weights import Weights

_STOP, _REDUCE = "train.early_stopping", "train.reduce_lr_on_plateau"


class EpochEnd:
    """Looks at the metrics after each epoch, those that earlier attempts have left among them.

    Attributes:
        stopped: Why the training has ended with epochs left; of the leader alone.
    """

    def __init__(
        self, member: Member, weights: Weights, optimizer: Any, sum_over_workers: Callable[[Any], Any]
    ) -> None:
        """Looks at nothing yet.

        Args:
            optimizer: Of the model that is trained.
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
        self._optimizer = optimizer
        self._rate: LearningRate | None = None
        self._limit = spec.time_limit
        self._call_s = 0.0
        self._asked_s: float | None = None

    def prepare(self) -> None:
        """Finds the metrics that the configuration names, once the weights can be evaluated.

        Raises:
            ModelContractError: the model has no such metric, or its learning rate cannot be set.
            PreflightError: there are no rows to evaluate on.
        """
        if self._train.reduce_lr_on_plateau is not None:
            self._rate = LearningRate(self._optimizer, _REDUCE)
        self._rules = {key: self._rule(key, watched) for key, watched in self._train.watched().items()}

    def _rule(self, key: str, watched: WatchedMetric) -> KeepRule:
        if self._validates and not self._weights.metrics:
            raise PreflightError(f"{key} looks at validation metrics, and data.validation has no rows")
        names = self._weights.metrics if self._validates else ["loss"]
        return metric_rule(watched.metric, watched.mode, names, (f"{key}.metric", f"{key}.mode"))

    def trained(self, position: Position) -> None:
        """Tells the training loss of an epoch, before its checkpoint, where anything depends on an epoch's metrics."""
        self._asked_s = None  # what comes until the next epoch is no call
        loss = position.epoch_loss
        if not self._rules or not loss.rows:
            return
        values = {"loss": loss.mean} | ({} if self._rate is None else {"learning_rate": self._rate.get()})
        told = Evaluation(epoch=position.epoch, step=position.step, rows=loss.rows, values=values)
        self._trained = merged((*self._trained, told))
        self._member.output.metrics(Stream.TRAIN, position, told.rows, told.values)

    def is_time_up(self, step: int) -> bool:
        """Whether this node says that nothing more is trained after so many updates, so that the rest is done in time.

        The leader alone says so, and never before there is anything to publish. Whoever asks is about to train.
        """
        if self._limit is None:
            return False
        now_s = time.monotonic()
        if self._asked_s is not None:
            self._call_s = max(self._call_s, now_s - self._asked_s)
        self._asked_s = now_s
        return step > 0 and self._is_time_up(now_s)

    def is_over_before(self, position: Position) -> bool:
        """Whether nothing more is trained where an attempt begins, whose weights are evaluated then; all nodes call it.

        Raises:
            PreflightError: nothing is trained, and there is no time for it.
        """
        if self._limit is not None and not position.step and self._is_time_up(time.monotonic()):
            raise PreflightError(f"{self._limit.said} leaves no time to train: {self._limit.left_s:.0f} s were left")
        # Of an epoch that is begun, the metrics are to come; those of the one before were looked at when it began.
        history = self._history
        is_between = bool(history) and history[-1].step == position.step and history[-1].epoch < position.epoch
        over = self._is_over(position, is_whole=is_between)
        if over:
            self._weights.complete(position)
        return over

    def is_over(self, position: Position) -> bool:
        """Whether nothing more is trained after an epoch, or a part of it, that is evaluated; all nodes call it."""
        return self._is_over(position, is_whole=position.is_complete)

    def _is_over(self, position: Position, *, is_whole: bool) -> bool:
        nothing_follows = not self._rules and self._limit is None
        if nothing_follows or self._member.extent.epoch_after(position) is None:
            return False
        rate = 0.0
        if self._member.place.leads:
            self.stopped = (self._no_better(position) if is_whole else None) or self._out_of_time(position)
            rate = self._lower_rate() if is_whole else 0.0
        is_over, rate = self._sum(np.array([self.stopped is not None, rate], np.float64))
        if rate and self._rate is not None:
            self._rate.set(float(rate))
        return bool(is_over)

    @property
    def _history(self) -> list[Evaluation]:
        return by_epoch(self._weights.evaluations if self._validates else self._trained)

    def _no_better(self, position: Position) -> Stopped | None:
        settings, history = self._train.early_stopping, self._history
        if settings is None or not is_enough(rule := self._rules[_STOP], settings, history):
            return None
        epoch = history[-1].epoch
        name = f"val_{rule.metric}" if self._validates else rule.metric
        text = in_words(name, settings, standstill(rule, settings, history), epoch)
        return Stopped(reason="early_stopping", epoch=epoch, step=position.step, text=text)

    def _lower_rate(self) -> float:
        """Returns the learning rate that is to be set, 0 where it stays; an epoch's checkpoint has the old one."""
        settings = self._train.reduce_lr_on_plateau
        if settings is None or self._rate is None:
            return 0.0
        if not is_reduction_due(self._rules[_REDUCE], settings, self._history):
            return 0.0
        old = self._rate.get()
        return max(old * settings.factor, settings.min_lr) if old > np.float32(settings.min_lr) else 0.0

    def _out_of_time(self, position: Position) -> Stopped | None:
        if self._limit is None or not position.step or not self._is_time_up(time.monotonic()):
            return None
        left_s = reserve_s(self._train.reserve, self._took)
        text = (
            f"stopped at step {position.step:,}, in epoch {position.epoch + 1}: {self._limit.said}, less "
            f"{left_s:.0f} s to evaluate, export and publish"
        )
        return Stopped(reason=self._limit.reason, epoch=position.epoch, step=position.step, text=text)

    def _is_time_up(self, now_s: float) -> bool:
        place = self._member.place
        if self._limit is None or not place.leads:
            return False
        return is_time_up(self._limit.left_s - (now_s - place.began_s), self._train.reserve, self._took)

    @property
    def _took(self) -> Took:
        return Took(self._call_s, self._weights.took_s, self._member.saves.took_s)
