"""Executions whose results come as they are told to; for the process `elsewhere`, which has TensorFlow."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from typing import Any


class Remote:
    """A value that is fetched in vain as often as there are errors, named as in `tf.errors`."""

    def __init__(self, *errors: str) -> None:
        self._errors = [_error(name) for name in errors]

    def fetch(self) -> bytes:
        """See `RemoteValue`."""
        if self._errors:
            raise self._errors.pop(0)
        return b"rows"


class Coordinator:
    """Hands out remote values; `failure` is what it has failed with, if it has."""

    def __init__(self, remotes: Sequence[Remote], failure: str = "") -> None:
        self._remotes = list(remotes)
        self._failure = failure

    def schedule(self, function: Any, args: tuple[Any, ...]) -> Remote:
        """See `ClusterCoordinator`."""
        del function, args
        return self._remotes.pop(0)

    def done(self) -> bool:
        """See `ClusterCoordinator`."""
        if self._failure:
            raise _error(self._failure)
        return False


def fetched(errors: Sequence[str], failure: str = "", patience_s: float = 60.0) -> tuple[str, int]:
    """Returns the value of an execution, or the error that is raised; and how many errors were left."""
    fetching = importlib.import_module("sparktf.trainer.parameter_server.fetching")
    remote = Remote(*errors)
    try:
        value = fetching.fetch(remote, Coordinator([], failure).done, time.monotonic() + patience_s).decode()
    except Exception as error:  # noqa: BLE001 - whatever it is, the test says what it should be
        value = type(error).__name__
    return value, len(remote._errors)


def executed(*errors: Sequence[str], failure: str = "") -> list[str]:
    """Returns what comes of executions one after the other: their numbers, or the error that is raised."""
    fetching = importlib.import_module("sparktf.trainer.parameter_server.fetching")
    coordinator = Coordinator([Remote(*each) for each in errors], failure)
    executions = fetching.Executions(coordinator, threads=len(errors), patience_s=60.0)
    for number in range(len(errors)):
        executions.send(number, None, ())
    came: list[str] = []
    try:
        while len(came) < len(errors) and (result := executions.next(10.0)) is not None:
            came.append(str(result.number))
    except Exception as error:  # noqa: BLE001 - as above
        came.append(type(error).__name__)
    return came


def _error(name: str) -> Exception:
    error: Exception = getattr(importlib.import_module("tensorflow").errors, name)(None, None, "made up")
    return error
