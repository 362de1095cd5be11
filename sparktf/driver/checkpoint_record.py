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

    model_config = ConfigDict(extra="ignore")  # what a later version stores besides

    epochs: tuple[EpochRows, ...] = ()  # Accounts of the epochs before its position
    # Rows of the splits that Spark has fed of this epoch, by their numbers; None where it feeds nothing
    splits: dict[int, int] | None = None
    set_aside: int = 0  # Bad rows of this epoch that were skipped
    replayed: int = 0  # Rows of this epoch that may have been trained twice
    # What is known of the weights up to this step, whose own evaluation may still be under way
    validation: tuple[Evaluation, ...] = ()
    training: tuple[Evaluation, ...] = ()  # The training loss of the epochs before, where trainers tell it
    loss: EpochLoss = EpochLoss()  # That of this epoch's rows so far
    keep: KeepRule | None = None  # By what the best of the evaluated weights are known, if they are kept
    carried: Carried | None = None  # What the weights were begun with, if those were another run's

    def stored(self) -> dict[str, Any]:
        """Returns it for a manifest, without empty fields."""
        empty = CheckpointRecord()
        return {
            name: value
            for name, value in self.model_dump().items()
            if name in _ALWAYS or getattr(self, name) != getattr(empty, name)
        }
