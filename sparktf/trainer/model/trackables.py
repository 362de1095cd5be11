"""What the objects are whose state a hand-written loop has saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sparktf.wire.control import Flavour


def flavour_of(trackables: Iterable[Any]) -> Flavour:
    """Returns which Keras some objects are of; "none" where they are of none."""
    packages = {cls.__module__.partition(".")[0] for t in trackables for cls in type(t).__mro__}
    return "keras" if "keras" in packages else "tf_keras" if "tf_keras" in packages else "none"


def weights_of(trackables: Iterable[Any]) -> int:
    """Returns how many weights the first model among some objects has, 0 where there is none."""
    model = next(models_in(trackables), None)
    return int(model.count_params()) if model is not None else 0


def models_in(trackables: Iterable[Any]) -> Iterator[Any]:
    """Yields the Keras models, of either flavour."""
    return (t for t in trackables if hasattr(t, "count_params"))
