"""Where the main thread of a process is, in the user's own code, for errors that another thread finds."""

from __future__ import annotations

import sys
import sysconfig
import threading
from pathlib import Path

_OWN = str(Path(__file__).parents[1])
_NOT_THEIRS = (_OWN, "<frozen", *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))


def main_place() -> str:
    """Returns a clause that names the innermost line of the user's that the main thread is in; "" if there is none."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_NOT_THEIRS):
            return f"; it is at line {frame.f_lineno} of {Path(code.co_filename).name}, in {code.co_name}"
        frame = frame.f_back
    return ""
