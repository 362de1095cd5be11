"""The terminal, as everything of ours is shown on it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TextIO

from rich.console import Console

from sparktf.told import log_of, told, words_of_error

_log = log_of(__name__)


class PlainConsole(Console):
    """A console that shows what it is given: nothing in a text is markup, a picture or a link.

    Nobody needs to read it to the end, and nobody's verdict depends on it: what cannot be shown is not.
    """

    def __init__(self, **settings: Any) -> None:
        """Takes rich's own settings."""
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def on_broken_pipe(self) -> None:
        """Says no more, where rich would end the process."""
        self.quiet = True

    def print(self, *objects: Any, **settings: Any) -> None:
        """Shows them; a terminal that is gone, a full disk or a code page without a letter ends nothing."""
        try:
            super().print(*objects, **settings)
        except Exception as error:  # noqa: BLE001 - whatever it is, what is shown has its own end
            _log.warning("a line could not be shown: %s: %s", type(error).__name__, told(words_of_error(error)))


def say(text: str, stream: TextIO | None = None) -> None:
    """Says a line to whoever is there, on standard error by default; an exit code says it all the same."""
    with suppress(OSError, ValueError):  # a pipe without a reader; a code page without a letter
        print(text, file=stream or sys.stderr, flush=True)


def let_go_of_output() -> None:
    """Has nothing that nobody takes any more become the process's exit code: Python would end with 120 for it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
