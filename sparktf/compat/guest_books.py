"""What is known of the nodes of a gang of guests, and what follows from it. Knows nothing of Spark."""

from __future__ import annotations

from typing import Any

from sparktf.clock import Clock
from sparktf.driver.attempt.members import Trainer, speaker
from sparktf.driver.gang.roster import AgentRecord, Roster
from sparktf.errors import ErrorRecord, Verdict
from sparktf.lifecycle import TrainerEvent, TrainerState
from sparktf.topology import NodeId
from sparktf.wire.control import Ack, Failed, Heartbeat, Ready, StopOrder, TrainerExited, TrainerOrders
from sparktf.wire.guest import Deal, DealRequest, GuestNode, GuestPlace
from sparktf.wire.uploads import Finished

ATTEMPT = 1
"""There is one: what fails ends a program."""

SERVING = ("ps", "evaluator")
"""Nodes that serve for as long as others work: nobody waits for their functions to return."""


class GuestBooks:
    """The nodes, and what failed first. Messages are answered under the roster's lock; whoever decides holds it.

    Attributes:
        trainers: By node; `guests` who they are to their functions.
        failure: What failed first, but for what a peer has caused.
        is_stopping: Whether all are told to end.
    """

    def __init__(self, roster: Roster, clock: Clock, silence_s: float) -> None:
        """Knows of none.

        Args:
            silence_s: A node that is not heard for so long is lost.
        """
        self.trainers: dict[NodeId, Trainer] = {}
        self.guests: dict[NodeId, GuestNode] = {}
        self.failure: ErrorRecord | None = None
        self.is_stopping = False
        self._agents: dict[NodeId, AgentRecord] = {}
        self._roster = roster
        self._clock = clock
        self._silence_s = silence_s
        self._dealt = 0

    def add(self, node: NodeId, guest: GuestNode, agent: AgentRecord, now_s: float) -> None:
        """Takes in a node, whose process is about to begin."""
        self.trainers[node] = Trainer(node, agent.id, agent.registration.host, now_s, now_s)
        self.guests[node], self._agents[node] = guest, agent

    # ---- what nodes say ----

    def ready(self, message: Ready) -> Ack:
        with self._roster.changed:
            trainer = self._speaker(message)
            if trainer.ready is None:
                trainer.apply(TrainerEvent.READY)
                trainer.ready = message
            self._roster.changed.notify_all()
        return Ack()

    def heartbeat(self, message: Heartbeat) -> TrainerOrders:
        with self._roster.changed:
            trainer = self._speaker(message)
            self._roster.vouch(trainer.agent)
            return TrainerOrders(orders=(StopOrder(),) if self.is_stopping else ())

    def failed(self, message: Failed) -> Ack:
        with self._roster.changed:
            trainer = self._speaker(message)
            trainer.apply(TrainerEvent.FAIL)
            self._note(message.record.model_copy(update={"host": trainer.host}))
        return Ack()

    def finished(self, message: Finished) -> Ack:
        with self._roster.changed:
            trainer = self._speaker(message)
            if trainer.finished is None:
                trainer.apply(TrainerEvent.FINISHED)
                trainer.finished = message
            self._roster.changed.notify_all()
        return Ack()

    def exited(self, message: TrainerExited) -> Ack:
        with self._roster.changed:
            answer = self._roster.trainer_exited(message)
            trainer = self.trainers.get(message.node)
            if trainer is not None and trainer.state is not TrainerState.EXITED:
                told = trainer.state in (TrainerState.FAILED, TrainerState.FINISHED) or self.is_stopping
                if not told:
                    self._lose(trainer, f"exited with {message.exit_code}", message.log_tail)
                trainer.apply(TrainerEvent.EXIT)
            self._roster.changed.notify_all()
            return answer

    def deal(self, message: DealRequest) -> Deal:
        """Says which node gets the first of some rows: over all feeders, each node gets as many as the others."""
        with self._roster.changed:
            takers = max(len(self.places()), 1)
            first, self._dealt = self._dealt, (self._dealt + message.rows) % takers
            return Deal(first=first, is_over=not self.wants_rows)

    def _speaker(self, message: Any) -> Trainer:
        trainer = speaker(message, ATTEMPT, self.trainers)
        trainer.heard_s = self._clock.now_s()
        return trainer

    # ---- decisions ----

    def look(self, now_s: float) -> None:
        """Notices agents and processes that are lost; at the first failure, has all stop."""
        for lost in self._roster.sweep():
            for trainer in self.trainers.values():
                if trainer.agent == lost.agent.id and trainer.state is not TrainerState.EXITED:
                    if not self.is_stopping and trainer.finished is None:
                        self._lose(trainer, lost.gang_text())
                    trainer.apply(TrainerEvent.EXIT)
        for trainer in self.trainers.values():
            silent_s = now_s - trainer.heard_s
            if (
                trainer.ready is not None
                and trainer.is_expected
                and silent_s > self._silence_s
                and not self.is_stopping
            ):
                self._lose(trainer, f"was silent for {silent_s:.0f} s")
        if self.failure is not None and not self.is_stopping:
            self.stop()

    def stop(self) -> None:
        """Has all nodes stop."""
        self.is_stopping = True
        self._roster.stop_trainers()
        self._roster.changed.notify_all()

    def check(self) -> None:
        """Raises the error of what failed first, if anything has."""
        if self.failure is not None:
            error = self.failure.to_error()
            if self.failure.traceback:
                error.add_note(self.failure.traceback)
            raise error

    def _note(self, record: ErrorRecord) -> None:
        if self.failure is None or (self.failure.peer and not record.peer):
            self.failure = record
        self._roster.changed.notify_all()

    def _lose(self, trainer: Trainer, what: str, log_tail: str = "") -> None:
        guest = self.guests[trainer.node]
        self._note(
            ErrorRecord(
                type="NodeLostError",
                message=f"{guest.job} {guest.index} on {trainer.host} {what}",
                verdict=Verdict.INFRASTRUCTURE,
                time_s=self._clock.wall_s(),
                node=str(trainer.node),
                host=trainer.host,
                log_tail=log_tail,
            )
        )

    # ---- who takes rows ----

    @property
    def wants_rows(self) -> bool:
        """Whether a node still works that takes rows."""
        return any(self.trainers[node].finished is None for node in self._fed())

    def places(self) -> tuple[GuestPlace, ...]:
        """Returns where rows go, by the nodes' numbers."""
        found = []
        for node in sorted(self._fed(), key=lambda node: self.guests[node].number):
            ready, agent = self.trainers[node].ready, self._agents[node]
            if ready is not None and ready.data is not None:
                number, host, jvm = self.guests[node].number, agent.registration.host, agent.registration.jvm
                found.append(GuestPlace(number=number, host=host, jvm=jvm, data=ready.data))
        return tuple(found)

    def info(self) -> list[dict[str, Any]]:
        """Returns who the nodes are, as TensorFlowOnSpark tells it."""
        found: list[dict[str, Any]] = []
        for node, guest in sorted(self.guests.items(), key=lambda item: item[1].number):
            port = int(guest.cluster[guest.job][guest.index].rpartition(":")[2])
            host = self._agents[node].registration.host
            who = {"executor_id": guest.number, "host": host, "job_name": guest.job, "task_index": guest.index}
            found.append({**who, "port": port, "tb_pid": 0, "tb_port": 0})
        return found

    def _fed(self) -> list[NodeId]:
        return [node for node, guest in self.guests.items() if guest.is_fed]
