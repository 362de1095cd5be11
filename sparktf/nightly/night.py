"""The configured parts of the nightly service, each at its hook of the run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sparktf.clock import Clock
from sparktf.config.gate_section import GateConfig
from sparktf.config.job import JobConfig
from sparktf.driver.gang.site import Voice
from sparktf.driver.hooks import Hooks, Put
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.stored_plan import data_read
from sparktf.errors import GatedError, StorageError
from sparktf.knobs import KNOBS
from sparktf.nightly.data_checks import check_data
from sparktf.nightly.earlier_runs import earlier_runs, ending_s
from sparktf.nightly.errand import Errand
from sparktf.nightly.foreknowledge import day_of, knows_later
from sparktf.nightly.history import keep_record, run_record
from sparktf.nightly.mlflow_guest import MlflowGuest
from sparktf.nightly.pruning import Pruner
from sparktf.nightly.readiness import await_ready
from sparktf.nightly.report.index_page import write_index
from sparktf.nightly.report.run_page import run_page
from sparktf.nightly.report.stored import gather
from sparktf.nightly.warm_start import Beginning, beginning_of
from sparktf.published.gated import FoundModel, anchor_of, champion_of, publish_past_gate
from sparktf.published.mlmodel import mlmodel_of
from sparktf.published.release import release_of
from sparktf.published.serving import Published, Serving
from sparktf.results.result import Application, RunResult, result_content
from sparktf.rundir import RunDirectory, is_of_a_name
from sparktf.statistics.column_statistics import TableStatistics
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.leftovers import abort_left
from sparktf.storage.transactions.ownership import Ownership
from sparktf.wire.model_source import Models, ModelSource

_HISTORY, _REPORT, _MLFLOW, _ON_END = "history", "report", "mlflow", "on_end"
"""The last steps, by their stored names."""


class Night(Hooks):
    """See `Hooks`; every part is off unless its section is configured."""

    def __init__(
        self, file_systems: FileSystems, clock: Clock, measure: Callable[[JobConfig, Plan], TableStatistics]
    ) -> None:
        """Holds the dependencies of the parts; `measure` reads a plan's rows, and returns statistics of its columns."""
        self._file_systems = file_systems
        self._clock = clock
        self._measure = measure
        self._mlflow = MlflowGuest(clock, file_systems)

    def begun(self, config: JobConfig, rundir: RunDirectory, result: RunResult, voice: Voice) -> None:
        """Reports the run to MLflow."""
        if config.output.mlflow is not None:
            self._mlflow.begun(config, rundir, result, voice)

    def before_plan(self, config: JobConfig, rundir: RunDirectory, voice: Voice) -> None:
        """Finds the model to begin from, and waits for the data.

        Raises:
            ConfigError: there is no such model.
            NotReadyError: the data does not come in time.
        """
        self._beginning(config, rundir)  # before a node is held for nothing; it is looked for anew when it is needed
        if config.data.ready is not None and config.data.path is not None:
            storage = self._file_systems.open(config.data.path)
            await_ready(storage, config.data.path, config.data.ready, self._clock, voice.say)

    def planned(self, config: JobConfig, plan: Plan, rundir: RunDirectory, put: Put, voice: Voice) -> None:
        """Checks the data. Raises `DataError` if a check refuses it."""
        if config.data.checks is not None:
            storage = self._file_systems.open_runs(rundir.root)
            check_data(config.data.checks, storage, rundir, partial(self._measure, config, plan), put, voice)

    def models(self, config: JobConfig, rundir: RunDirectory, voice: Voice, *, resumes: bool) -> Models:
        """Returns the model that the run begins from, and the version that it would replace, if there is a gate.

        Raises:
            ConfigError: the model to begin from does not exist.
        """
        init = None if resumes else self._init(config, rundir, voice)
        if config.gate is None:
            return Models(init=init)
        serving = Serving(self._file_systems.open_runs(rundir.root), rundir.root, rundir.name)
        champion = champion_of(serving, rundir.run_id)
        if champion is None:
            return Models(init=init)
        anchor = _anchor(serving, champion.source, config.gate)
        day = day_of(config, str(self._today()))
        for found in (champion, anchor):
            use = f"this run of {day} is compared with"
            if found is not None and (warning := knows_later(use, found.source.label, found.date, day)):
                voice.warn(warning)
        return Models(init=init, champion=champion.source, anchor=None if anchor is None else anchor.source)

    def _init(self, config: JobConfig, rundir: RunDirectory, voice: Voice) -> ModelSource | None:
        beginning = self._beginning(config, rundir)
        if beginning.scratch:
            voice.say(beginning.scratch)
        if beginning.warning:
            voice.warn(beginning.warning)
        return beginning.source

    def _beginning(self, config: JobConfig, rundir: RunDirectory) -> Beginning:
        return beginning_of(config, rundir, self._file_systems, self._today())

    def _today(self) -> dt.date:
        return dt.datetime.fromtimestamp(self._clock.wall_s(), dt.UTC).date()

    def ending_s(self, config: JobConfig, rundir: RunDirectory) -> float:
        """Returns the longest time that the last runs of the name took after their training."""
        try:
            storage = self._file_systems.open_runs(rundir.root)
            return ending_s(earlier_runs(storage, rundir.root, rundir.name, but=rundir.run_id))
        except StorageError:  # an estimate is not worth a run
            return 0.0

    def after_training(
        self, config: JobConfig, rundir: RunDirectory, result: RunResult, voice: Voice, check_owner: Callable[[], None]
    ) -> dict[str, Any]:
        """Publishes the model, then deletes old ones; see `Hooks`.

        Raises:
            ModelContractError: the run has exported no model.
            GatedError: the gate keeps the published model.
            NotComparedError: the gate has compared with another model than the published one.
            FencedOffError: the run has become another submission's; nothing is published.
            StorageError: the storage failed; readers see the old model or the new one.
        """
        storage = self._file_systems.open_runs(rundir.root)
        serving = Serving(storage, rundir.root, rundir.name)
        extra: dict[str, Any] = {}
        if config.publish is not None:
            now_s, mlmodel = self._clock.wall_s(), mlmodel_of(config.model_dump())
            date, read = config.publish.date or result.date, partial(data_read, storage, rundir.plan)
            release = release_of(storage, rundir, result, date, now_s, read, mlmodel)
            try:
                if config.gate is None:
                    published = serving.publish(release, check_owner)
                else:
                    published = publish_past_gate(serving, release, result, check_owner)
            except GatedError:
                self._prune(config, rundir, serving, result, voice)
                raise
            line = _in_words(published, serving.path, release.date)
            voice.say(line)
            extra = {"published": published.version, "publishing": line}
        self._prune(config, rundir, serving, result, voice)
        return extra

    def _prune(
        self, config: JobConfig, rundir: RunDirectory, serving: Serving, result: RunResult, voice: Voice
    ) -> None:
        try:
            self._delete_old(config, rundir, serving, result, voice)
            above, now_s = f"{rundir.root.rstrip('/')}/{rundir.name}", self._clock.wall_s()
            abort_left(self._file_systems.open_runs(above), above, is_of_a_name, now_s)
        except StorageError as error:  # the model stands whatever becomes of the old ones, and the next run tries again
            voice.warn(f"old models or runs are not deleted: {error}")

    def _delete_old(
        self, config: JobConfig, rundir: RunDirectory, serving: Serving, result: RunResult, voice: Voice
    ) -> None:
        keep_models, keep_runs = config.output.keep_models, config.output.keep_runs
        if keep_models is not None and (versions := serving.prune(keep_models)):
            voice.say(f"output.keep_models: {keep_models}: deleted {', '.join(map(str, versions))}")
        if keep_runs is not None:
            storage = self._file_systems.open_runs(rundir.root)
            application = Application(result.application, result.application_attempt)
            claim = partial(
                Ownership, storage, storage, application=application, clock=self._clock, limit_s=config.timeouts.owner
            )
            pruner = Pruner(storage, rundir.root, rundir.name, claim, voice.warn, self._clock.wall_s())
            spared = {rundir.run_id, *serving.current_run()}
            # This one is kept too, and has not ended yet.
            if runs := pruner.prune(keep_runs - 1, spared):
                voice.say(f"output.keep_runs: {keep_runs}: deleted {', '.join(runs)}")

    def last_steps(self, config: JobConfig) -> tuple[str, ...]:
        """Returns the last steps: the history's row, the report, then the guests, the user's command last."""
        output = config.output
        asked = {
            _HISTORY: output.history,
            _REPORT: output.report,
            _MLFLOW: output.mlflow is not None,
            _ON_END: output.on_end is not None,
        }
        return tuple(step for step, is_asked in asked.items() if is_asked)

    def do_last(
        self, step: str, result: RunResult, config: JobConfig, rundir: RunDirectory, put: Put, voice: Voice
    ) -> None:
        """See `Hooks`. Skips steps that are not configured any more."""
        output, timeouts = config.output, config.timeouts
        if step == _HISTORY:
            self._keep_row(result, config, rundir, put, voice)
        elif step == _REPORT:
            self._report(result, config, rundir, put, voice)
        elif step == _MLFLOW and output.mlflow is not None:
            self._mlflow.ended(config, rundir, result, _patience_s(result, timeouts.mlflow), voice)
        elif step == _ON_END and output.on_end is not None:
            tell_of_end(output.on_end, result, _patience_s(result, timeouts.on_end), voice)

    def _keep_row(self, result: RunResult, config: JobConfig, rundir: RunDirectory, put: Put, voice: Voice) -> None:
        try:
            keep_record(run_record(result, config.date), rundir, self._file_systems.open_runs(rundir.root), put)
        except Exception as e:  # noqa: BLE001 - the run has its verdict, and no row of a table is worth another one
            voice.warn(f"output.history: this run's row is not kept: {e}")

    def _report(self, result: RunResult, config: JobConfig, rundir: RunDirectory, put: Put, voice: Voice) -> None:
        try:
            storage = self._file_systems.open_runs(rundir.root)
            keep_report(storage, rundir, result, config, put, self._clock.wall_s())
        except Exception as e:  # noqa: BLE001 - as above
            voice.warn(f"output.report: the report is not written: {e}")
        else:
            voice.say(f"report: {rundir.report}")


