"""Row accounts: planned == fed == trained + set aside, for every epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sparktf.errors import ErrorRecord, Verdict
from sparktf.results.result import NodeInput
from sparktf.topology import NodeId
from sparktf.wire.control import EpochDone
from sparktf.wire.leasing import Receipt


class Counts(NamedTuple):
    """Rows that were read, went into updates, and were left out since they failed a check."""

    fed: int = 0
    trained: int = 0
    aside: int = 0


NO_ROWS = Counts()


class MadeByWorker(NamedTuple):
    """A worker's training: updates, and the rows that went into them."""

    steps: int = 0
    rows: int = 0


@dataclass(slots=True)
class EpochReceipts:
    """Rows of one epoch trained in this attempt by workers that lease rows, as reported by the coordinator."""

    counts: Counts = NO_ROWS  # Rows of all of them
    # Rows that may have gone into an earlier update too: of broken-off executions, and untold ones of lost workers
    replayed: int = 0
    inputs: dict[NodeId, NodeInput] = field(default_factory=dict)
    made: dict[NodeId, MadeByWorker] = field(default_factory=dict)

    def add(self, receipt: Receipt, rows: int) -> None:
        fed, trained, aside = self.counts
        self.counts = Counts(fed + rows, trained + receipt.rows, aside + receipt.rows_aside)
        self.replayed += receipt.replayed
        self.inputs[receipt.node] = self.inputs.get(receipt.node, NodeInput()) + receipt.input
        before = self.made.get(receipt.node, MadeByWorker())
        self.made[receipt.node] = MadeByWorker(before.steps + receipt.steps, before.rows + receipt.rows)


