"""A feeder's questions to the driver about the nodes of a guest: what became of one that it waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sparktf.errors import ControlError, ErrorRecord, NodeLostError, RefusedError, SparkTFError
from sparktf.wire.channel import ControlClient, Silence
from sparktf.wire.control import Action
from sparktf.wire.guest import Deal, DealRequest
from sparktf.wire.security import ControlAccess

_ASK_S = 2.0
_ASK_AGAIN_S = 0.2
_ANSWER_S = 10.0


class GuestWatch:
    """Asks the driver."""

    def __init__(self, access: ControlAccess, driver_lost_s: float) -> None:
        """Asks nothing yet. `driver_lost_s`: the driver's silence after which it counts as lost."""
        self._client = ControlClient(access)
        self._silence = Silence(driver_lost_s)

    @contextmanager
    def during(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Calls `cancel` from another thread within the context if the nodes have failed, or the driver is lost.

        A node whose host is gone does not even close its connections.
        """
        is_over = threading.Event()

        def watch() -> None:
            try:
                while not is_over.wait(_ASK_S):
                    if self._is_lost():
                        cancel()
                        return
            except Exception:  # noqa: BLE001 - the end of a thread: the call is not waited for without its watch
                cancel()

        thread = threading.Thread(target=watch, name="guest-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()

    def cause(self, limit_s: float) -> SparkTFError | None:
        """Returns the error that the nodes have failed with, once it is known; None if it is not within the limit."""
        until_s = time.monotonic() + limit_s
        while True:
            try:
                cause = self._ask()
            except ControlError as error:
                return NodeLostError(
                    f"the cluster has ended: collect what inference() returns before shutdown(), and train before it "
                    f"({error})"
                )
            if cause is not None:
                found = cause.to_error()
                if cause.traceback:
                    found.add_note(cause.traceback)
                return found
            if time.monotonic() > until_s:
                return None
            time.sleep(_ASK_AGAIN_S)

    def _is_lost(self) -> bool:
        began_s = time.monotonic()
        try:
            found = self._ask() is not None
        except RefusedError:
            return True
        except ControlError as error:
            return self._silence.is_too_long(error, began_s=began_s, ended_s=time.monotonic(), timeout_s=_ANSWER_S)
        self._silence.end()
        return found

    def _ask(self) -> ErrorRecord | None:
        return self._client.call(Action.DEAL, DealRequest(rows=0), Deal, timeout_s=_ANSWER_S).cause