def _anchor(serving: Serving, champion: ModelSource, gate: GateConfig) -> FoundModel | None:
    """Returns the anchor of the gate, by the first metric that has a tolerance."""
    asked = [(name, metric.mode) for name, metric in gate.metrics.items() if metric.tolerance is not None]
    return anchor_of(serving, champion, gate.anchor, *asked[0]) if gate.anchor and asked else None


def _patience_s(result: RunResult, limit_s: float) -> float:
    """Returns the time for a guest; short after an interruption, whose sender may soon kill the driver."""
    return min(limit_s, KNOBS.hasty_guest_s) if result.is_interrupted else limit_s


def _in_words(published: Published, folder: str, date: str) -> str:
    if published.newer is not None:
        newer = f"version {published.newer.number} is of {published.newer_date}"
        return f"not published: this model is of {date}, and {newer}, which stays"
    if published.is_new:
        return f"published as version {published.version}: {folder}/{published.version}"
    standing = "which is current" if published.is_current else "which is not current: it was rolled back or followed"
    return f"published already as version {published.version}, {standing}"


def keep_report(
    storage: Storage, rundir: RunDirectory, result: RunResult, config: JobConfig, put: Put, now_s: float
) -> None:
    """Writes both pages.

    Args:
        put: Stores a file of the run.
        now_s: Seconds since 1970.

    Raises:
        FencedOffError: a newer submission owns the run.
        StorageError: the storage failed.
    """
    put(rundir.report, run_page(gather(storage, rundir, result, config), now_s))
    write_index(storage, rundir.root, rundir.name, now_s)


