"""One run, start to end: preflight, plan, attempts, result."""

from __future__ import annotations

import traceback
from contextlib import suppress
from functools import partial
from typing import Any

from sparktf.config.job import JobConfig
from sparktf.config.load import show_config
from sparktf.console.result_table import print_result
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.feeding import Feeding
from sparktf.driver.attempt.health import Outcome, rhythm_of
from sparktf.driver.attempt.restart import Restarts
from sparktf.driver.commit import Committer
from sparktf.driver.gang.collectives import choose_collectives
from sparktf.driver.gang.gang import Gang
from sparktf.driver.gang.replacements import Replacements
from sparktf.driver.gang.seating import Seating, attempt_result, seat_agents
from sparktf.driver.hooks import Hooks
from sparktf.driver.journal import Journal
from sparktf.driver.lifecycle import RUN, RunEvent, RunState, step
from sparktf.driver.output import Tenure, open_events, plan_of_run
from sparktf.driver.plan.paths import normalised
from sparktf.driver.plan.plan import Plan
from sparktf.driver.run_time import RunTime
from sparktf.driver.watch import Watch
from sparktf.driver.writer import Writer
from sparktf.errors import (
    ErrorRecord,
    FencedOffError,
    LifecycleError,
    RunInterruptedError,
    SparkTFError,
    StorageError,
    Verdict,
    record_of,
)
from sparktf.knobs import KNOBS
from sparktf.results.events import AttemptBegun, AttemptEnded, RunBegun
from sparktf.results.result import AttemptResult, NodeResult, RunResult
from sparktf.rundir import RunDirectory
from sparktf.sequence import Stream
from sparktf.storage.transactions.checkpoints import steps_in
from sparktf.wire.restore import Restore
from sparktf.wire.trainer_spec import Training

_BEGINS = {RunEvent.BEGIN: "train", RunEvent.AGAIN: "reserve"}
"""Event -> the phase in `RunResult.seconds` that begins with it."""


