"""A node's share of what Spark feeds: its own splits, and when these run out, what other nodes have too much of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from sparktf.feed.blocks import BlockPart
from sparktf.feed.staging import Staging
from sparktf.knobs import KNOBS

_MAX_AHEAD = 2
"""Blocks that are read ahead; what is not read yet can still go to a node that has run dry."""


class StagedParts:
    """The parts of one epoch; see `sparktf.feed.blocks.Parts`."""

    rows = None
    max_ahead = _MAX_AHEAD
    ahead_rows = None

    def __init__(self, staging: Staging, find_more: Callable[[], bool]) -> None:
        """Reads nothing yet.

        Args:
            find_more: Looks for rows at other nodes; returns False when none will come any more.
        """
        self._staging = staging
        self._find_more = find_more
        self._stopped = threading.Event()

    def __iter__(self) -> Iterator[BlockPart]:
        more = True
        while not self._stopped.is_set():
            queued = self._staging.next(KNOBS.staged_poll_s if more else 0.0)
            if queued is not None:
                yield self._staging.part(queued)
            elif not more:
                return
            else:
                more = self._find_more()

    def stop(self) -> None:
        """See `Parts`."""
        self._stopped.set()

    def close(self) -> None:
        """See `Parts`: the staging outlives the epoch."""
