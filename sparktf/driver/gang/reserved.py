"""Agents held for nodes of any kind: arrivals, fitness, losses, dismissals. Knows nothing of Spark."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparktf.clock import ListeningClock
from sparktf.config.section import Switch
from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.attempt.crew import Crew
from sparktf.driver.attempt.restart import Why
from sparktf.driver.gang.handlers import Dispatcher
from sparktf.driver.gang.roster import AgentRecord, Roster
from sparktf.driver.gang.site import AgentJob, Server, Site
from sparktf.errors import PreflightError, ReservationError
from sparktf.executor.agent import AgentSettings, installed_versions
from sparktf.knobs import KNOBS
from sparktf.process.ports import LOOPBACK
from sparktf.wire.beats import Beats

_SHOWN_NODES = 10

Waiting = Callable[[int, float, float], None]
"""Shows how many nodes have come, the seconds left for the others, and the time of that count."""


class Next(enum.Enum):
    """The next action of a gang that gathers."""

    WAIT = enum.auto()
    GO = enum.auto()
    GIVE_UP = enum.auto()


@dataclass(frozen=True, slots=True)
class Need:
    """The number of agents that an attempt waits for."""

    wanted: int  # The whole gang
    least: int  # Enough at the deadline
    spares: int  # Additional ones on their way, to choose from
    deadline_s: float  # Monotonic seconds
    patience_s: float = 0.0  # How much longer `least` are waited for

    def left_s(self, now_s: float) -> float:
        """Returns the time until the next decision: whether `least` are enough, or then whether to give up."""
        left_s = self.deadline_s - now_s
        return left_s if left_s > 0 else left_s + self.patience_s


def needed(nodes: int, fewest: int, spares: int, timeouts: TimeoutsConfig, why: Why, now_s: float) -> Need:
    """Returns the number of agents that an attempt waits for; `fewest` are enough where nodes do not come back."""
    if why is Why.FIRST:
        return Need(nodes, nodes, spares, now_s + timeouts.reserve)
    longer_s = max(timeouts.reserve - timeouts.replace, 0.0) if why is Why.TAKEN_BACK else 0.0
    return Need(nodes, fewest, spares, now_s + timeouts.replace, longer_s)


class Reserved:
    """The agents of a gang, at a site.

    Attributes:
        clock: Measures the silence and lateness of nodes.
    """

    def __init__(self, site: Site, rhythm: Beats, timeouts: TimeoutsConfig) -> None:
        """Starts nothing yet.

        Args:
            rhythm: How often agents are heard.
            timeouts: The agents' timeouts.
        """
        self.site = site
        self.clock = ListeningClock(site.clock)
        self.roster = Roster(self.clock.now_s, rhythm.silence_s, duplicates_wait=site.duplicates_wait, rhythm=rhythm)
        self._dispatcher = Dispatcher(self.roster)
        self._timeouts = timeouts
        self._home_s = timeouts.stop + rhythm.silence_s
        self._agents: AgentJob | None = None
        self._server: Server | None = None
        self._versions = installed_versions()

    def _settings(self, server: Server, module: str, node_ports: str, nursery: Switch) -> AgentSettings:
        return AgentSettings(
            access=server.access(),
            host=LOOPBACK if self.site.one_machine else "",
            node_ports=node_ports,
            model_module=module,
            heartbeat_s=self._timeouts.heartbeat,
            driver_lost_s=self._timeouts.driver_lost,
            nursery=nursery,
        )

    def await_agents(self, need: Need, limit_s: float, limit: str, show: Waiting) -> list[AgentRecord]:
        """Waits for free agents; returns them by partition.

        Args:
            limit: The setting of the limit.

        Raises:
            ReservationError: too few came in time.
            PreflightError: an agent cannot start trainers.
        """
        enough_since_s, sound = None, set[str]()
        while True:
            self.look_after_agents()
            self.roster.sweep()
            idle = [a for a in self.roster.here() if a.is_free]
            self.check_agents([agent for agent in idle if agent.id not in sound])
            sound.update(agent.id for agent in idle)
            now_s = self.clock.now_s()
            if len(idle) >= need.wanted and enough_since_s is None:
                enough_since_s = now_s
            then = gathered(need, len(idle), enough_since_s, now_s)
            if then is Next.GO and not self.drop_removed(idle):
                return idle
            if then is Next.GIVE_UP:
                missing = sorted(set(range(need.wanted)) - {a.registration.partition for a in idle})
                raise ReservationError(
                    f"only {len(idle)} of {need.wanted} nodes came within {limit_s:g} s; missing: {_nodes(missing)} "
                    f"on {self.site.place}: free some executors, or raise {limit}"
                )
            show(len(idle), need.left_s(now_s), now_s)
            self.tick()

    def check_agents(self, agents: Iterable[AgentRecord]) -> None:
        """Raises `PreflightError` if one of these agents cannot start trainers."""
        for agent in agents:
            problems = problems_of(agent, self._versions)
            if problems:
                raise PreflightError(f"on executor {agent.registration.host}: {problems[0]}")

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

    def record_losses(self, crew: Crew) -> None:
        """Reports lost agents to the trainers' crew."""
        swept = self.roster.sweep()
        for lost, facts in zip(swept, self.site.facts([lost.agent for lost in swept]), strict=True):
            with self.roster.changed:
                crew.agent_lost(lost.agent.id, lost.in_words(facts), facts.log, taken_back=facts.taken_back)

    def look_after_agents(self, *, restart: bool = True) -> str | None:
        """Notices that all agents were given up, and starts them again; returns the reason.

        Raises:
            PreflightError: no executor can run them.
            NodeLostError: it has happened too often.
        """
        reason = self._agents.ended() if self._agents is not None else None
        if reason is not None and self._agents is not None:
            self.roster.lose_all(reason)
            if restart:
                self._agents.restart()
        return reason

    def stop(self, crew: Crew, limit_s: float) -> bool:
        """Stops the trainers and waits until all are gone; returns whether they are."""
        with self.roster.changed:
            crew.stop()
            # Trainers that have finished exit by themselves when their next heartbeat is answered.
            if not crew.is_done:
                self.roster.stop_trainers()
        deadline_s = self.clock.now_s() + limit_s
        while (then := stopped(self.roster.is_quiet(), deadline_s, self.clock.now_s())) is Next.WAIT:
            with self.roster.changed:
                for lost in self.roster.sweep():
                    crew.agent_lost(lost.agent.id, lost.in_words())
            self.look_after_agents(restart=False)
            self.tick()
        if then is Next.GIVE_UP:
            self.roster.stop_trainers()
        return then is Next.GO

    def close(self) -> None:
        """Stops trainers, sends the agents home and ends the control server."""
        with self.roster.changed:
            self.roster.stop_trainers()
            if self._dispatcher.attempt is not None:
                self._dispatcher.attempt.stop()
            self.roster.dismiss()
        if self._agents is not None:
            self._agents.close(self._home_s)
        if self._server is not None:
            server, self._server = self._server, None
            server.withdraw()
            # Not waited for: it waits for calls under way, and a dying node may keep one open for long.
            self.clock.beside("control-shutdown", server.shutdown)

    def tick(self) -> None:
        """Waits for a notification, at most for a moment."""
        with self.roster.changed:
            self.clock.wait(self.roster.changed, KNOBS.tick_s)

    def wake(self) -> None:
        """Ends a `tick` that is under way; from any thread."""
        with self.roster.changed:
            self.roster.changed.notify_all()


