"""What the workers have trained, as far as the coordinator knows: the truth about each of them that is gone."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic import TypeAdapter

from sparktf.errors import LifecycleError
from sparktf.sequence import Interval, merge
from sparktf.topology import NodeId
from sparktf.wire.leasing import Receipt

_RECEIPTS = TypeAdapter(tuple[Receipt, ...])


class LastReceipt(NamedTuple):
    """What has come from a worker.

    Attributes:
        incarnation: Who has its place.
        number: Of the last receipt of that one; 0 while there is none.
    """

    incarnation: int = 0
    number: int = 0


class EpochTally:
    """What is trained of one epoch in this attempt.

    Attributes:
        steps: Updates.
        rows: Rows that went into them.
        rows_aside: Rows that were left out because they fail a check.
        covered: Rows that are done, both kinds.
        replayed: Rows that may have gone into two updates, by worker and incarnation.
    """

    def __init__(self) -> None:
        self.steps = self.rows = self.rows_aside = self.covered = 0
        self.replayed: Counter[tuple[NodeId, int]] = Counter()
        self._intervals: list[Interval] = []

    @property
    def intervals(self) -> list[Interval]:
        """What is done of the epoch's sequence.

        Raises:
            ValueError: a row was trained twice.
        """
        self._intervals = merge(self._intervals)
        return self._intervals

    def add(self, receipt: Receipt) -> None:
        """Adds what a worker has trained."""
        self.steps += receipt.steps
        self.rows += receipt.rows
        self.rows_aside += receipt.rows_aside
        self.replayed[receipt.node, receipt.incarnation] += receipt.replayed
        self.covered += sum(stop - start for start, stop in receipt.intervals)
        self._intervals += receipt.intervals


class Tally:
    """Takes each receipt once."""

    def __init__(self, workers: Iterable[NodeId]) -> None:
        """Begins with the first incarnation of each worker."""
        self._known: dict[NodeId, LastReceipt] = dict.fromkeys(workers, LastReceipt())
        self._epochs: dict[int, EpochTally] = {}

    @property
    def acknowledged(self) -> list[LastReceipt]:
        """What has come from each worker, in their order."""
        return list(self._known.values())

    def of(self, epoch: int) -> EpochTally:
        """Returns what is trained of an epoch."""
        return self._epochs.setdefault(epoch, EpochTally())

    def forget_before(self, epoch: int) -> None:
        """Drops what nobody asks for any more."""
        self._epochs = {number: tally for number, tally in self._epochs.items() if number >= epoch}

    def take(self, answer: bytes) -> list[Receipt]:
        """Takes the receipts of a worker's answer that are new, and returns them.

        Raises:
            LifecycleError: one before them is missing.
        """
        return [receipt for receipt in _RECEIPTS.validate_json(zlib.decompress(answer)) if self._take(receipt)]

    def _take(self, receipt: Receipt) -> bool:
        known = self._known[receipt.node]
        if receipt.incarnation != known.incarnation or receipt.number <= known.number:
            return False
        if receipt.number != known.number + 1:
            raise LifecycleError(f"{receipt.node} tells of {receipt.number}, and {known.number + 1} has not come")
        self._known[receipt.node] = known._replace(number=receipt.number)
        self.of(receipt.epoch).add(receipt)
        return True

    def succeed(self, incarnations: Mapping[NodeId, int]) -> list[tuple[NodeId, int]]:
        """Takes nothing more of incarnations that are lost; returns them.

        Args:
            incarnations: Who has the place of a worker now.
        """
        lost = [
            (node, incarnation)
            for node, known in self._known.items()
            for incarnation in range(known.incarnation, incarnations.get(node, 0))
        ]
        self._known.update((node, LastReceipt(incarnations[node])) for node, _ in lost)
        return lost


def loss_of(receipts: Sequence[Receipt]) -> float | None:
    """Returns the mean loss over the rows of some receipts; None where they have none."""
    rows = sum(receipt.rows for receipt in receipts)
    return sum(receipt.loss for receipt in receipts) / rows if rows else None
