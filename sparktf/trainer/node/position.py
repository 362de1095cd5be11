"""Where a node's training is, and where it ends."""

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
    """Where the training of one node is, as its loop has left it; the loop alone replaces it by the next one.

    Attributes:
        step: Updates made over the whole run.
        rows: Rows of this node's share of the epoch, in this attempt, that went into updates.
        is_complete: Nothing of the epoch is left: a checkpoint goes on with the next one.
        loss: Mean of the last updates; None while nobody has told one.
        epoch_loss: Of the epoch's rows so far, those before this attempt among them, as far as losses were told.
    """

    epoch: int = 0
    step: int = 0
    rows: int = 0
    is_complete: bool = False
    loss: float | None = None
    epoch_loss: EpochLoss = field(default_factory=EpochLoss)

    @classmethod
    def restored(cls, restore: Restore | None) -> Self:
        """Returns where an attempt begins."""
        if restore is None:
            return cls()
        return cls(epoch=restore.cursor.epoch, step=restore.step, epoch_loss=restore.loss)

    @property
    def next_epoch(self) -> int:
        """The epoch that is gone on with from here."""
        return self.epoch + self.is_complete

    def begun(self, epoch: int) -> Self:
        """Returns the position at the beginning of an epoch, or of what the attempt before has left of it."""
        loss = self.epoch_loss if epoch == self.next_epoch == self.epoch else EpochLoss()
        return replace(self, epoch=epoch, rows=0, is_complete=False, epoch_loss=loss)

    def advanced(self, *, step: int, rows: int, loss: float | None) -> Self:
        """Returns the position after more updates.

        Args:
            step: That of the last update.
            rows: How many more rows of this node's share they have used.
        """
        return replace(self, step=step, rows=self.rows + rows, loss=loss)

    def learned(self, loss: float, rows: int) -> Self:
        """Returns the position with the mean loss of the last updates, of all workers' rows.

        Args:
            rows: How many rows that are, over all workers.
        """
        return replace(self, loss=loss, epoch_loss=self.epoch_loss.add(loss, rows))

    def ended(self, *, complete: bool) -> Self:
        """Returns the position after an epoch, or after the part of it that is trained."""
        return replace(self, is_complete=complete)


class Positioned(Protocol):
    """A loop: whoever has to know where the training is asks it."""

    @property
    def position(self) -> Position:
        """Where it is now; read by other threads, too."""


class Extent(NamedTuple):
    """How far a run trains, the same on every node.

    Attributes:
        may_stop: Any epoch may turn out to have been the last one, once its metrics are known.
    """

    epochs: int
    max_steps: int | None
    may_stop: bool = False

    @classmethod
    def of(cls, train: TrainConfig) -> Extent:
        """Returns the extent of a configuration."""
        return cls(train.epochs, train.max_steps, may_stop=train.may_stop)

    def is_exhausted(self, step: int) -> bool:
        """Whether `train.max_steps` is reached."""
        return self.max_steps is not None and step >= self.max_steps

    def steps_left(self, step: int) -> int | None:
        """Returns the updates until `train.max_steps`, None where there is no such limit."""
        return None if self.max_steps is None else self.max_steps - step

    def may_end_at(self, position: Position) -> bool:
        """Whether nothing more may be trained after this position."""
        return self.epoch_after(position) is None or (self.may_stop and position.is_complete)

    def epoch_after(self, position: Position) -> int | None:
        """Returns the epoch to go on with, None where nothing is left to train."""
        over = self.is_exhausted(position.step) or position.next_epoch >= self.epochs
        return None if over else position.next_epoch


class Done(NamedTuple):
    """What a node has done of an epoch that is not complete, in this attempt.

    Attributes:
        intervals: Of the epoch's sequence.
        rows_aside: How many rows of these were left out because they fail a check.
        in_doubt: So many others may have gone into the weights, and nobody will tell of it.
    """

    intervals: Sequence[Interval] = ()
    rows_aside: int = 0
    in_doubt: int = 0
