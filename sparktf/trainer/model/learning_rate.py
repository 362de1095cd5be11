"""The learning rate of a model's optimizer, where it is a number that may be set."""

from __future__ import annotations

from typing import Any

from sparktf.errors import ModelContractError
from sparktf.trainer.model.trackables import tensorflow_variable


class LearningRate:
    """A variable of the optimizer, which checkpoints hold."""

    def __init__(self, optimizer: Any, key: str) -> None:
        """Finds it.

        Args:
            key: Of the configuration: what sets it.

        Raises:
            ModelContractError: the optimizer sets it by itself.
        """
        rate = getattr(optimizer, "_learning_rate", None)
        if not hasattr(rate, "assign"):
            raise ModelContractError(
                f"{key} sets the learning rate, and that of {type(optimizer).__name__} follows a schedule: compile the "
                "model with a number"
            )
        self._variable = tensorflow_variable(rate)

    def get(self) -> float:
        """Returns it; of a distributed one this node's."""
        return float(self._variable.numpy())

    def set(self, value: float) -> None:
        """Sets it; all nodes that train together call it alike."""
        self._variable.assign(value)
