"""Vocabularies of tables, and the moves of rows when a vocabulary changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

RowIndices = NDArray[np.int64]


@dataclass(frozen=True)
class Vocabulary:
    """The meaning of a table's rows."""

    entries: pa.Array  # Numbers or strings, each once
    rows: RowIndices  # The row of each entry
    # Meaning of another row -> row: "unknown 1 of 2". Equal texts mean the same in two vocabularies.
    others: Mapping[str, int]

    @property
    def size(self) -> int:
        """The fewest rows of a table of this vocabulary."""
        return 1 + max([*self.others.values(), *([int(self.rows.max())] if len(self.rows) else []), -1])

    def equals(self, other: Vocabulary) -> bool:
        """Whether all rows have the same meaning."""
        same_rows = np.array_equal(self.rows, other.rows) and dict(self.others) == dict(other.others)
        return same_rows and bool(self.entries.equals(other.entries))


class Moves(NamedTuple):
    """The moves of rows from one table into another."""

    to: RowIndices  # Rows of the target, each filled from the row in `source`
    source: RowIndices
    kept: int  # Number of common entries; `new` are only in the target, `left` only in the source
    new: int
    left: int


def vocabulary(entries: Sequence[Any], *, masked: bool, unknown: int) -> Vocabulary:
    """Returns the vocabulary of a Keras lookup: padding if it masks, then unknown values, then the entries."""
    first = int(masked) + unknown
    others = {"padding": 0} if masked else {}
    others |= {f"unknown {i + 1} of {unknown}": int(masked) + i for i in range(unknown)}
    return Vocabulary(_array(entries), np.arange(first, first + len(entries), dtype=np.int64), others)


def listed(asset: Any, table_rows: int) -> Vocabulary | None:
    """Returns the vocabulary in an asset; None if it is none.

    Args:
        asset: Entries in order, for the last rows of the table; or entry -> row.
    """
    if isinstance(asset, Mapping):
        rows = np.array(list(asset.values()), dtype=object)
        if not all(isinstance(row, int) and 0 <= row < table_rows for row in rows):
            return None
        taken = set(rows.tolist())
        others = {f"row {row}": row for row in range(max(taken, default=0)) if row not in taken}
        return Vocabulary(_array(list(asset)), rows.astype(np.int64), others)
    if not isinstance(asset, Sequence) or isinstance(asset, str) or len(asset) > table_rows:
        return None
    reserved = table_rows - len(asset)
    others = {f"row {row} of {reserved}": row for row in range(reserved)}
    return Vocabulary(_array(asset), np.arange(reserved, table_rows, dtype=np.int64), others)


def moves(ours: Vocabulary, theirs: Vocabulary) -> Moves:
    """Returns the moves that fill a table of vocabulary `ours` from one of `theirs`."""
    entries, known = ours.entries, theirs.entries
    if entries.type != known.type:
        entries, known = entries.cast(pa.string()), known.cast(pa.string())
    places = pc.index_in(entries, value_set=known).to_numpy(zero_copy_only=False)
    is_kept = ~np.isnan(places) if places.dtype.kind == "f" else np.ones(len(places), bool)
    kept = int(is_kept.sum())
    both = [meaning for meaning in ours.others if meaning in theirs.others]
    to = np.concatenate([ours.rows[is_kept], [ours.others[m] for m in both]]).astype(np.int64)
    source = np.concatenate([theirs.rows[places[is_kept].astype(np.int64)], [theirs.others[m] for m in both]])
    return Moves(to, source.astype(np.int64), kept, new=len(entries) - kept, left=len(known) - kept)


def _array(entries: Sequence[Any]) -> pa.Array:
    plain = np.asarray(entries).tolist() if len(entries) else []
    if all(isinstance(entry, int) for entry in plain):
        return pa.array(plain, pa.int64())
    return pa.array([str(entry) for entry in plain], pa.string())
