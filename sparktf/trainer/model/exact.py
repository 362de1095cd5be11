"""Refuses models that cannot be trained exactly as by Keras, on any number of workers (docs/use/exactness.md)."""

from __future__ import annotations

import importlib
from typing import Any

from sparktf.errors import ModelContractError
from sparktf.trainer.model.variable_names import layers_of
from sparktf.wire.control import Flavour

_EXACT_REDUCTIONS = {"sum_over_batch_size", "mean", "auto"}
_PAIRWISE_LOSSES = {"circle"}
_NEVER_CALLED = ("fit", "evaluate", "make_train_function", "make_test_function")
"""Methods of a model that sparktf's own loop never calls."""

_NEVER_CALLED_OF_OPTIMIZER = ("minimize", "compute_gradients", "aggregate_gradients", "finalize_variable_values")


def check_compiled(model: Any, name: str, flavour: Flavour) -> None:
    """Refuses a model of the function `name` that is not compiled, or has its own loop.

    Raises:
        ModelContractError: names the remedy.
    """
    if not (getattr(model, "compiled", False) or getattr(model, "_is_compiled", False)):
        raise ModelContractError(
            f"model: {name} returned a model that is not compiled: call model.compile(optimizer, loss)"
        )
    if not getattr(model, "loss", None):
        raise ModelContractError(f"model: {name} compiled its model without a loss: pass one to model.compile")
    base = importlib.import_module(flavour).Model
    for method in ("train_step", "test_step", "compute_loss"):
        if getattr(type(model), method) is not getattr(base, method):
            raise ModelContractError(
                f"model: {type(model).__name__} overrides {method}, which cannot be weighted exactly over workers: "
                "use compile(loss=...), or the low-level contract train(node)"
            )
    for method in _NEVER_CALLED:
        if getattr(type(model), method) is not getattr(base, method):
            raise ModelContractError(
                f"model: {type(model).__name__} overrides {method}, which sparktf never calls: write a train(node)"
            )
    for layer, trained in getattr(model, "_compiled_trainable_state", {}).items():
        if layer.trainable != trained:
            raise ModelContractError(
                f"model: trainable of layer '{layer.name}' was {trained} when the model was compiled, and is "
                f"{layer.trainable} now: call model.compile(...) after it is set"
            )


def check_exact(model: Any, losses: list[Any], flavour: Flavour) -> None:
    """Refuses losses, layers and optimizers that cannot be weighted by rows over workers.

    Raises:
        ModelContractError: names it, and the remedy.
    """
    for loss in losses:
        if _name(loss).lower() in _PAIRWISE_LOSSES:
            raise ModelContractError(
                f"model: loss {_name(loss)} compares the rows of a batch, which is divided over workers: use another "
                "loss"
            )
        reduction = getattr(loss, "reduction", "sum_over_batch_size")
        if reduction not in _EXACT_REDUCTIONS:
            raise ModelContractError(
                f"model: loss {_name(loss)} has reduction '{reduction}', which cannot be weighted exactly over "
                "workers: use 'sum_over_batch_size'"
            )
    for layer in layers_of(model):
        if getattr(layer, "synchronized", False) or type(layer).__name__ == "SyncBatchNormalization":
            raise ModelContractError(
                f"model: layer '{layer.name}' is a synchronised BatchNorm, with which updates cannot be exact: use a "
                "plain BatchNormalization"
            )
        if getattr(layer, "activity_regularizer", None) is not None:
            raise ModelContractError(
                f"model: layer '{layer.name}' has an activity_regularizer, which cannot be weighted exactly: leave it "
                "out"
            )
        if getattr(layer, "_losses", None):
            raise ModelContractError(
                f"model: layer '{layer.name}' calls add_loss, which cannot be weighted exactly over workers: use "
                "compile(loss=...)"
            )
    _check_optimizer(model.optimizer, flavour)


def _name(loss: Any) -> str:
    return str(loss) if isinstance(loss, str) else str(getattr(loss, "name", getattr(loss, "__name__", type(loss))))


def _check_optimizer(optimizer: Any, flavour: Flavour) -> None:
    if type(optimizer).__name__ == "MultiOptimizer":
        raise ModelContractError("model: MultiOptimizer is not supported: use one optimizer for all weights")
    if "LossScaleOptimizer" in type(optimizer).__name__:
        raise ModelContractError(
            "model: LossScaleOptimizer (mixed_float16) is not supported: use float32 or mixed_bfloat16"
        )
    if getattr(optimizer, "gradient_accumulation_steps", None):
        raise ModelContractError(
            "model: gradient_accumulation_steps is not supported: "
            "train.batch_size is the rows of one update over all workers"
        )
    if getattr(optimizer, "use_ema", False) and optimizer.ema_overwrite_frequency:
        raise ModelContractError(
            "model: ema_overwrite_frequency is not supported: the averages of use_ema are evaluated and exported, but "
            "never replace the trained weights: leave it out"
        )
    if not hasattr(optimizer, "build"):
        raise ModelContractError(
            f"model: {type(optimizer).__name__} is a legacy optimizer: use one of keras.optimizers"
        )
    base = importlib.import_module(flavour).optimizers.Optimizer
    for method in _NEVER_CALLED_OF_OPTIMIZER:
        if getattr(type(optimizer), method, None) is not getattr(base, method, None):
            raise ModelContractError(
                f"model: {type(optimizer).__name__} overrides {method}, which sparktf never calls: override "
                "update_step, or write a train(node)"
            )
