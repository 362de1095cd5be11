"""Row accounts: planned == fed == trained + set aside, for every epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sparktf.errors import ErrorRecord, Verdict
from sparktf.result import NodeInput
from sparktf.topology import NodeId
from sparktf.wire.control import EpochDone


@dataclass(slots=True)
class EpochAccount:
    """The rows of one epoch, over all nodes.

    Attributes:
        planned: Rows of the training stream.
        before: Rows of this epoch that a checkpoint had done before this attempt, of which `aside_before` were bad.
    """

    epoch: int
    planned: int
    before: int
    nodes: int
    aside_before: int = 0
    reports: dict[NodeId, EpochDone] = field(default_factory=dict)

    def add(self, report: EpochDone) -> None:
        """Notes what a node says; told again, it counts once."""
        self.reports[report.node] = report

    @property
    def fed(self) -> int:
        return self.before + sum(r.rows_fed for r in self.reports.values())

    @property
    def trained(self) -> int:
        return self.before - self.aside_before + sum(r.rows_trained for r in self.reports.values())

    @property
    def aside(self) -> int:
        """Rows that failed a check and were left out."""
        return self.aside_before + sum(r.rows_aside for r in self.reports.values())

    @property
    def complete(self) -> bool:
        """Whether all nodes have gone through all of their rows."""
        return len(self.reports) == self.nodes and all(r.complete for r in self.reports.values())

    @property
    def is_wrong(self) -> bool:
        """Whether a row was lost or trained twice."""
        return self.complete and not self.planned == self.fed == self.trained + self.aside

    @property
    def warning(self) -> str:
        """What the run's result mentions of an epoch that all nodes have gone through; "" if nothing."""
        if not self.aside or len(self.reports) < self.nodes:
            return ""
        return f"epoch {self.epoch}: {self.aside} rows fail a check and are left out: see bad_rows/ of the run"

    def failures(self, max_aside: int, time_s: float) -> list[ErrorRecord]:
        """Returns what is wrong with it.

        Args:
            max_aside: So many bad rows there may be.
        """
        wrong = [self.record(time_s)] if self.is_wrong else []
        too_many = self.too_many_aside(max_aside, time_s)
        return wrong if too_many is None else [*wrong, too_many]

    def record(self, time_s: float) -> ErrorRecord:
        """Returns the failure of a wrong account."""
        return ErrorRecord(
            type="RowAccountingError",
            message=f"epoch {self.epoch}: {self.planned} rows planned, {self.fed} fed, {self.trained} trained, "
            f"{self.aside} set aside",
            verdict=Verdict.INFRASTRUCTURE,
            time_s=time_s,
        )

    def too_many_aside(self, limit: int, time_s: float) -> ErrorRecord | None:
        """Returns the failure of more bad rows on all nodes than there may be, if there are."""
        if self.aside <= limit:
            return None
        return ErrorRecord(
            type="BadValueError",
            message=f"epoch {self.epoch}: {self.aside} rows fail a check, and data.max_bad_rows is {limit}; "
            "bad_rows/ of the run lists them",
            verdict=Verdict.DATA_REFUSED,
            time_s=time_s,
        )


def inputs(accounts: Iterable[EpochAccount], nodes: Iterable[NodeId]) -> dict[NodeId, NodeInput]:
    """Returns what each node has read of the training stream, in the epochs it has gone through."""
    reports = [account.reports for account in sorted(accounts, key=lambda account: account.epoch)]
    return {node: sum((by_node[node].input for by_node in reports if node in by_node), NodeInput()) for node in nodes}