class Run:
    """One run on a gang; `execute` is its whole life."""

    def __init__(
        self, gang: Gang, config: JobConfig, run_id: str, hooks: Hooks | None = None, *, wait: bool = False
    ) -> None:
        """Touches nothing. `wait`: wait while another submission owns the run."""
        file_systems, application = gang.site.file_systems, gang.site.application
        config = normalised(config, file_systems.normalise)
        root = config.output.path
        self._hooks = hooks or Hooks()
        self._gang, self._site = gang, gang.site
        self._clock = gang.site.clock
        self._config = config
        self._rundir = RunDirectory(root, config.name, run_id)
        self._storage = file_systems.open_runs(root)
        self._hasty = file_systems.open_runs(root, deadline_s=KNOBS.hasty_storage_s)
        self._journal = Journal(gang.console, config)
        self._display, self._voice = self._journal.display, self._journal.voice
        ending_s = partial(self._hooks.ending_s, config, self._rundir)
        committed = partial(steps_in, self._storage, self._rundir.checkpoints)
        self._time = RunTime(self._clock, config.train, ending_s, committed)
        self._attempts: list[AttemptResult] = []
        self._restarts = Restarts(config.train.max_attempts)
        self._result = RunResult(
            run_id=run_id,
            name=config.name,
            verdict=Verdict.INFRASTRUCTURE,
            date=config.date.isoformat() if config.date else "",
            path=self._rundir.path,
            application=application.id,
            application_attempt=application.attempt,
        )
        self._tenure = Tenure(config, self._storage, self._hasty, self._rundir, application, self._clock)
        self._fence, self._results = self._tenure.fence, self._tenure.results
        self._wait = wait
        self._state = RunState.SUBMITTED
        self._committer: Committer | None = None

    def execute(self) -> RunResult:
        """Runs to the end; writes result.json in any case, unless the run belongs to another submission.

        Raises:
            SparkTFError: the run failed; `error.result` is its result.
            KeyboardInterrupt: it was interrupted, and everything is stopped.
        """
        try:
            preflight = partial(self._site.preflight, self._config, self._voice)
            repeated = self._tenure.take_up(preflight, self._display.say, wait=self._wait)
            if repeated is None:
                self._train()
            else:
                self._take(RunEvent.STANDS)
        except SparkTFError as e:
            e.result = self._finish(record_of(e, time_s=self._clock.wall_s()))
            raise
        except KeyboardInterrupt:
            stopped = RunInterruptedError("interrupted; submit the same run id again to go on from the last checkpoint")
            self._finish(record_of(stopped, time_s=self._clock.wall_s()))
            raise
        except Exception as e:  # the run's edge: a defect of ours must reach result.json too
            self._finish(record_of(e, time_s=self._clock.wall_s(), traceback=traceback.format_exc()))
            raise
        else:
            return self._finish(None) if repeated is None else self._repeat(repeated)
        finally:
            self._journal.end()
            self._tenure.end()

    # ---- before anything is held ----

    def _repeat(self, result: RunResult) -> RunResult:
        """Shows an earlier result again. Raises its error, if it has one."""
        how = "done" if result.is_final else "decided"
        self._display.say(f"run {result.run_id} is {how} already: its result stands")
        self._end_with(result)
        print_result(self._gang.console, result)
        result.raise_for_verdict()
        return result

    def _train(self) -> None:
        config = self._config
        self._open_events()
        self._display.say(f"run {self._rundir.name}/{self._rundir.run_id} on {self._site.place}")
        self._hooks.begun(config, self._rundir, self._summary(None), self._voice)
        self._time.enter("plan")
        plan = plan_of_run(config, self._storage, self._rundir, self._fence, self._plan, self._display.say)
        self._result = self._result.model_copy(update={"source_version": plan.source_version})
        self._take(RunEvent.PLANNED)
        self._time.go_on_to("prepare")
        assets = self._site.prepare(config, plan, self._storage, self._rundir.assets, self._fence.put)
        self._committer = Committer(
            config,
            self._storage,
            self._rundir,
            plan,
            self._journal.warn,
            clock=self._gang.clock,
            hasty=self._hasty,
            fence=self._fence,
        )
        self._time.go_on_to("reserve")
        self._gang.reserve(config, plan, self._voice)
        self._take(RunEvent.RESERVED)
        self._run_attempts(plan, assets)
        extra = self._hooks.after_training(config, self._rundir, self._summary(None), self._voice, self._fence.check)
        self._result = self._result.model_copy(update={"extra": extra})

    def _plan(self) -> Plan:
        """Plans a run that has no plan yet, unless a hook refuses its data."""
        self._time.enter("wait")
        self._hooks.before_plan(self._config, self._rundir, self._voice)
        self._time.enter("plan")
        plan = self._site.plan(self._config, self._voice)
        self._time.enter("check")
        self._hooks.planned(self._config, plan, self._rundir, self._fence.put, self._voice)
        self._time.enter("plan")
        return plan

    def _open_events(self) -> None:
        config, run_id, application = self._config, self._rundir.run_id, self._result.application
        begun = RunBegun(run_id=run_id, application=application, config=config.config_hash(), plan=config.plan_hash())
        self._journal.open(open_events(self._storage, self._fence, self._rundir.events, self._clock, begun))

    # ---- attempts ----

    def _run_attempts(self, plan: Plan, assets: dict[str, Any]) -> None:
        """Starts attempts until one is done.

        Raises:
            SparkTFError: the root cause of a failure that a new attempt would not mend, or of the last attempt.
        """
        while True:
            attempt = self._run_attempt(plan, assets)
            if self._state is RunState.DONE:
                return
            self._take(RunEvent.AGAIN)
            follows = self._restarts.failed(attempt.failures, self._need_committer().step)
            self._display.say(follows.said, "red")
            if follows.end is not None:
                raise follows.end.to_error()

    def _run_attempt(self, plan: Plan, assets: dict[str, Any]) -> Attempt:
        committer, gang = self._need_committer(), self._gang
        agents = gang.gather(self._config, plan, self._display, self._restarts.why)
        number = committer.fence(gang.next_attempt)
        if not self._attempts:
            self._results.begin()
            self._fence.put(self._rundir.config, show_config(self._config).encode())
        seating = seat_agents(
            agents,
            self._config.shape,
            plan.host_nbytes(),
            self._storage,
            self._rundir.plan,
            self._fence.put,
            first=not self._attempts,
            replay=not self._config.data.rebalance,
        )
        restore = committer.begin()
        started_s = self._clock.now_s()
        leader = self._leader(number, seating, plan, assets, restore)
        attempt = Attempt(
            number,
            self._config,
            plan,
            committer.start(restore)._replace(outlives_losses=leader.outlives_losses),
            seating.trainers(gang.clock.now_s()),
            gang.clock.now_s,
            self._clock.wall_s,
            hosts=seating.dealt,
        )
        feeding = Feeding(attempt, partial(gang.feed, self._config, plan, number))
        committer.attempt = attempt
        self._announce(number, seating, leader)
        gang.begin(attempt, seating.specs(leader))
        self._take(RunEvent.BEGIN)
        replacements = Replacements(gang, attempt, seating, leader)
        watch = self._watch(attempt, plan, feeding, replacements)
        outcome = None
        try:
            outcome = watch.follow()
            if outcome is Outcome.DONE:
                watch.settle()
                self._time.enter("publish")
                committer.commit_model(attempt)
                self._take(RunEvent.PUBLISHED)
        finally:
            feeding.cancel()
            limit_s = self._config.timeouts.stop + rhythm_of(self._config).silence_s
            try:
                if not gang.end_attempt(attempt, limit_s):
                    self._journal.warn("some trainers did not stop in time")
            except BaseException:  # interrupted: the commit that is under way ends all the same
                watch.leave(limit_s)
                raise
            if outcome is not Outcome.FAILED:
                watch.leave(limit_s)
            facts = self._site.facts(replacements.seating.agents)
            self._restarts.look(replacements.seating.taken_back(facts))
            with gang.roster.changed:
                nodes = replacements.seating.results(attempt, leader, facts, located=bool(plan.hosts))
            self._keep_attempt(watch, nodes, leader, self._clock.now_s() - started_s)
        if outcome is Outcome.FAILED:
            try:
                watch.settle()  # once the trainers have stopped, which hold executors even while the storage is away
            finally:
                watch.leave(limit_s)
        return attempt

    def _watch(self, attempt: Attempt, plan: Plan, feeding: Feeding, replacements: Replacements) -> Watch:
        return Watch(
            gang=self._gang,
            config=self._config,
            attempt=attempt,
            replacements=replacements,
            feeding=feeding,
            committer=self._need_committer(),
            writer=Writer(self._clock, self._gang.roster.changed),
            display=self._display,
            planned=plan.rows(Stream.TRAIN),
            emit=self._journal.emit,
            warn=self._journal.warn,
            warn_once=self._journal.warn_once,
        )

    def _leader(
        self, number: int, seating: Seating, plan: Plan, assets: dict[str, Any], restore: Restore | None
    ) -> Training:
        """Returns the orders of the leader's trainer. Raises `TimeUpError` where the wait for nodes left it no time."""
        self._time.go_on_to("reserve")
        models = self._hooks.models(self._config, self._rundir, self._voice, resumes=restore is not None)
        return Training(
            run_id=self._rundir.run_id,
            run_root=self._rundir.root,
            attempt=number,
            node=seating.cluster.leader,
            cluster=seating.cluster,
            config=self._config,
            feed=plan.spec,
            rows={stream: plan.rows(stream) for stream in plan.tables},
            staged=plan.staged,
            source_version=plan.source_version,
            assets=assets,
            restore=restore,
            hadoop=self._site.file_systems.hadoop.for_nodes(),
            time_limit=self._time.limit(),
            **choose_collectives(seating, self._config, self._site, self._display.say)._asdict(),
            **models._asdict(),
        )

    def _announce(self, number: int, seating: Seating, leader: Training) -> None:
        restore, init = leader.restore, leader.init
        since = f"from step {restore.step}" if restore else f"from {init.label}" if init else "from scratch"
        self._display.say(f"attempt {len(self._attempts) + 1}: {seating.in_words(leader)}, {since}")
        hosts, step = ", ".join(seating.workers), restore.step if restore else 0
        self._journal.emit(AttemptBegun(attempt=number, workers=len(seating.workers), hosts=hosts, from_step=step))

    def _keep_attempt(self, watch: Watch, nodes: tuple[NodeResult, ...], leader: Training, duration_s: float) -> None:
        cluster = self._config.cluster
        server_nbytes = (cluster.ps_memory_mib or cluster.trainer_memory_mib) * 2**20
        kept = attempt_result(watch.attempt, nodes, leader, duration_s, server_nbytes=server_nbytes)
        self._attempts.append(kept)
        self._journal.emit(AttemptEnded(**dict(kept), samples=watch.course.samples()))

    # ---- the end ----

    def _finish(self, error: ErrorRecord | None) -> RunResult:
        """Writes result.json and prints the table; a failure to write does not hide the cause.

        Raises:
            FencedOffError: the run is done, and belongs to another submission all the same.
        """
        self._display.close()
        if error is not None:
            self._take(RunEvent.FAIL)
        fenced_off = None
        result = self._summary(error)
        try:
            self._keep_result(result)
        except FencedOffError as e:
            self._journal.end()
            if error is None:
                self._take(RunEvent.FAIL)
                fenced_off, result = e, self._summary(record_of(e, time_s=self._clock.wall_s()))
            else:
                self._display.say(f"the result was not written: {e}", "yellow")
        except OSError as e:
            self._display.say(f"the result could not be written: {e}", "red")
        print_result(self._gang.console, result)
        if fenced_off is not None:
            fenced_off.result = result
            raise fenced_off
        return result

    def _keep_result(self, result: RunResult) -> None:
        """Writes result.json and the last events, and releases the run.

        Raises:
            FencedOffError: it belongs to another submission; nothing is written.
            StorageError: the storage failed.
        """
        if self._fence.lost:
            self._journal.end()
            return
        try:
            self._fence.tidy()  # first of all: it makes room
        except StorageError as e:
            self._journal.warn(f"uncommitted uploads are left for the next submission of this run to remove: {e}")
        self._results.write(result, self._hooks.last_steps(self._config))
        with suppress(StorageError):  # then a last step that reads them has those that are there
            self._journal.flush()
        self._end_with(result)

    def _end_with(self, result: RunResult) -> None:
        """Does the steps that follow a result, and releases the run; nothing if this driver does not own it."""
        if self._fence.path is not None:
            args = result, self._config, self._rundir, self._fence.put, self._voice
            self._results.last_steps.do(lambda step: self._hooks.do_last(step, *args), self._display.say)
            self._journal.keep_end(result)
            with suppress(StorageError):  # the next fence sweeps what is left
                self._fence.release()

    def _summary(self, error: ErrorRecord | None) -> RunResult:
        committer = self._committer
        with self._gang.roster.changed:
            trained = {} if committer is None else committer.facts()
        return self._result.model_copy(
            update={
                "verdict": error.verdict if error is not None else Verdict.DONE,
                "error": error,
                "attempts": tuple(self._attempts),
                "warnings": tuple(self._journal.warnings),
                **self._time.facts(),
                **trained,
            }
        )

    def _take(self, event: RunEvent) -> None:
        self._state = step(RUN, self._state, event, f"run {self._rundir.name}/{self._rundir.run_id}")
        if event in _BEGINS:
            self._time.enter(_BEGINS[event])

    def _need_committer(self) -> Committer:
        if self._committer is None:
            raise LifecycleError("attempts begin after the plan")
        return self._committer
