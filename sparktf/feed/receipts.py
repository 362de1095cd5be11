"""Receipts of trained rows that the coordinator has not acknowledged yet."""

from __future__ import annotations

import itertools
import threading
import zlib
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from sparktf.results.result import NodeInput
from sparktf.sequence import Interval
from sparktf.topology import NodeId
from sparktf.wire.leasing import Receipt


class Trained(NamedTuple):
    """A `Receipt` without its number."""

    epoch: int
    steps: int
    intervals: Sequence[Interval]
    rows: int
    rows_aside: int
    replayed: int
    loss: float
    metrics: tuple[float, ...]
    input: NodeInput


class Receipts:
    """The receipts of one incarnation over all epochs; thread-safe.

    Attributes:
        takes: Numbers its takes from 1 on, over all epochs.
    """

    def __init__(self, node: NodeId, incarnation: int) -> None:
        self.takes = itertools.count(1)
        self._node = node
        self._incarnation = incarnation
        self._lock = threading.Lock()
        self._made = 0
        self._left: deque[tuple[int, str]] = deque()

    def add(self, trained: Trained) -> None:
        with self._lock:
            self._made = number = self._made + 1
            fields = trained._asdict() | {"intervals": tuple(trained.intervals)}
            receipt = Receipt(node=self._node, incarnation=self._incarnation, number=number, **fields)
            # Serialized once: each is sent several times until it is acknowledged.
            self._left.append((number, receipt.model_dump_json(exclude_defaults=True)))

    @property
    def made(self) -> int:
        """The number of the last receipt; 0 for none."""
        with self._lock:
            return self._made

    def acknowledge(self, incarnation: int, number: int) -> None:
        """Drops receipts up to a number, which the coordinator has, if they are this incarnation's."""
        with self._lock:
            while incarnation == self._incarnation and self._left and self._left[0][0] <= number:
                self._left.popleft()

    def unacknowledged(self) -> bytes:
        """Returns the other receipts in order: a JSON list, compressed since they are much alike."""
        with self._lock:
            return zlib.compress(f"[{','.join(text for _, text in self._left)}]".encode())
