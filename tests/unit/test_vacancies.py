"""Who takes the places of trainers that are lost, while their attempt goes on."""

from __future__ import annotations

import pytest

from sparktf.driver.attempt.members import Trainer
from sparktf.driver.gang.replacements import vacancies
from sparktf.driver.gang.roster import AgentRecord
from sparktf.driver.lifecycle import AgentState
from sparktf.topology import NodeId, Role
from sparktf.wire.control import Registration

NOW_S = 100.0
SILENCE_S = 15.0


def agent(name: str, *, busy: bool = False, awaited: bool = False, heard_s: float = NOW_S) -> AgentRecord:
    """An agent "a2" of partition 2 on host "a"."""
    host, partition = name[0], int(name[1:])
    here = Registration(agent=name, partition=partition, host=host, jvm=name, address=f"{host}:1", versions={})
    return AgentRecord(
        here, heard_s, f"{host}:1", state=AgentState.BUSY if busy else AgentState.IDLE, is_awaited=awaited
    )


def lost(*agents: str) -> list[Trainer]:
    """The trainers of workers 0, 1, ... that these agents had, all of them lost, the first first."""
    return [Trainer(NodeId(role=Role.WORKER, index=i), name, name[0], 0.0, 0.0) for i, name in enumerate(agents)]


def taken(trainers: list[Trainer], *agents: AgentRecord) -> dict[int, str]:
    followers = vacancies(trainers, agents, NOW_S, SILENCE_S)
    assert len({follower.agent.id for follower in followers}) == len(followers)
    return {follower.node.index: follower.agent.id for follower in followers}


@pytest.mark.parametrize(
    ("trainers", "agents", "expected"),
    [
        ([], [agent("a0")], {}),
        (lost("a0"), [], {}),
        (lost("a0"), [agent("a0")], {0: "a0"}),
        (lost("a0"), [agent("b1"), agent("a0")], {0: "a0"}),
        (lost("a0"), [agent("b0")], {0: "b0"}),
        (lost("a0"), [agent("b1"), agent("a2")], {0: "a2"}),
        (lost("a0"), [agent("c2"), agent("b1")], {0: "b1"}),
        (lost("a0", "b1"), [agent("b1")], {0: "b1"}),
        (lost("a0", "b1"), [agent("a0"), agent("b1")], {0: "a0", 1: "b1"}),
        (lost("b1", "a0"), [agent("a0"), agent("b1")], {0: "b1", 1: "a0"}),
        (lost("a0", "b1"), [agent("b1"), agent("c2")], {1: "b1", 0: "c2"}),
        (lost("a0", "a1"), [agent("a1"), agent("a2")], {1: "a1", 0: "a2"}),
        (lost("a0", "a1", "a2"), [agent("x7"), agent("x5")], {0: "x5", 1: "x7"}),
    ],
    ids=[
        "nobody is lost",
        "nobody is free",
        "the agent is free again",
        "its own agent before others",
        "Spark started another in its executor's place",
        "the same host before others",
        "any, by partition",
        "one of two, for the one that waits longer",
        "each its own",
        "each its own, whoever was lost first",
        "its own, and what is left",
        "its own, and its host",
        "those lost first first",
    ],
)
def test_a_place_goes_to_its_own_agent_or_host_and_else_to_any(
    trainers: list[Trainer], agents: list[AgentRecord], expected: dict[int, str]
) -> None:
    assert taken(trainers, *agents) == expected


@pytest.mark.parametrize(
    "other",
    [
        agent("a0", busy=True),
        agent("a0", awaited=True),
        agent("a0", heard_s=NOW_S - SILENCE_S / 2 - 0.1),
    ],
    ids=["runs a trainer", "may run one, or says next where one may begin", "may be gone"],
)
def test_an_agent_that_is_not_free_takes_nothing(other: AgentRecord) -> None:
    assert taken(lost("a0"), other) == {}
    assert taken(lost("a0"), other, agent("b1")) == {0: "b1"}


def test_one_that_is_to_run_a_trainer_takes_no_other() -> None:
    wanted = agent("a0")
    wanted.wanted = object()  # type: ignore[assignment]
    assert taken(lost("a0"), wanted) == {}
