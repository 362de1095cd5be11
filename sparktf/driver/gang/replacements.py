"""Gives nodes whose trainers are lost others, while their attempt goes on."""

from __future__ import annotations

from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.gang.gang import Gang
from sparktf.driver.gang.seating import Seating, successor_spec
from sparktf.driver.gang.vacancies import Successor, vacancies
from sparktf.wire.control import TrainerSpec
from sparktf.wire.sender import TrainerKey


class Replacements:
    """The seats of one attempt, as they change hands; for the thread that watches.

    Attributes:
        seating: As it is now.
    """

    def __init__(self, gang: Gang, attempt: Attempt, seating: Seating, leader: TrainerSpec) -> None:
        """Changes nothing yet.

        Args:
            leader: What the leader's trainer got when the attempt began.
        """
        self.seating = seating
        self._gang = gang
        self._attempt = attempt
        self._leader = leader

    def fill(self) -> list[str]:
        """Ends trainers that count as lost, and has agents that are free start others; returns what is to be said.

        A seat is given to nobody whose executor is gone: its site is asked before, outside of the roster's lock.

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
        return [f"{node} gets another trainer, on {agent.registration.host}" for node, agent in followers]

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
        """Gives a node's seat to an agent, and that the trainer."""
        node, agent = follower
        here = agent.registration
        successor = self._attempt.succeed(node, agent.id, here.host, agent.address, here.jvm)
        spec = successor_spec(self._leader, successor)
        self._gang.roster.start([(agent.id, spec)])
        self._leader = self._leader.model_copy(update={"cluster": spec.cluster})
        self.seating = self.seating.moved(node, agent)
