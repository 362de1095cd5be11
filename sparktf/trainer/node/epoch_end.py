"""Decisions at the end of an epoch, by its metrics and by time: early stopping, and the learning rate.

The leader decides, and tells all, since metrics may differ in their last bit. Each node has decided, too, and is right
if it comes to lead the others before they are told.
"""

from __future__ import annotations

import math
import time
from typing import Any, Protocol, get_args

import numpy as np

from sparktf.config.patience import WatchedMetric
from sparktf.errors import ModelContractError, PreflightError, TimeUpError
from sparktf.message import Message
from sparktf.results.keep import BEGUN, Evaluation, KeepRule, merged_evaluations, metric_rule
from sparktf.results.result import Stopped, StopReason
from sparktf.results.time_limit import Ending, Took, is_time_up, no_time, reserve_s
from sparktf.sequence import Stream
from sparktf.trainer.model.exchange import Exchange
from sparktf.trainer.model.trackables import tensorflow_variable
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.plateau import by_epoch, is_enough, is_reduction_due, plateau_text, standstill
from sparktf.trainer.node.position import Position
from sparktf.trainer.node.user_callbacks import UserCallbacks
from sparktf.trainer.node.weights import Weights


class EpochMetrics(Protocol):
    """The metrics of the rows of an epoch, each as it was trained; called on all nodes."""

    def begin(self) -> None:
        """Forgets all rows."""

    def take(self) -> dict[str, float]:
        """Returns the metrics by name, without losses."""


class Judged(Message):
    """The history by which the end of an epoch is judged, for a node that joins the others later."""

    trained: tuple[Evaluation, ...]
    left_s: float | None = None  # Of the run's limit; None without one


_REASONS: tuple[StopReason | None, ...] = (None, *get_args(StopReason))
_STOP, _REDUCE, _CALLBACKS = "train.early_stopping", "train.reduce_lr_on_plateau", "train.callbacks"