def gathered(need: Need, idle: int, enough_since_s: float | None, now_s: float) -> Next:
    """Returns the next action, given the free agents; `enough_since_s`: since when all wanted are there, or None."""
    if idle >= need.wanted:
        waited_s = 0.0 if enough_since_s is None else now_s - enough_since_s
        if idle >= need.wanted + need.spares or waited_s >= KNOBS.spares_s:
            return Next.GO
    if now_s < need.deadline_s:
        return Next.WAIT
    if idle >= need.least:
        return Next.GO
    return Next.WAIT if now_s < need.deadline_s + need.patience_s else Next.GIVE_UP


def stopped(quiet: bool, deadline_s: float, now_s: float) -> Next:
    """Returns the next action after trainers are told to stop: GO when none runs, else GIVE_UP at the deadline."""
    if quiet:
        return Next.GO
    return Next.WAIT if now_s <= deadline_s else Next.GIVE_UP


def _nodes(partitions: list[int]) -> str:
    """Returns the names of nodes for a message: of many, the first."""
    more = len(partitions) - _SHOWN_NODES
    return ", ".join(f"node {i}" for i in partitions[:_SHOWN_NODES]) + (f" and {more} more" if more > 0 else "")


def problems_of(agent: AgentRecord, driver: Mapping[str, str]) -> list[str]:
    """Returns why no trainer could start beside an agent, given the versions of the driver."""
    registration = agent.registration
    return [*registration.problems, *differing_versions(driver, registration.versions)]


def differing_versions(driver: Mapping[str, str], executor: Mapping[str, str]) -> list[str]:
    """Returns messages if an executor has another Python, TensorFlow or sparktf than the driver.

    The minor version of Python counts. A driver without TensorFlow, which needs none, is accepted.
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
