"""Gives nodes new trainers for lost ones, while their attempt goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.gang.gang import Gang
from sparktf.driver.gang.roster import AgentRecord
from sparktf.driver.gang.seating import Seating, successor_spec
from sparktf.topology import NodeId
from sparktf.wire.sender import TrainerKey
from sparktf.wire.trainer_spec import Training


class Successor(NamedTuple):
    """An agent that is to run a node's next trainer."""

    node: NodeId
    agent: AgentRecord


def vacancies(
    lost: Sequence[Trainer], agents: Iterable[AgentRecord], now_s: float, silence_s: float
) -> list[Successor]:
    """Returns which agent takes which vacant place, as far as there are agents.

    The longest vacancies are filled first: each by the agent that had it, on whose host its rows lie; else by one on
    the same host; else by any.

    Args:
        lost: The trainers that had the places, the earliest loss first.
        agents: All that are here.
        silence_s: One that was not heard for half as long may be gone: it gets nothing before it is heard again.
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


class Replacements:
    """The seats of one attempt, as they change hands; for the thread that watches.

    Attributes:
        seating: As it is now.
    """

    def __init__(self, gang: Gang, attempt: Attempt, seating: Seating, leader: Training) -> None:
        """Changes nothing yet; `leader` has the orders of the leader's trainer when the attempt began."""
        self.seating = seating
        self._gang = gang
        self._attempt = attempt
        self._leader = leader

    def fill(self) -> list[str]:
        """Ends trainers that count as lost, and has free agents start others; returns lines that describe it.

        A seat goes to no agent whose executor is gone: the site is asked for that before, outside of the roster's lock.

        Raises:
            PreflightError: an agent cannot start trainers.
        """
        with self._gang.roster.changed:
            self._stop_lost()
            asked = [follower.agent for follower in self._followers()]
        self._gang.drop_removed(asked)
        ids = {agent.id for agent in asked}
        with self._gang.roster.changed:
            followers = [follower for follower in self._followers() if follower.agent.id in ids]
            self._gang.check_agents([follower.agent for follower in followers])
            for follower in followers:
                self._give(follower)
        return [f"{node} gets a new trainer on {agent.registration.host}" for node, agent in followers]

    def _stop_lost(self) -> None:
        attempt = self._attempt
        for vacancy in attempt.losses.vacant(attempt.trainers):
            trainer = attempt.trainers[vacancy.node]
            key = TrainerKey(attempt.number, trainer.node, trainer.incarnation)
            self._gang.roster.stop_trainer(trainer.agent, key)

    def _followers(self) -> list[Successor]:
        attempt, roster, losses = self._attempt, self._gang.roster, self._attempt.losses
        lost = [attempt.trainers[vacancy.node] for vacancy in attempt.vacant()]
        if not lost:
            return []
        # A place without even a stand-in keeps the successors of others waiting.
        wanted = sorted((trainer for trainer in lost if losses.may_be_followed(trainer)), key=losses.has_stand_in)
        return vacancies(wanted, roster.here(), self._gang.clock.now_s(), roster.silence_s)

    def _give(self, follower: Successor) -> None:
        """Gives a node's seat to an agent, and the agent its trainer."""
        node, agent = follower
        here = agent.registration
        successor = self._attempt.succeed(node, agent.id, here.host, agent.address, here.jvm)
        self.seating = self.seating.moved(node, agent)
        spec = successor_spec(self._leader, successor, self.seating.threads(node, self._leader))
        self._gang.roster.start([(agent.id, spec)])
        self._leader = self._leader.model_copy(update={"cluster": spec.cluster})
