"""Who sits where in an attempt: agents in the order of their roles, and the trainers they are given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.ledger import FeedPlace
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.restart import root_cause
from sparktf.driver.gang.placement import seats
from sparktf.driver.gang.roster import AgentRecord, ExecutorFacts
from sparktf.driver.plan.plan import NODES
from sparktf.result import AttemptResult, NodeResult
from sparktf.sequence import Cursor
from sparktf.storage.base import Storage
from sparktf.topology import ClusterSpec, GangShape, NodeId
from sparktf.wire.control import TrainerSpec
from sparktf.wire.restore import Restore


@dataclass(frozen=True, slots=True)
class Seating:
    """The agents of one attempt.

    Attributes:
        members: By role and index: the leader first.
        agents: Of each.
        dealt: The host of each node by which data is dealt.
    """

    members: tuple[NodeId, ...]
    agents: tuple[AgentRecord, ...]
    dealt: tuple[str, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Where the nodes are."""
        return tuple(agent.registration.host for agent in self.agents)

    @property
    def cluster(self) -> ClusterSpec:
        """The addresses that the agents hold for their trainers."""
        return ClusterSpec.at({node: agent.address for node, agent in self._seats()})

    def trainers(self, now_s: float) -> list[Trainer]:
        """Returns a trainer for every seat, launched now."""
        return [Trainer(node, agent.id, agent.registration.host, now_s, now_s) for node, agent in self._seats()]

    def places(self) -> dict[NodeId, FeedPlace]:
        """Returns where feeders find each node."""
        return {node: FeedPlace(agent.registration.host, agent.registration.jvm) for node, agent in self._seats()}

    def specs(self, leader: TrainerSpec) -> list[tuple[str, TrainerSpec]]:
        """Returns for each agent, by id, what its trainer gets: what the leader's has, but for its own place."""
        common = leader.model_copy(update={"restore": leader.restore and _for_nodes(leader.restore)})
        return [(agent.id, common.model_copy(update={"node": node})) for node, agent in self._seats()]

    def results(self, attempt: Attempt, facts: Sequence[ExecutorFacts], *, located: bool) -> tuple[NodeResult, ...]:
        """Returns what each node has read, and where its log is.

        Args:
            facts: Of each agent's executor.
            located: Whether it is known where the data lies.
        """
        read = attempt.inputs()
        return tuple(
            NodeResult(
                node=str(node),
                host=agent.registration.host,
                nbytes=read[node].nbytes,
                local_nbytes=read[node].local_nbytes if located else None,
                log=known.log,
                input=read[node],
            )
            for node, agent, known in zip(self.members, self.agents, facts, strict=True)
        )

    def _seats(self) -> Iterator[tuple[NodeId, AgentRecord]]:
        return zip(self.members, self.agents, strict=True)


def _for_nodes(restore: Restore) -> Restore:
    """Returns what a node needs of it: of the cursor how far it is, and not where.

    In the middle of an epoch it has intervals of every node that trained it: megabytes of them, on a thousand nodes.
    """
    cursor = restore.cursor
    done = ((0, cursor.rows),) if cursor.rows else ()
    return restore.model_copy(update={"cursor": Cursor(epoch=cursor.epoch, done=done)})


def attempt_result(attempt: Attempt, nodes: tuple[NodeResult, ...], from_step: int, duration_s: float) -> AttemptResult:
    """Returns what the run's result says of an attempt that has ended."""
    return AttemptResult(
        attempt=attempt.number,
        workers=len(nodes),
        hosts=tuple(node.host for node in nodes),
        from_step=from_step,
        to_step=max(t.progress.step for t in attempt.trainers.values()),
        duration_s=round(duration_s, 3),
        root_cause=root_cause(attempt.failures) if attempt.failures else None,
        failures=tuple(attempt.failures),
        nodes=nodes,
    )


def seat(
    agents: list[AgentRecord],
    shape: GangShape,
    storage: Storage,
    plan_folder: str,
    write: Callable[[str, bytes], None],
    *,
    first: bool,
    replay: bool,
) -> Seating:
    """Gives the agents their seats.

    Data is dealt by where the nodes are. A replay deals by where the nodes of the plan's first attempt were, wherever
    they are now, so that every replay of a plan deals alike; nodes on the same hosts take the same seats.

    Args:
        write: Writes a small file of the run.
        first: Whether this is the first attempt of a submission: its hosts are kept with the plan.
    """
    members = shape.members(len(agents))
    hosts = tuple(agent.registration.host for agent in agents)
    path = f"{plan_folder}/{NODES}"
    if replay and storage.exists(path):
        stored = tuple(json.loads(storage.read_bytes(path)))
        if len(stored) == len(hosts):
            return Seating(members, tuple(agents[i] for i in seats(hosts, stored)), stored)
    if first:
        write(path, json.dumps(hosts).encode())
    return Seating(members, tuple(agents), hosts)
