"""`sparktf submit`: one submission, from the configuration to the verdict of a run or of a scoring job."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from sparktf.clock import ListeningClock, SystemClock
from sparktf.config.data_section import NO_SOURCE
from sparktf.config.job import JobConfig
from sparktf.console.console import Display, make_console
from sparktf.console.result_table import print_result
from sparktf.driver.output import check_output
from sparktf.driver.plan.kept_apart import check_predictions
from sparktf.driver.plan.paths import normalised
from sparktf.driver.spark.masters import master_to_submit_to
from sparktf.errors import ConfigError, ReservationError, Verdict
from sparktf.knobs import KNOBS
from sparktf.process.verdict_file import told_verdict
from sparktf.redaction import redacted
from sparktf.results.result import Application
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.ownership import Step, owned_error, watch_owner
from sparktf.storage.transactions.terms import look
from sparktf.submit.cluster_manager import ClusterManager, manager_of
from sparktf.submit.environment import Programs, find_programs, spark_environment, with_proxy_user
from sparktf.submit.follow import Follower
from sparktf.submit.line import ScoringJob, private_settings, show_line, submit_line
from sparktf.submit.preflight import check_programs
from sparktf.submit.process import SparkSubmit
from sparktf.submit.shipment import log4j_in, stage

INTERRUPTED = 130

_VERDICT = "verdict"
"""The file for the verdict of a driver on this machine."""

# The driver's exit code in YARN's words, for a run that was refused before it had a run directory.
_STATUS = re.compile(r"exited with status (\d+)")
_TELLING = (Verdict.REFUSED, Verdict.DATA_REFUSED, Verdict.NOT_READY, Verdict.OWNED)


def submit(
    config: JobConfig,
    beside: Path,
    run_id: str | None,
    systems: FileSystems,
    *,
    scoring: ScoringJob | None = None,
    wait: bool = False,
    detach: bool = False,
    dry_run: bool = False,
) -> int:
    """Submits a run or a scoring job and waits for it; returns its verdict, or 130 if interrupted.

    Args:
        beside: Folder of the configuration file, which is searched first for model code.
        scoring: Score instead of training. Its driver runs here: it has little to do, and its output is seen.
        wait: The driver waits while another submission owns the run.
        detach: Return 0 as soon as YARN has accepted the application.
        dry_run: Only print the line.

    Raises:
        OwnedError: another submission trains the run, and `wait` is not set.
        ConfigError: the model's code or the queue is not found, no data is named, `detach` is set for a driver in this
            process, or a scoring job lacks its output or its day.
        PreflightError: Spark, Java, a Python or YARN's configuration is missing or unfit, a container would be too
            large, or the run's traffic would be unencrypted although Spark's is encrypted.
        ReservationError: no ResourceManager can be reached, or YARN has no room in time.
    """
    config = with_proxy_user(config)
    if scoring is not None:
        asked, _ = config.predicted()
        check_predictions(config, systems)
        config = config.model_copy(update={"submit": config.submit.model_copy(update={"deploy_mode": "client"})})
    if config.data.source_key is None and (scoring is None or asked.source is None):
        raise ConfigError(NO_SOURCE)
    master = master_to_submit_to(config)
    if detach and not (master.keeps_drivers and config.submit.deploy_mode == "cluster"):
        raise ConfigError(
            "--detach needs a driver that the cluster runs, and this one would run here: set submit.master to yarn or "
            "k8s://..., and submit.deploy_mode: cluster"
        )
    master.check_security(config)
    if scoring is None:
        master.check_gpus(config)
    programs = find_programs()
    if not dry_run:
        check_programs(config, programs)
    config = normalised(config, systems.normalise)  # the driver may have another working folder
    with tempfile.TemporaryDirectory(prefix="sparktf-submit-") as folder:
        shipment = stage(config, Path(folder), beside, programs, trains=scoring is None)
        line = submit_line(config, shipment, run_id, programs, scoring=scoring, wait=wait, detach=detach)
        console = make_console()
        console.print(show_line(line), soft_wrap=True)
        for key, value in private_settings(config).items():
            console.print(f"# in {shipment.private}: {key}={redacted(value, key)}", soft_wrap=True)
        if dry_run:
            return int(Verdict.DONE)
        verdict = Path(folder) / _VERDICT
        environment = spark_environment(
            programs, log4j_in(Path(folder)), in_cluster=config.submit.deploy_mode == "cluster", verdict=verdict
        )
        known = config, run_id, systems, programs, environment, console, detach, scoring, verdict, wait
        return _Submission(*known).run(line)


@dataclass(slots=True)
class _Submission:
    config: JobConfig
    run_id: str | None
    systems: FileSystems
    programs: Programs
    environment: Mapping[str, str]
    console: Console
    detach: bool
    scoring: ScoringJob | None
    verdict: Path
    wait: bool

    def run(self, line: list[str]) -> int:
        config = self.config
        display = Display(self.console, config.output.progress_seconds, config.train.epochs)
        # Here the reason can be shown, and costs nothing; in cluster mode it would stand in a container's log.
        if self.scoring is None:
            storage = self.systems.open_runs(config.output.path)
            check_output(storage, config.output.path)
            if self.run_id is not None and not self.wait:
                self._check_owner(storage, self.run_id, display)
        managed_by = manager_of(master_to_submit_to(config))
        manager = None if managed_by is None else managed_by(config)
        if manager is not None:
            self._check(manager, display)
        return _Watch(self, SparkSubmit(line, self.environment), display, manager).to_the_end()

    def _check_owner(self, storage: Storage, run_id: str, display: Display) -> None:
        """Refuses a run that another submission trains, before the driver takes a container to find out.

        Raises:
            OwnedError: its owner is alive. An owner without a sign of life is left for the driver to watch.
            StorageError: the storage failed.
        """
        rundir = RunDirectory(self.config.output.path, self.config.name, run_id)
        term = look(storage, rundir.terms)
        if term.owner is not None and not term.released:
            display.say(f"the run was taken by {term.owner}: looking whether it is at work")
        step, term = watch_owner(storage, rundir, Application(""), self.config.timeouts.owner, SystemClock())
        if step is Step.IS_OWNED:
            raise owned_error(rundir, term)

    def _check(self, manager: ClusterManager, display: Display) -> None:
        try:
            manager.wait(lambda left_s: display.countdown(f"waiting for {manager.entry}", left_s, time.monotonic()))
        finally:
            display.close()
        manager.check()
        if manager.refusal:
            display.say(f"YARN's queues and hosts are not known, yarn-site.xml is. {manager.refusal}", "yellow")


class _Watch:
    """One application under way."""

    def __init__(
        self, submission: _Submission, process: SparkSubmit, display: Display, manager: ClusterManager | None
    ) -> None:
        self._submission = submission
        self._config = submission.config
        self._process = process
        self._display = display
        self._manager = manager
        self._said = False
        self._said_owner = False
        self._in_cluster = self._config.submit.deploy_mode == "cluster"
        self._follower = self._follow(submission.run_id) if self._in_cluster and submission.run_id else None
        if self._follower is not None:
            self._follower.skip()

    def to_the_end(self) -> int:
        try:
            if self._submission.detach:
                return self._until_taken()
            if self._manager is not None:
                self._until_started()
            code = self._until_ended()
            return self._verdict() if self._in_cluster else self._told(code)
        except KeyboardInterrupt:
            self._stop()
            return INTERRUPTED
        finally:
            self._display.close()
            self._process.kill()

    @property
    def _name(self) -> str:
        return "Spark" if self._manager is None else self._manager.name

    @property
    def _place(self) -> str:
        """Where the application waits."""
        return "" if self._manager is None else self._manager.place

    @property
    def _application(self) -> str:
        """The application's id; "" if unknown, or without a manager: a driver here may mention other ids."""
        return "" if self._manager is None else self._process.report.application

    # ---- waiting ----

    def _until_taken(self) -> int:
        """Waits until spark-submit has handed the application over to the cluster manager."""
        while (code := self._process.wait(KNOBS.submit_poll_s)) is None:
            self._say_application()
        self._say_application()
        taken = code == 0 and bool(self._application)
        return int(Verdict.DONE if taken else Verdict.INFRASTRUCTURE)

    def _until_started(self) -> None:
        """Waits for the first container, with a countdown; kills the application if it comes too late."""
        process = self._process
        deadline_s: float | None = None
        clock = ListeningClock(SystemClock())  # an application that began while this process was stopped is not killed
        while not process.report.has_started and process.wait(KNOBS.submit_poll_s) is None:
            now_s = clock.now_s()
            self._say_application()
            if not process.report.waits:
                continue
            deadline_s = deadline_s or now_s + self._config.timeouts.reserve
            if now_s < deadline_s:
                self._display.countdown(f"waiting for {self._name}: {self._place}", deadline_s - now_s, now_s)
                continue
            why = self._managers_words()
            self._kill()
            raise ReservationError(
                f"{self._name}'s {self._place} did not start {self._application} within "
                f"{self._config.timeouts.reserve:g} s (timeouts.reserve); it is killed. {self._name} says: {why}"
            )
        self._display.close()

    def _until_ended(self) -> int:
        followed_s = float("-inf")
        while True:
            code = self._process.wait(KNOBS.submit_poll_s)
            self._say_application()
            if self._in_cluster and self._application and self._follower is None:
                self._follower = self._follow(self._application)
            due = code is not None or time.monotonic() - followed_s >= KNOBS.follow_s
            if due and self._follower is not None:
                followed_s = time.monotonic()
                self._follower.poll(self._application)
                self._say_owner(self._follower)
            if code is not None:
                return code

    def _say_application(self) -> None:
        application = self._application
        if application and not self._said:
            self._said = True
            self._display.say(f"submitted as {application} to {self._name}, {self._place}")

    def _told(self, code: int) -> int:
        """Returns the verdict that a driver on this machine wrote to its file, else `code`.

        Args:
            code: Exit code of spark-submit: 1 also for any failure before the driver's first line.
        """
        told = told_verdict(self._submission.verdict)
        if told is None:
            self._display.say(
                f"the driver left no verdict: spark-submit ended with exit code {code}; its last lines are above", "red"
            )
        return int(Verdict.INFRASTRUCTURE if told is None else told)

    def _say_owner(self, follower: Follower) -> None:
        """Says whom the driver waits for: until it owns the run's folder, it writes nothing there."""
        if self._submission.wait and not self._said_owner:
            owner = follower.owner(self._application)
            if owner is not None:
                self._said_owner = True
                self._display.say(f"waiting: the run is owned by {owner}")

    def _verdict(self) -> int:
        """Returns the verdict of a run in cluster mode: spark-submit does not pass on the driver's exit code."""
        application = self._application
        result = self._follower.result(application) if self._follower is not None else None
        if result is not None:
            print_result(self._submission.console, result)
            if result.error is not None:  # on one line, as in client mode: the table may have folded it
                self._display.say(f"{type(result.error.to_error()).__name__}: {result.error.message}")
            return int(result.verdict)
        if not application:
            self._display.say("spark-submit ended without an application: its last lines are above", "red")
            return int(Verdict.INFRASTRUCTURE)
        words = self._managers_words()
        if self._follower is not None and (owner := self._follower.owner(application)) is not None:
            self._display.say(f"the run is owned by {owner}", "red")
        self._display.say(f"the run left no result. {self._name} says: {words}", "red")
        if self._manager is not None:
            self._display.say(f"logs: {self._manager.logs(self._process.report)}")
        status = _STATUS.search(words)
        told = int(status.group(1)) if status else Verdict.INFRASTRUCTURE
        return int(told if told in _TELLING else Verdict.INFRASTRUCTURE)

    def _managers_words(self) -> str:
        report = self._process.report
        asked = self._manager.words_on(self._application) if self._manager is not None else None
        return " ".join((asked or report.diagnostics or "nothing").split())

    # ---- stopping ----

    def _stop(self) -> None:
        self._display.close()
        self._display.say("interrupted: stopping the application", "red")
        if not self._in_cluster:
            self._process.interrupt()  # the driver stops its run in order
            ended = self._process.wait(KNOBS.driver_stop_s) is not None
            if ended and self._process.report.has_started:
                return  # else YARN would yet start an ApplicationMaster for a driver that is gone
        self._kill()

    def _kill(self) -> None:
        """Kills the application, then spark-submit once it has had time to remove its uploads."""
        self._display.close()
        process = self._process
        if not self._application:
            process.kill()  # and it may have got as far as an application meanwhile
        if self._application:
            self._kill_application()
            process.wait(KNOBS.clean_up_s)
        process.kill()

    def _kill_application(self) -> None:
        submission, manager, report = self._submission, self._manager, self._process.report
        if manager is not None and not manager.kill(report, submission.programs, submission.environment):
            said = f"{report.application} could not be killed: run {manager.kill_by_hand(report)}"
            self._display.say(said, "red")

    def _follow(self, run_id: str) -> Follower:
        root = self._config.output.path
        storage = self._submission.systems.open_runs(root)
        return Follower(storage, RunDirectory(root, self._config.name, run_id), self._display)
