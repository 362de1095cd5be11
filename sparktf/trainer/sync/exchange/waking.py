"""Ends the waits of an exchange from another thread."""

from __future__ import annotations

import os
import threading


class Waking:
    """A reason to end, once there is one.

    Attributes:
        descriptor: Can be read from then on.
    """

    def __init__(self) -> None:
        self.descriptor, self._write = os.pipe()
        self._lock = threading.Lock()
        self._error: BaseException | None = None

    def wake(self, error: BaseException) -> None:
        """Ends the present wait, and all that follow, with an error; the first one counts. From any thread."""
        with self._lock:
            if self._error is None:
                self._error = error
                os.write(self._write, b"!")

    def check(self) -> None:
        """Raises the error, if there is one."""
        with self._lock:
            if self._error is not None:
                raise self._error

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self._write)
