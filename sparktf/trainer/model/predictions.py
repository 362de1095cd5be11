"""The file `predictions.npz` beside an exported model: rows, and the trained model's predictions; without TensorFlow.

    about                      JSON: see `About`
    inputs/<name>              an input of the signature `serving_default`: [rows, ...], text as bytes; or of a ragged
    inputs/<name>_row_splits   one all values [n], and its row splits: int64 [rows + 1]
    outputs/<name>             predictions of the trained model: [rows, ...]

`numpy.load` reads it without pickles. NumPy strips trailing zeros from bytes, before anything is predicted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

PREDICTIONS = "predictions.npz"
ROW_SPLITS = "_row_splits"


class Tolerance(NamedTuple):
    """The tolerated distance from a stored number."""

    relative: float  # Relative to the stored number
    absolute: float  # In addition, relative to the output's greatest number, but at least to 1

    def __str__(self) -> str:
        return f"{self.relative:g} of it, and {self.absolute:g} of the output's greatest"


_OF_FLOAT32 = Tolerance(1e-4, 1e-5)
"""Graphs are optimized again when a model is loaded, which changes the order of sums."""

_OF_16_BITS = Tolerance(2e-2, 1e-2)


def tolerance(dtypes: Iterable[str]) -> Tolerance:
    """Returns the tolerance for a model whose layers compute in these dtypes."""
    return _OF_16_BITS if {"float16", "bfloat16"} & set(dtypes) else _OF_FLOAT32


class About(NamedTuple):
    """Metadata of the arrays."""

    flavour: str  # Keras flavour of `model.keras`
    inputs: dict[str, bool]  # Name -> whether it is ragged, in the model's order
    output_names: tuple[str, ...]  # Names of the model's outputs, if there are several
    target_names: tuple[str, ...]  # Targets of the configuration
    tolerance: Tolerance


class Predictions(NamedTuple):
    """The content of the file."""

    about: About
    inputs: dict[str, Array]
    outputs: dict[str, Array]

    def write(self, folder: Path) -> None:
        arrays = {f"inputs/{name}": array for name, array in self.inputs.items()}
        arrays |= {f"outputs/{name}": array for name, array in self.outputs.items()}
        arrays["about"] = np.array(json.dumps(self.about._asdict()))
        np.savez(folder / PREDICTIONS, **arrays)  # type: ignore[arg-type] # it has named arguments, too

    @classmethod
    def read(cls, folder: Path) -> Predictions:
        with np.load(folder / PREDICTIONS, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        about = json.loads(str(arrays.pop("about")))
        for key in ("output_names", "target_names"):
            about[key] = tuple(about[key])
        about["tolerance"] = Tolerance(*about["tolerance"])
        return cls(About(**about), _below("inputs/", arrays), _below("outputs/", arrays))

    @property
    def rows(self) -> int:
        name, ragged = next(iter(self.about.inputs.items()))
        return len(self.inputs[f"{name}{ROW_SPLITS}"]) - 1 if ragged else len(self.inputs[name])


def _below(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def as_plain_arrays(outputs: Mapping[str, Any]) -> dict[str, Array]:
    """Returns tensors as arrays of NumPy's own dtypes; text as `bytes` objects."""
    return {name: _plain(np.asarray(y)) for name, y in outputs.items()}


def _plain(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def as_arrays(outputs: Mapping[str, Any]) -> dict[str, Array]:
    """Returns tensors as arrays that NumPy can store; text as bytes of fixed length."""
    return {name: _storable(np.asarray(y)) for name, y in outputs.items()}


def _storable(array: Array) -> Array:
    if array.dtype == object:
        return array.astype("S")
    return _plain(array)


def named_outputs(y: Any, output_names: Sequence[str], target_names: Sequence[str]) -> dict[str, Any]:
    """Returns a model's outputs by name."""
    if isinstance(y, dict):
        return y
    if isinstance(y, (list, tuple)):
        return dict(zip(output_names, y, strict=True))
    return {target_names[0]: y}


def difference(stored: Mapping[str, Array], found: Mapping[str, Array], tolerated: Tolerance) -> str | None:
    """Describes how predictions differ from the stored ones; None if they agree."""
    if sorted(stored) != sorted(found):
        return f"its outputs are {_listed(found)}, not {_listed(stored)}"
    for name, expected in stored.items():
        array = found[name]
        if array.shape != expected.shape:
            return f"output '{name}' has shape {list(array.shape)}, not {list(expected.shape)}"
        if (said := _apart(expected, array, tolerated)) is not None:
            return f"output '{name}' {said}"
    return None


def _apart(expected: Array, found: Array, tolerated: Tolerance) -> str | None:
    if not np.issubdtype(expected.dtype, np.number) or not np.issubdtype(found.dtype, np.number):
        differ = int(np.sum(expected != found))
        return f"differs in {differ:,} of {expected.size:,} values" if differ else None
    if not expected.size or np.array_equal(expected, found, equal_nan=True):
        return None
    if np.issubdtype(expected.dtype, np.integer):
        return f"differs in {int(np.sum(expected != found)):,} of {expected.size:,} values"
    expected, found = expected.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], found[~finite], equal_nan=True):
        return "is finite where it was infinite or NaN, or vice versa"
    expected, found = expected[finite], found[finite]
    scale = max(float(np.max(np.abs(expected), initial=0.0)), 1.0)
    bound = tolerated.relative * np.abs(expected) + tolerated.absolute * scale
    with np.errstate(invalid="ignore"):
        apart = np.abs(expected - found)
    outside = ~(apart <= bound)
    if not outside.any():
        return None
    return f"differs in {int(outside.sum()):,} of {expected.size:,} values, by up to {float(np.max(apart)):.3g}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
