"""The stations of a run at which those above the driver may act; by themselves runs only train."""

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
    """The stations, in their order; nothing happens at these. An error ends the run, with the error's verdict."""

    def begun(self, config: JobConfig, rundir: RunDirectory, result: RunResult, voice: Voice) -> None:
        """The run is this driver's, and goes on from wherever it stands. Raises nothing.

        Args:
            result: What is known of it so far.
        """

    def before_plan(self, config: JobConfig, rundir: RunDirectory, voice: Voice) -> None:
        """The run may be held here, and its output be written; nothing is planned yet, and no executor is asked for.

        Not called for a run that is resumed: it has been planned.
        """

    def planned(self, config: JobConfig, plan: Plan, rundir: RunDirectory, put: Put, voice: Voice) -> None:
        """There is a plan, which is stored after this; no executor is held yet. Not called for a resumed run either."""

    def models(self, config: JobConfig, rundir: RunDirectory, voice: Voice, *, resumes: bool) -> Models:
        """An attempt is about to begin. Returns the models beside its own that it has to do with.

        Args:
            resumes: It goes on from a checkpoint, and so begins from no other model.
        """
        del config, rundir, voice, resumes
        return Models()

    def ending_s(self, config: JobConfig, rundir: RunDirectory) -> float:
        """Returns how long what comes after the training took in earlier runs, in seconds at most; 0 for not known.

        Asked where a run ends by time and does not say what to leave. Raises nothing: it is an estimate.
        """
        del config, rundir
        return 0.0

    def after_training(
        self, config: JobConfig, rundir: RunDirectory, result: RunResult, voice: Voice, check_owner: Callable[[], None]
    ) -> dict[str, Any]:
        """The model stands in the run's folder. Returns what the result shall say of what becomes of it (`extra`).

        Called again for a run that is resumed because it ended before its result was written.

        Args:
            result: As it would be now.
            check_owner: Raises `FencedOffError` where the run has become another submission's.
        """
        del config, rundir, result, voice, check_owner
        return {}

    def last_steps(self, config: JobConfig) -> tuple[str, ...]:
        """Returns the names of what is to be done once the result is written, in their order.

        They are kept with the result, until all are done: they mean the same in every version.
        """
        del config
        return ()

    def do_last(
        self, step: str, result: RunResult, config: JobConfig, rundir: RunDirectory, put: Put, voice: Voice
    ) -> None:
        """Does one of `last_steps`: the run has a verdict, and its result is written; it is this driver's until then.

        Raises nothing: the verdict stands, whatever goes wrong here. Called by a driver that repeats an earlier result
        for what an earlier driver, which was killed, has not done, or had done a moment before. Not called where the
        result could not be written, or another submission owns the run.
        """
