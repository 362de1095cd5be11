"""Looks at the nodes: starts a Spark application with the executors of a run, asks them, and gives all of it back."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from sparktf.config.job import JobConfig
from sparktf.doctor.diagnosis import Diagnosis, fine, note, stop
from sparktf.doctor.node_verdicts import judge_gang
from sparktf.driver.spark.masters import master_to_submit_to
from sparktf.driver.spark.yarn_settings import containers
from sparktf.knobs import KNOBS
from sparktf.submit.cluster_manager import ClusterManager, manager_of
from sparktf.submit.environment import Programs, find_programs, spark_environment, with_proxy_user
from sparktf.submit.line import submit_line
from sparktf.submit.process import SparkSubmit
from sparktf.submit.shipment import log4j_in, stage
from sparktf.told import told
from sparktf.wire.node_look import NodesFound

_WAIT_S = 60.0
"""The longest wait for a container, and then for the nodes; a run waits for `timeouts.reserve`, each time."""

_BESIDES_S = 120.0
"""Time for all else: Spark's start and end."""

_ROOM_POLL_S = 5.0
"""Interval of questions for the free room of YARN's hosts."""

_FAILURES = {"spark.task.maxFailures": "4"}
"""Spark's own number: a Python that cannot run an agent is to be told soon."""


def ask_nodes(config: JobConfig, beside: Path) -> list[Diagnosis]:
    """Looks at the nodes that a run would get; returns one to three diagnoses.

    Args:
        beside: Folder of the configuration file, which is searched first for model code.

    Raises:
        SparkTFError: the application cannot be submitted.
        KeyboardInterrupt: the look was interrupted, and the application has ended.
    """
    master = master_to_submit_to(config)
    if master.runs_in_driver:
        return [fine("nodes", f"they are threads and processes of the driver's own machine, in {master.url}")]
    if master.address_in and config.submit.deploy_mode == "cluster":  # a network of their own, that leads not here
        return [note("nodes", "not looked at: this look's driver is here, and the pods of a run's executors elsewhere")]
    asked, programs = _as_asked(with_proxy_user(config)), find_programs()
    manager = manager_of(master)
    with tempfile.TemporaryDirectory(prefix="sparktf-doctor-") as named:
        folder = Path(named)
        shipment = stage(asked, folder, beside, programs)
        file = folder / "nodes.json"
        line = submit_line(asked, shipment, None, programs, looks=file)
        environment = spark_environment(programs, log4j_in(folder), in_cluster=False)
        look = _Look(asked, config, programs, environment, file, None if manager is None else manager(asked))
        return look.to_the_end(line)


def _as_asked(config: JobConfig) -> JobConfig:
    """Returns the configuration with a driver here, and with a limit for whoever sits before this command."""
    submit = config.submit
    client = submit.model_copy(update={"deploy_mode": "client", "conf": {**submit.conf, **_FAILURES}})
    timeouts = config.timeouts.model_copy(update={"reserve": min(config.timeouts.reserve, _WAIT_S)})
    return config.model_copy(update={"submit": client, "timeouts": timeouts})


