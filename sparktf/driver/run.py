"""One run, start to end: preflight, plan, attempts, commits, result."""

from __future__ import annotations

import datetime
import json
import time
import traceback
from functools import partial
from typing import Any

from sparktf.config import JobConfig
from sparktf.config_load import show_config
from sparktf.driver.attempt import Attempt, Outcome, root_cause
from sparktf.driver.commit import Committer
from sparktf.driver.feeding import Feeding
from sparktf.driver.gang import Gang
from sparktf.driver.ledger import Ledger
from sparktf.driver.output import check_output
from sparktf.driver.paths import normalised
from sparktf.driver.progress import Display, print_result
from sparktf.driver.result import AttemptResult, EpochRows, NodeResult, RunResult
from sparktf.driver.seating import Seating, seat
from sparktf.driver.stored_plan import Plan, load_plan, save_plan
from sparktf.errors import (
    ConfigError,
    ErrorRecord,
    LifecycleError,
    PreflightError,
    RunInterruptedError,
    SparkTFError,
    StoragePermissionError,
    Verdict,
    record_of,
)
from sparktf.events import EventLog, next_segment
from sparktf.messages import Restore, TrainerSpec
from sparktf.plan import Cursor, Stream
from sparktf.rundir import RunDirectory
from sparktf.topology import NodeId, Role

_HASTY_DEADLINE_S = 2.0
"""For what nobody waits for while the storage is away: events, tidying up."""


