"""Reports the workers' receipts to the driver in a thread, so that training does not wait for it."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from sparktf.knobs import KNOBS
from sparktf.topology import NodeId
from sparktf.trainer.node.place import Place
from sparktf.wire.control import Ack, Action
from sparktf.wire.leasing import Closed, Fetched, Receipt


class Telling:
    """Reports receipts in the order in which they are added, several at a time."""

    def __init__(self, place: Place) -> None:
        """Starts the thread."""
        self._place = place
        self._changed = threading.Condition()
        # The following is shared with the thread, under the condition's lock.
        self._receipts: list[Receipt] = []
        self._closed: list[Closed] = []
        self._is_telling = False
        self._hurry = False
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="fetched", daemon=True).start()

    def add(self, receipts: Iterable[Receipt]) -> None:
        """Reports receipts soon.

        Raises:
            ControlError: earlier ones could not be reported.
        """
        with self._changed:
            self._raise()
            self._receipts += (receipt.model_copy(update={"metrics": ()}) for receipt in receipts)
            self._changed.notify_all()

    def close(self, lost: Iterable[tuple[NodeId, int]]) -> None:
        """Reports soon that these incarnations of workers are closed: no further receipt of theirs counts."""
        with self._changed:
            self._closed += [Closed(node=node, incarnation=incarnation) for node, incarnation in lost]
            self._changed.notify_all()

    def flush(self) -> None:
        """Waits until everything is reported.

        Raises:
            ControlError: the driver could not be reached.
        """
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._error or not (self._is_telling or self._receipts or self._closed))
            self._hurry = False
            self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while True:
                self._tell()
        except Exception as error:  # noqa: BLE001 - the end of a thread: `add` and `flush` raise it
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _tell(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._receipts or self._closed)
            self._changed.wait_for(lambda: self._hurry or self._closed, KNOBS.tell_s)
            receipts, closed = tuple(self._receipts), tuple(self._closed)
            self._receipts, self._closed, self._is_telling = [], [], True
        message = Fetched(**self._place.spec.sender, receipts=receipts, closed=closed)
        self._place.ask(Action.FETCHED, message, Ack)
        with self._changed:
            self._is_telling = False
            self._changed.notify_all()
