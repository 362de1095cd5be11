"""What can go wrong with a mini cluster, and the exit code each error gives the command.

MiniHadoopError
├── RefusedError (RuntimeError)      2  this machine, or what was asked for, does not allow it
├── NotReadyError (TimeoutError)     1  something did not come within its deadline
└── CommandError (RuntimeError)      1  a command that has to succeed did not
"""

from __future__ import annotations

from typing import ClassVar


class MiniHadoopError(Exception):
    """Base of all errors of minihadoop; `exit_code` is the command line's."""

    exit_code: ClassVar[int] = 1


class RefusedError(MiniHadoopError, RuntimeError):
    """A tool or a right is missing, or the request contradicts itself or the cluster there is; one line says which."""

    exit_code = 2


class NotReadyError(MiniHadoopError, TimeoutError):
    """A condition did not come true; the message names it and ends with what the daemon logged last."""


class CommandError(MiniHadoopError, RuntimeError):
    """A command failed; the message has its exit code and its last output."""
