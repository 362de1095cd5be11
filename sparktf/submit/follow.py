"""Follows a run on another machine through its run directory."""

from __future__ import annotations

import datetime
from pathlib import PurePosixPath

from sparktf.console.console import Display
from sparktf.driver.event_log import writer_of
from sparktf.errors import CorruptFileError, StorageError
from sparktf.results.events import LineSaid, RunBegun, RunEnded, read_events
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.transactions.results import read_result
from sparktf.storage.transactions.terms import Owner, look

_ROUNDED_S = 1.0
"""A result has its start in whole seconds."""

_UNTOLD = ""
"""The application of drivers of an earlier version, which did not tell it."""


class Follower:
    """Shows the events of a run's driver as they arrive."""

    def __init__(self, storage: Storage, rundir: RunDirectory, display: Display) -> None:
        self._storage = storage
        self._rundir = rundir
        self._display = display
        self._seen: set[str] = set()
        self._drivers: dict[str, str] = {}

    def skip(self) -> None:
        """Skips the existing events, which are of an earlier submission."""
        self._seen.update(self._segments())

    def poll(self, application: str | None = None) -> None:
        """Shows new events, only of an application's driver if given. Waits out a storage that fails for a while."""
        for path in self._segments():
            if path in self._seen:
                continue
            try:
                lines = self._storage.read_bytes(path).splitlines()
            except StorageError:
                return
            self._seen.add(path)
            writer = writer_of(path)
            for _, event in read_events(lines):
                if isinstance(event, RunBegun):
                    self._drivers[writer] = event.application
                if isinstance(event, LineSaid) and self._is_of(writer, application):
                    self._display.say(event.text, event.style)

    def _is_of(self, writer: str, application: str | None) -> bool:
        """Whether an application's driver wrote this log; a log whose beginning was not seen is an older one."""
        return application is None or self._drivers.get(writer) in (application, _UNTOLD)

    def result(self, application: str) -> RunResult | None:
        """Returns the application's result, its own or a final one that it repeats; None if there is none yet."""
        result = self._stored()
        return result if result is not None and (result.is_final or result.application == application) else None

    def standing(self) -> RunResult | None:
        """Returns the result of any application; None while the run is under way.

        An earlier result stays in place until a later submission has nodes, so the log tells whether one is at work.
        """
        result = self._stored()
        if result is None or not result.started:
            return result
        ended_s = datetime.datetime.fromisoformat(result.started).timestamp() + result.duration_s + _ROUNDED_S
        begun_s = self._begun_s()
        return result if begun_s is None or begun_s <= ended_s else None

    def _stored(self) -> RunResult | None:
        try:
            return read_result(self._storage, self._rundir.result)
        except (CorruptFileError, StorageError):
            return None

    def _begun_s(self) -> float | None:
        """Returns when a driver last took up the run, in seconds since 1970; None if it has ended since."""
        try:
            for path in reversed(self._segments()):
                for time_s, event in reversed(list(read_events(self._storage.read_bytes(path).splitlines()))):
                    if isinstance(event, RunBegun | RunEnded):
                        return time_s if isinstance(event, RunBegun) else None
        except StorageError:
            pass
        return None

    def owner(self, application: str) -> Owner | None:
        """Returns the run's owner; None if that is the application, or nobody, or unknown."""
        try:
            term = look(self._storage, self._rundir.terms)
        except StorageError:
            return None
        is_another = term.owner is not None and term.owner.application != application
        return term.owner if is_another and not term.released else None

    def _segments(self) -> list[str]:
        folder = self._rundir.events
        try:
            names = [entry.path for entry in self._storage.list(folder)] if self._storage.exists(folder) else []
        except StorageError:
            return []
        return sorted(path for path in names if PurePosixPath(path).suffix == ".jsonl")
