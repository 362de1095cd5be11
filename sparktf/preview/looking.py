"""Checks all steps of a run in their order, without holding or writing anything."""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sparktf.clock import Clock
from sparktf.config.job import JobConfig
from sparktf.driver.check import plan_here
from sparktf.driver.output import check_same_plan
from sparktf.driver.plan.paths import normalised
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.stored_plan import load_plan
from sparktf.driver.run_checks import Basis, Findings, Scene, look_at_run
from sparktf.driver.spark.masters import Slots, master_of, master_to_submit_to
from sparktf.errors import (
    DataError,
    StorageError,
    StorageNotFoundError,
    TornCheckpointError,
)
from sparktf.feed.formats.format import format_of
from sparktf.nightly.data_checks import find_baseline
from sparktf.nightly.earlier_runs import earlier_runs
from sparktf.nightly.readiness import Lake, not_ready
from sparktf.nightly.warm_start import beginning_of
from sparktf.preview.capacity import Capacity, room_elsewhere, room_here, room_on_yarn
from sparktf.preview.expectation import (
    data_of,
    dealt_to,
    expected_locality,
    expected_times,
    learned,
    updates_of,
    wanted_hosts,
)
from sparktf.preview.footer_checks import judge_footers, read_footers
from sparktf.preview.forecast import (
    ChampionForecast,
    ChecksForecast,
    DataForecast,
    Forecast,
    FormerRuns,
    LocalityForecast,
    Problem,
    PublishForecast,
    RunForecast,
    UpdatesForecast,
    owner_of_run,
)
from sparktf.preview.published_models import champion_forecast, publish_forecast
from sparktf.published.serving import Serving
from sparktf.results.result import Application
from sparktf.rundir import RunDirectory
from sparktf.runs.finding import FoundRun
from sparktf.sequence import Stream
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.checkpoints import CheckpointStore, FileManifest, Manifest, parse_manifest
from sparktf.storage.transactions.ownership import Step, owned_error, watch_owner
from sparktf.submit.cluster_manager import manager_of

_NO_RUN = "zzz"  # the id of a run that has none yet: all others are earlier


