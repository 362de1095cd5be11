"""Gives nodes whose trainers are lost others, while their attempt goes on."""

from __future__ import annotations

from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.gang.gang import Gang
from sparktf.driver.gang.seating import Seating, successor_spec
from sparktf.driver.gang.vacancies import vacancies
from sparktf.wire.control import TrainerSpec
from sparktf.wire.sender import TrainerKey


class Replacements:
    """The seats of one attempt, as they change hands; not thread-safe, the caller holds the roster's lock.

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

        Raises:
            PreflightError: an agent cannot start trainers.
        """
        attempt, roster, losses = self._attempt, self._gang.roster, self._attempt.losses
        for vacancy in losses.vacant(attempt.trainers):
            trainer = attempt.trainers[vacancy.node]
            roster.stop_trainer(trainer.agent, TrainerKey(attempt.number, trainer.node, trainer.incarnation))
        lost = [attempt.trainers[vacancy.node] for vacancy in attempt.vacant()]
        if not lost:
            return []
        # A place without even a stand-in keeps the successors of others waiting.
        wanted = sorted((trainer for trainer in lost if losses.may_be_followed(trainer)), key=losses.has_stand_in)
        followers = vacancies(wanted, roster.here(), self._gang.clock.now_s(), roster.silence_s)
        self._gang.check_agents([follower.agent for follower in followers])
        for node, agent in followers:
            here = agent.registration
            successor = attempt.succeed(node, agent.id, here.host, agent.address, here.jvm)
            spec = successor_spec(self._leader, successor)
            roster.start([(agent.id, spec)])
            self._leader = self._leader.model_copy(update={"cluster": spec.cluster})
            self.seating = self.seating.moved(node, agent)
        return [f"{node} gets another trainer, on {agent.registration.host}" for node, agent in followers]
