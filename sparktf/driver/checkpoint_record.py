"""The record of a run in its checkpoint's manifest, from which a resumed run goes on."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from sparktf.message import Message
from sparktf.results.carried import Carried
from sparktf.results.keep import EpochLoss, Evaluation, KeepRule
from sparktf.results.result import EpochRows

_ALWAYS = frozenset({"epochs", "set_aside", "replayed"})


class CheckpointRecord(Message):
    """The books of a run at a checkpoint: stored in its manifest, as `extra`."""

    model_config = ConfigDict(extra="ignore")  # fields of later versions

    epochs: tuple[EpochRows, ...] = ()  # Accounts of the epochs before its position
    # Split -> rows, of the splits of this epoch that Spark has fed; None where it feeds nothing
    splits: dict[int, int] | None = None
    set_aside: int = 0  # Bad rows of this epoch that were skipped
    replayed: int = 0  # Rows of this epoch that may have been trained twice
    # Of the weights up to this step, whose own evaluation may still be under way
    validation: tuple[Evaluation, ...] = ()
    training: tuple[Evaluation, ...] = ()  # The training loss of earlier epochs, where trainers report it
    loss: EpochLoss = EpochLoss()  # Of this epoch's rows so far
    keep: KeepRule | None = None  # How the best weights are chosen, if they are kept
    carried: Carried | None = None  # The weights of another run that it began with, if any

    def stored(self) -> dict[str, Any]:
        """Returns it for a manifest, without empty fields."""
        empty = CheckpointRecord()
        return {
            name: value
            for name, value in self.model_dump().items()
            if name in _ALWAYS or getattr(self, name) != getattr(empty, name)
        }