class EpochEnd:
    """Decides after each epoch by its metrics and those of earlier epochs and attempts.

    Attributes:
        stopped: Why training ended with epochs left.
    """

    def __init__(
        self,
        member: Member,
        weights: Weights,
        optimizer: Any,
        exchange: Exchange,
        measured: EpochMetrics | None = None,
    ) -> None:
        spec = member.place.spec
        self.stopped: Stopped | None = None
        self._member = member
        self._weights = weights
        self._exchange = exchange
        self._measured = measured
        self._train = spec.config.train
        self._validates = spec.config.data.validation is not None
        self._trained: tuple[Evaluation, ...] = spec.restore.training if spec.restore else ()
        self._rules: dict[str, KeepRule] = {}
        self._optimizer = optimizer
        self._rate: LearningRate | None = None
        self._callbacks: UserCallbacks | None = None
        self._tells_rate = self._train.reduce_lr_on_plateau is not None
        restore = spec.restore
        self._rest_of = restore.cursor.epoch if restore is not None and restore.cursor.rows else None
        self._limit = spec.time_limit
        self._call_s = 0.0
        self._asked_s: float | None = None
        self._trained_s: float | None = None

    def prepare(self) -> None:
        """Looks up the metrics and callbacks of the configuration; called on all nodes once evaluation is ready.

        Raises:
            ModelContractError: the model has no such metric, its learning rate cannot be set, or the callbacks are
                refused.
            PreflightError: there are no rows to evaluate on.
        """
        if self._train.reduce_lr_on_plateau is not None:
            self._rate = LearningRate(self._optimizer, _REDUCE)
        elif self._train.callbacks is not None and LearningRate.is_settable(self._optimizer):
            self._rate = LearningRate(self._optimizer, _CALLBACKS)
        self._rules = {key: self._rule(key, watched) for key, watched in self._train.watched().items()}
        if self._train.callbacks is not None:
            model = self._weights.copied()
            if self._member.place.leads:
                place = self._member.place
                self._callbacks = UserCallbacks(place.spec.config, model, place.listening)
                self._tells_rate |= self._callbacks.schedule_rates

    def _rule(self, key: str, watched: WatchedMetric) -> KeepRule:
        if self._validates and not self._weights.metrics:
            raise PreflightError(f"{key} needs validation metrics, but data.validation has no rows")
        names = self._weights.metrics if self._validates else ["loss"]
        return metric_rule(watched.metric, watched.mode, names, (f"{key}.metric", f"{key}.mode"))

    def begun(self, epoch: int) -> None:
        """Called when an epoch, or the rest of one, begins; on all nodes."""
        if self._measured is not None:
            self._measured.begin()
        if self._train.callbacks is None:
            return
        rate = self._hold_rate()
        if self._callbacks is not None:
            self._callbacks.begun(epoch)
        # The rest of an epoch goes on with the rate that its beginning was given, which the checkpoint has.
        self._spread_rate(rate if epoch == self._rest_of else self._wished_rate())
        self._rest_of = None

    def _hold_rate(self) -> float:
        """Gives the callbacks' copy the learning rate that is in force; returns it, NaN for a schedule."""
        rate = self._rate.get() if self._rate is not None else math.nan
        if self._callbacks is not None and self._rate is not None:
            self._callbacks.rate = rate
        return rate

    def _wished_rate(self) -> float:
        """Returns the learning rate that the callbacks have left in their copy; NaN without them, or for a schedule."""
        return self._callbacks.rate if self._callbacks is not None and self._rate is not None else math.nan

    def _spread_rate(self, rate: float) -> None:
        """Sets the learning rate on all nodes to the leader's wish; called on all."""
        if self._rate is None:
            return
        with self._exchange.again():
            [wish] = self._exchange.from_leader([np.array([rate], np.float64)])
        self._take_rate(float(wish[0]))

    def _take_rate(self, rate: float) -> None:
        """Sets the learning rate on this node, and in the callbacks' copy; leaves both where it is NaN."""
        if self._rate is None or math.isnan(rate):
            return
        self._rate.set(rate)
        if self._callbacks is not None:
            self._callbacks.rate = rate

    def judged(self) -> Judged:
        """Returns the history by which this node judges."""
        return Judged(trained=self._trained, left_s=None if self._limit is None else self._left_s(time.monotonic()))

    def take(self, judged: Judged) -> None:
        """Takes over what another node judges by, as of now."""
        self._trained = judged.trained
        if self._limit is not None and judged.left_s is not None:
            late_s = judged.left_s - self._left_s(time.monotonic())
            self._limit = self._limit.model_copy(update={"left_s": self._limit.left_s + late_s})

    def trained(self, position: Position) -> None:
        """Reports the training loss of an epoch, before its checkpoint."""
        self._asked_s = None  # the time until the next epoch belongs to no call
        self._trained_s = time.monotonic()
        loss, measured = position.epoch_loss, {} if self._measured is None else self._measured.take()
        if not loss.rows:
            return
        rate = {"learning_rate": self._rate.get()} if self._rate is not None and self._tells_rate else {}
        values = {"loss": loss.mean, **measured, **rate}
        told = Evaluation(epoch=position.epoch, step=position.step, rows=loss.rows, values=values)
        self._trained = merged_evaluations((*self._trained, told))
        self._member.output.metrics(Stream.TRAIN, position, told.rows, told.values)

    def is_time_up(self, step: int) -> bool:
        """Whether training must end at this step to finish in time; called before each call into TensorFlow.

        Only the leader decides so, and only after the first update.
        """
        if self._limit is None:
            return False
        now_s = time.monotonic()
        if self._asked_s is not None:
            self._call_s = max(self._call_s, now_s - self._asked_s)
        self._asked_s = now_s
        return self._member.place.leads and step > 0 and self._is_time_up(now_s)

    def is_over_before(self, position: Position) -> bool:
        """Whether the attempt trains nothing, in which case its weights are evaluated; called on all nodes.

        Raises:
            TimeUpError: nothing is trained yet, and there is no time left to train.
        """
        leads = self._member.place.leads
        if leads and self._limit is not None and not position.step and self._is_time_up(time.monotonic()):
            left_s = self._left_s(time.monotonic())
            stated_s = self._train.reserve
            raise TimeUpError(no_time(self._limit, left_s, stated_s, reserve_s(stated_s, self._took), {}))
        restore = self._member.place.spec.restore
        # Inside an epoch its metrics are still to come, and the previous ones were judged when it began.
        is_between = restore is not None and not restore.cursor.rows and restore.cursor.epoch > 0
        over = self._is_over(position, restore.cursor.epoch - 1 if restore is not None and is_between else None)
        if over:
            self._weights.complete(position)
        return over

    def is_over(self, position: Position) -> bool:
        """Whether training ends after an evaluated epoch, or a part of one; called on all nodes."""
        return self._is_over(position, position.epoch if position.is_complete else None)

    def _is_over(self, position: Position, ended: int | None) -> bool:
        """See `is_over`; `ended` is the epoch if it is complete, else None."""
        if not self._watches and self._limit is None:
            return False
        goes_on = self._member.extent.epoch_after(position) is not None
        if self._train.callbacks is not None:
            self._weights.copied()
        self._hold_rate()
        why = None if ended is None else self._after(ended)
        why = (why or self._out_of_time(position)) if goes_on else None
        rate = math.nan if ended is None else self._lower_rate(ended) or self._wished_rate()
        with self._exchange.again():
            told = self._exchange.from_leader([np.array([_REASONS.index(why), rate], np.float64)])[0]
        why, is_over = _REASONS[int(told[0])], bool(told[0])
        self.stopped = None if why is None else self._stopped(why, ended, position)
        self._take_rate(float(told[1]))
        if self._callbacks is not None and (is_over or not goes_on):
            self._callbacks.end(self._logs(position.epoch if ended is None else ended))
        return is_over

    @property
    def _watches(self) -> bool:
        """Whether anything depends on metrics."""
        return bool(self._rules) or self._train.callbacks is not None

    def _history(self, epoch: int) -> list[Evaluation]:
        """Returns the evaluations up to an epoch; none if its own is unknown."""
        found = by_epoch(self._weights.evaluations if self._validates else self._trained)
        return found if found and found[-1].epoch == epoch else []

    def _logs(self, epoch: int) -> dict[str, float]:
        """Returns the metrics of an epoch by Keras's names."""
        trained = {e.epoch: e.values for e in self._trained}.get(epoch, {})
        evaluations = self._weights.evaluations if self._weights.metrics else ()
        validated = {e.epoch: e.values for e in evaluations}.get(epoch, {})
        return {**trained, **{f"val_{name}": value for name, value in validated.items()}}

    def _after(self, epoch: int) -> StopReason | None:
        called = self._callbacks is not None and self._callbacks.ended(epoch, self._logs(epoch))
        settings = self._train.early_stopping
        if settings is not None and is_enough(self._rules[_STOP], settings, self._history(epoch)):
            return "early_stopping"
        return "callbacks" if called else None

    def _stopped(self, why: StopReason, ended: int | None, position: Position) -> Stopped:
        epoch, settings = position.epoch if ended is None else ended, self._train.early_stopping
        text = f"stopped after epoch {epoch + 1}: a callback of train.callbacks set stop_training"
        if why == "early_stopping" and settings is not None:
            rule = self._rules[_STOP]
            name = f"val_{rule.metric}" if self._validates else rule.metric
            text = plateau_text(name, settings, standstill(rule, settings, self._history(epoch)), epoch)
        elif self._limit is not None and why == self._limit.reason:
            epoch, left_s = position.epoch, reserve_s(self._train.reserve, self._took)
            text = (
                f"stopped at step {position.step:,}, in epoch {epoch + 1}: {self._limit.said}, less {left_s:.0f} s to "
                "evaluate, export and publish"
            )
        return Stopped(reason=why, epoch=epoch, step=position.step, text=text)

    def _lower_rate(self, epoch: int) -> float:
        """Returns the learning rate to set, 0 to keep it; the epoch's checkpoint has the old one."""
        settings = self._train.reduce_lr_on_plateau
        if settings is None or self._rate is None:
            return 0.0
        trained = [evaluation for evaluation in self._history(epoch) if evaluation.epoch != BEGUN]
        if not is_reduction_due(self._rules[_REDUCE], settings, trained):
            return 0.0
        old = self._rate.get()
        told = {e.epoch: e.values for e in self._trained}.get(epoch, {}).get("learning_rate", old)
        if told != old:
            return 0.0  # it is lowered already: who came to lead the others stored the state once more after that
        return max(old * settings.factor, settings.min_lr) if old > np.float32(settings.min_lr) else 0.0

    def _out_of_time(self, position: Position) -> StopReason | None:
        if self._limit is None or not position.step or not self._is_time_up(time.monotonic()):
            return None
        return self._limit.reason

    def _is_time_up(self, now_s: float) -> bool:
        return self._limit is not None and is_time_up(self._left_s(now_s), self._train.reserve, self._took)

    def _left_s(self, now_s: float) -> float:
        return math.inf if self._limit is None else self._limit.left_s - (now_s - self._member.place.began_s)

    @property
    def _took(self) -> Took:
        before_s = 0.0 if self._limit is None else self._limit.before_s
        return Took(self._call_s, self._weights.took_s, self._member.saves.took_s, before_s)

    def ending(self) -> Ending | None:
        """Returns the time taken since the last update, an estimate for later runs; None if nothing was trained."""
        if self._trained_s is None:
            return None
        took, total_s = self._took, time.monotonic() - self._trained_s
        return Ending(evaluation_s=took.evaluation_s, checkpoint_s=took.checkpoint_s, total_s=total_s)


class LearningRate:
    """The optimizer's learning rate, a variable that checkpoints hold."""

    def __init__(self, optimizer: Any, key: str) -> None:
        """Finds the variable, which the configuration's `key` will set.

        Raises:
            ModelContractError: the optimizer follows a schedule.
        """
        rate = getattr(optimizer, "_learning_rate", None)
        if not self.is_settable(optimizer):
            raise ModelContractError(
                f"{key} sets the learning rate, but {type(optimizer).__name__} follows a schedule: compile the model "
                "with a number"
            )
        self._variable = tensorflow_variable(rate)

    @staticmethod
    def is_settable(optimizer: Any) -> bool:
        """Whether the optimizer's learning rate is a number, and not a schedule."""
        return hasattr(getattr(optimizer, "_learning_rate", None), "assign")

    def get(self) -> float:
        """Returns the value, this node's of a distributed variable."""
        return float(self._variable.numpy())

    def set(self, value: float) -> None:
        """Sets the value; called on all nodes that train together."""
        self._variable.assign(value)
