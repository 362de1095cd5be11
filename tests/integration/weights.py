"""The weights of an exported linear model."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import h5py  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float64]


def weights_of(model: Path) -> Weights:
    """Returns kernel and bias of the only dense layer."""
    with zipfile.ZipFile(model / "model.keras") as archive:
        content = archive.read("model.weights.h5")
    with h5py.File(io.BytesIO(content)) as file:
        kernel, bias = (file["layers/dense/vars"][i][()] for i in "01")
    return np.concatenate([kernel[:, 0], bias]).astype(np.float64)
