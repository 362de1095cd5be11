"""What an optimizer has kept: a value for each weight, by whatever name it has for them, and a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparktf.trainer.model.trackables import value_of

_NOT_SLOTS = {"_trainable_variables", "_variables", "_build_variables"}
_NOT_STATE = {"_learning_rate", "_current_learning_rate"}
"""The learning rate is a setting."""


class OptimizerState:
    """Of the optimizer that a built model is compiled with."""

    def __init__(self, model: Any) -> None:
        """Reads no value."""
        self._optimizer = model.optimizer
        self._places = {id(variable): place for place, variable in enumerate(model.trainable_variables)}

    @property
    def kind(self) -> str:
        """Its class, by name."""
        return type(self._optimizer).__name__

    @property
    def iterations(self) -> int:
        """Updates that it has counted."""
        return int(value_of(self._optimizer.iterations))

    def families(self) -> dict[str, list[Any]]:
        """Returns lists of slots, one for each trained weight, by the optimizer's own names."""
        return {
            name: list(value)
            for name, value in vars(self._optimizer).items()
            if name not in _NOT_SLOTS
            and isinstance(value, list)
            and len(value) == len(self._places)
            and all(slot is None or _is_variable(slot) for slot in value)
        }

    def slots(self, family: Sequence[Any], variables: Sequence[Any]) -> list[Any] | None:
        """Returns a family's slots of some weights, in their shapes; None where one has none."""
        places = [self._places.get(id(variable)) for variable in variables]
        found = [None if place is None else family[place] for place in places]
        if any(slot is None or slot.shape != v.shape for slot, v in zip(found, variables, strict=True)):
            return None
        return found

    def numbers(self) -> dict[str, Any]:
        """Returns the variables that are one number, by the optimizer's own names."""
        return {
            name: value
            for name, value in vars(self._optimizer).items()
            if name not in _NOT_STATE and _is_variable(value) and not tuple(value.shape)
        }


def _is_variable(value: Any) -> bool:
    return hasattr(value, "assign") and hasattr(value, "shape")
