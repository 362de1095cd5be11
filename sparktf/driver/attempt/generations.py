"""The members of a synchronous attempt from one loss to the next: functions of what they and their agents have told.

A generation is over once one of its members is lost. The next one is decided when all others have left it: each has
told then how far it has come, and is in no operation. Rows are dealt to its members when all of them stand at the same
operation, since only then it is settled what was trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sparktf.driver.attempt.rows.accounting import EpochAccount
from sparktf.driver.attempt.saves import Start
from sparktf.errors import ErrorRecord, LinkCutError, RowAccountingError
from sparktf.sequence import Cursor, Interval, Stream
from sparktf.topology import NodeId
from sparktf.wire.control import AssignmentAnswer, AssignmentRequest
from sparktf.wire.regrouping import Generation, GenerationOver, JoinersWait, Left, NextGeneration, Regrouped

IN_VAIN = 3
"""So often members may leave a generation without a loss, and without having completed an operation."""


@dataclass(frozen=True, slots=True)
class Stood:
    """Where all members of a generation stood when it began: what was trained by then."""

    epoch: int
    is_complete: bool
    done: tuple[Interval, ...]
    rows_aside: int

    def settle(self, start: Start, account: EpochAccount, trained: Mapping[NodeId, int], *, nodes: int) -> Cursor:
        """Has the epoch's account go on with the members of the new generation; returns where that begins.

        Args:
            start: Where the attempt has begun.
            trained: The rows that each node has trained in the generation before.
            nodes: Number of the members.

        Raises:
            RowAccountingError: a row was trained twice.
        """
        is_first = self.epoch == start.cursor.epoch
        rows, aside, replayed = start.rows if is_first else (0, 0, 0)
        cursor = self.after(start.cursor if is_first else Cursor(epoch=self.epoch))
        if self.is_complete:
            account.settle((rows, aside, replayed), cursor.rows - rows, self.rows_aside)
            return Cursor(epoch=self.epoch + 1)
        account.go_on(nodes, (cursor.rows, aside + self.rows_aside, replayed), trained)
        return cursor

    def after(self, before: Cursor) -> Cursor:
        """Returns the position; `before` is that of the attempt in the same epoch.

        Raises:
            RowAccountingError: a row was trained twice.
        """
        try:
            return before.advance(self.done)
        except ValueError as error:
            raise RowAccountingError(f"epoch {self.epoch}: {error}") from error


@dataclass(frozen=True, slots=True)
class Generations:
    """The generations of an attempt; a value: each event makes a new one."""

    present: Generation
    waiting: frozenset[NodeId] = frozenset()  # Successors of lost ones that wait to join
    lost: frozenset[NodeId] = frozenset()  # Of its members
    left: Mapping[NodeId, Left] = field(default_factory=dict)  # By members that are not lost
    stands: Mapping[NodeId, Regrouped] = field(default_factory=dict)
    in_vain: int = 0  # Generations in a row that completed no operation, and lost nobody
    least: int = 1  # Members without which nothing is trained
    no_more_come: bool = False  # It is in vain to wait until there are that many
    is_closing: bool = False  # Whoever is left stores what it has, and ends

    @classmethod
    def first(cls, members: tuple[NodeId, ...], least: int = 1) -> Generations:
        """Returns those of an attempt that begins; the first of its members leads, fewer than `least` train nothing."""
        return cls(Generation(number=1, members=members, leader=members[0]), least=least)

    # ---- events ----

    def lose(self, node: NodeId) -> Generations:
        """Returns it after the loss of a node's trainer: the one that waits to join, if there is one."""
        if node in self.waiting:
            return replace(self, waiting=self.waiting - {node})
        if node not in self._others:
            return self
        left = {other: told for other, told in self.left.items() if other != node}
        return replace(self, lost=self.lost | {node}, left=left)._decided()

    def leave(self, told: Left) -> Generations:
        """Returns it after a member has left a generation, or another one waits to join; older words count no more."""
        if not told.generation:
            is_new = told.node in self.lost or told.node not in self.present.members
            return replace(self, waiting=self.waiting | {told.node})._decided() if is_new else self
        if told.generation != self.present.number or told.node not in self._others:
            return self
        return replace(self, left={**self.left, told.node: told})._decided()

    def regrouped(self, told: Regrouped) -> Generations:
        """Returns it after a member has come to stand where all do."""
        if told.generation != self.present.number:
            return self
        return replace(self, stands={**self.stands, told.node: told})

    def expect(self, *, more: bool) -> Generations:
        """Returns it where others may come, or where those that wait for them wait in vain."""
        return self if more is not self.no_more_come else replace(self, no_more_come=not more)._decided()

    def closing(self) -> Generations:
        """Returns it where the members can do no more than store what they have."""
        return replace(self, is_closing=True)

    # ---- what follows ----

    def after(self, told: Left) -> NextGeneration:
        """Returns the generation after one that a member has left."""
        is_in = told.node in self.present.members and told.node not in self.lost
        is_next = is_in and self.present.number > max(told.generation, 1)
        return NextGeneration(generation=self.present if is_next else None)

    def order(self, node: NodeId) -> GenerationOver | JoinersWait | None:
        """Returns the order to a member to leave a generation that is over, or to have all regroup; None for others."""
        if node not in self._others or node in self.left:
            return None
        if self.lost:
            return GenerationOver(number=self.present.number)
        return JoinersWait() if self.waiting and node == self.present.leader else None

    def refuses(self, request: AssignmentRequest) -> AssignmentAnswer | None:
        """Returns why a member gets no share now; None if it does."""
        if self.lost or request.generation < self.present.number:
            return AssignmentAnswer(is_over=True)
        if self.present.number > 1 and self.stood is None:
            return AssignmentAnswer(is_early=True)
        # Not earlier: who leaves takes its connections away from those that are still given a result by it.
        if request.stream is Stream.TRAIN and self._are_too_few(len(self.present.members)):
            return AssignmentAnswer(is_over=True)
        return None

    @property
    def parted(self) -> tuple[ErrorRecord, ...]:
        """Why the members cannot go on although none is lost: a link is cut, or breaks again and again; else none."""
        if self.lost or self.left.keys() != {*self.present.members} or not self._is_stuck:
            return ()
        return tuple(told.record for told in self.left.values())

    @property
    def gone(self) -> frozenset[NodeId]:
        """Members that have closed their connections to others, and have said nothing of it: they may have ended."""
        closed = {told.closed_by for told in self.left.values()}
        return frozenset(node for node in self._others - self.left.keys() if str(node) in closed)

    @property
    def stood(self) -> Stood | None:
        """Where all members stood when the generation began; None while that is not known, and in the first one.

        Raises:
            RowAccountingError: they stand at different rows.
        """
        if self.stands.keys() != {*self.present.members}:
            return None
        # Some may have begun the next epoch already, of which nothing is trained then: they are an operation ahead.
        epoch = min(told.epoch for told in self.stands.values())
        ahead = {told.epoch - epoch for told in self.stands.values() if told.epoch > epoch and not told.done}
        here = [told for told in self.stands.values() if told.epoch == epoch or told.done]
        found = {Stood(told.epoch, False, told.done, told.rows_aside) for told in here}
        if len(found) > 1 or ahead - {1}:
            rows = {str(node): sum(stop - start for start, stop in told.done) for node, told in self.stands.items()}
            raise RowAccountingError(
                f"generation {self.present.number} of the gang does not stand at one place: rows trained are {rows}"
            )
        return replace(found.pop(), is_complete=bool(ahead) or any(told.is_complete for told in here))

    @property
    def heirs(self) -> frozenset[NodeId]:
        """Members that may lead: who has joined, and was not given the state yet, cannot."""
        return self._others - ({*self.present.joined} - self.stands.keys())

    @property
    def is_headless(self) -> bool:
        """Whether the leader is lost, and no other one has taken the lead so far."""
        return self.present.leader in self.lost

    @property
    def _others(self) -> frozenset[NodeId]:
        return frozenset(self.present.members) - self.lost

    def _are_too_few(self, members: int) -> bool:
        return self.is_closing or members < self.least

    @property
    def _is_stuck(self) -> bool:
        """Whether a new generation of the members that have left this one would go no further."""
        is_cut = any(told.record.type == LinkCutError.__name__ for told in self.left.values())
        return not self.lost and (is_cut or self.in_vain == IN_VAIN)

    def _decided(self) -> Generations:
        """Returns the next generation, if all members that are not lost have left this one."""
        others = tuple(node for node in self.present.members if node in self._others)
        heirs = tuple(node for node in others if node in self.heirs)
        if not heirs or self.left.keys() != {*others}:
            return self
        if self._is_stuck:
            return self
        is_last = self.present.is_last
        takes_in = all(told.takes_in for told in self.left.values()) and not is_last
        new = self.waiting if takes_in else frozenset[NodeId]()
        # Who waits can join only where they train: any number may evaluate.
        if takes_in and self._are_too_few(len(others) + len(new)):
            if not (self.no_more_come or self.is_closing):
                return self  # they wait for others, with what they have
            is_last, new = True, frozenset()
        # Those who had joined, and did not get all that they need before somebody was lost, get it now: they count as
        # far as the others were, but have no result to give.
        unready = {*others} - {*heirs}
        last = max(self.left[node].completed for node in heirs)
        giver = next(node for node in heirs if self.left[node].completed == last)
        members = tuple(sorted({*others, *new}, key=lambda node: (node.role, node.index)))
        return Generations(
            Generation(
                number=self.present.number + 1,
                members=members,
                # It stays: only what is lost with it is known to nobody else.
                leader=self.present.leader if self.present.leader in heirs else heirs[0],
                joined=tuple(node for node in members if node in new or node in unready),
                operation=last,
                giver=giver if any(self.left[node].completed < last for node in heirs) else None,
                is_last=is_last,
            ),
            self.waiting - new,
            in_vain=self.in_vain + 1 if last == self.present.operation and not (self.lost or new) else 0,
            least=self.least,
            no_more_come=self.no_more_come,
            is_closing=self.is_closing,
        )
