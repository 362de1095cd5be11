"""A callback that holds a run, so that a test can catch it there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import keras


class Gate(keras.callbacks.Callback):  # type: ignore[misc]
    """Begins no epoch but the first before a file is written: who writes a pipe waits until somebody reads it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Says which process is here, and waits."""
        if epoch:
            (self._folder / f"here-{os.getpid()}").touch()
            (self._folder / "gate").write_text("", encoding="utf-8")


def callbacks(params: dict[str, Any]) -> list[keras.callbacks.Callback]:
    """Returns the gate, in the folder `params["gate"]`."""
    return [Gate(Path(params["gate"]))]
