"""The table from a run's strategy to its discipline, and the disciplines.

Synchronous training is in lockstep: all nodes make every update together. Over parameter servers workers make updates
of their own, and a coordinator reports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparktf.config.strategies import Strategy
from sparktf.driver.attempt.discipline import Discipline, Fail, Leave, Replace, Share
from sparktf.driver.attempt.members import Members, Trainer, have_met
from sparktf.driver.attempt.saves import Save, Start, joined_save, with_others
from sparktf.driver.lifecycle import TrainerState
from sparktf.errors import ErrorRecord, RefusedError, Verdict
from sparktf.sequence import Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.control import AssignmentRequest
from sparktf.wire.uploads import Uploaded


class Lockstep:
    """See `Discipline`: all nodes do the same, and without one there is no update."""

    def follows(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`."""
        del nodes
        return ()

    def deal(self, request: AssignmentRequest, members: Members) -> Share:
        """See `Discipline`. An epoch is dealt to all members at once, in their order."""
        nodes = tuple(members)
        return Share(nodes.index(request.node), nodes)

    def reporters(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`. All make every step, each on rows of its own."""
        return tuple(nodes)

    def lessees(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`. Rows are dealt."""
        del nodes
        return ()

    def fed(self, stream: Stream, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`. All train, and all evaluate."""
        del stream
        return tuple(nodes)

    def on_loss(self, member: Trainer, record: ErrorRecord, members: Members) -> Fail | Leave:
        """See `Discipline`. The others would wait for it in the next update."""
        del member, members
        return Fail(record)

    def saved(self, uploads: Mapping[NodeId, Uploaded], members: Members, start: Start) -> Save | None:
        """See `Discipline`. The leader has the files, and tells of all, or else each node reports its training."""
        leader = uploads.get(next(iter(members)))
        if leader is not None and leader.of_all:
            return joined_save(start, [leader])
        if any(node not in uploads for node in members):
            return None
        return joined_save(start, [uploads[node] for node in members])

    def is_done(self, members: Members) -> bool:
        """See `Discipline`."""
        return all(trainer.state is TrainerState.FINISHED for trainer in members.values())


class LockstepOfSurvivors(Lockstep):
    """See `Discipline`: all nodes do the same, and go on without one that is lost, until another follows it."""

    def follows(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`."""
        return tuple(nodes)

    def on_loss(self, member: Trainer, record: ErrorRecord, members: Members) -> Fail | Leave:
        """See `Discipline`. Who has seen the end takes no other member's place."""
        others = [other for node, other in members.items() if node != member.node]
        may_leave = record.verdict is Verdict.INFRASTRUCTURE and not record.peer
        go_on = have_met(members) and all(other.state is not TrainerState.FINISHED for other in others)
        return Leave() if may_leave and go_on else Fail(record)

    def saved(self, uploads: Mapping[NodeId, Uploaded], members: Members, start: Start) -> Save | None:
        """See `Discipline`. Each leader tells of all; a later one tells again of what the one before has told."""
        told = [upload for upload in uploads.values() if upload.of_all]
        if not told:
            return super().saved(uploads, members, start)
        return joined_save(start, [next((upload for upload in told if not upload.error), told[0])])

    def is_done(self, members: Members) -> bool:
        """See `Discipline`. Who is lost, or has not joined, is not waited for."""
        ended = [member.finished for member in members.values() if member.state is TrainerState.FINISHED]
        trains = any(member.state is TrainerState.TRAINING for member in members.values())
        return not trains and any(finished is not None and finished.leads for finished in ended)


class Asynchronous:
    """See `Discipline`: the coordinator, which has the role of the chief, reports progress."""

    def follows(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`."""
        return tuple(nodes)

    def deal(self, request: AssignmentRequest, members: Members) -> Share:
        """See `Discipline`. The coordinator evaluates alone; workers lease the training rows.

        Raises:
            RefusedError: another node asks, or for training rows.
        """
        if request.stream is Stream.TRAIN or request.node.role is not Role.CHIEF:
            raise RefusedError(f"{request.node} has no share of {request.stream}: workers lease rows as they go")
        return Share(0, (request.node,))

    def reporters(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`."""
        return tuple(node for node in nodes if node.role is Role.CHIEF)

    def lessees(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`."""
        return tuple(node for node in nodes if node.role is Role.WORKER)

    def fed(self, stream: Stream, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """See `Discipline`. Workers train, the coordinator evaluates."""
        return self.lessees(nodes) if stream is Stream.TRAIN else self.reporters(nodes)

    def on_loss(self, member: Trainer, record: ErrorRecord, members: Members) -> Fail | Replace:
        """See `Discipline`. Workers are replaced, also while the gang starts: the coordinator waits for all of them.

        A worker lost while TensorFlow connects to it takes the coordinator with it, which holds nothing yet. The state
        of other nodes, or of a later coordinator, is lost with them; and an error of one worker's, the next one would
        raise.
        """
        is_followed = member.node.role is Role.WORKER or _has_lost_workers_at_its_start(member, members)
        is_loss = is_followed and record.verdict is Verdict.INFRASTRUCTURE
        return Replace(member.node) if is_loss else Fail(record)

    def saved(self, uploads: Mapping[NodeId, Uploaded], members: Members, start: Start) -> Save | None:
        """See `Discipline`. The coordinator reports the training of all workers; the servers have written the files."""
        coordinator = next((uploads[node] for node in self.reporters(members) if node in uploads), None)
        if coordinator is None:
            return None
        whole = with_others(coordinator, [uploads.get(node) for node in members if node.role is Role.PS])
        return None if whole is None else joined_save(start, [whole])

    def is_done(self, members: Members) -> bool:
        """See `Discipline`. Workers and servers stay until they are told to stop."""
        return all(members[node].state is TrainerState.FINISHED for node in self.reporters(members))


def _has_lost_workers_at_its_start(member: Trainer, members: Members) -> bool:
    """Whether this is a coordinator that was never ready, and reports its own failure after the loss of a worker."""
    workers = [worker for node, worker in members.items() if node.role is Role.WORKER]
    lost = any(worker.incarnation or not worker.is_expected for worker in workers)
    has_failed = member.state is TrainerState.FAILED
    return lost and has_failed and member.node.role is Role.CHIEF and not member.has_met


def discipline_of(strategy: Strategy, *, outlives_losses: bool) -> Discipline:
    """Returns that of an attempt; `outlives_losses`: its synchronous gang goes on without a lost member."""
    found = DISCIPLINES[strategy]
    return LockstepOfSurvivors() if outlives_losses and isinstance(found, Lockstep) else found


DISCIPLINES: Mapping[Strategy, Discipline] = {
    "single": Lockstep(),
    "mirrored": Lockstep(),
    "multi_worker_mirrored": Lockstep(),
    "parameter_server": Asynchronous(),
}