@dataclass(slots=True)
class EpochAccount:
    """The rows of one epoch, over all nodes."""

    epoch: int
    planned: int  # Rows of the training stream
    nodes: int  # Number of nodes that report it
    # Rows of this epoch that a checkpoint had done before this attempt, of which `aside_before` were bad, and
    # `replayed_before` may have been trained twice
    before: int = 0
    aside_before: int = 0
    replayed_before: int = 0
    reports: dict[NodeId, EpochDone] = field(default_factory=dict)
    # Of workers that lease rows, if others report the epoch; both must agree
    receipts: EpochReceipts | None = None
    settled: Counts | None = None  # By the book of all members, where one of them was lost as the epoch ended
    earlier: dict[NodeId, int] = field(default_factory=dict)  # Rows that nodes have trained in earlier generations

    def wait_for(self, nodes: int) -> None:
        """Has it wait for the reports of this number of nodes, unless one has come: one may have been lost since."""
        if not self.reports:
            self.nodes = nodes

    def add(self, report: EpochDone) -> None:
        self.reports[report.node] = report

    def settle(self, before: tuple[int, int, int], rows: int, aside: int) -> None:
        """Takes the rows that all members have trained or set aside in this attempt as the last word on it.

        Args:
            before: Those that were done when the attempt began; see `go_on`.
        """
        self.before, self.aside_before, self.replayed_before = before
        self.settled = Counts(rows, rows - aside, aside)

    def go_on(self, nodes: int, before: tuple[int, int, int], trained: Mapping[NodeId, int]) -> None:
        """Has it go on with other members.

        Args:
            nodes: Their number.
            before: Rows done, those of them that were set aside, and those that may have been trained twice.
            trained: The rows that each node has trained in this generation.
        """
        self.nodes = nodes
        self.before, self.aside_before, self.replayed_before = before
        for node, rows in trained.items():
            self.earlier[node] = self.earlier.get(node, 0) + rows
        self.reports.clear()

    @property
    def fed(self) -> int:
        return self.before + self._counts.fed

    @property
    def trained(self) -> int:
        return self.before - self.aside_before + self._counts.trained

    @property
    def aside(self) -> int:
        """Rows that failed a check and were left out."""
        return self.aside_before + self._counts.aside

    @property
    def replayed(self) -> int:
        """Rows that may have gone into two updates, since the execution that had them first broke off."""
        return self.replayed_before + (self.receipts.replayed if self.receipts else 0)

    @property
    def dropped(self) -> int:
        """Gradients that came too late for their update."""
        return sum(report.dropped for report in self.reports.values())

    @property
    def inputs(self) -> dict[NodeId, NodeInput]:
        """The reads of each node for it."""
        return self.receipts.inputs if self.receipts else {node: r.input for node, r in self.reports.items()}

    def knows(self, node: NodeId) -> bool:
        """Whether `rows_of` counts all of a node's rows: it has finished the epoch, or others report it."""
        return self.receipts is not None or node in self.reports

    def rows_of(self, node: NodeId) -> int:
        """Returns the rows that a node is known to have trained of it."""
        if self.receipts is not None:
            return self.receipts.made[node].rows if node in self.receipts.made else 0
        return self.earlier.get(node, 0) + (self.reports[node].rows_trained if node in self.reports else 0)

    @property
    def is_reported(self) -> bool:
        return self.settled is not None or len(self.reports) == self.nodes

    @property
    def complete(self) -> bool:
        """Whether all nodes have finished all of their rows."""
        return self.settled is not None or (self.is_reported and all(r.complete for r in self.reports.values()))

    @property
    def is_wrong(self) -> bool:
        """Whether a row was lost or trained twice."""
        lost = self.complete and not self.planned == self.fed == self.trained + self.aside
        return lost or self._is_told_otherwise

    @property
    def _is_told_otherwise(self) -> bool:
        return self.is_reported and self._counts != self._reported

    @property
    def _counts(self) -> Counts:
        return self._reported if self.receipts is None else self.receipts.counts

    @property
    def _reported(self) -> Counts:
        if self.settled is not None:
            return self.settled
        reports = self.reports.values()
        columns = zip(*((r.rows_fed, r.rows_trained, r.rows_aside) for r in reports), strict=True)
        return Counts(*map(sum, columns))

    @property
    def warning(self) -> str:
        """The warning for the run's result about an epoch that all nodes have finished; "" if none."""
        if not self.aside or not self.is_reported:
            return ""
        return f"epoch {self.epoch}: {self.aside} rows fail a check and are left out: see bad_rows/ of the run"

    def failures(self, max_aside: int, time_s: float) -> list[ErrorRecord]:
        """Returns its failures, given the number of bad rows allowed."""
        wrong = [self.record(time_s)] if self.is_wrong else []
        too_many = self.too_many_aside(max_aside, time_s)
        return wrong if too_many is None else [*wrong, too_many]

    def record(self, time_s: float) -> ErrorRecord:
        """Returns the failure of a wrong account."""
        reported = self._reported
        otherwise = (
            f"; the coordinator reports {reported.fed} fed, {reported.trained} trained and {reported.aside} set "
            "aside in this attempt"
        )
        return ErrorRecord(
            type="RowAccountingError",
            message=f"epoch {self.epoch}: {self.planned} rows planned, {self.fed} fed, {self.trained} trained, "
            f"{self.aside} set aside" + (otherwise if self._is_told_otherwise else ""),
            verdict=Verdict.INFRASTRUCTURE,
            time_s=time_s,
        )

    def too_many_aside(self, limit: int, time_s: float) -> ErrorRecord | None:
        """Returns the failure of too many bad rows on all nodes together, if there are too many."""
        if self.aside <= limit:
            return None
        return ErrorRecord(
            type="BadValueError",
            message=f"epoch {self.epoch}: {self.aside} rows fail a check, and data.max_bad_rows is {limit}; "
            "bad_rows/ of the run lists them",
            verdict=Verdict.DATA_REFUSED,
            time_s=time_s,
        )


def are_told_before(epoch: int, accounts: Iterable[EpochAccount]) -> bool:
    """Whether all nodes have reported the epochs before this one: the leader may store its checkpoint before that."""
    return all(account.is_reported for account in accounts if account.epoch < epoch)


def is_wrong_before(epoch: int, accounts: Iterable[EpochAccount], max_aside: int) -> bool:
    """Whether in an epoch before this one a row was lost or trained twice, or more than `max_aside` were set aside."""
    before = (account for account in accounts if account.epoch < epoch)
    return any(account.is_wrong or account.aside > max_aside for account in before)


def inputs(accounts: Iterable[EpochAccount], nodes: Iterable[NodeId]) -> dict[NodeId, NodeInput]:
    """Returns the reads of each node from the training stream, in the epochs that it has finished."""
    read = [account.inputs for account in sorted(accounts, key=lambda account: account.epoch)]
    return {node: sum((by_node[node] for by_node in read if node in by_node), NodeInput()) for node in nodes}
