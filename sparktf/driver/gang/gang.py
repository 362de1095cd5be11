"""A gang of nodes: the agents that a site has started, and the current attempt. Knows nothing of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from rich.console import Console

from sparktf.clock import ListeningClock
from sparktf.config.job import JobConfig
from sparktf.console.console import Display
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.feeding import Feeders
from sparktf.driver.attempt.health import rhythm_of
from sparktf.driver.gang.gathering import Need, Next, gathered, late_spares, stopped
from sparktf.driver.gang.handlers import Dispatcher
from sparktf.driver.gang.placement import best_nodes
from sparktf.driver.gang.roster import AgentRecord, Roster
from sparktf.driver.gang.site import AgentJob, Server, Site, Voice
from sparktf.driver.plan.plan import Plan
from sparktf.errors import LifecycleError, PreflightError, ReservationError, RunInterruptedError
from sparktf.executor.agent import AgentSettings, installed_versions
from sparktf.executor.feeder import FeederSettings
from sparktf.knobs import KNOBS
from sparktf.lifecycle import GANG, GangEvent, GangState, step
from sparktf.process.ports import LOOPBACK
from sparktf.sequence import Stream
from sparktf.wire.trainer_spec import TrainerSpec

_SHOWN_NODES = 10


class Gang:
    """Reserves nodes at a site and runs attempts on them.

    Agents are started by the first training, after its preflight and plan, and dismissed by `close`.

    Attributes:
        clock: By which it is judged whether nodes are silent, or late.
    """

    def __init__(self, config: JobConfig, site: Site, console: Console) -> None:
        """Starts nothing yet.

        Args:
            config: Of the first training, whose timeouts the agents keep.
            console: Where runs are shown.
        """
        self.config = config
        self.site = site
        self.console = console
        self.clock = ListeningClock(site.clock)
        self.roster = Roster(
            self.clock.now_s,
            rhythm_of(config).silence_s,
            duplicates_wait=site.duplicates_wait,
            rhythm=rhythm_of(config),
        )
        self._dispatcher = Dispatcher(self.roster)
        self._state = GangState.EMPTY
        self._attempts = 0
        self._agents: AgentJob | None = None
        self._size = 0
        self._chosen: frozenset[int] = frozenset()  # partitions, where there were spares to choose from
        self._server: Server | None = None
        self._versions = installed_versions()

    @property
    def attempt(self) -> Attempt | None:
        """The current attempt; None before the first."""
        return self._dispatcher.attempt

    # ---- reservation ----

    def suffices(self, config: JobConfig) -> bool:
        """Whether a training finds its nodes here: true before the first one has reserved any."""
        return self._agents is None or config.shape.nodes <= self._size

    def close(self) -> None:
        """Stops trainers, sends the agents home and ends the control server."""
        self._take(GangEvent.CLOSE)
        with self.roster.changed:
            self.roster.stop_trainers()
            if self.attempt is not None:
                self.attempt.stop()
            self.roster.dismiss()
        if self._agents is not None:
            self._agents.close(self.config.timeouts.stop + rhythm_of(self.config).silence_s)
        if self._server is not None:
            server, self._server = self._server, None
            server.withdraw()
            # It waits for calls under way, and a dying node may have one open for long: so nobody waits for it.
            self.clock.beside("control-shutdown", server.shutdown)

    def reserve(self, config: JobConfig, plan: Plan, voice: Voice) -> None:
        """Starts the control server and the agents, if they are not there yet.

        Raises:
            LifecycleError: the gang is closed.
            PreflightError: the agents leave no room for what the plan needs.
        """
        self._take(GangEvent.RESERVE)
        self.site.check_plan(config, plan)
        self.site.ship_code(config)
        if self._agents is not None:
            with suppress(RunInterruptedError):  # what ended the agents between two trainings interrupts neither
                self.look_after_agents()
            return
        self._server = self.site.serve(config, self._dispatcher.handlers())
        settings = AgentSettings(
            access=self._server.access(),
            host=LOOPBACK if self.site.one_machine else "",
            node_ports=config.cluster.node_ports,
            model_module=config.model_module,
            heartbeat_s=config.timeouts.heartbeat,
            driver_lost_s=config.timeouts.driver_lost,
            nursery=config.cluster.nursery,
        )
        self._agents = self.site.start_agents(config, plan, settings, voice)
        self._size = config.shape.nodes

    def gather(self, config: JobConfig, plan: Plan, display: Display, *, first: bool) -> list[AgentRecord]:
        """Waits for the gang; returns its agents by partition.

        The first attempt needs all of them within `timeouts.reserve`; a later one goes on with at least
        `cluster.min_workers` when the lost do not come back within `timeouts.replace`. Of more agents than are needed,
        those beside the data are taken, of each executor one if that is enough; spares that are not are sent home.

        Raises:
            ReservationError: too few came in time.
            PreflightError: an agent cannot start trainers.
        """
        self._take(GangEvent.GATHER)
        event = GangEvent.GIVEN_UP
        try:
            agents = self._gathered(config, plan, display, first=first)
            event = GangEvent.GATHERED
        finally:
            self._take(event)
        return agents

    def _gathered(self, config: JobConfig, plan: Plan, display: Display, *, first: bool) -> list[AgentRecord]:
        shape, timeouts = config.shape, config.timeouts
        limit_s = timeouts.reserve if first else timeouts.replace
        wanted, least = shape.nodes, shape.nodes if first else shape.fewest
        deadline_s = self.clock.now_s() + limit_s
        enough_since_s, sound = None, set[str]()
        while True:
            self.look_after_agents()
            self.roster.sweep()
            idle = [a for a in self.roster.here() if a.is_free]
            self.check_agents([agent for agent in idle if agent.id not in sound])
            sound.update(agent.id for agent in idle)
            now_s = self.clock.now_s()
            if len(idle) >= wanted and enough_since_s is None:
                enough_since_s = now_s
            then = gathered(Need(wanted, least, self._spares(), deadline_s), len(idle), enough_since_s, now_s)
            if then is Next.GO and not self.drop_removed(idle):
                return self._choose(idle, wanted, plan)
            if then is Next.GIVE_UP:
                missing = sorted(set(range(wanted)) - {a.registration.partition for a in idle})
                raise ReservationError(
                    f"{len(idle)} of {wanted} nodes came within {limit_s:g} s; missing: "
                    f"{_nodes(missing)} on {self.site.place} "
                    f"(are there free executors? timeouts.{'reserve' if first else 'replace'} is the limit)"
                )
            display.waiting("waiting for nodes", len(idle), wanted, deadline_s - now_s, now_s)
            self.tick()

    def check_agents(self, agents: Iterable[AgentRecord]) -> None:
        """Raises `PreflightError` if one of these agents cannot start trainers."""
        for agent in agents:
            registration = agent.registration
            problems = [*registration.problems, *differing_versions(self._versions, registration.versions)]
            if problems:
                raise PreflightError(f"on executor {registration.host}: {problems[0]}")

    def drop_removed(self, agents: Sequence[AgentRecord]) -> bool:
        """Gives up agents whose executors are gone, which the cluster manager knows before they are silent for long.

        It asks the site, and so is not called under the lock that nodes report under.

        Returns:
            Whether there were any.
        """
        found = [(agent, facts.removed) for agent, facts in zip(agents, self.site.facts(agents), strict=True)]
        removed = [(agent, reason) for agent, reason in found if reason]
        for agent, reason in removed:
            self.roster.lose(agent.id, reason)
        return bool(removed)

    def _spares(self) -> int:
        return self._agents.spares if self._agents is not None else 0

    def _choose(self, agents: list[AgentRecord], need: int, plan: Plan) -> list[AgentRecord]:
        apart = list({agent.executor: agent for agent in reversed(agents)}.values())[::-1]
        agents_of = apart if len(apart) >= need else agents
        hosts = [agent.registration.host for agent in agents_of]
        kept = [agents_of[i] for i in best_nodes(plan.host_nbytes(), hosts, need)]
        if self._agents is not None and self._agents.spares:
            self._agents.spares = 0
            self._chosen = frozenset(agent.registration.partition for agent in kept)
            stay = {agent.id for agent in kept}
            self._send_home([agent for agent in agents if agent.id not in stay])
        return kept

    def _send_home(self, spares: list[AgentRecord]) -> None:
        """Has agents end, and their executors given back that nobody else is on."""
        self.roster.dismiss([agent.id for agent in spares])
        used = {agent.executor for agent in self.roster.here()}
        self.site.let_go([agent for agent in spares if agent.executor not in used])

    def begin(self, attempt: Attempt, specs: Sequence[tuple[str, TrainerSpec]]) -> None:
        """Makes an attempt the current one and gives the agents their trainers."""
        self._take(GangEvent.BEGIN)
        with self.roster.changed:
            self._dispatcher.attempt = attempt
            self.roster.start(specs)

    def feed(self, config: JobConfig, plan: Plan, attempt: int, stream: Stream, epoch: int, turn: int) -> Feeders:
        """Has Spark feed a stream in an epoch to the nodes of an attempt, for the turn that is named.

        Raises:
            LifecycleError: there are no agents yet.
        """
        if self._server is None:
            raise LifecycleError("feeders start after the agents")
        settings = FeederSettings(self._server.access(), attempt, stream, epoch, config.timeouts.driver_lost, turn)
        return self.site.feed(config, plan, settings, self.wake)

    def end_attempt(self, attempt: Attempt, limit_s: float) -> bool:
        """Stops the trainers and waits until all are gone; returns whether they are."""
        self._take(GangEvent.END)
        event = GangEvent.LEFT
        try:
            if self._stop(attempt, limit_s):
                event = GangEvent.STOPPED
        finally:
            self._take(event)
        return event is GangEvent.STOPPED

    def _stop(self, attempt: Attempt, limit_s: float) -> bool:
        with self.roster.changed:
            attempt.stop()
            # Trainers that have finished exit by themselves when their next heartbeat is answered.
            if not attempt.is_done:
                self.roster.stop_trainers()
        deadline_s = self.clock.now_s() + limit_s
        while (then := stopped(self.roster.is_quiet(), deadline_s, self.clock.now_s())) is Next.WAIT:
            with self.roster.changed:
                for lost in self.roster.sweep():
                    attempt.agent_lost(lost.agent.id, lost.gang_text())
            self.look_after_agents(restart=False)
            self.tick()
        if then is Next.GIVE_UP:
            self.roster.stop_trainers()
        return then is Next.GO

    def next_attempt(self, after: int) -> int:
        """Returns an attempt's number: unique in this cluster, and greater than `after`."""
        self._attempts = max(self._attempts, after) + 1
        return self._attempts

    def look_after_agents(self, *, restart: bool = True) -> str | None:
        """Notices that all agents were given up, and starts them again; returns why they were.

        Sends spares home that have come too late to be chosen: they would hold their executors to the run's end.

        Raises:
            PreflightError: no executor can run them.
            NodeLostError: it has happened too often.
        """
        reason = self._agents.ended() if self._agents is not None else None
        if reason is not None and self._agents is not None:
            self.roster.lose_all(reason)
            if restart:
                self._agents.restart()
        if self._chosen:
            here = {agent.registration.partition: agent for agent in self.roster.here()}
            free = {partition for partition, agent in here.items() if agent.is_free}
            if late := late_spares(self._chosen, here.keys(), free):
                self._send_home([here[partition] for partition in sorted(late)])
        return reason

    def _take(self, event: GangEvent) -> None:
        self._state = step(GANG, self._state, event, "the gang")

    def tick(self) -> None:
        """Waits for something to happen, or a moment."""
        with self.roster.changed:
            self.clock.wait(self.roster.changed, KNOBS.tick_s)

    def wake(self) -> None:
        """Ends a `tick` that is under way; from any thread."""
        with self.roster.changed:
            self.roster.changed.notify_all()


def _nodes(partitions: list[int]) -> str:
    """Returns the names of nodes for a message: of many, the first."""
    more = len(partitions) - _SHOWN_NODES
    return ", ".join(f"node {i}" for i in partitions[:_SHOWN_NODES]) + (f" and {more} more" if more > 0 else "")


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
