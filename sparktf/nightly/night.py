"""The parts of the nightly service that a configuration asks for, each at its station of the run."""

from __future__ import annotations

from sparktf.clock import Clock
from sparktf.config.job import JobConfig
from sparktf.driver.gang.site import Voice
from sparktf.driver.hooks import Hooks, Put
from sparktf.nightly.history import keep_record, recorded
from sparktf.nightly.readiness import await_ready
from sparktf.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage import FileSystems


class Night(Hooks):
    """See `Hooks`; every part is off unless its section is configured."""

    def __init__(self, file_systems: FileSystems, clock: Clock) -> None:
        self._file_systems = file_systems
        self._clock = clock

    def before_plan(self, config: JobConfig, rundir: RunDirectory, voice: Voice) -> None:
        """Waits for the data. Raises `NotReadyError` where it does not come in time."""
        if config.data.ready is not None and config.data.path is not None:
            storage = self._file_systems.open(config.data.path)
            await_ready(storage, config.data.path, config.data.ready, self._clock, voice.say)

    def ended(self, result: RunResult, config: JobConfig, rundir: RunDirectory, put: Put, voice: Voice) -> None:
        """Keeps the run's row of the history."""
        if not config.output.history:
            return
        try:
            keep_record(recorded(result, config.date), rundir, self._file_systems.open(rundir.root), put)
        except Exception as e:  # noqa: BLE001 - the run has its verdict, and no row of a table is worth another one
            voice.warn(f"output.history: this run's row is not kept: {e}")
