"""Who takes the places of trainers that are lost while their attempt goes on: functions of (state, now)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sparktf.driver.attempt.members import Trainer
from sparktf.driver.gang.roster import AgentRecord
from sparktf.topology import NodeId


class Successor(NamedTuple):
    """An agent that is to run a node's next trainer."""

    node: NodeId
    agent: AgentRecord


def vacancies(
    lost: Sequence[Trainer], agents: Iterable[AgentRecord], now_s: float, silence_s: float
) -> list[Successor]:
    """Returns who takes which of the places that are vacant, as far as there are agents for them.

    Those that have been vacant for longest are taken: each by the agent that had it, whose host the rows that it reads
    lie on; else by one on the same host; else by any.

    Args:
        lost: The trainers that had the places, those that were lost first first.
        agents: All that are here.
        silence_s: One that was not heard for half as long may be gone: it gets nothing before it speaks again.
    """
    free = [agent for agent in agents if agent.is_free and now_s - agent.heard_s <= silence_s / 2]
    offers = sorted(
        (agent.id != trainer.agent, agent.registration.host != trainer.host, waiting, agent.registration.partition, i)
        for waiting, trainer in enumerate(lost[: len(free)])
        for i, agent in enumerate(free)
    )
    taken: dict[int, int] = {}
    for *_, waiting, _, i in offers:
        if waiting not in taken and i not in taken.values():
            taken[waiting] = i
    return [Successor(lost[waiting].node, free[i]) for waiting, i in sorted(taken.items())]
