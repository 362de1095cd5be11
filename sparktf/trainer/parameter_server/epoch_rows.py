"""How many rows of an epoch there are where Spark feeds them: nobody knows before it has."""

from __future__ import annotations

import threading
import time

from sparktf.knobs import KNOBS
from sparktf.sequence import Stream
from sparktf.trainer.node.place import Place
from sparktf.wire.control import Action
from sparktf.wire.data import Span, Work, WorkRequest


class AskedRows:
    """Asks the driver until it knows, beside the training, which does not wait for it."""

    def __init__(self, place: Place, epoch: int, before: int) -> None:
        """Begins to ask.

        Args:
            before: Rows of the epoch that were trained before this attempt.
        """
        self._place = place
        self._span = Span(attempt=place.spec.attempt, stream=Stream.TRAIN, epoch=epoch)
        self._before = before
        self._rows: int | None = None
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="epoch-rows", daemon=True).start()

    def left(self) -> int | None:
        """Returns how many are left when this attempt begins with the epoch, None while nobody knows.

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
