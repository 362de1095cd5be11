"""What parameter servers hold, and the truth about it: which execution has brought which rows into it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from simulation.evaluating import Counts
from simulation.hub import PeerLostError
from simulation.nodes import Ids

from sparktf.topology import NodeId

if TYPE_CHECKING:
    from simulation.hub import Process
    from simulation.roles import Member, Worker

_LOOK_S = 0.25


@dataclass(eq=False)
class Execution:
    """One run of a closure on one worker.

    Attributes:
        applied: Rows of the updates that it has made.
        broke_off: Whoever sent it out has lost it.
        aborted: It makes no other update.
        stalls_s: So long it stands still, once it has broken off.
        told: The coordinator has its receipt.
        has_revoked: It came for rows late, and got those of the one that had followed it.
    """

    number: int
    epoch: int
    updates: int
    worker: Worker
    applied: list[Ids] = field(default_factory=list)
    broke_off: bool = False
    aborted: bool = False
    stalls_s: float = 0.0
    told: bool = False
    has_revoked: bool = False


class Parameters:
    """The model of one attempt, on all of its parameter servers.

    Attributes:
        weights: How often each row of each epoch is in them.
        steps: Updates, as the optimizer counts them.
        twice: Receipts that the coordinator has taken more than once.
    """

    def __init__(self, weights: Counts, doubt: Counts, steps: int) -> None:
        """Begins with those of a checkpoint.

        Args:
            doubt: What is in them for executions that broke off.
        """
        self.weights = weights
        self.steps = steps
        self.twice: list[str] = []
        self._doubt = doubt
        self._servers: Sequence[Member] = ()
        self._executions: list[Execution] = []
        self._receipts: dict[tuple[NodeId, int, int], Execution] = {}
        self._taken: set[tuple[NodeId, int, int]] = set()

    def place(self, servers: Sequence[Member]) -> None:
        """Puts them on servers, which are there."""
        self._servers = servers

    def reach(self, caller: Process) -> None:
        """Returns once every server has answered.

        Raises:
            PeerLostError: one is gone.
        """
        for server in self._servers:
            server.strike_called("server-dies", f"called by {caller}")
            while server.process.frozen and not server.process.dead:
                caller.sleep(_LOOK_S)
            if server.process.dead:
                raise PeerLostError(str(server.spec.node))

    def apply(self, execution: Execution, rows: Ids) -> None:
        """Makes an update."""
        self.apply_mean([(execution, rows)])

    def apply_mean(self, parts: Sequence[tuple[Execution, Ids]]) -> None:
        """Makes an update of several gradients."""
        self.steps += 1
        for execution, rows in parts:
            np.add.at(self.weights[execution.epoch], rows, 1)
            if not execution.applied:
                self._executions.append(execution)
            execution.applied.append(rows)

    def receipt(self, execution: Execution, number: int) -> None:
        """Notes which of its worker's receipts an execution has made."""
        spec = execution.worker.spec
        self._receipts[spec.node, spec.incarnation, number] = execution

    def tell(self, node: NodeId, incarnation: int, number: int) -> None:
        """Notes that the coordinator takes a receipt: of an execution, or of rows that were set aside before any."""
        receipt = node, incarnation, number
        if receipt in self._taken:
            self.twice.append(f"receipt {number} of incarnation {incarnation} of {node} was taken twice")
        self._taken.add(receipt)
        if receipt in self._receipts:
            self._receipts[receipt].told = True

    @property
    def surplus_steps(self) -> int:
        """Updates that may be too many: of which the coordinator has not been told, or by executions that broke off."""
        return sum(len(one.applied) for one in self._executions if one.broke_off or not one.told)

    def content(self, given_up: Container[int], places: dict[NodeId, int]) -> list[Counts]:
        """Returns the weights, and what of it is in doubt.

        In doubt is what executions that broke off have brought, and no others.

        Args:
            given_up: Executions, by number, that the coordinator does not wait for any more.
            places: The incarnation that each worker has now.
        """
        doubt = self._doubt.copy()
        for execution in self._executions:
            spec = execution.worker.spec
            is_lost = spec.incarnation < places[spec.node]
            if not execution.told and (execution.broke_off or execution.number in given_up or is_lost):
                for rows in execution.applied:
                    np.add.at(doubt[execution.epoch], rows, 1)
        return [self.weights.copy(), doubt]
