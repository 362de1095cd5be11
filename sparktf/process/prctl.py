"""What Linux does with a process when the one above it ends."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> bool:
    """Asks the kernel to kill this process when the parent's thread dies that has started it, however that happens.

    Returns:
        Whether it will; not if the parent has died before the kernel was asked: then end the process yourself.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def outlive_parent() -> None:
    """Takes back what `die_with` has asked for."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
