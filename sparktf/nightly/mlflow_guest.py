"""`output.mlflow`: reports a run to MLflow from its beginning to its end; MLflow cannot fail the run."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from sparktf.clock import Clock
from sparktf.config.job import JobConfig
from sparktf.driver.gang.site import Voice
from sparktf.errors import StorageNotFoundError
from sparktf.nightly.errand import Errand, driver_path
from sparktf.nightly.mlflow_note import MlflowNote, note_of_begin, note_of_end
from sparktf.results.events import LogEntry, read_events
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems

_WRITER = (sys.executable, "-P", "-m", "sparktf.nightly.mlflow_writer")


class MlflowGuest:
    """MLflow in one run. A refusal or a timeout becomes a warning."""

    def __init__(self, clock: Clock, file_systems: FileSystems) -> None:
        """Starts nothing."""
        self._clock = clock
        self._file_systems = file_systems
        self._beginning: Errand | None = None

    def begun(self, config: JobConfig, rundir: RunDirectory, result: RunResult, voice: Voice) -> None:
        """Makes or finds MLflow's run in the background."""
        try:
            self._beginning = self._write(
                note_of_begin(config, rundir, result, self._clock.wall_s()), config.timeouts.mlflow
            )
        except Exception as error:  # noqa: BLE001 - the run has nothing to do with it
            voice.warn(f"output.mlflow: {error}")

    def ended(
        self,
        config: JobConfig,
        rundir: RunDirectory,
        result: RunResult,
        limit_s: float,
        voice: Voice,
    ) -> None:
        """Ends MLflow's run as the run has ended. Takes `limit_s` at most; twice that if the run was shorter."""
        complaints: dict[str, None] = {}
        try:
            if self._beginning is not None:
                complaints = _complaints(self._beginning, limit_s)
            events = _events(self._file_systems.open_runs(rundir.root), rundir)
            note = note_of_end(config, rundir, result, events, self._clock.wall_s())
            hadoop = self._file_systems.hadoop.for_nodes()
            ending = self._write(note.model_copy(update={"hadoop": hadoop}), limit_s)
            complaints |= _complaints(ending, limit_s)
            if (lines := ending.wait().lines) and not complaints:
                voice.say(lines[-1])
        except Exception as error:  # noqa: BLE001 - as above
            complaints[str(error)] = None
        for complaint in complaints:
            voice.warn(f"output.mlflow: {complaint}")

    def _write(self, note: MlflowNote, limit_s: float) -> Errand:
        variables = {"PYTHONPATH": driver_path()}
        return Errand(_WRITER, note.model_dump_json().encode(), limit_s, variables)


def _complaints(errand: Errand, limit_s: float) -> dict[str, None]:
    complaint = errand.wait(limit_s).complaint(limit_s)
    return {} if complaint is None else {f"MLflow does not have all of the run: its client {complaint}": None}


def _events(storage: Storage, rundir: RunDirectory) -> Iterator[LogEntry]:
    """Yields the run's events so far. Raises `StorageError`, or `ValueError` for an invalid event."""
    try:
        segments = [entry.path for entry in storage.list(rundir.events)]
    except StorageNotFoundError:
        return
    for path in segments:
        yield from read_events(storage.read_bytes(path).splitlines())
