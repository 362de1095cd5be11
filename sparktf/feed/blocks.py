"""Parts of shuffle blocks, which a node reads and trains in sequence, and their reading from files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from sparktf.feature import FeedSpec
from sparktf.feed.arrays.aside import Aside, BadRow, Handed
from sparktf.feed.arrays.columns import Array, Columns, slice_rows, take_rows
from sparktf.feed.arrays.memory import SpareMemory
from sparktf.feed.arrays.row_group import RowGroup
from sparktf.feed.formats.format import format_of
from sparktf.feed.formats.once_opened import OnceOpened
from sparktf.feed.formats.row_cache import RowCache
from sparktf.feed.formats.split_sequence import Reader, SplitSequence
from sparktf.feed.formats.splits import OpenStorage
from sparktf.sequence import Assignment, Draw, Piece, Split, Stream, generator


class BlockPart(NamedTuple):
    """Some rows of a shuffle block."""

    rows: int
    first_row: int  # The first row's position in the epoch sequence
    start: int  # The first row's position in the result of `read`, after its permutation
    # Returns the generator of the block's permutation; None for rows in the order of the file
    draw: Callable[[], np.random.Generator] | None
    read: Callable[[], Sequence[RowGroup]]  # Returns the rows; the whole block if it is permuted
    nbytes: int = 0  # Bytes to read, of which `local_nbytes` lie on this host
    local_nbytes: int = 0


class Parts(Protocol):
    """A node's share of one stream in one epoch.

    Attributes:
        rows: Rows of the whole share; None while unknown.
        max_ahead: Parts that may be read ahead; None for as many as memory allows.
        ahead_rows: Ask for the next part only while fewer rows wait to be handed out; None for no such limit.
    """

    @property
    def rows(self) -> int | None: ...

    @property
    def max_ahead(self) -> int | None: ...

    @property
    def ahead_rows(self) -> int | None: ...

    def __iter__(self) -> Iterator[BlockPart | None]:
        """Yields the parts, waiting for them; each is read before the next is asked for.

        Yields None if there is no part at the moment, and the next one may take a while.
        """

    def stop(self) -> None:
        """Ends the iteration soon; called from any thread."""

    def close(self) -> None:
        """Closes files; called by the reading thread at its end."""


class PieceReader:
    """Reads pieces of one stream in one epoch from files, in sequence."""

    def __init__(
        self,
        spec: FeedSpec,
        stream: Stream,
        epoch: int,
        open_storage: OpenStorage,
        *,
        sets_aside: bool = False,
        use_threads: bool = False,
        cache: RowCache | None = None,
    ) -> None:
        """Opens nothing yet.

        Args:
            sets_aside: As for `NewReader`.
            use_threads: Let Arrow decode columns on all its threads, which takes cores from other work.
            cache: Keeps what is read from a remote storage for later epochs.
        """
        self._spec = spec
        self._epoch = epoch
        self._open_storage = open_storage
        self._permutes = spec.shuffle and stream is Stream.TRAIN
        new_reader = format_of(spec).new_reader
        self._new_reader = partial(new_reader, spec, open_storage, sets_aside=sets_aside, use_threads=use_threads)
        self._cache = cache
        self._groups: SplitSequence | None = None

    def parts(self, pieces: Sequence[Piece]) -> Iterator[BlockPart]:
        """Yields the parts of some pieces. Read each before the next one, and all before further pieces."""
        if not pieces:
            return
        groups = self._sequence(pieces[0].splits[0])
        groups.add(split for piece in pieces for split in self._splits_of(piece))
        for piece in pieces:
            if self._permutes:
                draw = partial(self._draw, piece.block)
                yield self._part(groups, piece.rows, piece.first_row, piece.start, draw, piece.splits)
            else:
                yield from self._in_order(groups, piece)

    def _sequence(self, first: Split) -> SplitSequence:
        if self._groups is None:
            ahead = self._open_storage(first.path).reads_ahead
            new_reader: Callable[[], Reader] = partial(self._new_reader, opened=OnceOpened())
            if ahead > 1 and self._cache is not None:
                new_reader = self._cache.around(new_reader, self._spec)
            self._groups = SplitSequence(new_reader, ahead=ahead)
        return self._groups

    def _in_order(self, groups: SplitSequence, piece: Piece) -> Iterator[BlockPart]:
        """Yields a part for each split: the first rows come sooner, and memory is reused while it is in caches."""
        splits, start = _touched(piece)
        first_row, left = piece.first_row, piece.rows
        for split in splits:
            rows = min(split.rows - start, left)
            yield self._part(groups, rows, first_row, start, None, [split])
            first_row, left, start = first_row + rows, left - rows, 0

    def _part(
        self,
        groups: SplitSequence,
        rows: int,
        first_row: int,
        start: int,
        draw: Callable[[], np.random.Generator] | None,
        splits: Sequence[Split],
    ) -> BlockPart:
        return BlockPart(
            rows=rows,
            first_row=first_row,
            start=start,
            draw=draw,
            read=partial(groups.read, len(splits)),
            nbytes=sum(split.nbytes for split in splits),
            local_nbytes=sum(split.local_nbytes for split in splits),
        )

    def close(self) -> None:
        if self._groups is not None:
            self._groups.close()

    def _draw(self, block: int) -> np.random.Generator:
        return generator(Draw.BLOCK_ROWS, self._spec.seed, self._epoch, block)

    def _splits_of(self, piece: Piece) -> Sequence[Split]:
        """Returns the splits to read for a piece; a permuted one may have rows of any split of its block."""
        return piece.splits if self._permutes else _touched(piece)[0]


class PlannedParts:
    """The parts of an `Assignment`, read from Parquet files."""

    max_ahead = None
    ahead_rows = None

    def __init__(
        self,
        spec: FeedSpec,
        assignment: Assignment,
        open_storage: OpenStorage,
        *,
        sets_aside: bool = False,
        use_threads: bool = False,
        cache: RowCache | None = None,
    ) -> None:
        """Opens nothing yet; see `PieceReader`."""
        self._assignment = assignment
        reads = partial(PieceReader, spec, assignment.stream, assignment.epoch, open_storage)
        self._reader = reads(sets_aside=sets_aside, use_threads=use_threads, cache=cache)

    @property
    def rows(self) -> int | None:
        return self._assignment.rows

    def __iter__(self) -> Iterator[BlockPart]:
        return self._reader.parts(self._assignment.pieces)

    def stop(self) -> None:
        """See `Parts`: nothing waits here."""

    def close(self) -> None:
        self._reader.close()


def _touched(piece: Piece) -> tuple[list[Split], int]:
    """Returns the splits with rows of an unpermuted piece, and its start in them."""
    ends = np.cumsum([split.rows for split in piece.splits])
    first = int(np.searchsorted(ends, piece.start, side="right"))
    last = int(np.searchsorted(ends, piece.stop, side="left"))
    before = int(ends[first - 1]) if first else 0
    return list(itertools.islice(piece.splits, first, last + 1)), piece.start - before


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of a part of a shuffle block."""

    columns: Columns  # The rows as they were read
    order: Array | None  # int64 [rows], the order of training; None for all rows from `start` on
    start: int
    handed: Handed  # The rows of the epoch sequence that are handed out
    bad: Sequence[BadRow] = ()  # The rows that are left out

    @property
    def rows(self) -> int:
        """Rows that are handed out."""
        return self.handed.good

    def without(self, aside: Aside) -> Block:
        """Returns the part without the rows that are set aside."""
        order = np.arange(self.start, self.start + self.handed.rows) if self.order is None else self.order
        places = np.flatnonzero(~aside.bad[order])
        if len(places) == len(order):
            return self
        handed = self.handed._replace(places=places)
        return replace(self, order=order[places], handed=handed, bad=aside.among(order))

    def slab(self, start: int, rows: int, memory: SpareMemory) -> Columns:
        """Returns up to `rows` rows of the part from `start` on; all that are left if nothing is permuted."""
        if self.order is None:
            return slice_rows(self.columns, self.start + start, self.start + self.rows)
        order = self.order[start : start + rows]
        return take_rows(self.columns, order, memory.arrays(len(order)))
