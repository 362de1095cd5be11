"""A copy of a hand-written loop's model in the coordinator, to be exported."""

from __future__ import annotations

import importlib
from typing import Any

from sparktf.errors import ModelContractError
from sparktf.feature import FeedSpec
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.tensors import example
from sparktf.trainer.model.tracing import traced
from sparktf.trainer.parameter_server.checkpoint.servers import server_of


def local_copy(model: Any, spec: FeedSpec) -> UserModel:
    """Returns a model whose variables are in this process: a copy, or itself if they are already.

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
            f"node.export: Keras cannot copy the model from the parameter servers ({error}): export one that you have "
            "made outside of node.strategy.scope() and given its weights"
        ) from error
    # One variable after the other: all of them twice may be too much.
    for target, source in zip(copy.model.weights, model.weights, strict=True):
        target.assign(source)
    return copy
