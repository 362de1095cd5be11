"""The gang of `sparktf doctor --nodes`: reserved as one that trains, asked, and sent home in any case."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from sparktf.clock import SystemClock
from sparktf.config.load import parse_config
from sparktf.driver.gang.looking_gang import LookingGang
from sparktf.driver.gang.roster import ExecutorFacts
from sparktf.driver.gang.site import Handler, Voice
from sparktf.errors import NodeLostError, PreflightError
from sparktf.executor.agent import AgentSettings, installed_versions
from sparktf.knobs import KNOBS
from sparktf.wire.control import Action, AgentHeartbeat, Order, Registration
from sparktf.wire.node_look import NodeFacts, NodeLook, NodesFound, TriedLink
from sparktf.wire.security import ControlAccess

CONFIG = parse_config("""\
name: t
model: m:build
data: {path: lake, inputs: {x: x}, targets: {y: y}}
output: {path: runs}
timeouts: {reserve: 0.5}
""")
FACTS: dict[str, Any] = {"python": "/bin/python", "disk": None, "memory_free_mib": None}
SILENT = Voice(lambda line: None, lambda line: None)


class Site:
    """A site whose agents register at once, and tell what they see until they are sent home."""

    def __init__(self, *agents: Mapping[str, Any], mute: str = "", ends: Exception | None = None) -> None:
        self.agents, self.mute, self.ends = agents, mute, ends
        self.clock = SystemClock()
        self.one_machine, self.duplicates_wait, self.place, self.spares = True, False, "a cluster", 0
        self.settings: AgentSettings | None = None
        self.handlers: Mapping[Action, Handler] = {}
        self.closed = 0

    def facts(self, agents: Any) -> list[ExecutorFacts]:
        return [ExecutorFacts() for _ in agents]

    def ship_code(self, config: Any) -> None:
        pass

    def serve(self, config: Any, handlers: Mapping[Action, Handler]) -> Any:
        self.handlers = handlers
        access = ControlAccess(location="grpc+tls://edge:7100", secret="s")
        return SimpleNamespace(access=lambda: access, withdraw=lambda: None, shutdown=lambda: None)

    def start_agents(self, config: Any, plan: Any, settings: AgentSettings, voice: Voice) -> Any:
        self.settings = settings
        for i, change in enumerate(self.agents):
            usual: dict[str, Any] = {"agent": f"a{i}", "partition": i, "host": f"h{i}", "jvm": f"j{i}"}
            known = {"address": f"h{i}:1", "versions": installed_versions()}
            said = Registration(**{**usual, **known, **change})
            self.handlers[Action.REGISTER].answer(said)
            if said.agent != self.mute:
                threading.Thread(target=self._tell, args=(said.agent, 60.0 * i), daemon=True).start()
        return self

    def _tell(self, agent: str, ahead_s: float) -> None:
        links: tuple[TriedLink, ...] = ()
        while not self.closed:
            facts = NodeFacts(**FACTS, wall_s=self.clock.wall_s() + ahead_s)
            answer: Any = self.handlers[Action.LOOK].answer(NodeLook(agent=agent, facts=facts, links=links))
            links = tuple(TriedLink(address=address, failure="no route") for address in answer.addresses)
            self.clock.sleep(0.01)

    def ended(self) -> str | None:
        return None if self.ends is None else "Spark gave it up"

    def restart(self) -> None:
        assert self.ends is not None
        raise self.ends

    def close(self, wait_s: float) -> None:
        self.closed += 1


def looked(site: Site) -> NodesFound:
    made: Any = site
    gang = LookingGang(CONFIG, made)
    try:
        return gang.look(("numpy",), SILENT)
    finally:
        gang.close()


def test_nodes_tell_what_they_see_and_which_others_they_reach() -> None:
    site = Site({}, {"versions": installed_versions() | {"tensorflow": "2.19.0"}})
    found = looked(site)
    assert site.settings is not None
    assert (site.settings.looks_for, site.settings.nursery) == (("numpy",), "off")
    assert (found.error, found.wanted, found.control) == ("", 2, "grpc+tls://edge:7100")
    assert [node.host for node in found.nodes] == ["h0", "h1"]
    assert [[link.address for link in node.links] for node in found.nodes] == [["h1:1"], ["h0:1"]]
    assert [round(node.ahead_s / 60) for node in found.nodes] == [0, 1]
    first, other = found.nodes
    assert first.problems == ()
    assert other.problems[0].startswith("tensorflow 2.19.0, but the driver has ")
    answer: Any = site.handlers[Action.AGENT_HEARTBEAT].answer(AgentHeartbeat(agent="a0", number=1, address="h0:1"))
    assert (answer.order, site.closed) == (Order.DISMISS, 1)


def test_those_that_came_are_told_of_where_others_did_not() -> None:
    found = looked(Site({}))
    assert [node.host for node in found.nodes] == ["h0"]
    assert (found.error, found.wanted) == ("", 2)
    assert found.waited_s >= 0.5
    assert found.nodes[0].facts is not None


def test_a_node_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KNOBS, "node_look_s", 0.3)
    found = looked(Site({}, {}, mute="a1"))
    assert [node.facts is None for node in found.nodes] == [False, True]


@pytest.mark.parametrize("error", [PreflightError("the executors' Python is 2.7"), NodeLostError("given up 11 times")])
def test_a_job_that_ends_is_told_as_a_run_tells_it(error: Exception) -> None:
    assert looked(Site(ends=error)).error == str(error)