class Run:
    """One run on a gang; `execute` is its whole life."""

    def __init__(self, gang: Gang, config: JobConfig, run_id: str) -> None:
        config = normalised(config, gang.file_systems.normalise)
        root = config.output.path
        self._gang = gang
        self._config = config
        self._rundir = RunDirectory(root, config.name, run_id)
        self._storage = gang.file_systems.open(root)
        self._hasty = gang.file_systems.open(root, deadline_s=_HASTY_DEADLINE_S)
        self._display = Display(
            gang.console, config.output.progress_seconds, config.train.epochs, observer=self._keep_line
        )
        self._started_s = time.time()
        self._attempts: list[AttemptResult] = []
        self._warnings: list[str] = []
        self._result = RunResult(
            run_id=run_id,
            name=config.name,
            verdict=Verdict.INFRASTRUCTURE,
            path=self._rundir.path,
            application=gang.application.id,
            application_attempt=gang.application.attempt,
        )
        self._committer: Committer | None = None
        self._events: EventLog | None = None

    def execute(self) -> RunResult:
        """Runs to an end; result.json is written whatever the end is.

        Raises:
            SparkTFError: the run failed; `error.result` is its result.
            KeyboardInterrupt: it was interrupted, and everything is stopped.
        """
        self._gang.warn = self._warn
        self._gang.say = self._display.say
        try:
            repeated = self._earlier_result()
            if repeated is None:
                self._train()
        except SparkTFError as e:
            e.result = self._finish(record_of(e, time_s=time.time()))
            raise
        except KeyboardInterrupt:
            stopped = RunInterruptedError("interrupted; the same run id goes on from the last checkpoint")
            self._finish(record_of(stopped, time_s=time.time()))
            raise
        except Exception as e:  # the run's edge: a defect of ours must reach result.json too
            self._finish(record_of(e, time_s=time.time(), traceback=traceback.format_exc()))
            raise
        return self._finish(None) if repeated is None else self._repeat(repeated)

    # ---- before anything is held ----

    def _earlier_result(self) -> RunResult | None:
        try:
            if not self._storage.exists(self._rundir.result):
                return None
        except StoragePermissionError as e:
            raise PreflightError(f"output.path cannot be read: {e}") from e
        result = RunResult.model_validate_json(self._storage.read_bytes(self._rundir.result))
        return result if result.is_repeated_by(self._gang.application) else None

    def _repeat(self, result: RunResult) -> RunResult:
        """Shows an earlier result again. Raises its error, if it has one."""
        self._display.say(
            f"run {result.run_id} is {'done' if result.is_final else 'decided'} already: its result stands"
        )
        print_result(self._gang.console, result)
        result.raise_for_verdict()
        return result

    def _train(self) -> None:
        config = self._config
        self._gang.preflight(config)
        check_output(self._storage, self._rundir.path)
        self._open_events()
        self._display.say(f"run {self._rundir.name}/{self._rundir.run_id} on {self._gang.place}")
        plan = self._plan()
        assets = self._gang.prepare(config, self._storage, self._rundir.assets)
        self._committer = Committer(config, self._storage, self._rundir, plan, self._warn, hasty=self._hasty)
        self._gang.reserve(config, plan)
        self._run_attempts(plan, assets)

    def _plan(self) -> Plan:
        """Returns the stored plan of a run that is resumed, else a new one.

        Raises:
            ConfigError: the stored plan was made for other data.
        """
        config, rundir, storage = self._config, self._rundir, self._storage
        if storage.exists(rundir.plan):
            plan = load_plan(storage, rundir.plan)
            if plan.plan_hash != config.plan_hash():
                raise ConfigError(
                    f"run {rundir.run_id} was planned with another data section or train.seed: use another --run-id, "
                    f"or the configuration in {rundir.config}"
                )
            self._display.say(f"resuming with the plan in {rundir.plan}")
        else:
            plan = self._gang.plan(config)
            save_plan(plan, storage, rundir.plan)
        storage.write_bytes(rundir.config, show_config(config).encode())
        for stream in plan.staged:
            self._display.say(f"{stream}: fed by Spark; rows are counted as they come")
        for stream in plan.tables:
            self._display.say(
                f"{stream}: {plan.rows(stream):,} rows in {len(plan.tables[stream].rows):,} row groups, "
                f"{len(plan.block_rows(stream)):,} shuffle blocks, {plan.nbytes(stream) / 1e6:,.1f} MB"
            )
        return plan

    def _open_events(self) -> None:
        storage, folder = self._storage, self._rundir.events
        names = [entry.path for entry in storage.list(folder)] if storage.exists(folder) else []
        # Nobody waits for an event to be stored: it stays in memory until the next try.
        self._events = EventLog(self._hasty.write_bytes, folder, time.time, first_segment=next_segment(names))
        self._events.emit(
            "run", run_id=self._rundir.run_id, config=self._config.config_hash(), plan=self._config.plan_hash()
        )

    # ---- attempts ----

    def _run_attempts(self, plan: Plan, assets: dict[str, Any]) -> None:
        """Starts attempts until one is done.

        Raises:
            SparkTFError: the root cause of a failure that a new attempt would not mend, or of the last attempt.
        """
        while True:
            attempt = self._run_attempt(plan, assets)
            if not attempt.failures:
                return
            cause = root_cause(attempt.failures)
            used, allowed = len(self._attempts), self._config.train.max_attempts
            counted = f" of {allowed}" if cause.verdict is Verdict.INFRASTRUCTURE else ""
            self._display.say(f"attempt {used}{counted} failed: {cause.message}", "red")
            if cause.verdict is not Verdict.INFRASTRUCTURE or used >= allowed:
                if cause.verdict is Verdict.INFRASTRUCTURE and allowed > 1:
                    cause = cause.model_copy(update={"message": f"{cause.message} (attempt {used} of {allowed})"})
                raise cause.to_error()

    def _run_attempt(self, plan: Plan, assets: dict[str, Any]) -> Attempt:
        committer, gang = self._need_committer(), self._gang
        agents = gang.gather(self._config, plan, self._display, first=not self._attempts)
        replay = not self._config.data.rebalance
        seating = seat(agents, self._storage, self._rundir.plan, first=not self._attempts, replay=replay)
        number = gang.next_attempt(committer.last_attempt())
        restore = committer.begin(number)
        started_s = time.monotonic()
        cursor = restore.cursor if restore else Cursor()
        trainers = seating.trainers(started_s)
        attempt = Attempt(number, self._config, plan, cursor, trainers, time.monotonic, time.time, hosts=seating.dealt)
        attempt.rows_aside = restore.rows_aside if restore else 0
        if plan.staged:
            attempt.ledger = self._ledger(seating, cursor)
        feeding = Feeding(attempt, partial(gang.feed, self._config, plan, number))
        committer.attempt = attempt
        self._announce(number, seating, restore)
        gang.begin(attempt, seating.specs(self._chief(number, seating, plan, assets, restore)))
        try:
            outcome = self._watch(attempt, plan, feeding)
            self._commit(attempt)
            if outcome is Outcome.DONE:
                committer.publish(attempt)
        finally:
            feeding.cancel()
            limit_s = self._config.timeouts.stop + self._config.timeouts.heartbeat
            if not gang.end_attempt(attempt, limit_s):
                self._warn("some trainers did not stop in time")
            nodes = seating.results(attempt, gang.facts(seating.agents), located=bool(plan.hosts))
            self._keep_attempt(attempt, nodes, restore, time.monotonic() - started_s)
        return attempt

    def _ledger(self, seating: Seating, cursor: Cursor) -> Ledger:
        return Ledger(
            seating.places(),
            time.monotonic,
            expected=self._need_committer().splits,
            epoch=cursor.epoch,
            rebalance=self._config.data.rebalance,
        )

    def _chief(
        self, number: int, seating: Seating, plan: Plan, assets: dict[str, Any], restore: Restore | None
    ) -> TrainerSpec:
        """Returns what the chief's trainer gets."""
        return TrainerSpec(
            run_id=self._rundir.run_id,
            run_root=self._rundir.root,
            attempt=number,
            node=NodeId(role=Role.WORKER, index=0),
            cluster=seating.cluster,
            config=self._config,
            feed=plan.spec,
            rows={stream: plan.rows(stream) for stream in plan.tables},
            staged=plan.staged,
            assets=assets,
            restore=restore,
            hadoop=self._gang.file_systems.hadoop.for_nodes(),
        )

    def _announce(self, number: int, seating: Seating, restore: Restore | None) -> None:
        hosts = ", ".join(seating.hosts)
        since = f"from step {restore.step}" if restore else "from scratch"
        self._display.say(f"attempt {len(self._attempts) + 1}: {len(seating.hosts)} worker(s) on {hosts}, {since}")
        self._emit(
            "attempt", attempt=number, workers=len(seating.hosts), hosts=hosts, from_step=restore.step if restore else 0
        )

    def _watch(self, attempt: Attempt, plan: Plan, feeding: Feeding) -> Outcome:
        """Follows an attempt to its end: commits, failures, progress."""
        gang = self._gang
        shown = warned = 0
        checked = False
        planned = plan.rows(Stream.TRAIN)
        ready_s = time.monotonic() + self._config.timeouts.start
        while True:
            gang.tick()
            if reason := gang.look_after_agents():
                self._warn(f"Spark gave up the agents' job: {reason}")
            swept = gang.roster.sweep()
            for lost, facts in zip(swept, gang.facts([lost.agent for lost in swept]), strict=True):
                with gang.roster.changed:
                    attempt.agent_lost(lost.agent.id, facts.removed or lost.reason, facts.log)
            self._commit(attempt)
            feeding.start_wanted()
            with gang.roster.changed:
                if error := feeding.settle():
                    attempt.fail(record_of(error, time_s=time.time()))
                outcome = attempt.outcome()
                progress = [t.progress for t in attempt.trainers.values()]
                metrics, shown = attempt.metrics[shown:], len(attempt.metrics)
                warnings, warned = attempt.warnings[warned:], len(attempt.warnings)
                ready = next(iter(attempt.trainers.values())).ready
            if ready is not None and not checked:
                checked = True
                self._need_committer().check_room(ready.weights)
            for reported in metrics:
                self._display.metrics(reported)
                self._emit("metrics", **reported.model_dump(mode="json"))
            for text in warnings:
                self._warn(text)
            if outcome is not Outcome.RUNNING:
                return outcome
            before = attempt.cursor.rows if max(p.epoch for p in progress) == attempt.cursor.epoch else 0
            now_s = time.monotonic()
            self._display.training(progress, planned, before, ready_s - now_s, now_s)

    def _commit(self, attempt: Attempt) -> None:
        with self._gang.roster.changed:
            complete = attempt.complete_uploads()
        self._need_committer().commit_all(attempt, complete)

    def _keep_attempt(
        self, attempt: Attempt, nodes: tuple[NodeResult, ...], restore: Restore | None, duration_s: float
    ) -> None:
        cause = root_cause(attempt.failures) if attempt.failures else None
        kept = AttemptResult(
            attempt=attempt.number,
            workers=len(nodes),
            hosts=tuple(node.host for node in nodes),
            from_step=restore.step if restore else 0,
            to_step=max(t.progress.step for t in attempt.trainers.values()),
            duration_s=round(duration_s, 3),
            root_cause=cause,
            failures=tuple(attempt.failures),
            nodes=nodes,
        )
        self._attempts.append(kept)
        self._emit("attempt-end", **kept.model_dump(mode="json"))

    # ---- the end ----

    def _finish(self, error: ErrorRecord | None) -> RunResult:
        """Writes result.json and prints the table; a result that cannot be written does not hide the cause."""
        self._display.close()
        result = self._summary(error)
        try:
            if self._committer is not None:
                self._committer.end()
            self._emit("end", verdict=int(result.verdict), error=error.message if error else None)
            if self._events is not None:
                self._events.flush()
            self._storage.write_bytes(
                self._rundir.result, json.dumps(result.model_dump(mode="json"), indent=1).encode()
            )
        except OSError as e:
            self._display.say(f"the result could not be written: {e}", "red")
        print_result(self._gang.console, result)
        return result

    def _summary(self, error: ErrorRecord | None) -> RunResult:
        committer = self._committer
        started = datetime.datetime.fromtimestamp(self._started_s, datetime.UTC)
        return self._result.model_copy(
            update={
                "verdict": error.verdict if error is not None else Verdict.DONE,
                "error": error,
                "attempts": tuple(self._attempts),
                "warnings": tuple(self._warnings),
                "started": started.isoformat(timespec="seconds"),
                "duration_s": round(time.time() - self._started_s, 3),
                **({} if committer is None else _facts(committer)),
            }
        )

    def _need_committer(self) -> Committer:
        if self._committer is None:
            raise LifecycleError("attempts begin after the plan")
        return self._committer

    def _emit(self, kind: str, **fields: Any) -> None:
        if self._events is not None:
            self._events.emit(kind, **fields)

    def _keep_line(self, text: str, style: str) -> None:
        """Keeps what the driver says as an event, for whoever follows the run from elsewhere."""
        self._emit("line", text=text, style=style)

    def _warn(self, text: str) -> None:
        self._warnings.append(text)
        self._display.say(f"warning: {text}", "yellow")
        self._emit("warning", text=text)


def _facts(committer: Committer) -> dict[str, Any]:
    epochs: tuple[EpochRows, ...] = committer.epoch_rows()
    return {
        "steps": committer.step,
        "epochs": sum(e.complete for e in epochs),
        "rows": epochs,
        "rows_trained": sum(e.trained for e in epochs),
        "metrics": committer.metrics(),
        "model": committer.model,
        "checkpoint": committer.checkpoint,
        "versions": committer.versions,
    }
