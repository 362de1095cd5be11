"""Row accounts: planned == fed == trained, for every epoch."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparktf.errors import ErrorRecord, Verdict
from sparktf.messages import EpochDone
from sparktf.topology import NodeId


@dataclass(slots=True)
class EpochAccount:
    """The rows of one epoch, over all nodes.

    Attributes:
        planned: Rows of the training stream.
        before: Rows of this epoch that a checkpoint had done before this attempt.
    """

    epoch: int
    planned: int
    before: int
    nodes: int
    reports: dict[NodeId, EpochDone] = field(default_factory=dict)

    def add(self, report: EpochDone) -> None:
        self.reports[report.node] = report

    @property
    def fed(self) -> int:
        return self.before + sum(r.rows_fed for r in self.reports.values())

    @property
    def trained(self) -> int:
        return self.before + sum(r.rows_trained for r in self.reports.values())

    @property
    def complete(self) -> bool:
        """Whether all nodes have gone through all of their rows."""
        return len(self.reports) == self.nodes and all(r.complete for r in self.reports.values())

    @property
    def is_wrong(self) -> bool:
        """Whether a row was lost or trained twice."""
        return self.complete and not self.planned == self.fed == self.trained

    def record(self, time_s: float) -> ErrorRecord:
        """Returns the failure of a wrong account."""
        return ErrorRecord(
            type="RowAccountingError",
            message=f"epoch {self.epoch}: {self.planned} rows planned, {self.fed} fed, {self.trained} trained",
            verdict=Verdict.INFRASTRUCTURE,
            time_s=time_s,
        )
