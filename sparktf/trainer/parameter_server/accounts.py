"""What an epoch's training begins with, and what the driver is told of its end."""

from __future__ import annotations

from collections.abc import Callable

from sparktf.sequence import Stream
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.position import Position
from sparktf.trainer.parameter_server.epoch_rows import AskedRows
from sparktf.wire.control import EpochDone, TrainerSpec


def rows_to_train(place: Place, epoch: int) -> Callable[[], int | None]:
    """Returns what says how many rows of an epoch are left when an attempt begins with it; see `AskedRows`."""
    spec, restore = place.spec, place.spec.restore
    before = restore.cursor.rows if restore is not None and restore.cursor.epoch == epoch else 0
    if Stream.TRAIN in spec.staged:
        return AskedRows(place, epoch, before).left
    left = spec.rows[Stream.TRAIN] - before
    return lambda: left


def epoch_done(spec: TrainerSpec, at: Position, rows_aside: int, dropped: int = 0) -> EpochDone:
    """Returns what has become of an epoch that has ended.

    Args:
        rows_aside: Rows of it that were left out in this attempt.
        dropped: Gradients that came too late for their update.
    """
    return EpochDone(
        **spec.sender,
        epoch=at.epoch,
        step=at.step,
        rows_fed=at.rows + rows_aside,
        rows_trained=at.rows,
        rows_aside=rows_aside,
        dropped=dropped,
        complete=at.is_complete,
    )
