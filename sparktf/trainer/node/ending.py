"""Ends a trainer at once: TensorFlow's own shutdown can wait long for lost peers."""

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

from sparktf.trainer.node.failure import error_record
from sparktf.trainer.node.report import Reporter, log_line
from sparktf.wire.control import Failed
from sparktf.wire.trainer_spec import TrainerSpec

_failing = threading.Lock()


def end(work: Path, code: int) -> NoReturn:
    """Removes the process's folder, and ends the process."""
    shutil.rmtree(work, ignore_errors=True)
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(code)


def fail(error: BaseException, spec: TrainerSpec, reporter: Reporter, work: Path) -> NoReturn:
    """Reports an error to the driver, and ends the process; if two threads fail, the first one's error is reported.

    Any thread may call it: the main one may be in a call that never returns.
    """
    _failing.acquire()  # for good
    try:
        log_line("".join(traceback.format_exception(error)))
        record = error_record(error, spec, work=work, time_s=time.time(), host=socket.gethostname())
        reporter.fail(Failed(**spec.sender, record=record))
    finally:
        end(work, 1)
