"""Objects of Keras that a program made and hands over: they travel, and are made again in each trainer.

Keras is not imported here, but by the trainer that makes them. They come from the program itself, as its functions do,
and so are its own code.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILE = "model.keras"


@dataclass(frozen=True)
class GivenModel:
    """A compiled model in place of the function that builds it: with its weights and its optimizer's state."""

    flavour: str  # The Keras that it is of
    content: bytes  # Of its file
    objects: Mapping[str, Any]  # Classes and functions of the program that the file names

    def __call__(self, params: Mapping[str, Any], assets: Mapping[str, Any]) -> Any:
        """Returns the model, made anew."""
        del params, assets
        keras = importlib.import_module(self.flavour)
        with tempfile.TemporaryDirectory(prefix="sparktf-model-") as folder:
            file = Path(folder, _FILE)
            file.write_bytes(self.content)
            return keras.models.load_model(str(file), custom_objects=dict(self.objects), safe_mode=False)


@dataclass(frozen=True)
class GivenCallbacks:
    """A list of callbacks in place of the function that returns it."""

    callbacks: tuple[Any, ...]

    def __call__(self, params: Mapping[str, Any]) -> list[Any]:
        """Returns the callbacks."""
        del params
        return list(self.callbacks)