@dataclass(slots=True)
class _Look:
    """One application under way."""

    asked: JobConfig
    config: JobConfig  # As it was written
    programs: Programs
    environment: Mapping[str, str]
    file: Path
    manager: ClusterManager | None
    _said: deque[str] = field(default_factory=lambda: deque(maxlen=200))
    _room: RoomLeft | None = None

    def to_the_end(self, line: list[str]) -> list[Diagnosis]:
        process = SparkSubmit(line, self.environment, self._said.append)
        try:
            late = self._until_ended(process)
            if late:
                self._stop(process)
                return [stop("nodes", late)]
        except KeyboardInterrupt:
            self._stop(process)
            raise
        finally:
            process.kill()
        return self._judged(process)

    def _until_ended(self, process: SparkSubmit) -> str:
        """Waits for the application's end; returns why it is not waited for any more, "" if it has ended."""
        began_s, limit_s = time.monotonic(), self.asked.timeouts.reserve
        accepted_s: float | None = None
        room_s = float("-inf")
        while process.wait(KNOBS.submit_poll_s) is None:
            now_s = time.monotonic()
            if process.report.waits:
                accepted_s = accepted_s or now_s
                if now_s - accepted_s >= limit_s:
                    return self._not_started(process, limit_s)
            elif process.report.has_started and self.manager is not None and now_s - room_s >= _ROOM_POLL_S:
                self._room = telling(self._room, room_of(self.manager, self.asked))
                room_s = time.monotonic()
            if now_s - began_s > 2 * limit_s + _BESIDES_S:
                return f"no answer within {now_s - began_s:.0f} s. spark-submit said last: {self._last_words()}"
        return ""

    def _not_started(self, process: SparkSubmit, limit_s: float) -> str:
        report = process.report
        words = self.manager.words_on(report.application) if self.manager is not None else None
        why = " ".join((words or report.diagnostics or "nothing").split())
        manager = self.manager
        name, place = ("Spark", self.asked.submit.master) if manager is None else (manager.name, manager.place)
        return told(
            f"{name}'s {place} did not start {report.application} within {limit_s:g} s; it is killed. "
            f"{name} says: {why}"
        )

    def _judged(self, process: SparkSubmit) -> list[Diagnosis]:
        try:
            found = NodesFound.model_validate_json(self.file.read_bytes())
        except (OSError, ValidationError):
            return [stop("nodes", f"spark-submit ended without an answer. It said last: {self._last_words()}")]
        return judge_gang(
            self.config, found, self.config.timeouts.reserve, "" if self._room is None else self._room.text
        )

    def _last_words(self) -> str:
        said = [line.strip() for line in self._said if line.strip() and not line.lstrip().startswith(("at ", "... "))]
        causes = [line for line in said if "Exception" in line or "Error" in line]
        return told((causes or said or ["nothing"])[-1].lstrip(": "))

    def _stop(self, process: SparkSubmit) -> None:
        """Ends the application: in order if its driver is at work, else by YARN."""
        if not process.report.waits:
            process.interrupt()
            if process.wait(KNOBS.driver_stop_s) is not None and (self.manager is None or process.report.has_started):
                return
        if not process.report.application:
            process.kill()  # and it may have got as far as an application meanwhile
        if process.report.application and self.manager is not None:
            self.manager.kill(process.report, self.programs, self.environment)
            process.wait(KNOBS.clean_up_s)


class RoomLeft(NamedTuple):
    """The room that the cluster manager had on its hosts at one moment."""

    fits: bool  # Whether there was room for another node
    text: str


def room_of(manager: ClusterManager, config: JobConfig) -> RoomLeft | None:
    """Returns how much the host with the most room has, beside what a node needs; None if nobody tells."""
    hosts = manager.hosts() if manager.tells_room else None
    if not hosts:
        return None
    cores = config.submit.executor_cores
    most = max(hosts, key=lambda host: (min(host.free_vcores, cores), host.free_mib))
    needed_mib = containers(config)[0].allocated_mib(manager.step_mib)
    if most.free_mib >= needed_mib and most.free_vcores >= cores:
        seen = "(see the queue's limits, and the executors' logs)"
        return RoomLeft(True, f"{manager.name} had room for another on {most.host} {seen}")
    return RoomLeft(
        False,
        f"{manager.name}'s host with the most room, {most.host}, had {most.free_mib:,} MiB and {most.free_vcores} "
        f"vcores free, and each node takes {needed_mib:,} MiB and {cores}",
    )


def telling(before: RoomLeft | None, now: RoomLeft | None) -> RoomLeft | None:
    """Returns which of two moments tells why a node did not come: at the start and the end, there is room."""
    return now if now is not None and (before is None or not now.fits) else before
