"""A gang of nodes: the control server, the agents behind it, and the current attempt. Knows nothing of Spark."""

from __future__ import annotations

import abc
import datetime
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, TypeVar

from rich.console import Console

from sparktf.config.job import JobConfig
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.feeding import Feeders
from sparktf.driver.console import Display
from sparktf.driver.gang.control_server import ControlServer, Handler, LocalControlServer
from sparktf.driver.gang.placement import best_nodes
from sparktf.driver.gang.roster import Agent, ExecutorFacts, Roster
from sparktf.driver.plan.plan import Plan
from sparktf.errors import LifecycleError, PreflightError, RefusedError, ReservationError
from sparktf.executor.agent import AgentSettings, installed_versions
from sparktf.executor.feeder import FeederSettings
from sparktf.hadoop import HadoopConf
from sparktf.lifecycle import AgentState
from sparktf.message import Message
from sparktf.result import Application
from sparktf.sequence import Stream
from sparktf.storage import FileSystems, Storage
from sparktf.wire.control import (
    Ack,
    Action,
    AgentHeartbeat,
    AssignmentRequest,
    EpochDone,
    Failed,
    Finished,
    Heartbeat,
    Metrics,
    Ready,
    Registration,
    TrainerExited,
    TrainerOrders,
    TrainerSpec,
    Uploaded,
    Warned,
)
from sparktf.wire.data import LeaseRequest, Sealed, WorkRequest
from sparktf.wire.security import new_secret, new_tls_material

_TICK_S = 0.2
_SPARES_S = 15.0
"""So long the gang waits for executors beyond need, which may be nearer to the data, when it has enough."""

_log = logging.getLogger(__name__)

_Request = TypeVar("_Request", bound=Message)


class AgentJob(Protocol):
    """Whatever runs the agents.

    Attributes:
        spares: How many of the agents are there to choose from only; set to 0 when that is done.
    """

    spares: int

    def ended(self) -> str | None:
        """Returns why all agents have been given up at once, None while they have not."""

    def restart(self) -> None:
        """Starts the agents again. Raises `NodeLostError` if that has been tried too often."""

    def close(self, wait_s: float) -> None:
        """Waits for dismissed agents to go home, then ends what is left."""


