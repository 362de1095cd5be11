"""The coordinator's account of the rows that workers have trained; for a lost worker it alone counts."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pydantic import TypeAdapter

from sparktf.errors import LifecycleError
from sparktf.feed.arrays.columns import Array
from sparktf.sequence import Interval, merge
from sparktf.topology import NodeId
from sparktf.wire.leasing import Receipt

_RECEIPTS = TypeAdapter(tuple[Receipt, ...])


class LastReceipt(NamedTuple):
    """A worker's current incarnation, and the number of its last receipt; 0 for none."""

    incarnation: int = 0
    number: int = 0


class EpochTally:
    """The training of one epoch in this attempt.

    Attributes:
        steps: Updates.
        rows: Rows in these updates.
        rows_aside: Rows left out because they fail a check.
        covered: Both kinds of rows.
        metrics: float64 [numbers]: the sum of what the rows add to the states of the metrics; None if not measured.
        replayed: Rows that may have gone into two updates, by worker and incarnation.
    """

    def __init__(self) -> None:
        self.steps = self.rows = self.rows_aside = self.covered = 0
        self.metrics: Array | None = None
        self.replayed: Counter[tuple[NodeId, int]] = Counter()
        self._intervals: list[Interval] = []

    @property
    def intervals(self) -> list[Interval]:
        """The intervals of the epoch sequence that are done.

        Raises:
            ValueError: a row was trained twice.
        """
        self._intervals = merge(self._intervals)
        return self._intervals

    def add(self, receipt: Receipt) -> None:
        self.steps += receipt.steps
        self.rows += receipt.rows
        self.rows_aside += receipt.rows_aside
        self.replayed[receipt.node, receipt.incarnation] += receipt.replayed
        self.covered += sum(stop - start for start, stop in receipt.intervals)
        self._intervals += receipt.intervals
        if receipt.metrics:
            added = np.array(receipt.metrics)
            self.metrics = added if self.metrics is None else self.metrics + added


class Tally:
    """Accepts each receipt once."""

    def __init__(self, workers: Iterable[NodeId]) -> None:
        """Begins with the first incarnation of each worker."""
        self._known: dict[NodeId, LastReceipt] = dict.fromkeys(workers, LastReceipt())
        self._epochs: dict[int, EpochTally] = {}

    @property
    def acknowledged(self) -> list[LastReceipt]:
        """The last receipt of each worker, in their order."""
        return list(self._known.values())

    def of(self, epoch: int) -> EpochTally:
        return self._epochs.setdefault(epoch, EpochTally())

    def forget_before(self, epoch: int) -> None:
        self._epochs = {number: tally for number, tally in self._epochs.items() if number >= epoch}

    def take(self, answer: bytes) -> list[Receipt]:
        """Adds the receipts of a worker's answer that are new, and returns them.

        Raises:
            LifecycleError: an earlier receipt is missing.
        """
        return [receipt for receipt in _RECEIPTS.validate_json(zlib.decompress(answer)) if self._take(receipt)]

    def _take(self, receipt: Receipt) -> bool:
        known = self._known[receipt.node]
        if receipt.incarnation != known.incarnation or receipt.number <= known.number:
            return False
        if receipt.number != known.number + 1:
            raise LifecycleError(f"{receipt.node} sent receipt {receipt.number}, but {known.number + 1} is missing")
        self._known[receipt.node] = known._replace(number=receipt.number)
        self.of(receipt.epoch).add(receipt)
        return True

    def succeed(self, incarnations: Mapping[NodeId, int]) -> list[tuple[NodeId, int]]:
        """Accepts nothing more from incarnations before the current ones; returns those that are lost."""
        lost = [
            (node, incarnation)
            for node, known in self._known.items()
            for incarnation in range(known.incarnation, incarnations.get(node, 0))
        ]
        self._known.update((node, LastReceipt(incarnations[node])) for node, _ in lost)
        return lost


def loss_of(receipts: Sequence[Receipt]) -> float | None:
    """Returns the mean loss over the rows of some receipts; None if they have no rows."""
    rows = sum(receipt.rows for receipt in receipts)
    return sum(receipt.loss for receipt in receipts) / rows if rows else None
