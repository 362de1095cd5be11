"""Which epoch's weights a run keeps: validation metrics, and the rule by which one is better."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from sparktf.errors import ModelContractError
from sparktf.message import Message

_LARGE = re.compile(
    r"acc|auc|precision|recall|f1|fbeta|fmeasure|iou|r2|top_k|cosine_similarity|sensitivity|specificity"
)
_SMALL = re.compile(r"loss|error|mse|mae|mape|msle|entropy|hinge|poisson|divergence|log_?cosh|false_")


class KeepSettings(Protocol):
    """The settings of `train` that choose the weights to keep."""

    @property
    def keep(self) -> str: ...
    @property
    def keep_metric(self) -> str: ...
    @property
    def keep_mode(self) -> Literal["auto", "min", "max"]: ...


BEGUN = -1
"""The epoch, counted from 0, of weights taken over from another model: shown as epoch 0."""


class Evaluation(Message):
    """Validation metrics of the weights at a step, over all workers."""

    epoch: int  # The epoch that ended at the step; `BEGUN` at step 0
    step: int
    rows: int
    values: dict[str, float]


class EpochLoss(Message):
    """The training loss of an epoch so far, each row at its own update, over all workers; `total` is the sum."""

    total: float = 0.0
    rows: int = 0

    def add(self, mean: float, rows: int) -> EpochLoss:
        """Returns the loss with more rows, given their mean."""
        return EpochLoss(total=self.total + mean * rows, rows=self.rows + rows)

    @property
    def mean(self) -> float:
        """The mean over the rows; NaN without rows."""
        return self.total / self.rows if self.rows else math.nan


def merged_evaluations(evaluations: Iterable[Evaluation], until_step: int | None = None) -> tuple[Evaluation, ...]:
    """Returns the evaluations by step up to `until_step`, the last one of each step."""
    by_step = {e.step: e for e in evaluations if until_step is None or e.step <= until_step}
    return tuple(by_step[step] for step in sorted(by_step))


class KeepRule(Message):
    """The metric by which epochs are compared."""

    metric: str
    mode: Literal["min", "max"]

    def value(self, evaluation: Evaluation) -> float:
        """Returns the metric; NaN if the evaluation lacks it."""
        return evaluation.values.get(self.metric, math.nan)

    def is_better(self, new: Evaluation, old: Evaluation | None) -> bool:
        """Whether one evaluation is better than another; NaN never is."""
        value = self.value(new)
        if math.isnan(value) or old is None or math.isnan(self.value(old)):
            return not math.isnan(value)
        return value < self.value(old) if self.mode == "min" else value > self.value(old)

    def best(self, evaluations: Iterable[Evaluation]) -> Evaluation | None:
        """Returns the best evaluation, the first of equal ones; None without any."""
        found = None
        for evaluation in sorted(evaluations, key=lambda e: e.step):
            if self.is_better(evaluation, found):
                found = evaluation
        return found


class Kept(Message):
    """The weights exported under `train.keep: best`: their step, and why."""

    epoch: int
    step: int
    metric: str
    mode: Literal["min", "max"]
    value: float

    @property
    def whose(self) -> str:
        """Describes the weights for people."""
        return f"those of epoch {self.epoch + 1}, update {self.step:,}" if self.step else "those it began with"


def keep_rule(train: KeepSettings, metrics: Sequence[str]) -> KeepRule | None:
    """Returns the rule for a model with these validation metrics; None if the last weights are kept.

    Raises:
        ModelContractError: the model has no such metric, or its direction is unknown.
    """
    if train.keep == "last":
        return None
    return metric_rule(train.keep_metric, train.keep_mode, metrics, ("train.keep_metric", "train.keep_mode"))


def metric_rule(
    name: str, mode: Literal["auto", "min", "max"], metrics: Sequence[str], keys: tuple[str, str]
) -> KeepRule:
    """Returns the rule of a metric.

    Args:
        name: Keras's name, with or without `val_`.
        metrics: The known metrics.
        keys: Configuration keys of the name and the mode.

    Raises:
        ModelContractError: there is no such metric, or its direction is unknown.
    """
    metric = name if name in metrics else name.removeprefix("val_")
    if metric not in metrics:
        raise ModelContractError(
            f"{keys[0]}: {name} is not a validation metric of the model: name one of {', '.join(metrics)}"
        )
    if mode != "auto":
        return KeepRule(metric=metric, mode=mode)
    small, large = (max((m.end() for m in kind.finditer(metric)), default=0) for kind in (_SMALL, _LARGE))
    if small == large:
        raise ModelContractError(
            f"{keys[1]}: auto cannot tell whether {metric} should be small or large: set min or max"
        )
    return KeepRule(metric=metric, mode="min" if small > large else "max")  # an output's name comes before its metric's
