"""An exported model, used in a process that knows nothing of the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_SCRIPT = Path(__file__).parent / "predict.py"


def predict(model: Path, folder: Path, *modules: str, **inputs: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Returns the outputs of an exported model, by name; of its two forms, which must agree.

    Args:
        folder: For the files that go to the process and come back.
        modules: Those that register layers of the model's own.
    """
    given, found = folder / "inputs.npz", folder / "outputs.npz"
    np.savez(given, **inputs)  # type: ignore[arg-type]
    subprocess.run([sys.executable, str(_SCRIPT), str(model), str(given), str(found), *modules], check=True, timeout=60)
    return dict(np.load(found))
