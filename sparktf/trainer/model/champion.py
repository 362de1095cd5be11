"""The published model as an opponent in the gate.

Its SavedModel is loaded, which does not need the code that built the model: that may have changed since.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from sparktf.errors import ModelContractError
from sparktf.trainer.model.export import serving_signature, serving_tensors
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.said import first_line
from sparktf.trainer.model.tensors import Tensors, example
from sparktf.trainer.model.tracing import traced

SAVED_MODEL = ("saved_model.pb", "fingerprint.pb", "variables/", "assets/")
"""Prefixes of a SavedModel's files among those of a published version."""


class Champion:
    """A published model that takes the challenger's rows; its predictions have the structure of the challenger's."""

    def __init__(self, folder: Path, beside: UserModel) -> None:
        """Loads the SavedModel in a folder, and compares its signature with the challenger, `beside`.

        Raises:
            ModelContractError: it does not load, needs inputs that the data does not have, or has other outputs.
        """
        self._spec = beside.spec
        try:
            self._loaded = tf.saved_model.load(str(folder))
            self._predict = self._loaded.signatures["serving_default"]
        except Exception as error:  # TensorFlow raises any error for an unreadable file or an unknown op
            raise ModelContractError(f"it does not load: {type(error).__name__}: {first_line(error)}") from error
        self._names = self._inputs()
        ours = traced(lambda: beside.model(beside.layout.x(example(self._spec)), training=False))
        self._structure, self._outputs = ours, _output_names(beside, ours)
        try:
            theirs = traced(lambda: self(example(self._spec)))
        except ModelContractError:
            raise
        except Exception as error:  # as above
            raise ModelContractError(f"it does not run: {type(error).__name__}: {first_line(error)}") from error
        for name, one, other in zip(self._outputs, *map(tf.nest.flatten, (ours, theirs)), strict=True):
            has, wanted = other.shape[1:], one.shape[1:]
            if not has.is_compatible_with(wanted):
                raise ModelContractError(f"its output {name} has the shape {has}, and the new model's has {wanted}")

    def _inputs(self) -> tuple[str, ...]:
        """Returns the names of its inputs, and checks that the feed has each."""
        takes: dict[str, tf.TensorSpec] = self._predict.structured_input_signature[1]
        fed = serving_signature(self._spec)
        for name, wanted in takes.items():
            if name not in fed:
                raise ModelContractError(f"it needs the input {name}, which data.inputs does not have any more")
            brought = fed[name]
            if brought.dtype != wanted.dtype or not brought.shape.is_compatible_with(wanted.shape):
                raise ModelContractError(
                    f"its input {name} is {_in_words(wanted)}, and data.inputs brings {_in_words(brought)}"
                )
        return tuple(takes)

    def __call__(self, rows: Tensors) -> Any:
        """Returns its predictions in the structure of the challenger's; works in a graph."""
        given = serving_tensors(self._spec, rows)
        found = self._predict(**{name: given[name] for name in self._names})
        if len(found) == 1 and len(self._outputs) == 1:
            return tf.nest.pack_sequence_as(self._structure, list(found.values()))
        missing = [name for name in self._outputs if name not in found]
        if missing:
            raise ModelContractError(f"it has no output {missing[0]}: it has {', '.join(sorted(found))}")
        return tf.nest.pack_sequence_as(self._structure, [found[name] for name in self._outputs])


def _output_names(model: UserModel, y_pred: Any) -> list[str]:
    """Returns the names of a model's outputs in its SavedModel, in the order of `tf.nest`."""
    if isinstance(y_pred, dict):
        return sorted(y_pred)
    names = getattr(model.model, "output_names", None) or [t.name for t in model.spec.targets]
    return list(names) if isinstance(y_pred, (list, tuple)) else [model.spec.targets[0].name]


def _in_words(spec: tf.TensorSpec) -> str:
    return f"{spec.dtype.name} {['batch', *spec.shape.as_list()[1:]]}".replace("'", "")
