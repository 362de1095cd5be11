"""Lines that the user's code prints, for the driver's output: they are in this process's log as well."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

LINES = 200
"""The most lines of an attempt that are told."""

LENGTH = 20_000
"""The most characters of an attempt that are told."""

REST = "(what else is printed is in the log of this node alone)"


class Printing:
    """Tells the lines that are printed in a block when it ends."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Calls `tell` with the lines of a block that prints any."""
        self._tell = tell
        self._lines_left = LINES
        self._left = LENGTH

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Hears what the block prints, and tells of it, also if the block raises."""
        heard = _Heard(sys.stdout)
        try:
            with redirect_stdout(heard):
                yield
        finally:
            lines = heard.text.getvalue().splitlines()
            if lines and self._lines_left:
                self._tell("\n".join(self._some(lines)))

    def _some(self, lines: list[str]) -> list[str]:
        """Returns the lines that there is room for; after the last one, a line says so."""
        found: list[str] = []
        for line in lines:
            self._lines_left, self._left = self._lines_left - 1, self._left - len(line)
            if self._lines_left <= 0 or self._left < 0:
                self._lines_left = 0
                return [*found, REST]
            found.append(line)
        return found


class _Heard(io.TextIOBase):
    """Writes to a stream, and keeps what is written."""

    def __init__(self, stream: TextIO) -> None:
        self.text = io.StringIO()
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the stream."""
        return self._stream.encoding

    def write(self, text: str) -> int:
        self.text.write(text if self.text.tell() <= LENGTH else "")
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()
