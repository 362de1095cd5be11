"""Refuses models that ask a strategy for other nodes' replicas, where it knows this node's alone.

Under TensorFlow's collectives a strategy knows the replicas of all nodes. Under sparktf's it knows this node's alone: a
layer that asks it for a sum over replicas would get its own values back, without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from sparktf.errors import ModelContractError
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.sync.state import moving_statistics

_REMEDY = "set cluster.collectives to tensorflow"
_ASKED = ("all_reduce", "all_gather")
_SHARED = (tf.VariableAggregation.SUM, tf.VariableAggregation.MEAN)


def check_variables(model: UserModel) -> None:
    """Refuses variables that tf.distribute would aggregate over replicas, except BatchNormalization's statistics.

    Raises:
        ModelContractError: names one.
    """
    averaged = {id(variable) for variable in moving_statistics(model.model)}
    for variable in model.variables():
        if variable.aggregation in _SHARED and id(variable) not in averaged:
            raise ModelContractError(
                f"model: variable '{variable.name}' has aggregation {variable.aggregation.name}, and each worker would "
                f"have its own value: {_REMEDY}"
            )


@contextmanager
def refusing_sums() -> Iterator[None]:
    """Refuses layers that ask the replica context for an operation over replicas, while a model is looked at.

    Raises:
        ModelContractError: a layer does, in the block.
    """
    kind = tf.distribute.ReplicaContext
    before = {name: getattr(kind, name) for name in _ASKED}
    try:
        for name in _ASKED:
            setattr(kind, name, _refusing(name))
        yield
    finally:
        for name, method in before.items():
            setattr(kind, name, method)


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ModelContractError(
            f"model: its code calls {name} of tf.distribute's replica context, which would return this worker's own "
            f"values: {_REMEDY}"
        )

    return refuse
