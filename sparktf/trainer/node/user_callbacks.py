"""The user's Keras callbacks: they are called for epochs, and may end the training or set its learning rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sparktf.config.job import JobConfig
from sparktf.config.train import TrainConfig
from sparktf.errors import ModelContractError
from sparktf.results.keep import metric_rule
from sparktf.trainer.model.model import load_named
from sparktf.trainer.model.trackables import tensorflow_variable, value_of

_KEY = "train.callbacks"
_NEVER_CALLED = tuple(
    f"on_{what}_{when}"
    for what in ("batch", "train_batch", "test_batch", "predict_batch", "test", "predict")
    for when in ("begin", "end")
)
_SCHEDULER = "LearningRateScheduler"
_INSTEAD = {
    "ReduceLROnPlateau": "train.reduce_lr_on_plateau",
    "BackupAndRestore": "the checkpoints of the run",
    "SwapEMAWeights": "use_ema in the optimizer, whose averages are evaluated and exported",
}
"""Keras's callbacks that change the training -> what to use instead."""

_DONE_HERE = {
    "ModelCheckpoint": "train.keep: best keeps the best weights, and the run has checkpoints of its own",
    "TensorBoard": "the run writes its metrics to the folder tensorboard beside its result",
}
"""Keras's callbacks that would need each batch -> what the run does by itself."""


class UserCallbacks:
    """The callbacks that the configured function returns; on the leader."""

    def __init__(
        self, config: JobConfig, model: Any, listening: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """Makes the callbacks, and gives them a copy of the trained model.

        Args:
            listening: Around each call of theirs: hears what they print.

        Raises:
            ModelContractError: the function returns no callbacks, or some that would not be called or not take effect.
        """
        self._listening = listening
        with listening():
            callbacks = load_named(config, _KEY)(dict(config.params))
        if not isinstance(callbacks, (list, tuple)):
            raise ModelContractError(
                f"{_KEY}: {config.train.callbacks} returned {type(callbacks).__name__}, not a list of Keras callbacks"
            )
        for callback in callbacks:
            _check(callback, config.train)
        self._callbacks = tuple(callbacks)
        self._model = model
        self._model.stop_training = False
        with listening():
            for callback in self._callbacks:
                callback.set_params({"epochs": config.train.epochs, "steps": None, "verbose": 0})
                callback.set_model(model)
                callback.on_train_begin()

    @property
    def schedule_rates(self) -> bool:
        """Whether one sets the learning rate by itself, which Keras then reports after each epoch."""
        return any(cls.__name__ == _SCHEDULER for callback in self._callbacks for cls in type(callback).__mro__)

    @property
    def rate(self) -> float:
        """The learning rate of their copy, which they may set between epochs; its optimizer follows no schedule."""
        return float(value_of(self._model.optimizer.learning_rate))

    @rate.setter
    def rate(self, value: float) -> None:
        tensorflow_variable(self._model.optimizer.learning_rate).assign(value)

    def begun(self, epoch: int) -> None:
        with self._listening():
            for callback in self._callbacks:
                callback.on_epoch_begin(epoch)

    def ended(self, epoch: int, logs: Mapping[str, float]) -> bool:
        """Calls `on_epoch_end`, each with its own dict; returns whether one of them ends the training."""
        with self._listening():
            for callback in self._callbacks:
                callback.on_epoch_end(epoch, dict(logs))
        return bool(self._model.stop_training)

    def end(self, logs: Mapping[str, float]) -> None:
        with self._listening():
            for callback in self._callbacks:
                callback.on_train_end(dict(logs))


def _check(callback: Any, train: TrainConfig) -> None:
    name, mro = type(callback).__name__, type(callback).__mro__
    base = next((c for c in mro if c.__name__ == "Callback" and c.__module__.startswith(("keras.", "tf_keras."))), None)
    if base is None:
        raise ModelContractError(f"{_KEY}: {name} is not a Keras callback")
    for cls in mro:
        if cls.__name__ in _INSTEAD:
            raise ModelContractError(f"{_KEY}: {name} changes the training; use instead: {_INSTEAD[cls.__name__]}")
        if cls.__name__ in _DONE_HERE:
            raise ModelContractError(
                f"{_KEY}: {name} is called for batches, and callbacks are called for epochs only: leave it out, "
                f"{_DONE_HERE[cls.__name__]}"
            )
    if getattr(callback, "restore_best_weights", False):
        is_known = any(cls.__name__ == "EarlyStopping" for cls in mro)
        if differs := _differs(callback, train) if is_known else "set that instead":
            raise ModelContractError(f"{_KEY}: {name} restores the best weights, as train.keep: best does: {differs}")
        callback.restore_best_weights = False  # the run does so: of the copy nobody takes them
    for method in _NEVER_CALLED:
        own = getattr(callback, method)
        if getattr(own, "__func__", own) is not getattr(base, method):
            raise ModelContractError(
                f"{_KEY}: {name} has {method}, which is never called: callbacks are called for epochs only"
            )


def _differs(callback: Any, train: TrainConfig) -> str:
    """Returns why other weights than those that a callback would restore may be kept; "" if they are the same."""
    monitor, delta, first = callback.monitor, abs(callback.min_delta), callback.start_from_epoch
    metric = monitor.removeprefix("val_")
    if metric == monitor:
        return f"its monitor {monitor} is of training, and epochs are compared by held-out rows: set monitor='val_...'"
    if train.keep != "best":
        return f"set it too, with keep_metric: {metric}"
    if train.keep_metric.removeprefix("val_") != metric:
        return f"its monitor is {monitor}, and train.keep_metric is {train.keep_metric}: name one metric in both"
    if delta or first:
        given = f"min_delta is {delta:g}" if delta else f"start_from_epoch is {first}"
        return f"its {given}, and the best of all epochs is kept: leave it out, or use train.early_stopping"
    ours = metric_rule(metric, train.keep_mode, [metric], ("train.keep_metric", "train.keep_mode")).mode
    theirs = getattr(callback, "mode", "auto")
    if theirs in ("min", "max") and theirs != ours:
        return f"its mode is {theirs}, and that of train.keep_mode for {metric} is {ours}: set one mode in both"
    return ""
