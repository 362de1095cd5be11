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

_BY_TENSORFLOW = "set cluster.collectives to tensorflow"
_ASKED = ("all_reduce", "all_gather")
_SHARED = (tf.VariableAggregation.SUM, tf.VariableAggregation.MEAN)


def check_variables(model: UserModel) -> None:
    """Refuses variables that tf.distribute would aggregate over replicas, except BatchNormalization's statistics.

    A trained weight is not refused: all workers make the same updates of it.

    Raises:
        ModelContractError: names one.
    """
    alike = {id(variable) for variable in (*moving_statistics(model.model), *model.trained())}
    for variable in model.variables():
        if variable.aggregation in _SHARED and id(variable) not in alike:
            # TensorFlow cannot aggregate at an assignment, either: it is in the branch of workers that have rows.
            is_read = variable.synchronization is tf.VariableSynchronization.ON_READ
            remedy = _BY_TENSORFLOW if is_read else "leave the aggregation out, or write a train(node)"
            raise ModelContractError(
                f"model: variable '{variable.name}' has aggregation {variable.aggregation.name}, and each worker would "
                f"have its own value: {remedy}"
            )


@contextmanager
def refusing_sums() -> Iterator[None]:
    """Refuses layers that ask the replica context for an operation over replicas, while a model is looked at.

    Raises:
        ModelContractError: a layer does, in the block.
    """
    kind = tf.distribute.ReplicaContext
    before = {name: getattr(kind, name) for name in _ASKED}
    asked: list[str] = []
    try:
        for name in _ASKED:
            setattr(kind, name, _refusing(name, asked))
        yield
    except Exception as error:
        # Keras and AutoGraph make other errors, or other words, of what a layer raises.
        if asked:
            raise _refusal(asked[0]) from error
        raise
    finally:
        for name, method in before.items():
            setattr(kind, name, method)
    if asked:
        raise _refusal(asked[0])


def _refusing(name: str, asked: list[str]) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        asked.append(name)
        raise _refusal(name)

    return refuse


def _refusal(name: str) -> ModelContractError:
    return ModelContractError(
        f"model: its code calls {name} of tf.distribute's replica context, which would return this worker's own "
        "values: leave that out, or write a train(node)"
    )