@dataclass
class _Look:
    """One look at one run. Errors are collected, and the other parts are looked at all the same."""

    config: JobConfig  # With its paths as all processes understand them
    slots: Slots
    systems: FileSystems
    storage: Storage
    rundir: RunDirectory | None  # None if the run id is not known
    clock: Clock
    say: Callable[[str], None]
    found: Findings = field(default_factory=Findings)

    def forecast(self) -> Forecast:
        """Returns the forecast."""
        scene = Scene(self.config, self.slots, self.systems, has=(), rundir=self.rundir)
        look_at_run(scene, self.found)
        room = self._room()
        readable = replace(scene, has=(Basis.LISTING,))
        look_at_run(readable, self.found, scene.has)
        run = self._run()
        is_planned = self._is_planned()
        data = DataForecast() if is_planned else self._ready()
        plan = self._plan()
        if plan is not None and plan.staged:
            look_at_run(replace(readable, has=(Basis.LISTING, Basis.FED)), self.found, readable.has)
        checkpoint = self._checkpoint() if is_planned else None
        checks = None
        hosts: Sequence[str] = ()
        updates: UpdatesForecast | None = None
        locality: LocalityForecast | None = None
        former = self._former()
        rows = former.epoch_rows
        if plan is not None:
            planned = data_of(plan, "before" if is_planned else "now")
            data = planned.model_copy(update={"ready": data.ready, "missing": data.missing})
            if not is_planned:
                checks = self._checks(plan)
        if plan is not None and Stream.TRAIN in plan.tables:
            rows, hosts = plan.rows(Stream.TRAIN), self._hosts(plan)
            node_rows, share = dealt_to(self.config, plan, hosts)
            updates = updates_of(self.config, rows, node_rows)
            asks = self.slots.master.places_executors and self.config.cluster.placement == "data" and bool(plan.hosts)
            known = share if asks or not self.slots.master.places_executors else None
            locality = expected_locality(hosts if asks else (), known, plan, room.fits if asks and room else None)
        elif rows is not None:
            updates = updates_of(self.config, rows, None)
        left = self._rows_left(rows, checkpoint)
        publish, champion = self._models()
        init_from = self._init_from() if checkpoint is None else ""
        return Forecast(
            name=self.config.name,
            date=self.config.date.isoformat() if self.config.date else "",
            exit_code=0 if run.state == "done" or not self.found.errors else int(self.found.errors[0].verdict),
            problems=tuple(
                Problem(type=type(error).__name__, verdict=int(error.verdict), message=str(error))
                for error in self.found.errors
            ),
            warnings=tuple(self.found.warnings),
            known=tuple(self.found.known),
            unknown=tuple(self.found.unknown),
            run=run.model_copy(update={"rows_left": left, "step": checkpoint.step if checkpoint else 0}),
            data=data,
            checks=checks,
            updates=updates,
            locality=locality,
            room=None if room is None else room.forecast,
            former=former,
            times=expected_times(self.config, left, former, self.clock.wall_s()),
            publish=publish,
            champion=champion,
            init_from=init_from,
        )

    # ---- the cluster ----

    def _room(self) -> Capacity | None:
        if self.slots.master.one_machine:
            return room_here(self.config, self.slots)
        managed_by = manager_of(self.slots.master)
        if managed_by is None:
            return room_elsewhere(self.config, self.slots)
        with self.found.part():
            master_to_submit_to(self.config).check_security(self.config)
        with self.found.part():
            manager = managed_by(self.config)
            if not manager.tells_room:
                with self.found.part():
                    manager.check()
                manager.wait(lambda left_s: None, within_s=0.0)
                return room_elsewhere(self.config, self.slots)
            hosts = manager.hosts()
            if hosts is None:
                manager.wait(lambda left_s: None, within_s=0.0)
            if manager.refusal:
                self.found.warnings.append(manager.refusal)
            room = room_on_yarn(self.config, self.slots, manager.step_mib, hosts)
            fits, nodes = room.forecast.fits, room.forecast.nodes
            if fits is not None and fits < nodes:
                self.found.warnings.append(
                    f"YARN has room for {fits} of {nodes} executors now: the run waits for the others for up to "
                    f"{self.config.timeouts.reserve:g} s (timeouts.reserve)"
                )
            with self.found.part():
                manager.check()
            return room
        return None

    def _hosts(self, plan: Plan) -> Sequence[str]:
        """Returns the expected hosts of the reading nodes."""
        readers = self.config.cluster.shape.workers
        if self.slots.master.one_machine:
            return [socket.gethostname()] * readers
        asks = self.slots.master.places_executors and self.config.cluster.placement == "data"
        return (wanted_hosts(self.config, plan) if asks else []) or [""] * readers

    # ---- the run ----

    def _run(self) -> RunForecast:
        if self.rundir is None:
            return RunForecast(run_id="", path="", state="new")
        run = RunForecast(run_id=self.rundir.run_id, path=self.rundir.path, state="new")
        with self.found.part():
            result = FoundRun(self.storage, self.rundir).result()
            state = "planned" if self._is_planned() else "new"
            if result is not None:
                state = "done" if result.is_final else "decided"
            verdict = None if result is None else int(result.verdict)
            run = run.model_copy(update={"state": state, "verdict": verdict})
        if run.state == "done":
            return run
        with self.found.part():
            step, term = watch_owner(self.storage, self.rundir, Application(""), self.config.timeouts.owner, self.clock)
            run = run.model_copy(update={"owner": owner_of_run(step, term)})
            if step is Step.IS_OWNED:
                raise owned_error(self.rundir, term)
            if step is Step.LOOK_AGAIN:
                self.found.warnings.append(
                    f"the run is owned by {term.owner or 'another submission'}, which gave no sign of life just now: "
                    f"it is taken over after {self.config.timeouts.owner:g} s without one (timeouts.owner)"
                )
        return run

    # ---- the data ----

    def _ready(self) -> DataForecast:
        data = self.config.data
        if data.ready is None or data.path is None:
            return DataForecast()
        missing = ""
        with self.found.part():
            missing = Lake(self.systems.open(data.path), data.path).shortcoming(data.ready, self.clock.wall_s())
            if missing:
                raise not_ready(data.path, data.ready, missing)
            return DataForecast(ready=True)
        return DataForecast(ready=False if missing else None, missing=missing)

    def _is_planned(self) -> bool:
        """Whether the run has a plan, which it would use whatever the data is like today."""
        try:
            return self.rundir is not None and self.storage.exists(self.rundir.plan)
        except StorageError:
            return False  # which is told where the run itself is looked at

    def _plan(self) -> Plan | None:
        with self.found.part():
            if self.rundir is not None and self._is_planned():
                plan = load_plan(self.storage, self.rundir.plan)
                check_same_plan(self.config, plan, self.rundir)
                return plan
            located = self.slots.master.places_executors
            return plan_here(self.config, self.systems, self.found, self.say, deep=True, located=located)
        return None

    def _checkpoint(self) -> Manifest | None:
        """Returns the manifest of the newest checkpoint, whose files are not read."""
        with self.found.part():
            rundir = self.rundir
            for step in reversed(CheckpointStore(self.storage, rundir, 1).list() if rundir else ()):
                with suppress(TornCheckpointError):
                    return parse_manifest(self.storage, rundir.checkpoint(step), Manifest) if rundir else None
        return None

    def _rows_left(self, rows: int | None, checkpoint: Manifest | None) -> int | None:
        train = self.config.train
        if rows is None:
            return None
        done = 0 if checkpoint is None else checkpoint.cursor.epoch * rows + checkpoint.cursor.rows
        most = rows * train.epochs
        if train.max_steps is not None:
            most = min(most, train.max_steps * train.batch_size)
        return max(most - done, 0)

    def _checks(self, plan: Plan) -> ChecksForecast | None:
        checks = self.config.data.checks
        if checks is None:
            return None
        if not plan.tables:
            self.found.unknown.append("data.checks, whose data Spark reads")
            return None
        form = format_of(plan.spec)
        if not form.has_footers:
            self.found.unknown.append(f"data.checks: {form.title} files have no footers")
            return None
        with self.found.part():
            rundir = self.rundir or RunDirectory(self.config.output.path, self.config.name, _NO_RUN)
            then = None
            with suppress(StorageNotFoundError):  # the name has no run yet
                then = find_baseline(self.storage, rundir, self.found.warnings.append)
            storage = self.systems.open(plan.files[0])
            told = judge_footers(checks, read_footers(storage, self.config.data, plan), then)
            refused = [f.text for f in told.findings if f.level == "refuse" and f.certain]
            self.found.warnings += [f.text for f in told.findings if not (f.level == "refuse" and f.certain)]
            with self.found.part():
                if refused:
                    raise DataError(f"the data is refused: {'; '.join(refused)}")
            return told
        return None

    # ---- earlier runs and models ----

    def _former(self) -> FormerRuns:
        try:
            runs = earlier_runs(
                self.storage, self.config.output.path, self.config.name, but=self.rundir.run_id if self.rundir else ""
            )
        except StorageError as error:
            self.found.warnings.append(f"earlier runs are not looked at: {error}")
            return FormerRuns(runs=())
        sizes = {
            "checkpoint_nbytes": self._nbytes((run.checkpoint for run in runs), Manifest),
            "model_nbytes": self._nbytes((run.model for run in runs), FileManifest),
        }
        return learned(runs).model_copy(update=sizes)

    def _nbytes(self, folders: Iterable[str], kind: type[FileManifest]) -> int | None:
        """Returns the size of the first existing one of some folders, by its manifest."""
        for folder in folders:
            with suppress(StorageError):
                if folder:
                    return sum(file.nbytes for file in parse_manifest(self.storage, folder, kind).files)
        return None

    def _init_from(self) -> str:
        """Returns the model that a run without a checkpoint would begin from; "" for new weights."""
        with self.found.part():
            rundir = self.rundir or RunDirectory(self.config.output.path, self.config.name, _NO_RUN)
            beginning = beginning_of(self.config, rundir, self.systems, self._today())
            self.found.known += filter(None, [beginning.scratch])
            self.found.warnings += filter(None, [beginning.warning])
            return beginning.source.label if beginning.source is not None else ""
        return ""

    def _today(self) -> dt.date:
        return dt.datetime.fromtimestamp(self.clock.wall_s(), dt.UTC).date()

    def _models(self) -> tuple[PublishForecast | None, ChampionForecast | None]:
        serving = Serving(self.storage, self.config.output.path, self.config.name)
        run_id = self.rundir.run_id if self.rundir else ""
        try:
            return publish_forecast(self.config, serving, run_id, self._today()), champion_forecast(
                serving, self.storage
            )
        except StorageError as error:
            self.found.warnings.append(f"published models are not looked at: {error}")
            return None, None


def look_ahead(
    config: JobConfig,
    run_id: str | None,
    master: str,
    systems: FileSystems,
    clock: Clock,
    say: Callable[[str], None],
) -> Forecast:
    """Returns the forecast of a run that is submitted now.

    Args:
        master: Spark's, for the run.
        systems: Those of this process.
        say: Called with lines of progress.

    Raises:
        ConfigError: paths name no file system.
    """
    config = normalised(config, systems.normalise)
    root = config.output.path
    rundir = None if run_id is None else RunDirectory(root, config.name, run_id)
    slots = master_of(master).slots(config.submit.executor_cores)
    return _Look(config, slots, systems, systems.open_runs(root), rundir, clock, say).forecast()
