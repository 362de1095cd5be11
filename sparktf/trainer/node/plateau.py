"""Early stopping and learning-rate reduction, as functions of a metric's history with the rules of Keras's callbacks.

The same values give the same decision, so that a resumed run goes on as if it had not been interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from sparktf.results.keep import Evaluation, KeepRule
from sparktf.told import count_in_words


class PatienceSettings(Protocol):
    """The settings of `train.early_stopping`."""

    @property
    def min_delta(self) -> float: ...
    @property
    def patience(self) -> int: ...
    @property
    def baseline(self) -> float | None: ...


class ReductionSettings(Protocol):
    """The settings of `train.reduce_lr_on_plateau` that decide when."""

    @property
    def min_delta(self) -> float: ...
    @property
    def patience(self) -> int: ...
    @property
    def cooldown(self) -> int: ...


def by_epoch(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Returns the last evaluation of each epoch, in their order."""
    found = {e.epoch: e for e in sorted(evaluations, key=lambda e: e.step)}
    return [found[epoch] for epoch in sorted(found)]


class Standstill(NamedTuple):
    """The time for which a metric has not improved."""

    epochs: int = 0  # Epochs in a row, up to the last one
    best: int | None = None  # The epoch with the best value, `value`; None if no value was a number
    value: float = math.nan


def is_improved(rule: KeepRule, value: float, reference: float | None, min_delta: float) -> bool:
    """Whether a value is better than a reference by more than `min_delta`.

    A NaN never is, and any number is better than no reference. (Keras 3 takes a first NaN for the best value.)
    """
    if math.isnan(value) or reference is None:
        return not math.isnan(value)
    return value + min_delta < reference if rule.mode == "min" else value - min_delta > reference


def standstill(rule: KeepRule, config: PatienceSettings, history: Sequence[Evaluation]) -> Standstill:
    """Returns how long the metric has not improved; `history` has one evaluation for each epoch, in order."""
    found = Standstill()
    best: float | None = None
    for evaluation in history:
        value, waited = rule.value(evaluation), found.epochs + 1
        if is_improved(rule, value, best, config.min_delta):
            counts = config.baseline is None or is_improved(rule, value, config.baseline, config.min_delta)
            found, best = Standstill(0 if counts else waited, evaluation.epoch, value), value
        else:
            found = found._replace(epochs=waited)
    return found


def is_enough(rule: KeepRule, config: PatienceSettings, history: Sequence[Evaluation]) -> bool:
    """Whether training ends after the last epoch of the history: never after the first one, nor after the best."""
    if not history or not history[-1].epoch:
        return False
    found = standstill(rule, config, history)
    return found.best != history[-1].epoch and found.epochs >= config.patience


def plateau_text(name: str, config: PatienceSettings, found: Standstill, epoch: int) -> str:
    """Returns the message that training ends after an epoch; `name` is Keras's name of the metric."""
    by = f" by {config.min_delta:g}" if config.min_delta else ""
    over = "" if config.baseline is None else f" beyond {config.baseline:g}"
    epochs = count_in_words(found.epochs, "epoch")
    best = f"best {found.value:.6g} at epoch {found.best + 1}" if found.best is not None else "it was never a number"
    return f"stopped after epoch {epoch + 1}: {name} has not improved{by}{over} for {epochs}; {best}"


def is_reduction_due(rule: KeepRule, config: ReductionSettings, history: Sequence[Evaluation]) -> bool:
    """Whether to lower the learning rate after the last epoch of the history, even if it is at its minimum."""
    best: float | None = None
    waited = cooldown = 0
    due = False
    for evaluation in history:
        value, due = rule.value(evaluation), False
        if cooldown:
            cooldown, waited = cooldown - 1, 0
        if is_improved(rule, value, best, config.min_delta):
            best, waited = value, 0
        elif not cooldown:
            waited += 1
            due = waited >= config.patience
        if due:
            cooldown, waited = config.cooldown, 0
    return due
