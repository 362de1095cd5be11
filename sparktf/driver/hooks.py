"""The stations of a run at which those above the driver may act; by themselves runs only train."""

from __future__ import annotations

from sparktf.config.job import JobConfig
from sparktf.driver.gang.site import Voice
from sparktf.rundir import RunDirectory


class Hooks:
    """The stations, in their order; nothing happens at these. An error ends the run, with the error's verdict."""

    def before_plan(self, config: JobConfig, rundir: RunDirectory, voice: Voice) -> None:
        """The run may be held here, and its output be written; nothing is planned yet, and no executor is asked for.

        Not called for a run that is resumed: it has been planned.
        """
