"""The training of a model, as `summary` of Spark's own models tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparktf.api.trained import TrainedRun

if TYPE_CHECKING:
    import pandas as pd


class KerasTrainingSummary:
    """How a model was trained.

    Attributes:
        result: Of the run that trained it.
        history: The metrics of each epoch: see `TrainedRun.history`.
    """

    def __init__(self, result: TrainedRun) -> None:
        """Reads the run's metrics. Raises `StorageError`."""
        self.result = result
        self.history: pd.DataFrame = result.history

    @property
    def objectiveHistory(self) -> list[float]:
        """The loss of each epoch."""
        return [float(loss) for loss in self.history["loss"]]

    @property
    def totalIterations(self) -> int:
        """The number of epochs."""
        return len(self.history)

    def __repr__(self) -> str:
        return f"KerasTrainingSummary(\n{self.history}\n)"
