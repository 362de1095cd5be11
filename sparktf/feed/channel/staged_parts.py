"""A node's parts of the rows that Spark feeds: its own splits, and when these run out, rows of other nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from sparktf.feed.blocks import BlockPart
from sparktf.feed.channel.staging import Staging
from sparktf.knobs import KNOBS

_MAX_AHEAD = 2
"""Blocks read ahead; parts that are not read yet can still go to a node that has run dry."""


class StagedParts:
    """The parts of one epoch; see `sparktf.feed.blocks.Parts`. `rows_given` counts the rows handed out so far."""

    rows = None
    max_ahead = _MAX_AHEAD
    ahead_rows = None

    def __init__(
        self,
        staging: Staging,
        find_more: Callable[[], bool | None],
        begin: Callable[[], None] | None = None,
        *,
        at: tuple[int, int] | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            find_more: Looks for rows at other nodes; returns False when none will come any more, None when only the
                loss of a node would bring more, so that a last batch need not wait.
            begin: Begins the epoch, before anything is read. Default: it has begun.
            at: The epoch, and the generation of the gang. Default: those in which reading begins.
        """
        self.rows_given = 0
        self._staging = staging
        self._find_more = find_more
        self._begin = begin
        self._at = at
        self._stopped = threading.Event()

    def __iter__(self) -> Iterator[BlockPart | None]:
        if self._begin is not None:
            self._begin()
        at, more = self._at or self._staging.at, True
        while not self._stopped.is_set():
            queued = self._staging.next(KNOBS.staged_poll_s if more else 0.0, at)
            if queued is not None:
                part = self._staging.part(queued)
                self.rows_given += part.rows
                yield part
                continue
            if not more:
                return
            found = self._find_more()
            if found is None:
                yield None
            more = found is not False

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        """See `Parts`: the staging outlives the epoch."""
