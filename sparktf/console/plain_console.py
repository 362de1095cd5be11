"""The console through which everything is shown."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TextIO

from rich.console import Console

from sparktf.told import log_of, told, words_of_error

_log = log_of(__name__)


class PlainConsole(Console):
    """A console that shows text as it is: nothing in it is markup, a picture or a link.

    Output errors are ignored: no verdict depends on a reader.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def on_broken_pipe(self) -> None:
        """Stops output, where rich would end the process."""
        self.quiet = True

    def print(self, *objects: Any, **settings: Any) -> None:
        """Prints; a closed terminal, a full disk or an unencodable letter raises nothing."""
        try:
            super().print(*objects, **settings)
        except Exception as error:  # noqa: BLE001 - output has no say in the verdict, whatever fails
            _log.warning("a line could not be shown: %s: %s", type(error).__name__, told(words_of_error(error)))


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints a line, on standard error by default; raises nothing: the exit code says it too."""
    with suppress(OSError, ValueError):  # a pipe without a reader; a code page without a letter
        print(text, file=stream or sys.stderr, flush=True)


def let_go_of_output() -> None:
    """Drops unwritten output that has no reader: Python would exit with 120 for it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
