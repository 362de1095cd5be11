"""A node's share of an epoch where nobody deals it beforehand: rows are leased as it goes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from sparktf.feed.blocks import BlockPart, PieceReader
from sparktf.knobs import KNOBS
from sparktf.wire.leasing import BlockLease

LeaseBlock = Callable[[int], BlockLease]
"""About how many rows are wanted -> what is leased."""


class LeasedParts:
    """The parts of one epoch; see `sparktf.feed.blocks.Parts`.

    What waits to be handed out is as much as is handed out at once, or the block that brings more: enough for the disk
    to be busy while rows are trained, and no more, since nobody else can train what is leased: a slow worker would be
    the epoch's tail, and one that comes late find nothing.

    """

    rows = None
    max_ahead = None

    def __init__(self, reader: PieceReader, lease: LeaseBlock, batch_rows: int) -> None:
        """Leases nothing yet.

        Args:
            lease: Asks the driver, and may take its time.
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
        """Reads so many rows ahead from now on: they are handed out at once. From any thread."""
        self.ahead_rows = rows

    def stop(self) -> None:
        """See `Parts`; what the driver is being asked for is not waited for."""
        self._stopped.set()

    def close(self) -> None:
        """Closes the files."""
        self._reader.close()
