"""Makes batches of rows that come one by one: by bytes and by time, so that neither many nor slow rows wait long."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pyarrow as pa

from sparktf.errors import BadValueError
from sparktf.feed.channel.any_rows import (
    MOST_BATCH_NBYTES,
    UnfitRowsError,
    estimated_nbytes,
    rows_like,
    rows_to_batch,
)

_MOST_ROWS = 2048
"""Of a batch: Python's garbage collector looks at all rows that wait, again and again."""
_LATE_S = 0.5
"""About how long a row waits for others."""
_SLOW_S = 0.05
"""Time within which rows that are read at once are to come."""
_END = object()

SendBatch = Callable[[pa.RecordBatch], bool]
"""Sends a batch; returns whether more are wanted."""


def send_rows(rows: Iterable[Any], send: SendBatch, told: str) -> int:
    """Sends all rows, and returns their number.

    Args:
        send: Is called by one thread at a time, by another one where rows are late.
        told: The rows, for messages: "partition 3 of the RDD, which main_fun gets".

    Raises:
        BadValueError: a row cannot be encoded.
    """
    return _RowBatches(send, told).run(rows)


class _RowBatches:
    """Rows that wait to become a batch."""

    def __init__(self, send: SendBatch, told: str) -> None:
        self._send = send
        self._told = told
        self._waiting: deque[Any] = deque()  # filled by the reader alone, emptied by whoever has the lock
        self._nbytes = 0  # about
        self._lock = threading.Lock()
        self._sent = 0
        self._is_wanted = True
        self._is_over = threading.Event()

    def run(self, rows: Iterable[Any]) -> int:
        """See `send_rows`."""
        with ThreadPoolExecutor(1, "late-rows") as pool:
            late = pool.submit(self._send_late)
            try:
                self._read(rows, late.done)
                if not late.done():
                    self._cut()
            finally:
                self._is_over.set()
        late.result()
        return self._sent

    def _read(self, rows: Iterable[Any], is_stopped: Callable[[], bool]) -> None:
        """Reads the rows, some at a time, of which the first tells the size of all."""
        iterator, count = iter(rows), 1
        while self._is_wanted and not is_stopped():
            began_s = time.monotonic()
            row = next(iterator, _END)
            if row is _END:
                return
            nbytes = estimated_nbytes(row)
            count = min(count, rows_like(nbytes, self._nbytes))
            self._waiting.append(row)
            self._waiting.extend(islice(iterator, count - 1))  # each is seen by `_send_late` as soon as it is there
            self._nbytes += nbytes * count
            if self._nbytes >= MOST_BATCH_NBYTES or len(self._waiting) >= _MOST_ROWS:
                self._cut()
            count = count * 2 if time.monotonic() - began_s < _SLOW_S else max(1, count // 4)

    def _send_late(self) -> None:
        """Sends rows that wait while the reader waits for further ones."""
        before = -1
        while not self._is_over.wait(_LATE_S / 2) and self._is_wanted:
            sent = self._sent if self._waiting else -1
            if sent >= 0 and sent == before:
                self._cut()
            before = sent

    def _cut(self) -> None:
        """Makes a batch of the rows that wait, and sends it."""
        with self._lock:
            rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
            self._nbytes = 0
            if rows and self._is_wanted:
                self._is_wanted = self._send(self._batch(rows))
                self._sent += len(rows)

    def _batch(self, rows: list[Any]) -> pa.RecordBatch:
        try:
            return rows_to_batch(rows)
        except UnfitRowsError as error:
            raise BadValueError(f"row {self._sent + error.place} of {self._told}: {error}") from error
