"""Ties a process to its parent's end, by Linux's prctl."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> bool:
    """Asks the kernel to kill this process when the thread of the parent that started it dies.

    Returns:
        Whether it will; False if the parent died before the call: then end the process yourself.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def outlive_parent() -> None:
    """Undoes `die_with`."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
