"""How a trainer ends: at once, since TensorFlow's own shutdown can wait long for lost peers."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from sparktf.trainer.node.report import Reporter, log_line
from sparktf.wire.control import Failed
from sparktf.wire.trainer_spec import TrainerSpec

_failing = threading.Lock()


def end(work: Path, code: int) -> NoReturn:
    """Ends the process, and leaves nothing in its folder."""
    shutil.rmtree(work, ignore_errors=True)
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(code)


def fail(error: BaseException, spec: TrainerSpec, reporter: Reporter, work: Path) -> NoReturn:
    """Tells the driver of an error, and ends the process; of two threads that fail, the first is heard.

    It may be called from any thread: the main one may be in a call that never returns.
    """
    _failing.acquire()  # for good
    try:
        log_line("".join(traceback.format_exception(error)))
        from sparktf.trainer.node import failure  # noqa: PLC0415 - TensorFlow reads its environment when imported

        record = failure.error_record(error, spec, work=work, time_s=time.time(), host=socket.gethostname())
        reporter.fail(Failed(**spec.sender, record=record))
    finally:
        end(work, 1)
