"""The parts of the nightly service that a configuration asks for, each at its station of the run."""

from __future__ import annotations

from sparktf.clock import Clock
from sparktf.config.job import JobConfig
from sparktf.driver.gang.site import Voice
from sparktf.driver.hooks import Hooks
from sparktf.nightly.readiness import await_ready
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