def tell_of_end(command: Sequence[str], result: RunResult, limit_s: float, voice: Voice) -> None:
    """Runs the command of `output.on_end` with result.json on its standard input, and shows its output.

    Raises nothing but interruptions: a command that fails or hangs is a warning.
    """
    try:
        ended = Errand(command, result_content(result), limit_s, variables_of(result)).wait()
    except (OSError, ValueError) as error:  # the latter: a NUL among the words, which no program is given
        voice.warn(f"output.on_end: {command[0]} was not run: {error}")
        return
    for line in ended.lines:
        voice.say(f"on_end: {line}")
    if complaint := ended.complaint(limit_s):
        voice.warn(f"output.on_end: {command[0]} {complaint}")


def variables_of(result: RunResult) -> dict[str, str]:
    """Returns the variables about the run in the command's environment."""
    return {
        "SPARKTF_RUN": f"{result.name}/{result.run_id}",
        "SPARKTF_NAME": result.name,
        "SPARKTF_RUN_ID": result.run_id,
        "SPARKTF_DATE": result.date,
        "SPARKTF_PATH": result.path,
        "SPARKTF_VERDICT": str(int(result.verdict)),
        "SPARKTF_CAUSE": "" if result.error is None else result.error.message,
        "SPARKTF_PUBLISHED": str(result.extra.get("published") or ""),
    }
