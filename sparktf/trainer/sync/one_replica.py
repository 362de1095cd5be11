"""Refuses models that ask a strategy for other nodes' replicas, where it knows this node's alone.

Under TensorFlow's collectives a strategy knows the replicas of all nodes. Under sparktf's it knows this node's alone: a
layer that asks it for a sum over replicas would get its own values back, without an error, and a learning rate that is
multiplied with their number would be another one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from sparktf.errors import ModelContractError
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.sync.state import moving_statistics

_BY_TENSORFLOW = "set cluster.collectives to tensorflow"
_QUESTIONS = (
    (tf.distribute.ReplicaContext, "all_reduce"),
    (tf.distribute.ReplicaContext, "all_gather"),
    (tf.distribute.ReplicaContext, "num_replicas_in_sync"),
    (tf.distribute.Strategy, "num_replicas_in_sync"),
)
_FRAMEWORKS = ("keras", "tf_keras", "tensorflow", "sparktf")
"""Their own questions get true answers: replicas are those of this node to them."""

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
def refusing_questions() -> Iterator[None]:
    """Refuses code of a model that asks for other nodes' replicas, while the model is built and looked at.

    Raises:
        ModelContractError: it does so in the block: for an operation over all replicas, or for their number.
    """
    places = [(_owner(kind, name), name) for kind, name in _QUESTIONS]
    before = [vars(kind)[name] for kind, name in places]
    asked: list[str] = []
    try:
        for (kind, name), original in zip(places, before, strict=True):
            setattr(kind, name, _refusing(name, original, asked))
        yield
    except Exception as error:
        # Keras and AutoGraph make other errors, or other words, of what a layer raises.
        if asked:
            raise ModelContractError(asked[0]) from error
        raise
    finally:
        for (kind, name), original in zip(places, before, strict=True):
            setattr(kind, name, original)
    if asked:
        raise ModelContractError(asked[0])


def _owner(kind: Any, name: str) -> Any:
    return next(cls for cls in kind.__mro__ if name in vars(cls))


def _refusing(name: str, original: Any, asked: list[str]) -> Any:
    """Returns a method, or a property, that refuses in the place of the original."""

    def refuse(*_: Any, **__: Any) -> Any:
        asked.append(
            f"model: its code calls {name} of tf.distribute's replica context, which would return this worker's own "
            "values: leave that out, or write a train(node)"
        )
        raise ModelContractError(asked[0])

    def count(owner: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        if caller.partition(".")[0] in _FRAMEWORKS:
            return original.fget(owner)
        asked.append(
            f"model: its code asks tf.distribute for {name}, which over sparktf's collectives counts this worker's "
            f"alone: give it the number in params, or {_BY_TENSORFLOW}"
        )
        raise ModelContractError(asked[0])

    return property(count) if isinstance(original, property) else refuse
