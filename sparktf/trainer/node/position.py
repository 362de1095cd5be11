"""The position of a node's training, and the extent of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, Self

from sparktf.config.train import TrainConfig
from sparktf.results.keep import EpochLoss
from sparktf.sequence import Interval
from sparktf.wire.restore import Restore


@dataclass(frozen=True, slots=True)
class Position:
    """The position of one node's training, replaced only by its loop."""

    epoch: int = 0
    step: int = 0  # Updates made in the whole run
    rows: int = 0  # Rows of this node's share of the epoch that went into updates in this attempt
    is_complete: bool = False  # The epoch is complete: a checkpoint continues with the next one
    loss: float | None = None  # Mean loss of the last updates; None while unknown
    # Loss of the epoch so far, including earlier attempts, as far as losses were reported
    epoch_loss: EpochLoss = field(default_factory=EpochLoss)

    @classmethod
    def restored(cls, restore: Restore | None) -> Self:
        """Returns the position at which an attempt begins."""
        if restore is None:
            return cls()
        return cls(epoch=restore.cursor.epoch, step=restore.step, epoch_loss=restore.loss)

    @property
    def next_epoch(self) -> int:
        return self.epoch + self.is_complete

    def begun(self, epoch: int) -> Self:
        """Returns the position at the beginning of an epoch, or of the rest that an earlier attempt left."""
        loss = self.epoch_loss if epoch == self.next_epoch == self.epoch else EpochLoss()
        return replace(self, epoch=epoch, rows=0, is_complete=False, epoch_loss=loss)

    def advanced(self, *, step: int, rows: int, loss: float | None) -> Self:
        """Returns the position after further updates, with the new step and the additional rows of this node."""
        return replace(self, step=step, rows=self.rows + rows, loss=loss)

    def learned(self, loss: float, rows: int) -> Self:
        """Returns the position with the mean loss of the last updates, over `rows` rows of all workers."""
        return replace(self, loss=loss, epoch_loss=self.epoch_loss.add(loss, rows))

    def ended(self, *, complete: bool) -> Self:
        """Returns the position after an epoch, or after a part of it."""
        return replace(self, is_complete=complete)


class Positioned(Protocol):
    """A loop that has a position."""

    @property
    def position(self) -> Position:
        """The current position; other threads read it, too."""


class Extent(NamedTuple):
    """The extent of a run, the same on every node; any epoch may turn out to be the last one if `may_stop`."""

    epochs: int
    max_steps: int | None
    may_stop: bool = False

    @classmethod
    def of(cls, train: TrainConfig) -> Extent:
        return cls(train.epochs, train.max_steps, may_stop=train.may_stop)

    def is_exhausted(self, step: int) -> bool:
        """Whether `train.max_steps` is reached."""
        return self.max_steps is not None and step >= self.max_steps

    def steps_left(self, step: int) -> int | None:
        """Returns the updates until `train.max_steps`; None without that limit."""
        return None if self.max_steps is None else self.max_steps - step

    def may_end_at(self, position: Position) -> bool:
        """Whether training may end at this position."""
        return self.epoch_after(position) is None or (self.may_stop and position.is_complete)

    def epoch_after(self, position: Position) -> int | None:
        """Returns the epoch to continue with; None if nothing is left to train."""
        over = self.is_exhausted(position.step) or position.next_epoch >= self.epochs
        return None if over else position.next_epoch


class Done(NamedTuple):
    """A node's part of an incomplete epoch, in this attempt, or that of all nodes."""

    intervals: Sequence[Interval] = ()  # Intervals of the epoch sequence
    rows_aside: int = 0  # Rows in them that were left out because they fail a check
    in_doubt: int = 0  # Other rows that may be in the weights without a receipt
    of_all: bool = False  # It is that of all nodes
