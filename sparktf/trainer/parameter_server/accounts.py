"""The rows that an epoch begins with, and the report of its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sparktf.knobs import KNOBS
from sparktf.sequence import Stream
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.position import Position
from sparktf.wire.control import Action, EpochDone
from sparktf.wire.data import Span, Work, WorkRequest
from sparktf.wire.trainer_spec import Training


def rows_to_train(place: Place, epoch: int) -> Callable[[], int | None]:
    """Returns a function that counts the rows of an epoch that are left when this attempt begins; see `AskedRows`."""
    spec, restore = place.spec, place.spec.restore
    before = restore.cursor.rows if restore is not None and restore.cursor.epoch == epoch else 0
    if Stream.TRAIN in spec.staged:
        return AskedRows(place, epoch, before).left
    left = spec.rows[Stream.TRAIN] - before
    return lambda: left


def epoch_done(spec: Training, at: Position, rows_aside: int, dropped: int = 0) -> EpochDone:
    """Returns the report of an epoch that has ended; `dropped` gradients came too late for their update."""
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


class AskedRows:
    """Counts the rows of an epoch that Spark feeds, which is known only once Spark has computed them all.

    A thread asks the driver until it knows, so that training does not wait.
    """

    def __init__(self, place: Place, epoch: int, before: int) -> None:
        """Begins to ask; `before` rows were trained before this attempt."""
        self._place = place
        self._span = Span(attempt=place.spec.attempt, stream=Stream.TRAIN, epoch=epoch)
        self._before = before
        self._rows: int | None = None
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="epoch-rows", daemon=True).start()

    def left(self) -> int | None:
        """Returns the rows left when this attempt begins with the epoch; None while that is unknown.

        Raises:
            ControlError: the driver could not be asked.
        """
        if self._error is not None:
            raise self._error
        return None if self._rows is None else self._rows - self._before

    def _run(self) -> None:
        request = WorkRequest(**self._place.spec.sender, span=self._span, starved_s=0.0)
        try:
            while (rows := self._place.ask(Action.WORK, request, Work).rows) is None:
                time.sleep(KNOBS.staged_poll_s)
            self._rows = rows
        except Exception as error:  # noqa: BLE001 - the end of a thread: `left` raises it where it is waited for
            self._error = error
