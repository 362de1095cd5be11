"""The weights of an exported linear model, and those of plain gradient descent."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float64]

RATE = 0.05


def descended(x: npt.NDArray[Any], y: npt.NDArray[Any], *, updates: int) -> Weights:
    """Returns the weights of `cases.watched` after updates that have all rows each."""
    x = np.column_stack([x, np.ones(len(y))]).astype(np.float64)
    weights = np.array([1.0, 1.0, 0.0])
    for _ in range(updates):
        weights -= RATE * 2 * x.T @ (x @ weights - y) / len(y)
    return weights


def weights_of(model: Path) -> Weights:
    """Returns kernel and bias of the only dense layer."""
    with zipfile.ZipFile(model / "model.keras") as archive:
        content = archive.read("model.weights.h5")
    with h5py.File(io.BytesIO(content)) as file:
        kernel, bias = (file["layers/dense/vars"][i][()] for i in "01")
    return np.concatenate([kernel[:, 0], bias]).astype(np.float64)
