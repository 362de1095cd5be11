"""The seats of an attempt: agents in the order of their roles, and the orders of their trainers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sparktf.driver.attempt.advice import advise
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.course import made_by
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.restart import root_cause
from sparktf.driver.attempt.rows.accounting import inputs
from sparktf.driver.gang.placement import HostNbytes, apart, best_nodes, seats
from sparktf.driver.gang.roster import AgentRecord, ExecutorFacts
from sparktf.driver.plan.plan import NODES
from sparktf.results.outlived import replay_end
from sparktf.results.pace import NodePace
from sparktf.results.result import AttemptResult, NodeResult
from sparktf.results.usage import Usage
from sparktf.sequence import Cursor
from sparktf.storage.base import Storage
from sparktf.told import count_in_words
from sparktf.topology import ClusterSpec, GangShape, NodeId, Role, gang_text
from sparktf.wire.trainer_spec import Training


@dataclass(frozen=True, slots=True)
class Seating:
    """The agents of one attempt."""

    members: tuple[NodeId, ...]  # By role and index: the leader first
    agents: tuple[AgentRecord, ...]  # In the same order
    dealt: tuple[str, ...]  # The hosts by which data is dealt

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the nodes."""
        return tuple(agent.registration.host for agent in self.agents)

    @property
    def gpus(self) -> tuple[str, ...]:
        """The hosts of the nodes that see a GPU."""
        return tuple(agent.registration.host for agent in self.agents if agent.registration.sees_gpu)

    @property
    def workers(self) -> tuple[str, ...]:
        """The hosts of the workers, by index."""
        return tuple(agent.registration.host for node, agent in self._seats() if node.role is Role.WORKER)

    def in_words(self, leader: Training) -> str:
        """Returns the nodes and their hosts, "2 workers, 1 ps and a coordinator on ..." in this order; and threads."""
        order = (Role.WORKER, Role.PS, Role.CHIEF, Role.EVALUATOR)
        seats = sorted(self._seats(), key=lambda seat: order.index(seat[0].role))
        threads = sorted({found for node in self.members if (found := self.threads(node, leader)) is not None})
        each = f", {' or '.join(count_in_words(count, 'thread') for count in threads)} a worker" if threads else ""
        return f"{gang_text(self.members)} on {', '.join(agent.registration.host for _, agent in seats)}{each}"

    @property
    def cluster(self) -> ClusterSpec:
        """The addresses that the agents hold for their trainers."""
        return ClusterSpec.at({node: agent.address for node, agent in self._seats()})

    def trainers(self, now_s: float) -> list[Trainer]:
        """Returns a trainer for every seat, launched now."""
        return [
            Trainer(node, agent.id, agent.registration.host, now_s, now_s, jvm=agent.registration.jvm)
            for node, agent in self._seats()
        ]

    def specs(self, leader: Training) -> list[tuple[str, Training]]:
        """Returns for each agent, by id, its trainer's orders: the leader's with another place."""
        common = _for_nodes(leader)
        return [
            (agent.id, common.model_copy(update={"node": node, "threads": self.threads(node, leader)}))
            for node, agent in self._seats()
        ]

    def moved(self, node: NodeId, agent: AgentRecord) -> Seating:
        """Returns the seating with another agent on a node's seat."""
        seat = self.members.index(node)
        return replace(self, agents=(*self.agents[:seat], agent, *self.agents[seat + 1 :]))

    def threads(self, node: NodeId, leader: Training) -> int | None:
        """Returns the threads that TensorFlow computes an operation with in a node; None for as many as it likes.

        It likes as many as a host has processors. Workers that share a host and compute at the same time get a share of
        these each, rounded up so that none stands idle: they would wait for each other's threads. Others compute while
        their neighbours wait, or compute little.
        """
        here = self.agents[self.members.index(node)].registration
        if node.role is not Role.WORKER or not here.processors:
            return None
        cluster = leader.config.cluster
        sharing = self.workers.count(here.host) if cluster.updates_together else 1
        return cluster.threads or (-(-here.processors // sharing) if sharing > 1 else None)

    def taken_back(self, facts: Sequence[ExecutorFacts]) -> dict[str, str]:
        """Returns the nodes whose executors the cluster took back, each with its reason; `facts` of each agent's."""
        return {str(node): f.removed for node, f in zip(self.members, facts, strict=True) if f.taken_back}

    def results(
        self, attempt: Attempt, leader: Training, facts: Sequence[ExecutorFacts], *, located: bool
    ) -> tuple[NodeResult, ...]:
        """Returns for each node its reads, its training, its resources, and the place of its log.

        Args:
            facts: Of each agent's executor.
            located: Whether it is known where the data lies.
        """
        accounts = attempt.epochs.values()
        read, made = inputs(accounts, attempt.trainers), made_by(accounts, attempt.trainers)
        return tuple(
            NodeResult(
                node=str(node),
                host=agent.registration.host,
                threads=self.threads(node, leader),
                nbytes=read[node].nbytes,
                local_nbytes=read[node].local_nbytes if located else None,
                log=known.log,
                input=read[node],
                made=made.get(node),
                usage=attempt.trainers[node].usage,
                pace=NodePace.of(attempt.trainers[node].whole_pace),
            )
            for node, agent, known in zip(self.members, self.agents, facts, strict=True)
        )

    def _seats(self) -> Iterator[tuple[NodeId, AgentRecord]]:
        return zip(self.members, self.agents, strict=True)


def successor_spec(leader: Training, successor: Trainer, threads: int | None) -> Training:
    """Returns the orders of a trainer that takes a lost one's place, with its own address among the others."""
    return _for_nodes(leader).model_copy(
        update={
            "node": successor.node,
            "cluster": leader.cluster.moved(successor.node, successor.address),
            "incarnation": successor.incarnation,
            "threads": threads,
        }
    )


def _for_nodes(leader: Training) -> Training:
    """Returns the part that every node needs; of the cursor the position, without the intervals.

    In the middle of an epoch it has intervals of every node that trained it: megabytes of them, on a thousand nodes.
    """
    restore = leader.restore
    if restore is None:
        return leader
    cursor = restore.cursor
    done = ((0, cursor.rows),) if cursor.rows else ()
    thin = restore.model_copy(update={"cursor": Cursor(epoch=cursor.epoch, done=done)})
    return leader.model_copy(update={"restore": thin})


def attempt_result(
    attempt: Attempt, nodes: tuple[NodeResult, ...], leader: Training, duration_s: float, *, server_nbytes: int
) -> AttemptResult:
    """Returns the result of an attempt that has ended; a parameter server may take `server_nbytes` of memory."""
    return AttemptResult(
        attempt=attempt.number,
        workers=sum(node.role is Role.WORKER for node in attempt.trainers),
        hosts=tuple(node.host for node in nodes),
        from_step=leader.restore.step if leader.restore is not None else 0,
        to_step=max(progress.step for progress in attempt.progress()),
        duration_s=round(duration_s, 3),
        root_cause=root_cause(attempt.failures) if attempt.failures else None,
        failures=tuple(attempt.failures),
        losses=tuple(attempt.losses.records),
        outlived=attempt.outlived,
        slow=tuple(attempt.slow),
        replay_end=replay_end(attempt.outlived, rebalances=leader.config.data.rebalance),
        nodes=nodes,
        collectives=leader.summed_by,
        advice=_advice(attempt, server_nbytes),
    )


def _advice(attempt: Attempt, server_nbytes: int) -> str:
    used = {node: trainer.usage for node, trainer in attempt.trainers.items() if trainer.usage is not None}

    def of(role: Role) -> dict[str, Usage]:
        return {str(node): usage for node, usage in used.items() if node.role is role}

    coordinator = next(iter(of(Role.CHIEF).values()), Usage())
    return advise(of(Role.WORKER), of(Role.PS), coordinator, server_nbytes=server_nbytes)


def seat_agents(
    agents: list[AgentRecord],
    shape: GangShape,
    host_nbytes: HostNbytes,
    storage: Storage,
    plan_folder: str,
    write: Callable[[str, bytes], None],
    *,
    first: bool,
    replay: bool,
) -> Seating:
    """Gives the agents their seats: workers beside the data, servers and evaluator apart, the coordinator anywhere.

    Data is dealt by the nodes' hosts. A replay deals by the hosts of the workers in the plan's first attempt instead,
    so that every replay of a plan deals alike; workers on the same hosts take the same seats.

    Args:
        host_nbytes: Where the data lies.
        write: Writes a small file of the run.
        first: Whether this is the first attempt of a submission: its hosts are kept with the plan.
    """
    members = shape.members(len(agents))
    order = _order(members, [agent.registration.host for agent in agents], host_nbytes)
    seating = Seating(members, tuple(agents[i] for i in order), ())
    hosts = seating.workers
    path = f"{plan_folder}/{NODES}"
    if replay and storage.exists(path):
        stored = tuple(json.loads(storage.read_bytes(path)))
        if len(stored) == len(hosts) and members[0].role is Role.WORKER:
            others = seating.agents[len(hosts) :]
            workers = tuple(seating.agents[i] for i in seats(hosts, stored))
            return Seating(members, (*workers, *others), (*stored, *seating.hosts[len(hosts) :]))
    if first:
        write(path, json.dumps(hosts).encode())
    return replace(seating, dealt=seating.hosts)


def _order(members: Sequence[NodeId], hosts: Sequence[str], host_nbytes: HostNbytes) -> list[int]:
    """Returns for each member the index of the agent, by host, that takes its seat."""
    count = Counter(node.role for node in members)
    workers = best_nodes(host_nbytes, hosts, count[Role.WORKER])
    taken = {Role.WORKER: workers}
    for role in (Role.PS, Role.EVALUATOR, Role.CHIEF):
        used = [i for found in taken.values() for i in found]
        left = sorted(set(range(len(hosts))) - set(used))
        taken[role] = [left[i] for i in apart([hosts[i] for i in left], [hosts[i] for i in used], count[role])]
    return [taken[node.role][node.index] for node in members]
