"""How often a model that counts has seen each row, by its weights: by what is trained, not by what was tried."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt


def counts_of(model: str, rows: int) -> npt.NDArray[np.float32]:
    """Returns how often the model in a folder has seen each row: it has one weight a row."""
    with zipfile.ZipFile(f"{model}/model.keras") as archive:
        content = archive.read("model.weights.h5")
    found: list[Any] = []
    with h5py.File(io.BytesIO(content)) as file:
        file["layers"].visititems(lambda _, item: found.append(item[()]) if isinstance(item, h5py.Dataset) else None)
    (counts,) = [values for values in found if values.shape == (rows, 1)]
    return np.asarray(counts[:, 0], np.float32)
