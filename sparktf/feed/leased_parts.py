"""A node's parts of an epoch that is not dealt beforehand: rows are leased as training goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from sparktf.feed.blocks import BlockPart, PieceReader
from sparktf.knobs import KNOBS
from sparktf.wire.leasing import BlockLease

LeaseBlock = Callable[[int], BlockLease]
"""Approximate number of rows wanted -> the lease."""


class LeasedParts:
    """The parts of one epoch; see `sparktf.feed.blocks.Parts`.

    As many rows are leased ahead as are handed out at once, rounded up to a block: enough to read some while others are
    trained, and no more, since no other node can train leased rows. A slow worker would delay the epoch's end, and a
    late one would find no rows.
    """

    rows = None
    max_ahead = None

    def __init__(self, reader: PieceReader, lease: LeaseBlock, batch_rows: int) -> None:
        """Leases nothing yet.

        Args:
            lease: Asks the driver; may block.
            batch_rows: Rows of an update.
        """
        self.ahead_rows = batch_rows
        self._reader = reader
        self._lease = lease
        self._stopped = threading.Event()

    def __iter__(self) -> Iterator[BlockPart | None]:
        while not self._stopped.is_set():
            lease = self._lease(self.ahead_rows)
            yield from self._reader.parts(lease.pieces)
            if lease.ended:
                return
            if not lease.pieces:
                yield None
                self._stopped.wait(KNOBS.staged_poll_s)

    def expect(self, rows: int) -> None:
        """Reads this many rows ahead from now on; from any thread."""
        self.ahead_rows = rows

    def stop(self) -> None:
        """See `Parts`; does not wait for the driver's answer."""
        self._stopped.set()

    def close(self) -> None:
        self._reader.close()
