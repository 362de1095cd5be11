"""An evaluator beside a gang that trains, under any strategy: its additions to the discipline of the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from sparktf.driver.attempt.discipline import Discipline, Fail, GoOn, Leave, Replace, Share
from sparktf.driver.attempt.losses import FRUITLESS, Vacancy
from sparktf.driver.attempt.members import Members, Trainer, have_met
from sparktf.driver.attempt.saves import Save, Start
from sparktf.driver.lifecycle import TrainerState
from sparktf.errors import ErrorRecord, RefusedError, Verdict
from sparktf.results.keep import Evaluation, KeepRule
from sparktf.sequence import Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.control import AssignmentRequest, Metrics
from sparktf.wire.uploads import Uploaded


@dataclass(frozen=True, slots=True)
class Evaluating:
    """See `Discipline`: the discipline of the nodes that train, which never wait for the evaluator.

    A value: each event makes a new one. The work of an attempt is done when the last commit is evaluated too, or the
    evaluator is given up.
    """

    trains: Discipline  # Of the nodes that train; used alone without an evaluator
    node: NodeId | None = None  # The evaluator, if there is one
    rule: KeepRule | None = None  # How the best weights are chosen, by the evaluating node; None if they are not kept
    failed: ErrorRecord | None = None  # Why evaluation has ended; None while it goes on
    lost: frozenset[int] = frozenset()  # Incarnations of the evaluator that were lost since the last result
    last_loss: ErrorRecord | None = None  # Why the last of them was
    trained_s: float | None = None  # When the training was first seen to be done

    @classmethod
    def beside(cls, trains: Discipline, nodes: Iterable[NodeId]) -> Evaluating:
        """Returns the one of a gang."""
        return cls(trains, next((node for node in nodes if node.role is Role.EVALUATOR), None))

    # ---- the discipline of all ----

    def deal(self, request: AssignmentRequest, members: Members) -> Share:
        """See `Discipline`. The evaluator has all of the validation stream.

        Raises:
            RefusedError: it asks for another one.
        """
        if request.node != self.node:
            return self.trains.deal(request, self.others(members))
        if request.stream is not Stream.VALIDATION:
            raise RefusedError(f"{request.node} has no share of {request.stream}")
        return Share(0, (request.node,))

    def reporters(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`."""
        return self.trains.reporters(node for node in nodes if node != self.node)

    def lessees(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`."""
        return self.trains.lessees(node for node in nodes if node != self.node)

    def fed(self, stream: Stream, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`. The evaluator reads files."""
        return self.trains.fed(stream, (node for node in nodes if node != self.node))

    def on_loss(self, member: Trainer, record: ErrorRecord, members: Members) -> Fail | Replace | Leave | GoOn:
        """See `Discipline`. The evaluator is replaced, once all nodes were ready: no node waits for it.

        Its successor would raise the same error. Once the training is done, no other node is needed.
        """
        if member.node != self.node:
            return GoOn() if self.is_trained else self.trains.on_loss(member, record, members)
        if record.verdict is not Verdict.INFRASTRUCTURE or not have_met(members):
            return Fail(record)
        return Replace(member.node)

    def saved(self, uploads: Mapping[NodeId, Uploaded], members: Members, start: Start) -> Save | None:
        """See `Discipline`."""
        return self.trains.saved(uploads, self.others(members), start)

    def is_done(self, members: Members) -> bool:
        """See `Discipline`. The evaluator goes on when the others have finished, until it has seen the last commit."""
        return self._have_trained(members) and not self._is_at_work(members)

    # ---- the evaluator ----

    @property
    def is_trained(self) -> bool:
        """Whether the training was seen to be done."""
        return self.trained_s is not None

    def is_waited_for(self, members: Members) -> bool:
        """Whether the training is done, and the evaluator is still at work."""
        return self.is_trained and self._is_at_work(members)

    def others(self, members: Members) -> Members:
        """Returns the nodes that train."""
        if self.node is None:
            return members
        return {node: trainer for node, trainer in members.items() if node != self.node}

    def movers(self, reporters: Iterable[NodeId]) -> frozenset[NodeId]:
        """Returns the nodes that are late without progress: the reporters, and the evaluator, which reads or asks."""
        return frozenset([*reporters, *([] if self.node is None else [self.node])])

    def vacant(self, vacancies: Collection[Vacancy]) -> tuple[Vacancy, ...]:
        """Returns the nodes that need another trainer, training nodes first; only those still needed."""
        followed = self.trains.follows(vacancy.node for vacancy in vacancies if vacancy.node != self.node)
        training = [] if self.is_trained else [vacancy for vacancy in vacancies if vacancy.node in followed]
        evaluating = [vacancy for vacancy in vacancies if vacancy.node == self.node and self.failed is None]
        return (*training, *evaluating)

    def with_rule(self, rule: KeepRule | None) -> Evaluating:
        """Returns it after a trainer has said how the best weights are chosen; the first one counts."""
        return replace(self, rule=self.rule or rule)

    def with_result(self) -> Evaluating:
        """Returns it after a result of the evaluator's."""
        return replace(self, lost=frozenset())

    def with_loss(self, evaluator: Trainer, record: ErrorRecord) -> Evaluating:
        """Returns it after the loss of the evaluator; a repeated report of one incarnation counts once."""
        after = replace(self, lost=self.lost | {evaluator.incarnation}, last_loss=record)
        if len(after.lost) < FRUITLESS:
            return after
        return after._given_up(f"{FRUITLESS} evaluators in a row were lost without a result")

    def at(self, now_s: float, members: Members, vacancies: Collection[Vacancy], limit_s: float) -> Evaluating:
        """Returns it at a later moment: the training may be done, or the evaluator given up without a successor.

        Args:
            limit_s: The longest vacancy of its place once all else is done, `timeouts.replace`.
        """
        if self.node is None or not self._have_trained(members):
            return self
        trained_s = now_s if self.trained_s is None else self.trained_s
        after = replace(self, trained_s=trained_s)
        since_s = next((vacancy.since_s for vacancy in vacancies if vacancy.node == self.node), None)
        if since_s is None or self.failed is not None or now_s - max(since_s, trained_s) <= limit_s:
            return after
        return after._given_up(f"it was not replaced within timeouts.replace: {limit_s:g} s")

    def _have_trained(self, members: Members) -> bool:
        # Once seen, it stays: trainers that have finished may be gone since.
        return self.is_trained or self.trains.is_done(self.others(members))

    def _is_at_work(self, members: Members) -> bool:
        if self.node is None or self.failed is not None:
            return False
        return members[self.node].state is not TrainerState.FINISHED

    def _given_up(self, why: str) -> Evaluating:
        if self.last_loss is None:
            return self
        said = f"evaluation has failed, the training has not: {self.last_loss.message}; {why}"
        return replace(self, failed=self.last_loss.model_copy(update={"message": said}))


def result_of(metrics: Metrics) -> Evaluation:
    """Returns an evaluator's result for a commit."""
    return Evaluation(epoch=metrics.epoch, step=metrics.step, rows=metrics.rows, values=metrics.values)
