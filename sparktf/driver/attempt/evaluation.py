"""An evaluator beside a gang that trains, under any strategy: what it adds to the discipline of the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sparktf.driver.attempt.commits import Commits
from sparktf.driver.attempt.discipline import Discipline, Fail, GoOn, Replace, Share
from sparktf.driver.attempt.losses import Losses, Vacancy
from sparktf.driver.attempt.members import Members, Trainer, have_met
from sparktf.driver.attempt.saves import Save, Start
from sparktf.driver.attempt.unfollowed import FRUITLESS
from sparktf.errors import ErrorRecord, RefusedError, Verdict
from sparktf.lifecycle import TrainerState
from sparktf.results.keep import Evaluation, KeepRule
from sparktf.sequence import Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.control import AssignmentRequest, Metrics, Ready
from sparktf.wire.evaluating import NextCommit
from sparktf.wire.uploads import Uploaded


class Evaluating:
    """See `Discipline`: that of those who train, who never wait for the evaluator; without one it is just theirs.

    It belongs to one attempt, whose work is done when the last commit is evaluated too, or that is given up. Not
    thread-safe: it is asked under the lock.

    Attributes:
        commits: What the evaluator is to read.
        failed: Why nothing more is evaluated; None while something may be.
        rule: By what the best weights are known, as who evaluates has said, also if it is lost since; None if they are
            not kept.
    """

    def __init__(self, trains: Discipline, nodes: Iterable[NodeId]) -> None:
        """Has seen nothing yet.

        Args:
            trains: The discipline of those who train.
            nodes: All of the gang.
        """
        self.commits = Commits()
        self.failed: ErrorRecord | None = None
        self.rule: KeepRule | None = None
        self._trains = trains
        self._node = next((node for node in nodes if node.role is Role.EVALUATOR), None)
        self._asked, self._answer = (0, 0), NextCommit()  # incarnation and number of the last question
        self._lost: set[int] = set()
        self._last_loss: ErrorRecord | None = None
        self._is_trained = False
        self._trained_s: float | None = None

    # ---- the discipline of all ----

    def deal(self, request: AssignmentRequest, members: Members) -> Share:
        """See `Discipline`. The evaluator has all of the validation stream."""
        if request.node != self._node:
            return self._trains.deal(request, self._others(members))
        if request.stream is not Stream.VALIDATION:
            raise RefusedError(f"{request.node} has no share of {request.stream}")
        return Share(0, (request.node,))

    def reporters(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`."""
        return self._trains.reporters(node for node in nodes if node != self._node)

    def lessees(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`."""
        return self._trains.lessees(node for node in nodes if node != self._node)

    def fed(self, stream: Stream, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`. The evaluator reads files."""
        return self._trains.fed(stream, (node for node in nodes if node != self._node))

    def on_loss(self, member: Trainer, record: ErrorRecord, members: Members) -> Fail | Replace | GoOn:
        """See `Discipline`. The evaluator is replaced, once all nodes were ready: nobody waits for it.

        What it refuses, the next one will. Once the training is done, nobody else is needed any more.
        """
        if member.node != self._node:
            return GoOn() if self._is_trained else self._trains.on_loss(member, record, members)
        if record.verdict is not Verdict.INFRASTRUCTURE or not have_met(members):
            return Fail(record)
        self._lost.add(member.incarnation)
        self._last_loss = record
        if len(self._lost) >= FRUITLESS:
            self._give_up(record, f"{FRUITLESS} evaluators in a row were lost without a result")
        return Replace(member.node)

    def saved(self, uploads: Mapping[NodeId, Uploaded], members: Members, start: Start) -> Save | None:
        """See `Discipline`."""
        return self._trains.saved(uploads, self._others(members), start)

    def is_done(self, members: Members) -> bool:
        """See `Discipline`. The evaluator goes on when the others have finished, until it has seen the last commit."""
        if self._node is None:
            return self._trains.is_done(members)
        self._is_trained = self._is_trained or self._trains.is_done(self._others(members))
        return self._is_trained and not self._is_at_work(members)

    # ---- the evaluator ----

    def is_waited_for(self, members: Members) -> bool:
        """Whether the training is done, and the evaluator is still at work."""
        return self._is_trained and self._is_at_work(members)

    def movers(self, reporters: Iterable[NodeId]) -> frozenset[NodeId]:
        """Returns who is late without progress: those who make steps, and the evaluator, which reads or asks."""
        return frozenset([*reporters, *([] if self._node is None else [self._node])])

    def ready(self, message: Ready) -> None:
        """Notes what a trainer says that is ready."""
        self.rule = self.rule or message.keep

    def next(self, trainer: Trainer, number: int) -> NextCommit:
        """Returns what the evaluator does next: what it was told before, where it asks the same again.

        What it reads stays, and a repeated question must not let go of that.

        Raises:
            RefusedError: it is not the evaluator, or it has asked for more since.
        """
        if trainer.node != self._node:
            raise RefusedError(f"{trainer.node} evaluates no commits")
        asked = trainer.incarnation, number
        if asked < self._asked:
            raise RefusedError(f"{trainer.node} has asked for the next commit since")
        if asked > self._asked:
            self._asked = asked
            self._answer = self.commits.next(self.rule)
        return self._answer

    def reported(self, metrics: Metrics) -> None:
        """Notes metrics, of which the evaluator's are those of a commit."""
        if metrics.node == self._node:
            found = Evaluation(epoch=metrics.epoch, step=metrics.step, rows=metrics.rows, values=metrics.values)
            self.commits.evaluated(found)
            self._lost.clear()

    def committed(self) -> None:
        """Notes that nothing waits to be committed: once the training is done, nothing more will be."""
        if self._is_trained:
            self.commits.end()

    def vacant(self, vacancies: Collection[Vacancy]) -> tuple[Vacancy, ...]:
        """Returns who is to get another trainer: those who train first; nobody that is not needed any more."""
        training = [] if self._is_trained else [vacancy for vacancy in vacancies if vacancy.node != self._node]
        evaluating = [vacancy for vacancy in vacancies if vacancy.node == self._node and self.failed is None]
        return (*training, *evaluating)

    def overdue(self, losses: Losses, members: Members, now_s: float, limit_s: float) -> ErrorRecord | None:
        """Returns the loss of a trainer whose place nobody takes in time, and that the training cannot do without.

        Where it can, a stand-in is to have the place. An evaluator whose place nobody takes while nothing else is left
        to be done is given up.

        Args:
            limit_s: `timeouts.replace`.
        """
        vacancies = losses.vacant(members)
        if self._is_trained and self.failed is None:
            self._trained_s = now_s if self._trained_s is None else self._trained_s
            own = next((vacancy.since_s for vacancy in vacancies if vacancy.node == self._node), None)
            is_overdue = own is not None and now_s - max(own, self._trained_s) > limit_s
            if is_overdue and self._last_loss is not None:
                self._give_up(self._last_loss, f"nobody took its place within timeouts.replace: {limit_s:g} s")
        needed = [vacancy for vacancy in self.vacant(vacancies) if vacancy.node != self._node]
        return losses.settle(needed, self._others(members), now_s, limit_s)

    def _is_at_work(self, members: Members) -> bool:
        if self._node is None or self.failed is not None:
            return False
        return members[self._node].state is not TrainerState.FINISHED

    def _give_up(self, record: ErrorRecord, why: str) -> None:
        said = f"evaluation has failed, the training has not: {record.message}; {why}"
        self.failed = record.model_copy(update={"message": said})

    def _others(self, members: Members) -> Members:
        if self._node is None:
            return members
        return {node: trainer for node, trainer in members.items() if node != self._node}
