"""Synchronous training: all nodes make every update together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparktf.driver.attempt.discipline import Fail, Share
from sparktf.driver.attempt.members import Members, Trainer
from sparktf.driver.attempt.saves import Save, Start, joined_save
from sparktf.errors import ErrorRecord
from sparktf.lifecycle import TrainerState
from sparktf.sequence import Stream
from sparktf.topology import NodeId
from sparktf.wire.control import AssignmentRequest
from sparktf.wire.uploads import Uploaded


class Lockstep:
    """See `Discipline`: whatever one node does, all do, and without one there is no update."""

    def deal(self, request: AssignmentRequest, members: Members) -> Share:
        """See `Discipline`. All nodes, which are workers, share an epoch among themselves, at once."""
        return Share(request.node.index, tuple(members))

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

    def on_loss(self, member: Trainer, record: ErrorRecord, members: Members) -> Fail:
        """See `Discipline`. The others would wait for it in the next update."""
        del member, members
        return Fail(record)

    def saved(self, uploads: Mapping[NodeId, Uploaded], members: Members, start: Start) -> Save | None:
        """See `Discipline`. Each node tells what it has trained, and the chief has the files."""
        if any(node not in uploads for node in members):
            return None
        return joined_save(start, [uploads[node] for node in members])

    def is_done(self, members: Members) -> bool:
        """See `Discipline`."""
        return all(trainer.state is TrainerState.FINISHED for trainer in members.values())
