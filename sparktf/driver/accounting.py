"""Row accounts: planned == fed == trained + set aside, for every epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sparktf.driver.result import NodeInput
from sparktf.errors import ErrorRecord, Verdict
from sparktf.messages import EpochDone
from sparktf.topology import NodeId


def input_of(reports: Iterable[EpochDone]) -> NodeInput:
    """Returns what one node has read in several epochs."""
    total = NodeInput()
    for report in reports:
        staged = report.staged
        rows = Counter(total.rows)
        rows.update({"direct": report.rows_fed} if staged is None else staged.rows)
        kept = {} if staged is None else {"memory_nbytes": staged.memory_nbytes, "disk_nbytes": staged.disk_nbytes}
        total = NodeInput(
            rows=dict(rows),
            given=total.given + (staged.given if staged else 0),
            nbytes=total.nbytes + report.nbytes,
            local_nbytes=total.local_nbytes + report.local_nbytes,
            spilled_nbytes=total.spilled_nbytes + (staged.spilled_nbytes if staged else 0),
            wait_s=total.wait_s + report.wait_s,
            feeders_wait_s=total.feeders_wait_s + (staged.feeders_wait_s if staged else 0.0),
            seconds=total.seconds + report.seconds,
            **kept,
        )
    return total


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
            message=f"epoch {self.epoch}: {self.aside} rows fail a check, and data.max_bad_rows is {limit}",
            verdict=Verdict.DATA_REFUSED,
            time_s=time_s,
        )
