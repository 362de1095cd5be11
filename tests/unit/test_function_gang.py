"""The gang that runs functions: its agents are checked as those of a training are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from sparktf.clock import SystemClock
from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.gang.function_gang import FunctionGang
from sparktf.driver.gang.roster import ExecutorFacts
from sparktf.driver.gang.site import Handler
from sparktf.errors import LifecycleError, PreflightError, ReservationError
from sparktf.executor.agent import AgentSettings, installed_versions
from sparktf.wire.control import Action, AgentHeartbeat, Order, Registered, Registration
from sparktf.wire.security import ControlAccess

Change = dict[str, Any]


class Site:
    """A site whose agents register at once; it keeps what they were told to look for."""

    def __init__(self, *agents: Change) -> None:
        self.agents = agents
        self.clock = SystemClock()
        self.one_machine, self.duplicates_wait, self.place = True, False, "a cluster"
        self.settings: AgentSettings | None = None
        self.handlers: Mapping[Action, Handler] = {}
        self.restarts = self.closed = 0
        self.spares = 0

    def facts(self, agents: Any) -> list[ExecutorFacts]:
        return [ExecutorFacts() for _ in agents]

    def serve(self, handlers: Mapping[Action, Handler]) -> Any:
        self.handlers = handlers
        return SimpleNamespace(
            access=lambda: ControlAccess(location="l", secret="s"), withdraw=lambda: None, shutdown=lambda: None
        )

    def start(self, settings: AgentSettings) -> Any:
        self.settings = settings
        for i, change in enumerate(self.agents):
            usual: Change = {"agent": f"a{i}", "partition": i, "host": f"h{i}", "jvm": f"j{i}", "address": "h:1"}
            said = Registration(**{**usual, "versions": installed_versions()} | change)
            assert self.handlers[Action.REGISTER].answer(said) == Registered(accepted=True)
        return self

    def ended(self) -> str | None:
        return None

    def close(self, wait_s: float) -> None:
        self.closed += 1


def reserved(site: Site, count: int, within_s: float = 60.0) -> tuple[FunctionGang, Callable[[], Any]]:
    made: Any = site
    gang = FunctionGang(made, count, TimeoutsConfig(), "0")
    return gang, lambda: gang.reserve("program", within_s, site.serve, site.start)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"problems": ("model module 'program' cannot be found: ship it with --py-files",)},
            "h1: model module 'program'",
        ),
        ({"versions": {"python": "2.7.1"}}, "h1: python 2.7.1, but the driver has"),
    ],
)
def test_an_executor_that_cannot_run_the_function_is_told_of_before_any_begins(change: Change, message: str) -> None:
    site = Site({}, change)
    gang, reserve = reserved(site, 2)
    with pytest.raises(PreflightError, match=message):
        reserve()
    assert site.settings is not None
    assert site.settings.model_module == "program", "agents look for it"
    gang.close()
    beat = AgentHeartbeat(agent="a0", number=1, address="h:1")
    answer: Any = site.handlers[Action.AGENT_HEARTBEAT].answer(beat)
    assert (answer.order, site.closed) == (Order.DISMISS, 1)


def test_nodes_that_do_not_come_are_named_with_what_sets_the_limit() -> None:
    gang, reserve = reserved(Site({}), 3, within_s=0.01)
    with pytest.raises(ReservationError, match=r"1 of 3 nodes came within 0.01 s; missing: node 1, node 2 on"):
        reserve()
    gang.close()


def test_agents_are_returned_by_the_numbers_of_their_nodes() -> None:
    gang, reserve = reserved(Site({"partition": 1}, {"partition": 0}), 2)
    assert [agent.registration.agent for agent in reserve()] == ["a1", "a0"]
    with pytest.raises(LifecycleError, match="functions begin after their nodes are reserved"):
        gang.look()
    gang.close()
