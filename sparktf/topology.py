"""Roles, node names and the cluster spec; the only place that speaks TF_CONFIG."""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from sparktf.told import count_in_words


class Role(enum.StrEnum):
    """A node's task in the gang. In sync training worker 0 acts as the chief."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


def role_of_job(job: str) -> Role:
    """Returns the role of a name in TF_CONFIG; "master" is an older name of the chief. Raises `ValueError`."""
    return Role.CHIEF if job == "master" else Role(job)


class NodeId(BaseModel):
    """A node of one attempt: role and index, written "worker 1"."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    index: int

    def __str__(self) -> str:
        return f"{self.role.value} {self.index}"

    # Nodes are keys of all books: pydantic's own __hash__ takes ten times as long.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeId) and (self.index, self.role) == (other.index, other.role)

    def __hash__(self) -> int:
        return hash((self.index, self.role))


@dataclass(frozen=True, slots=True)
class GangShape:
    """The number of nodes of each role in a gang, and the least after losses."""

    wanted: Mapping[Role, int]  # By role
    least: Mapping[Role, int]  # Of the same roles

    @classmethod
    def of_workers(cls, wanted: int, least: int) -> Self:
        """Returns a gang of workers only."""
        return cls({Role.WORKER: wanted}, {Role.WORKER: min(least, wanted)})

    @classmethod
    def with_servers(cls, workers: int, ps: int, least: int) -> Self:
        """Returns a gang with a coordinator and parameter servers, all of which are required."""
        wanted = {Role.CHIEF: 1, Role.PS: ps, Role.WORKER: workers}
        return cls(wanted, {**wanted, Role.WORKER: min(least, workers)})

    def with_evaluator(self) -> Self:
        """Returns the gang with an evaluator as its last node, which every attempt needs to begin."""
        return type(self)({**self.wanted, Role.EVALUATOR: 1}, {**self.least, Role.EVALUATOR: 1})

    @property
    def nodes(self) -> int:
        """Nodes of the whole gang."""
        return sum(self.wanted.values())

    @property
    def workers(self) -> int:
        """Workers of the whole gang, who read its data."""
        return self.wanted[Role.WORKER]

    @property
    def fewest(self) -> int:
        """Nodes of the smallest allowed gang."""
        return sum(self.least.values())

    def members(self, count: int) -> tuple[NodeId, ...]:
        """Returns the members of a gang of a size: the least of each role, then more in the order of roles.

        Raises:
            ValueError: no such gang is allowed.
        """
        if not self.fewest <= count <= self.nodes:
            raise ValueError(f"{count} nodes: the gang has {self.fewest} to {self.nodes}")
        left, found = count - self.fewest, []
        for role, wanted in self.wanted.items():
            more = min(left, wanted - self.least[role])
            left -= more
            found += [NodeId(role=role, index=i) for i in range(self.least[role] + more)]
        return tuple(found)


def gang_text(nodes: Iterable[NodeId]) -> str:
    """Returns a gang in words: "2 workers", or "2 workers, 1 ps, a coordinator and an evaluator"."""
    count = Counter(node.role for node in nodes)
    workers = count_in_words(count[Role.WORKER], "worker")
    if len(count) == 1:
        return workers
    others = {
        Role.PS: f"{count[Role.PS]} ps",
        Role.CHIEF: "a coordinator",
        Role.EVALUATOR: "an evaluator",
    }
    *first, last = (what for role, what in others.items() if count[role])
    return f"{', '.join([workers, *first])} and {last}"


class ClusterSpec(BaseModel):
    """The fixed addresses ("host:port") of one attempt, by role and in index order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    chief: tuple[str, ...] = ()
    worker: tuple[str, ...] = ()
    ps: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _addresses_are_distinct(self) -> Self:
        every = [*self.chief, *self.worker, *self.ps]
        if len(set(every)) != len(every):
            raise ValueError(f"two nodes share an address: {sorted(every)}")
        return self

    @classmethod
    def at(cls, addresses: Mapping[NodeId, str]) -> Self:
        """Returns the spec of nodes at these addresses, without evaluators."""
        by_role: dict[str, tuple[str, ...]] = {}
        for node, address in sorted(addresses.items(), key=lambda item: item[0].index):
            if node.role is not Role.EVALUATOR:
                by_role[node.role.value] = (*by_role.get(node.role.value, ()), address)
        return cls.model_validate(by_role)

    def moved(self, node: NodeId, address: str) -> Self:
        """Returns the spec with a node at another address. A lost node that had this address is left out."""
        every = dict(zip(self.nodes(), [*self.chief, *self.worker, *self.ps], strict=True))
        found = {other: f"{other.role}-{other.index}.invalid:1" if at == address else at for other, at in every.items()}
        return self.at({**found, node: address})

    @property
    def leader(self) -> NodeId:
        """The node that decides for all, and whose files are kept: the chief, else worker 0."""
        return NodeId(role=Role.CHIEF if self.chief else Role.WORKER, index=0)

    def nodes(self) -> tuple[NodeId, ...]:
        """All nodes: chief, workers, parameter servers."""
        by_role = {Role.CHIEF: self.chief, Role.WORKER: self.worker, Role.PS: self.ps}
        return tuple(NodeId(role=role, index=i) for role, addresses in by_role.items() for i in range(len(addresses)))

    def address(self, node: NodeId) -> str:
        """The address of a node. Raises `KeyError` if it is not in the cluster."""
        return dict(zip(self.nodes(), [*self.chief, *self.worker, *self.ps], strict=True))[node]

    def workers(self) -> dict[NodeId, str]:
        """The address of each worker, in index order."""
        return {NodeId(role=Role.WORKER, index=i): address for i, address in enumerate(self.worker)}


def tf_config(cluster: ClusterSpec, node: NodeId) -> str:
    """Returns the value of the TF_CONFIG environment variable for one node.

    An evaluator names itself in `task` and appears in nobody's `cluster` dict: one listed there makes a
    ParameterServerStrategy coordinator wait for it for ever.

    Raises:
        ValueError: the node is not in the cluster.
    """
    if node.role is not Role.EVALUATOR and node not in cluster.nodes():
        raise ValueError(f"{node} is not in the cluster spec")
    addresses = {"chief": cluster.chief, "worker": cluster.worker, "ps": cluster.ps}
    return json.dumps(
        {
            "cluster": {role: list(hosts) for role, hosts in addresses.items() if hosts},
            "task": {"type": node.role.value, "index": node.index},
        }
    )
