"""Roles, node names and the cluster spec; the only place that speaks TF_CONFIG."""

from __future__ import annotations

import enum
import json
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator


class Role(enum.StrEnum):
    """What a node does in the gang. In sync training worker 0 acts as the chief."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


class NodeId(BaseModel):
    """A node of one attempt: role and index, written "worker 1"."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    index: int

    def __str__(self) -> str:
        return f"{self.role.value} {self.index}"


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

    def nodes(self) -> tuple[NodeId, ...]:
        """All nodes: chief, workers, parameter servers."""
        by_role = {Role.CHIEF: self.chief, Role.WORKER: self.worker, Role.PS: self.ps}
        return tuple(NodeId(role=role, index=i) for role, addresses in by_role.items() for i in range(len(addresses)))


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
