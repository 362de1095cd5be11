"""The stations of a run at which code above the driver may act; by themselves runs only train."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparktf.config.job import JobConfig
from sparktf.driver.gang.site import Voice
from sparktf.driver.plan.plan import Plan
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.wire.model_source import Models

Put = Callable[[str, bytes], None]
"""Writes a small file, whole or not at all, as long as the run is this driver's; the folder above it must be there.

Raises:
    FencedOffError: a newer submission owns the run; the file is as it was.
    StorageError: the storage failed.
"""


class Hooks:
    """The stations, in order; these do nothing. An error ends the run, with the error's verdict."""

    def begun(self, config: JobConfig, rundir: RunDirectory, result: RunResult, voice: Voice) -> None:
        """This driver owns the run now, new or resumed; `result` is what is known so far. Raises nothing."""

    def before_plan(self, config: JobConfig, rundir: RunDirectory, voice: Voice) -> None:
        """May hold a new run, and write its output, before it is planned and holds executors; not for a resumed run."""

    def planned(self, config: JobConfig, plan: Plan, rundir: RunDirectory, put: Put, voice: Voice) -> None:
        """The plan is made, and is stored after this; no executor is held yet. Not called for a resumed run."""

    def models(self, config: JobConfig, rundir: RunDirectory, voice: Voice, *, resumes: bool) -> Models:
        """An attempt is about to begin. Returns the models it needs besides its own; if it `resumes`, none to begin
        from.
        """
        del config, rundir, voice, resumes
        return Models()

    def ending_s(self, config: JobConfig, rundir: RunDirectory) -> float:
        """Returns the longest time in seconds that the steps after training took in earlier runs; 0 if unknown.

        Called where a run has a time limit and no reserve is configured. Raises nothing: it is an estimate.
        """
        del config, rundir
        return 0.0

    def after_training(
        self, config: JobConfig, rundir: RunDirectory, result: RunResult, voice: Voice, check_owner: Callable[[], None]
    ) -> dict[str, Any]:
        """The model is in the run's folder. Returns the result's `extra`: what becomes of the model.

        Called again for a run that is resumed because it ended before its result was written.

        Args:
            result: As it would be now.
            check_owner: Raises `FencedOffError` where another submission owns the run.
        """
        del config, rundir, result, voice, check_owner
        return {}

    def last_steps(self, config: JobConfig) -> tuple[str, ...]:
        """Returns the names of the steps that follow the writing of the result, in order.

        They are stored with the result until all are done, so a name means the same in every version.
        """
        del config
        return ()

    def do_last(
        self, step: str, result: RunResult, config: JobConfig, rundir: RunDirectory, put: Put, voice: Voice
    ) -> None:
        """Does one of `last_steps`. Verdict and result are written; this driver owns the run until the last step ends.

        Raises nothing: the verdict stands, whatever goes wrong here. A driver that repeats an earlier result calls it
        for steps that a killed driver has not done, or had just done. Not called where the result could not be written,
        or another submission owns the run.
        """
