"""A simulated worker's input under parameter servers: around the product's leases, takes and receipts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from simulation.hub import SimCondition
from simulation.nodes import Ids

from sparktf.errors import BadValueError, SparkTFError
from sparktf.feed.arrays.aside import Handed
from sparktf.feed.blocks import BlockPart
from sparktf.feed.channel.staged_parts import StagedParts
from sparktf.feed.leased_parts import LeasedParts
from sparktf.sequence import Assignment, Piece, Stream
from sparktf.wire.control import Action
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest

if TYPE_CHECKING:
    from simulation.roles import Worker


class Part(NamedTuple):
    """Rows of a piece, in the order in which they are trained.

    Attributes:
        places: Which of them do not fail a check.
    """

    first_row: int
    ids: Ids
    places: Ids


class Reader:
    """Reads pieces; see `PieceReader`."""

    def __init__(self, read: Callable[[Assignment, int], tuple[Ids, Ids]], epoch: int) -> None:
        self._read = read
        self._epoch = epoch

    def parts(self, pieces: Sequence[Piece]) -> Iterator[Part]:
        """Yields the rows of each."""
        for piece in pieces:
            one = Assignment(stream=Stream.TRAIN, epoch=self._epoch, pieces=(piece,))
            yield Part(piece.first_row, *self._read(one, self._epoch))


def fed(part: BlockPart) -> Part:
    """Returns what waits where Spark feeds it."""
    columns = [column for group in part.read() for column in group.columns["x"].chunks]
    ids = np.concatenate([column.to_numpy() for column in columns])
    if part.draw is not None:
        ids = ids[part.draw().permutation(len(ids))]
    ids = ids[part.start :][: part.rows]
    return Part(part.first_row, ids, np.arange(len(ids)))


def leased(worker: Worker, epoch: int, batch_rows: int) -> LeasedParts:
    """Returns the parts of an epoch that a worker leases from the driver."""

    def lease(rows: int) -> BlockLease:
        worker.strike_called("worker-dies", "leases rows")
        request = BlockLeaseRequest(**worker.spec.sender, epoch=epoch, rows=rows)
        answer: BlockLease = worker._call(Action.LEASE_BLOCKS, request)
        return answer

    return LeasedParts(cast("Any", Reader(worker.line.read, epoch)), lease, batch_rows)


class LeasedRows:
    """What `LeasedFeed` asks of a `NodeFeed`: one thread reads ahead, and others take what is there."""

    nbytes = local_nbytes = 0
    wait_s = 0.0

    def __init__(self, worker: Worker, parts: LeasedParts | StagedParts) -> None:
        """Begins to read."""
        self._worker = worker
        self._parts = parts
        self._changed = SimCondition(worker.process, 0.0)
        self._ready: deque[Ids] = deque()
        self._handed: list[Handed] = []
        self._is_dry = self._is_over = False
        self._rows_aside = 0
        self._error: SparkTFError | None = None
        worker.process.spawn(self._run)

    @property
    def is_drained(self) -> bool:
        """See `NodeFeed`."""
        return self._is_over and not self._in_hand

    @property
    def is_dry(self) -> bool:
        """See `NodeFeed`."""
        return (self._is_dry or self._is_over) and not self._in_hand

    def take_now(self, rows: int, wait_s: float, *, batch_rows: int) -> dict[str, Ids]:
        """See `NodeFeed`."""
        with self._changed:
            self._changed.wait_for(lambda: self._in_hand >= batch_rows or self._has_no_more, wait_s)
            if self._error is not None:
                raise self._error
            whole = self._in_hand if self._has_no_more else self._in_hand - self._in_hand % batch_rows
            taken = self._pop(min(rows, whole))
            self._changed.notify_all()
        return {"x": taken}

    def handed_since(self, part: int) -> Sequence[Handed]:
        """See `NodeFeed`."""
        return self._handed[part:]

    def stop(self) -> None:
        """See `NodeFeed`."""
        self._parts.stop()
        with self._changed:
            self._is_over = True
            self._ready.clear()
            self._changed.notify_all()

    @property
    def _is_wanted(self) -> bool:
        """Whether another part is read ahead."""
        parts = self._parts
        batch_rows = self._worker.spec.config.train.batch_size
        few = parts.max_ahead is None or len(self._ready) < parts.max_ahead or self._in_hand < batch_rows
        return few and (parts.ahead_rows is None or self._in_hand < parts.ahead_rows)

    @property
    def _in_hand(self) -> int:
        return sum(map(len, self._ready))

    @property
    def _has_no_more(self) -> bool:
        return self._is_dry or self._is_over or self._error is not None

    def _pop(self, rows: int) -> Ids:
        found: list[Ids] = []
        while rows:
            first = self._ready.popleft()
            found.append(first[:rows])
            if len(first) > rows:
                self._ready.appendleft(first[rows:])
            rows -= len(found[-1])
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _run(self) -> None:
        try:
            for part in cast("Iterator[Part | BlockPart | None]", iter(self._parts)):
                if part is not None:
                    self._worker.process.sleep(self._worker.process.rng.uniform(0.001, 0.05))
                read = fed(part) if isinstance(part, BlockPart) else part
                if read is not None:
                    self._judge(read)
                self._add(read)
        except SparkTFError as error:
            self._error = error
        self._end()

    def _judge(self, part: Part) -> None:
        """Refuses more bad rows than may be set aside, as `NodeFeed` does."""
        self._rows_aside += len(part.ids) - len(part.places)
        limit = self._worker.spec.config.data.max_bad_rows
        if self._rows_aside > limit:
            raise BadValueError(f"{self._rows_aside} rows fail a check, and data.max_bad_rows is {limit}")

    def _add(self, part: Part | None) -> None:
        with self._changed:
            self._is_dry = part is None
            if part is not None and not self._is_over:
                places = None if len(part.places) == len(part.ids) else part.places
                self._handed.append(Handed(part.first_row, len(part.ids), places))
                self._ready.append(part.ids[part.places])
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_wanted or self._is_over)

    def _end(self) -> None:
        with self._changed:
            self._is_over = self._is_over or self._error is None
            self._changed.notify_all()