class Gang(abc.ABC):
    """Reserves nodes and runs attempts on them; a subclass says where agents run.

    Agents are started by the first training, after its preflight and plan, and dismissed by `close`.

    Attributes:
        place: Where the gang runs, for people: Spark's master.
        one_machine: Whether all nodes are on this machine: then a unix socket serves, and TLS is not needed.
        warn: Takes what the run's result should mention.
        say: Takes a line of the run's progress.
        application: The Spark application whose gang it is.
    """

    application = Application("")

    def __init__(
        self, config: JobConfig, *, place: str, one_machine: bool, duplicates_wait: bool, console: Console
    ) -> None:
        self.config = config
        self.place = place
        self.console = console
        self.one_machine = one_machine
        self.warn: Callable[[str], None] = _log.warning
        self.say: Callable[[str], None] = _log.info
        self.roster = Roster(time.monotonic, config.timeouts.heartbeat, duplicates_wait=duplicates_wait)
        self._attempt: Attempt | None = None
        self._attempts = 0
        self._agents: AgentJob | None = None
        self._server: ControlServer | None = None
        self._versions = installed_versions()

    # ---- what differs by where it runs ----

    @abc.abstractmethod
    def preflight(self, config: JobConfig) -> None:
        """Refuses what can never run here. Raises `PreflightError`."""

    @abc.abstractmethod
    def plan(self, config: JobConfig) -> Plan:
        """Plans the run's input. Raises what `plan_source` does."""

    @abc.abstractmethod
    def prepare(self, config: JobConfig, storage: Storage, path: str) -> dict[str, Any]:
        """Returns the model's assets, kept at `path`."""

    @abc.abstractmethod
    def start_agents(self, config: JobConfig, plan: Plan, settings: AgentSettings) -> AgentJob:
        """Starts `config.cluster.nodes` agents or more, beside the data if it can be had."""

    @abc.abstractmethod
    def ship_code(self, config: JobConfig) -> None:
        """Brings the model's code to where the agents run."""

    def feed(self, config: JobConfig, plan: Plan, attempt: int, stream: Stream, epoch: int) -> Feeders:
        """Has Spark feed a stream in an epoch to the nodes of an attempt."""
        raise LifecycleError(f"{self.place} feeds no {stream}")

    def feeder_settings(self, config: JobConfig, attempt: int, stream: Stream, epoch: int) -> FeederSettings:
        """Returns what a feeder of the current attempt gets."""
        if self._server is None:
            raise LifecycleError("feeders start after the agents")
        access = self._server.access(self.addresses()[1])
        return FeederSettings(access, attempt, stream, epoch, config.timeouts.driver_lost)

    def let_go(self, agents: Sequence[Agent]) -> None:
        """Gives back what was held for agents that are dismissed; nothing, where executors cannot be given back."""
        del agents

    def facts(self, agents: Sequence[Agent]) -> list[ExecutorFacts]:
        """Returns what is known of each agent's executor."""
        return [ExecutorFacts() for _ in agents]

    @cached_property
    def file_systems(self) -> FileSystems:
        """Where data and runs are: as HADOOP_CONF_DIR says.

        Raises:
            ConfigError: it says nothing that can be read.
        """
        return FileSystems(HadoopConf.from_environment())

    def addresses(self) -> tuple[str, str]:
        """Returns the address to bind the control server to, and the one that nodes reach it at."""
        return ("127.0.0.1", "127.0.0.1")

    def scratch(self) -> str | None:
        """Returns a folder that goes with the gang, even if this process is killed; None if there is none."""
        return None

    # ---- reservation ----

    def close(self) -> None:
        """Stops trainers, sends the agents home and ends the control server."""
        self.roster.stop_trainers()
        if self._attempt is not None:
            self._attempt.stop()
        self.roster.dismiss()
        if self._agents is not None:
            self._agents.close(self.config.timeouts.stop + self.config.timeouts.heartbeat)
        if self._server is not None:
            server, self._server = self._server, None
            server.withdraw()
            # It waits for calls under way, and a dying node may have one open for long: so nobody joins this thread.
            threading.Thread(target=server.shutdown, name="control-shutdown", daemon=True).start()

    def reserve(self, config: JobConfig, plan: Plan) -> None:
        """Starts the control server and the agents, if they are not there yet."""
        self.ship_code(config)
        if self._agents is not None:
            return
        bind, advertise = self.addresses()
        self._server = self._start_server(config, bind)
        settings = AgentSettings(
            access=self._server.access(advertise),
            host="127.0.0.1" if self.one_machine else "",
            node_ports=config.cluster.node_ports,
            model_module=config.model_module,
            heartbeat_s=config.timeouts.heartbeat,
            driver_lost_s=config.timeouts.driver_lost,
        )
        self._agents = self.start_agents(config, plan, settings)

    def gather(self, config: JobConfig, plan: Plan, display: Display, *, first: bool) -> list[Agent]:
        """Waits for the gang; returns its agents by partition.

        The first attempt needs all of them within `timeouts.reserve`; a later one goes on with at least
        `cluster.min_workers` when the lost do not come back within `timeouts.replace`. Of more agents than are needed,
        those beside the data are taken, of each executor one if that is enough; spares that are not are sent home.

        Raises:
            ReservationError: too few came in time.
            PreflightError: an agent cannot start trainers.
        """
        need, timeouts = config.cluster.nodes, config.timeouts
        limit_s = timeouts.reserve if first else timeouts.replace
        deadline_s = time.monotonic() + limit_s
        spares_until_s = None
        while True:
            self.look_after_agents()
            self.roster.sweep()
            idle = [a for a in self.roster.here() if a.state is AgentState.IDLE]
            _check_problems(idle, self._versions)
            now_s = time.monotonic()
            left_s = deadline_s - now_s
            if len(idle) >= need:
                spares_until_s = spares_until_s or now_s + _SPARES_S
                if len(idle) >= need + self._spares() or now_s >= spares_until_s:
                    return self._choose(idle, need, plan)
            if left_s <= 0:
                if not first and len(idle) >= config.cluster.min_workers:
                    return self._choose(idle, need, plan)
                missing = sorted(set(range(need)) - {a.registration.partition for a in idle})
                raise ReservationError(
                    f"{len(idle)} of {need} nodes came within {limit_s:g} s; missing: "
                    f"{', '.join(f'node {i}' for i in missing)} on {self.place} "
                    f"(are there free executors? timeouts.{'reserve' if first else 'replace'} is the limit)"
                )
            display.waiting("waiting for nodes", len(idle), need, left_s, time.monotonic())
            self.tick()

    def _spares(self) -> int:
        return self._agents.spares if self._agents is not None else 0

    def _choose(self, agents: list[Agent], need: int, plan: Plan) -> list[Agent]:
        apart = list({agent.executor: agent for agent in reversed(agents)}.values())[::-1]
        agents_of = apart if len(apart) >= need else agents
        hosts = [agent.registration.host for agent in agents_of]
        kept = [agents_of[i] for i in best_nodes(plan.host_nbytes(), hosts, need)]
        if self._agents is not None and self._agents.spares:
            self._agents.spares = 0
            spares = [agent for agent in agents if agent not in kept]
            self.roster.dismiss([agent.id for agent in spares])
            used = {agent.executor for agent in kept}
            self.let_go([agent for agent in spares if agent.executor not in used])
        return kept

    def begin(self, attempt: Attempt, specs: list[tuple[str, TrainerSpec]]) -> None:
        """Makes an attempt the current one and gives the agents their trainers."""
        with self.roster.changed:
            self._attempt = attempt
            self.roster.start(specs)

    def end_attempt(self, attempt: Attempt, limit_s: float) -> bool:
        """Stops the trainers and waits until all are gone; returns whether they are."""
        with self.roster.changed:
            attempt.stop()
            # Trainers that have finished exit by themselves when their next heartbeat is answered.
            if not attempt.is_done:
                self.roster.stop_trainers()
        deadline_s = time.monotonic() + limit_s
        while not self.roster.is_quiet():
            for lost in self.roster.sweep():
                attempt.agent_lost(lost.agent.id, lost.reason)
            if time.monotonic() > deadline_s:
                self.roster.stop_trainers()
                return False
            self.look_after_agents(restart=False)
            self.tick()
        return True

    def next_attempt(self, after: int) -> int:
        """Returns an attempt's number: unique in this cluster, and greater than `after`."""
        self._attempts = max(self._attempts, after) + 1
        return self._attempts

    def look_after_agents(self, *, restart: bool = True) -> str | None:
        """Notices that all agents were given up, and starts them again; returns why they were.

        Raises:
            NodeLostError: it has happened too often.
        """
        reason = self._agents.ended() if self._agents is not None else None
        if reason is not None and self._agents is not None:
            self.roster.lose_all(reason)
            if restart:
                self._agents.restart()
        return reason

    def tick(self) -> None:
        """Waits for something to happen, or a moment."""
        with self.roster.changed:
            self.roster.changed.wait(_TICK_S)

    def wake(self) -> None:
        """Ends a `tick` that is under way; from any thread."""
        with self.roster.changed:
            self.roster.changed.notify_all()

    # ---- control server ----

    def _start_server(self, config: JobConfig, bind: str) -> ControlServer:
        if self.one_machine and config.security.tls != "on":
            return LocalControlServer(self.scratch(), new_secret(), self._handlers())
        encrypted = config.security.tls != "off"
        material = new_tls_material(datetime.datetime.now(datetime.UTC)) if encrypted else None
        return ControlServer(bind, config.cluster.control_port, new_secret(), material, self._handlers())

    def _handlers(self) -> dict[Action, Handler]:
        return {
            Action.REGISTER: Handler(Registration, self.roster.register),
            Action.AGENT_HEARTBEAT: Handler(AgentHeartbeat, self.roster.heartbeat),
            Action.TRAINER_EXITED: Handler(TrainerExited, self._trainer_exited),
            Action.READY: Handler(Ready, lambda m: self._locked(self._current().ready, m)),
            Action.HEARTBEAT: Handler(Heartbeat, self._heartbeat),
            Action.ASSIGNMENT: Handler(AssignmentRequest, lambda m: self._locked(self._current().assignment, m)),
            Action.METRICS: Handler(Metrics, lambda m: self._locked(self._current().metrics_reported, m)),
            Action.EPOCH_DONE: Handler(EpochDone, lambda m: self._locked(self._current().epoch_done, m)),
            Action.UPLOADED: Handler(Uploaded, lambda m: self._locked(self._current().uploaded, m)),
            Action.FINISHED: Handler(Finished, lambda m: self._locked(self._current().finished, m)),
            Action.FAILED: Handler(Failed, lambda m: self._locked(self._current().failed, m)),
            Action.WARNING: Handler(Warned, lambda m: self._locked(self._current().warned, m)),
            Action.LEASE: Handler(LeaseRequest, lambda m: self._locked(self._current().lease, m)),
            Action.SEALED: Handler(Sealed, lambda m: self._locked(self._current().sealed, m)),
            Action.WORK: Handler(WorkRequest, lambda m: self._locked(self._current().work, m)),
        }

    def _current(self) -> Attempt:
        if self._attempt is None:
            raise RefusedError("there is no attempt")
        return self._attempt

    def _locked(self, handle: Callable[[_Request], Message], message: _Request) -> Message:
        with self.roster.changed:
            answer = handle(message)
            self.roster.changed.notify_all()
            return answer

    def _heartbeat(self, message: Heartbeat) -> TrainerOrders:
        with self.roster.changed:
            return self._current().heartbeat(message)

    def _trainer_exited(self, message: TrainerExited) -> Ack:
        with self.roster.changed:
            answer = self.roster.trainer_exited(message)
            attempt = self._attempt
            if attempt is not None and attempt.number == message.attempt:
                attempt.exited(message)
            return answer


def _check_problems(agents: list[Agent], versions: dict[str, str]) -> None:
    for agent in agents:
        registration = agent.registration
        problems = [*registration.problems, *differing_versions(versions, registration.versions)]
        if problems:
            raise PreflightError(f"on executor {registration.host}: {problems[0]}")


def differing_versions(driver: Mapping[str, str], executor: Mapping[str, str]) -> list[str]:
    """Returns what says that an executor has another Python, TensorFlow or sparktf than the driver.

    Of Python the minor version counts. A driver without TensorFlow, which needs none, is taken as it is.
    """
    return [
        f"{name} {executor[name]}, but the driver has {driver[name]}: run both from one environment (sparktf pack)"
        for name in ("python", "tensorflow", "sparktf")
        if name in executor
        and driver.get(name, "missing") != "missing"
        and _significant(name, driver[name]) != _significant(name, executor[name])
    ]


def _significant(name: str, version: str) -> str:
    return ".".join(version.split(".")[:2]) if name == "python" else version
