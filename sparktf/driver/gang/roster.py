"""The agents that the driver knows, and their orders."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sparktf.driver.lifecycle import AGENT, AgentEvent, AgentState, step
from sparktf.errors import RefusedError
from sparktf.wire.beats import SMALL, Beats
from sparktf.wire.control import Ack, AgentHeartbeat, Order, Orders, Registered, Registration, TrainerExited
from sparktf.wire.sender import TrainerKey
from sparktf.wire.trainer_spec import TrainerSpec


@dataclass(slots=True)
class AgentRecord:
    """One agent as the driver sees it."""

    registration: Registration
    heard_s: float
    address: str  # "host:port" held for its next trainer
    state: AgentState = AgentState.IDLE
    vouched: bool = False  # Its trainer was heard after its own latest heartbeat
    wanted: TrainerSpec | None = None  # The trainer that it is to run, unless `stop`
    stop: bool = False
    # Not idle before it is heard again: it may have started a trainer, or its last one has ended, and the address for
    # another is still to come
    is_awaited: bool = False
    # Its ended trainers: later reports on them are ignored
    ended: set[TrainerKey] = field(default_factory=set)

    @property
    def id(self) -> str:
        return self.registration.agent

    @property
    def executor(self) -> tuple[str, str]:
        """Host and JVM, unique to an executor."""
        return self.registration.host, self.registration.jvm

    @property
    def is_free(self) -> bool:
        """Whether it runs no trainer, is to run none, and holds the address that the driver knows."""
        return self.state is AgentState.IDLE and self.wanted is None and not self.is_awaited

    @property
    def is_here(self) -> bool:
        return self.state not in (AgentState.LOST, AgentState.DISMISSED)

    def take_back(self) -> None:
        """Has its trainer stopped, or not started."""
        self.stop = self.state in (AgentState.BUSY, AgentState.STOPPING)
        self.wanted = self.wanted if self.stop else None

    def apply(self, event: AgentEvent) -> None:
        self.state = step(AGENT, self.state, event, f"agent {self.registration.partition} on {self.registration.host}")


class ExecutorFacts(NamedTuple):
    """The cluster manager's facts about an agent's executor."""

    log: str = ""  # Address of its log, "" where there is none
    removed: str = ""  # Why it was removed; "" if it was not, or unknown
    taken_back: bool = False  # The cluster took it back, and neither it nor its host had failed


@dataclass(slots=True)
class LostAgent:
    """Why an agent counts as lost."""

    agent: AgentRecord
    reason: str

    def in_words(self, facts: ExecutorFacts = ExecutorFacts()) -> str:  # noqa: B008 - an immutable
        """Returns a message about its trainer: it lost its executor only if that is known to be gone."""
        return f"lost its executor: {facts.removed}" if facts.removed else f"lost its agent: {self.reason}"


@dataclass
class Roster:
    """All agents, by partition; thread-safe. `changed` is notified whenever a decision may be due."""

    clock: Callable[[], float]
    silence_s: float  # Silence after which an agent is lost
    # Whether Spark may start a second agent of a partition beside a living one (speculation). It then waits until the
    # first is silent: if it gave up, Spark would take that for success and kill the first.
    duplicates_wait: bool = False
    rhythm: Beats = SMALL  # How often agents are heard
    changed: threading.Condition = field(default_factory=threading.Condition)
    _agents: dict[str, AgentRecord] = field(default_factory=dict)
    _places: dict[int, AgentRecord] = field(default_factory=dict)
    _lost: list[LostAgent] = field(default_factory=list)
    _closed: bool = False

    # ---- called by the control server ----

    def register(self, message: Registration) -> Registered:
        """Gives an agent its place, or tells it to wait while another one has it.

        A duplicate waits, and one that is back, and one that Spark has replaced since: its registration is late.

        Raises:
            RefusedError: the cluster is closed, or the agent's job has ended.
        """
        with self.changed:
            before = self._agents.get(message.before)
            if self._closed or (before is not None and before.state is AgentState.DISMISSED):
                raise RefusedError("the run is over")
            now_s = self.clock()
            if message.agent in self._agents:
                return Registered(accepted=True)
            for other in self._here(message.partition):
                silent_s = now_s - other.heard_s
                if silent_s >= self.silence_s:
                    self._lose(other, f"silent for {silent_s:.0f} s")
                elif self.duplicates_wait or message.before or message.task < other.registration.task:
                    return Registered(accepted=False, reason="another agent has this place")
                else:
                    is_same = other.executor == (message.host, message.jvm)
                    where = "on the same executor, where its process had ended" if is_same else "elsewhere"
                    self._lose(other, f"Spark started it again {where}")
            self._agents[message.agent] = self._places[message.partition] = AgentRecord(message, now_s, message.address)
            self.changed.notify_all()
            return Registered(accepted=True)

    def heartbeat(self, message: AgentHeartbeat) -> Orders:
        """Notes that the agent lives; returns its orders. Raises `RefusedError` if the agent is unknown."""
        with self.changed:
            agent = self._known(message.agent)
            if agent.state is AgentState.LOST:
                return Orders(order=Order.REJOIN)
            if message.trainer in agent.ended:
                return Orders(order=Order.WAIT)  # sent before the end of that trainer was told, under another action
            agent.heard_s, agent.address = self.clock(), message.address
            if agent.is_awaited:
                agent.is_awaited = False
                self.changed.notify_all()
            vouched, agent.vouched = agent.vouched, False
            wanted, waiting_s = agent.wanted, self.rhythm.waiting_s
            if agent.state is AgentState.DISMISSED:
                return Orders(order=Order.DISMISS)
            if message.trainer is not None:
                if agent.state is AgentState.IDLE:
                    agent.apply(AgentEvent.STARTED)
                if wanted is None or agent.stop or message.trainer != wanted.trainer:
                    if agent.state is AgentState.BUSY:
                        agent.apply(AgentEvent.STOP)
                    return Orders(order=Order.STOP, beat_s=waiting_s)
            elif wanted is not None and agent.state is AgentState.IDLE:
                agent.is_awaited = True
                return Orders(order=Order.START, trainer=wanted, beat_s=waiting_s)
            working_s = self.rhythm.vouched_s if vouched else self.rhythm.steady_s
            return Orders(order=Order.WAIT, beat_s=waiting_s if message.trainer is None else working_s)

    def vouch(self, agent: str) -> None:
        """Notes that an agent lives, since its trainer does, which would end with it."""
        with self.changed:
            known = self._known(agent)
            known.heard_s, known.vouched = self.clock(), True

    def trainer_exited(self, message: TrainerExited) -> Ack:
        """Notes that an agent is free again. Raises `RefusedError` if the agent is unknown."""
        with self.changed:
            agent = self._known(message.agent)
            if message.trainer in agent.ended:
                return Ack()  # told again: by now the agent may be wanted for another trainer
            agent.ended.add(message.trainer)
            if agent.state in (AgentState.BUSY, AgentState.STOPPING):
                agent.apply(AgentEvent.EXITED)
            agent.wanted, agent.stop, agent.is_awaited = None, False, True
            self.changed.notify_all()
            return Ack()

    # ---- called by the driver's own thread, with `changed` held or not ----

    def here(self) -> list[AgentRecord]:
        """Returns the agents present, by partition."""
        with self.changed:
            return sorted((a for a in self._agents.values() if a.is_here), key=lambda a: a.registration.partition)

    def sweep(self) -> list[LostAgent]:
        """Gives up silent agents; returns all that were lost since the last call."""
        with self.changed:
            now_s = self.clock()
            for agent in self._agents.values():
                if agent.is_here and now_s - agent.heard_s > self.silence_s:
                    self._lose(agent, f"silent for {now_s - agent.heard_s:.0f} s")
            lost, self._lost = self._lost, []
            return lost

    def lose(self, agent: str, reason: str) -> None:
        """Gives up an agent, by id, whose executor is gone."""
        with self.changed:
            known = self._known(agent)
            if known.is_here:
                self._lose(known, reason)

    def lose_all(self, reason: str) -> None:
        """Gives up every agent at once: their job has ended, so none of them lives for long, and none may come back."""
        with self.changed:
            for agent in self._agents.values():
                if agent.is_here:
                    self._lose(agent, reason)
                if agent.state is AgentState.LOST:
                    agent.apply(AgentEvent.DISMISS)

    def start(self, specs: Sequence[tuple[str, TrainerSpec]]) -> None:
        """Gives agents (by id) their trainers."""
        with self.changed:
            for agent, spec in specs:
                self._agents[agent].wanted, self._agents[agent].stop = spec, False

    def stop_trainer(self, agent: str, trainer: TrainerKey) -> None:
        """Orders one trainer stopped, if the agent (by id) still has it; one not started yet is taken back."""
        with self.changed:
            known = self._known(agent)
            if known.wanted is not None and known.wanted.trainer == trainer:
                known.take_back()

    def stop_trainers(self) -> None:
        """Orders every trainer stopped; those not started yet are taken back."""
        with self.changed:
            for agent in self._agents.values():
                agent.take_back()

    def is_quiet(self) -> bool:
        """Whether no agent present runs a trainer, or may."""
        with self.changed:
            return all(a.is_free for a in self._agents.values() if a.is_here)

    def dismiss(self, agents: Sequence[str] | None = None) -> None:
        """Sends agents home, including lost ones that return. By default sends all, and then takes no new ones."""
        chosen = None if agents is None else frozenset(agents)
        with self.changed:
            self._closed = self._closed or chosen is None
            for agent in self._agents.values():
                wanted = chosen is None or agent.id in chosen
                if wanted and agent.state is not AgentState.DISMISSED:
                    agent.apply(AgentEvent.DISMISS)

    # ---- inside ----

    def _here(self, partition: int) -> list[AgentRecord]:
        place = self._places.get(partition)
        return [place] if place is not None and place.is_here else []

    def _known(self, agent: str) -> AgentRecord:
        known = self._agents.get(agent)
        if known is None:
            raise RefusedError("this agent never registered here")
        return known

    def _lose(self, agent: AgentRecord, reason: str) -> None:
        agent.apply(AgentEvent.SILENT)
        agent.wanted = None
        self._lost.append(LostAgent(agent, reason))
        self.changed.notify_all()
