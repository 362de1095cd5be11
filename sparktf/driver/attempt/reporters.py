"""The nodes that make an attempt's steps, as they come and go where it outlives losses; for the attempt alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from sparktf.config.job import JobConfig
from sparktf.driver.attempt.discipline import Fail, GoOn, Leave, Replace
from sparktf.driver.attempt.endured import Endured, Lost
from sparktf.driver.attempt.event_count import EventCount
from sparktf.driver.attempt.generations import Generations
from sparktf.driver.attempt.losses import Losses
from sparktf.driver.attempt.members import Members, rows_trained
from sparktf.driver.attempt.rows.accounting import EpochAccount
from sparktf.driver.attempt.saves import Start
from sparktf.errors import ErrorRecord, RefusedError
from sparktf.topology import NodeId
from sparktf.wire.control import AssignmentAnswer, AssignmentRequest
from sparktf.wire.regrouping import GenerationOver, JoinersWait, Left, NextGeneration, Regrouped


def reporters_of(nodes: Iterable[NodeId], config: JobConfig, start: Start, clock: Callable[[], float]) -> Reporters:
    """Returns the reporters of an attempt of a job."""
    return Reporters(nodes, start, clock, least=config.train.min_workers, keeps_leader=config.keeps_leader)


class Reporters:
    """The reporters of an attempt, and their generations; see `Generations`.

    Attributes:
        nodes: Those that make its steps.
        generations: None where a loss ends the attempt, or costs no step.
        cursor: Where the present generation has begun.
        endured: The losses of members so far.
        stored: Update of the last checkpoint whose files are stored; -1 for none.
        turns: Counts what members wait for to hear: losses, new generations, and that rows can be dealt.
        closed_by: The loss after which nobody trains any more: whoever is left stores what it has, and ends.
    """

    def __init__(
        self,
        reporters: Iterable[NodeId],
        start: Start,
        clock: Callable[[], float],
        *,
        least: int = 1,
        keeps_leader: str = "",
    ) -> None:
        """Begins with all of them.

        Args:
            least: Where it outlives losses, fewer than these train nothing.
            keeps_leader: Why no other member can train on in the leader's place; "" where one can.
        """
        # Of a thousand nodes, each is looked up at every heartbeat.
        self.nodes = dict.fromkeys(reporters)
        self.generations = Generations.first(tuple(self.nodes), least) if start.outlives_losses else None
        self.cursor = start.cursor
        self.endured = Endured(len(self.nodes))
        self.stored = -1 if start.restore is None else start.restore.step
        self.turns = EventCount()
        self.closed_by: ErrorRecord | None = None
        self._too_few: ErrorRecord | None = None
        self._start = start
        self._clock = clock
        self._keeps_leader = keeps_leader
        self._fruitful = dict.fromkeys(self.nodes, 0)
        # The incarnations of those that stood together last, and the update that they stood at
        self._stood = dict.fromkeys(self.nodes, 0)
        self._stood_at = 0

    def fruitful(self, node: NodeId) -> int:
        """Returns the last incarnation of a node that was a member when the others made an update."""
        return self._fruitful[node]

    @property
    def waiting(self) -> Collection[NodeId]:
        """Members that make no step: they have left a generation, and wait for others, or are in the last one."""
        if self.generations is None:
            return ()
        return self.nodes if self.generations.present.is_last else self.generations.left

    @property
    def told_of(self) -> int:
        """The number of nodes whose words an epoch waits for: all members of the generation, lost ones too."""
        return len(self.nodes if self.generations is None else self.generations.present.members)

    @property
    def lost(self) -> frozenset[NodeId]:
        """Members that are lost, and of whom the others have not taken leave yet."""
        return frozenset() if self.generations is None else self.generations.lost

    @property
    def ended_by(self) -> ErrorRecord | None:
        """Why the members store what they have and end, once they do; None before."""
        is_last = self.generations is not None and self.generations.present.is_last
        return self.closed_by or self._too_few if is_last else None

    @property
    def next_in_words(self) -> str:
        """Returns the consequence of the last loss."""
        if self.closed_by is not None:
            return f"the others store what they have, since {self._keeps_leader}"
        if self.generations is None or len(self.nodes) >= self.generations.least:
            return "training goes on"
        return f"training waits for another: of at least {self.generations.least} workers {len(self.nodes)} are left"

    @property
    def may_store(self) -> bool:
        """Whether there are members that can store what they have before the attempt ends."""
        return self.generations is not None and bool(self.nodes)

    @property
    def gone(self) -> frozenset[NodeId]:
        """See `Generations`."""
        return frozenset() if self.generations is None else self.generations.gone

    @property
    def parted(self) -> tuple[ErrorRecord, ...]:
        """See `Generations`."""
        return () if self.generations is None else self.generations.parted

    def confirmed(
        self,
        ruling: Fail | Replace | Leave | GoOn,
        node: NodeId,
        record: ErrorRecord,
        others_lost: Iterable[NodeId] = (),
    ) -> Fail | Replace | Leave | GoOn:
        """Returns the consequence of a loss: the others go on without it only if one of them can lead.

        Args:
            others_lost: Nodes that are lost with it.
        """
        if not isinstance(ruling, Leave) or self.generations is None:
            return ruling
        return ruling if self.generations.heirs - {node, *others_lost} else Fail(record)

    def causes(self, record: ErrorRecord, members: Members, losses: Losses) -> list[ErrorRecord]:
        """Returns why the attempt ends: a member that could not go on has lost one that the others would do without."""
        if not record.peer:
            return [record]
        if self.ended_by is not None:
            return [self.ended_by, record]
        found = (losses.record_of(members[node]) for node in self.lost)
        return [*(lost for lost in found if lost is not None), record]

    def order(self, node: NodeId) -> tuple[GenerationOver | JoinersWait, ...]:
        """Returns the orders to a member about its generation."""
        found = None if self.generations is None else self.generations.order(node)
        return () if found is None else (found,)

    def sharers(self, request: AssignmentRequest, members: Members) -> Members | AssignmentAnswer:
        """Returns the nodes to which an epoch is dealt, or why the one that asks gets no share now."""
        if self.generations is None or request.node not in self.nodes:
            return members
        no_share = self.generations.refuses(request)
        return no_share or {node: members[node] for node in self.generations.present.members}

    def left(self, message: Left, members: Members) -> NextGeneration:
        """Notes that a member has left its generation; returns the next one once that is decided."""
        if self.generations is None:
            raise RefusedError(f"attempt {message.attempt} ends with the loss of a member")
        self._take(self.generations.leave(message), members)
        found = self.generations.after(message)
        if found.generation is None:
            return found
        addresses = tuple(members[node].address for node in found.generation.members)
        known = {"addresses": addresses, "stored": self.stored}
        return NextGeneration(generation=found.generation.model_copy(update=known))

    def lose(self, node: NodeId, record: ErrorRecord, members: Members) -> None:
        """Notes that a node's trainer is lost, and why."""
        if self.generations is None:
            return
        if self._keeps_leader and node == self.generations.present.leader and self.closed_by is None:
            why = f"{record.message}; a new attempt begins, since {self._keeps_leader}"
            self.closed_by = record.model_copy(update={"message": why})
            self.generations = self.generations.closing()
        if node in self.generations.present.members and node not in self.generations.lost:
            self.endured = self.endured.lose(Lost(node, members[node].incarnation), self._clock())
        self._take(self.generations.lose(node), members)

    def expect(self, too_few: ErrorRecord | None, members: Members) -> None:
        """Notes why nobody follows those that are lost, if too few are left; None where somebody may."""
        if self.generations is None or self.generations.present.is_last:
            return
        self._too_few = too_few
        later = self.generations.expect(more=too_few is None)
        if later is not self.generations:
            self._take(later, members)

    def regrouped(
        self, message: Regrouped, members: Members, account: Callable[[int], EpochAccount]
    ) -> EpochAccount | None:
        """Notes that a member of a new generation stands where all do; once all do, rows can be dealt.

        Returns:
            The account of the epoch that they stand in, which goes on or is settled now; None before.

        Raises:
            RowAccountingError: they stand at different rows, or one was trained twice.
        """
        if self.generations is None or message.generation != self.generations.present.number:
            return None
        if message.node in self.generations.stands:  # it comes twice: by now there may be later words
            return None
        self.generations = self.generations.regrouped(message)
        if (stood := self.generations.stood) is None:
            return None
        of_epoch, trained = account(stood.epoch), rows_trained(members, stood.epoch)
        last = max(told.step for told in self.generations.stands.values())
        if self.ended_by is None:
            self.endured = self.endured.stood(len(self.nodes), last, self._clock())
        self.cursor = stood.settle(self._start, of_epoch, trained, nodes=self.told_of)
        for trainer in members.values():
            trainer.progress = trainer.progress.model_copy(update={"rows_trained": 0})
        if last > self._stood_at:
            self._fruitful.update(self._stood)
        self._stood, self._stood_at = {node: members[node].incarnation for node in self.nodes}, last
        self.turns.advance()
        return of_epoch

    def _take(self, later: Generations, members: Members) -> None:
        """Takes a later state: those who report are its members, and a new generation is a step ahead."""
        before, self.generations = self.generations, later
        is_new = before is None or before.present.number < later.present.number
        if before is None or is_new or before.lost != later.lost:
            self.turns.advance()
        self.nodes = dict.fromkeys(node for node in later.present.members if node not in later.lost)
        if is_new:
            for node in self.nodes:
                members[node].moved_s = self._clock()
