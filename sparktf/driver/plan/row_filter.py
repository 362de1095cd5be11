"""How many rows of each row group pass a filter: known before training, like the rest of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from sparktf.driver.plan.files import RowGroups, at_once
from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.feed.formats.parquet_file import check_rows, group_nbytes, leaf_columns, open_parquet, reading
from sparktf.feed.formats.selection import decided_rows, selected_rows
from sparktf.predicate import Condition
from sparktf.storage.base import Storage

MAX_COUNTED_BYTES = 1 << 30
"""The most stored bytes of the compared columns that the driver reads to count; beyond, Spark is quicker."""

_UNKNOWN = -1


def count_selected(
    storage: Storage,
    files: Sequence[str],
    groups: RowGroups,
    where: Sequence[Condition],
    max_nbytes: int = MAX_COUNTED_BYTES,
) -> RowGroups:
    """Returns the row groups with rows that pass a filter, and the number of these.

    Footers decide for row groups of which all or no rows can pass; of the others the compared columns are read.

    Raises:
        NotPlainError: more than `max_nbytes` would have to be read.
        CorruptFileError: a file cannot be read.
        StorageError: the file system failed.
    """
    names = frozenset(comparison.column for comparison in where)
    decided = at_once("count", partial(_decided, storage, names, where), files)
    unknown = sum(int(found[found[:, 0] == _UNKNOWN, 1].sum()) for found in decided)
    if unknown > max_nbytes:
        raise NotPlainError(f"counting the rows that pass its filter would read {unknown / 1e9:.1f} GB first")
    counts = at_once("count", partial(_counted, storage, names, where), files, [found[:, 0] for found in decided])
    starts = np.cumsum([0, *(len(found) for found in counts)])
    rows = np.concatenate(counts)[starts[groups.file] + groups.row_group]
    return groups._replace(rows=rows).take(rows > 0)


def _decided(storage: Storage, names: frozenset[str], where: Sequence[Condition], path: str) -> npt.NDArray[np.int64]:
    """Returns int64 [n_row_groups, 2]: rows that pass, `_UNKNOWN` where footers do not say; bytes of `names`."""
    with open_parquet(storage, path) as file, reading(path):
        metadata, schema = file.metadata, file.schema_arrow
        leaves = leaf_columns(metadata, names)
        paths = {i: metadata.schema.column(i).path for i in leaves}
        ordered = {path: i for i, path in paths.items() if _is_ordered(schema, path)}
        found = []
        for i in range(metadata.num_row_groups):
            group = metadata.row_group(i)
            rows = decided_rows(group, ordered, where)
            found.append((_UNKNOWN if rows is None else rows, group_nbytes(group, leaves)))
    return np.array(found, np.int64).reshape(-1, 2)


def _is_ordered(schema: pa.Schema, name: str) -> bool:
    """Whether a column's statistics compare like the constants: not truncated, and without NaN."""
    kind = schema.field(name).type
    return bool(pt.is_signed_integer(kind) or pt.is_date32(kind))


def _counted(
    storage: Storage,
    names: frozenset[str],
    where: Sequence[Condition],
    path: str,
    decided: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Returns int64 [n_row_groups], the rows of each that pass."""
    counts = decided.copy()
    unknown = np.flatnonzero(decided == _UNKNOWN).tolist()
    if unknown:
        with open_parquet(storage, path) as file, reading(path):
            for i in unknown:
                table = file.read_row_group(i, columns=sorted(names), use_threads=False)
                check_rows(table, path, i, file.metadata)
                counts[i] = len(selected_rows(table, where))
    return counts
