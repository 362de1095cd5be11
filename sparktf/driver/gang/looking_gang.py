"""A gang that is only looked at: reserved as one that trains, asked what its hosts have, and sent home.

Knows nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from sparktf.config.job import JobConfig
from sparktf.driver.attempt.health import rhythm_of
from sparktf.driver.gang.reserved import Need, Reserved, problems_of
from sparktf.driver.gang.roster import AgentRecord
from sparktf.driver.gang.site import Handler, Site, Voice
from sparktf.driver.plan.plan import Plan
from sparktf.errors import ReservationError, SparkTFError
from sparktf.feature import FeedSpec
from sparktf.knobs import KNOBS
from sparktf.told import told, words_of_error
from sparktf.wire.control import Action
from sparktf.wire.node_look import NodeFound, NodeLook, NodesFound, Peers

_MOST_PEERS = 8
"""Nodes that each one tries to reach: a firewall between two hosts shows in a large gang, too."""

_NO_DATA = Plan(spec=FeedSpec(features=()), plan_hash="", files=(), partition_values=(), tables={})


class _Told(NamedTuple):
    """The last words of an agent, and how much later its clock was then."""

    look: NodeLook
    ahead_s: float


class LookingGang(Reserved):
    """Looks at the nodes that a run would get; `close` in any case."""

    def __init__(self, config: JobConfig, site: Site) -> None:
        """Starts nothing yet."""
        super().__init__(site, rhythm_of(config), config.timeouts)
        self._config = config
        self._told: dict[str, _Told] = {}
        self._peers: dict[str, tuple[str, ...]] = {}

    def look(self, modules: Sequence[str], voice: Voice) -> NodesFound:
        """Starts the agents, waits for them up to `timeouts.reserve`, and returns what they tell.

        Args:
            modules: For which each of them is to look.

        Raises:
            SparkTFError: none could be started.
        """
        config, began_s = self._config, self.clock.now_s()
        self.site.ship_code(config)
        handlers = {**self._dispatcher.handlers(), Action.LOOK: Handler(NodeLook, self._note)}
        self._server = self.site.serve(config, handlers)
        settings = self._settings(self._server, config.model_module, config.cluster.node_ports, "off")
        self._agents = self.site.start_agents(config, _NO_DATA, replace(settings, looks_for=tuple(modules)), voice)
        error = self._await(began_s)
        waited_s = self.clock.now_s() - began_s
        agents = self._exchange()
        return NodesFound(
            place=self.site.place,
            control=self._server.access().location,
            wanted=config.cluster.nodes,
            waited_s=waited_s,
            nodes=tuple(map(self._found, agents)),
            versions=self._versions,
            error=error,
        )

    def check_agents(self, agents: Iterable[AgentRecord]) -> None:
        """Refuses none: what is wrong with each of them is told at the end."""

    def _await(self, began_s: float) -> str:
        """Waits for the agents; returns why none of them can come, "" if they did, or only the time was over."""
        nodes, limit_s = self._config.cluster.nodes, self._config.timeouts.reserve
        try:
            need = Need(nodes, nodes, 0, began_s + limit_s)
            self.await_agents(need, limit_s, "timeouts.reserve", lambda idle, left_s, now_s: None)
        except ReservationError:
            return ""
        except SparkTFError as error:
            return told(words_of_error(error))
        return ""

    def _exchange(self) -> list[AgentRecord]:
        """Has the agents try to reach each other; returns those that are there at the end."""
        agents = self.roster.here()
        with self.roster.changed:
            self._peers = peers_of({agent.id: agent.address for agent in agents})
        deadline_s = self.clock.now_s() + KNOBS.node_look_s
        while (agents := self.roster.here()) and self.clock.now_s() < deadline_s:
            if all(self._has_told(agent.id) for agent in agents):
                break
            self.roster.sweep()
            self.tick()
        return agents

    def _has_told(self, agent: str) -> bool:
        with self.roster.changed:
            told = self._told.get(agent)
            return told is not None and len(told.look.links) >= len(self._peers.get(agent, ()))

    def _note(self, look: NodeLook) -> Peers:
        """Keeps an agent's words; returns whom it is to try."""
        ahead_s = look.facts.wall_s - self.site.clock.wall_s()
        with self.roster.changed:
            self._told[look.agent] = _Told(look, ahead_s)
            self.roster.changed.notify_all()
            return Peers(addresses=self._peers.get(look.agent, ()))

    def _found(self, agent: AgentRecord) -> NodeFound:
        told, registration = self._told.get(agent.id), agent.registration
        found = NodeFound(
            host=registration.host,
            address=agent.address,
            versions=registration.versions,
            problems=tuple(problems_of(agent, self._versions)),
        )
        if told is None:
            return found
        return found.model_copy(
            update={"facts": told.look.facts, "links": told.look.links, "ahead_s": told.ahead_s},
        )


def peers_of(addresses: dict[str, str], most: int = _MOST_PEERS) -> dict[str, tuple[str, ...]]:
    """Returns the addresses that each agent tries: those of the agents after it, round in a ring."""
    agents, found = list(addresses), list(addresses.values())
    return {agent: tuple((found[place + 1 :] + found[:place])[:most]) for place, agent in enumerate(agents)}
