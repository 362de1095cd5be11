"""The process of `python -m minihadoop`: signals and the exit code."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from minihadoop.cli import main

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPTED = 130


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Interrupts once: what is then cleaned up is not to be interrupted again."""
    for number in _INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    for interrupt in _INTERRUPTS:
        signal.signal(interrupt, _interrupt)
    try:
        code = main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = _INTERRUPTED
    sys.exit(code)
