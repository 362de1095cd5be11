"""Drives the real feed in this process: nodes that read their shares, stop, and go on as others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from fuzz.tensors import Take, Tensors
from lakes import deal

from sparktf.driver.plan.plan import Plan
from sparktf.feature import FeedLimits
from sparktf.feed.arrays.aside import BadRow
from sparktf.feed.arrays.columns import Columns, Ragged, Strings
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.pipeline import NodeFeed
from sparktf.sequence import Assignment, Cursor, Stream, remaining
from sparktf.storage.file_systems import open_storage


class Read(NamedTuple):
    """What nodes have read.

    Attributes:
        batches: In the order of each node.
        bad: Rows that were set aside.
        aside: How many of these the epoch's account has.
    """

    batches: list[Columns]
    bad: list[BadRow]
    aside: int


def read_share(plan: Plan, share: Assignment, batch_rows: int, limit: int) -> Read:
    """Reads all of a share."""
    spec, limits = plan.spec, FeedLimits(max_bad_rows=limit)
    found = Read([], [], 0)

    def note(rows: Sequence[BadRow], *, too_many: bool) -> None:
        del too_many
        found.bad.extend(rows)

    parts = PlannedParts(spec, share, open_storage, sets_aside=limit > 0)
    with NodeFeed(spec, parts, limits=limits, on_bad_rows=note) as feed:
        while rows_in(batch := feed.next_rows(batch_rows)):
            found.batches.append(batch)
        assert feed.rows_taken + feed.rows_aside == share.rows
        assert feed.is_all(feed.rows_taken)
        return found._replace(aside=feed.rows_aside)


def read_part(plan: Plan, share: Assignment, batch_rows: int, limit: int, rows: int) -> tuple[Read, Cursor]:
    """Reads a share from its start; returns what is trained once `rows` rows of it are, and how far that is."""
    spec, limits = plan.spec, FeedLimits(max_bad_rows=limit)
    kept: list[Columns] = []
    with NodeFeed(spec, PlannedParts(spec, share, open_storage, sets_aside=limit > 0), limits=limits) as feed:
        taken = 0
        while taken < rows and (n := rows_in(batch := feed.next_rows(min(batch_rows, rows - taken)))):
            kept.append(batch)
            taken += n
        feed.next_rows(3)  # handed out, and not trained
        cursor = Cursor(epoch=share.epoch).advance(feed.consumed(taken))
        return Read(kept, [], feed.aside_within(taken)), cursor


def resumed(
    plan: Plan, epoch: int, nodes: Sequence[int], share_done: float, batch_rows: int, rebalance: bool, limit: int
) -> Read:
    """Reads an epoch that stops after a share of it, and goes on with another number of nodes."""
    all_of, cursor = Read([], [], 0), Cursor(epoch=epoch)
    for share in deal(plan, epoch=epoch, nodes=nodes[0], rebalance=rebalance):
        read, done = read_part(plan, share, batch_rows, limit, round(share.rows * share_done))
        cursor = cursor.advance(done.done)
        all_of = Read(all_of.batches + read.batches, [], all_of.aside + read.aside)
    left = remaining(plan.rows(Stream.TRAIN), cursor.done)
    for share in deal(plan, epoch=epoch, nodes=nodes[1], intervals=left, rebalance=rebalance):
        read = read_share(plan, share, batch_rows, limit)
        all_of = Read(all_of.batches + read.batches, [], all_of.aside + read.aside)
    return all_of


def rows_in(batch: Columns) -> int:
    """Returns the number of rows of a batch."""
    return len(batch["input:id"])


def ids_of(batches: Sequence[Columns]) -> list[int]:
    """Returns the ids of the rows, in their order."""
    return [int(i) for batch in batches for i in np.asarray(batch["input:id"])]


def check_values(batches: Sequence[Columns], takes: Sequence[Take], wanted: Mapping[int, Tensors]) -> None:
    """Checks every tensor of the batches against the oracle's, by the rows' ids: dtype, shape, and bits."""
    for batch in batches:
        ids = ids_of([batch])
        keys = {take.key: take for take in takes} | {take.mask_key: take for take in takes if take.mask}
        assert batch.keys() == keys.keys()
        for key, take in keys.items():
            column = batch[key]
            is_mask = take.key != key
            dtype = "bool" if is_mask else take.dtype
            rows: Any
            if isinstance(column, Ragged):
                rows = _ragged_rows(column)
            else:
                rows = column.to_numpy() if isinstance(column, Strings) else column
                assert rows.shape == (len(ids), *take.shape), key
            for i, found in zip(ids, rows, strict=True):
                _check_equal(found, wanted[i].values[key], dtype, f"{key} of row {i}")


def _ragged_rows(column: Ragged) -> list[Any]:
    compact = column.compact()
    values = compact.values.to_numpy() if isinstance(compact.values, Strings) else compact.values
    return [values[start:stop] for start, stop in zip(compact.splits[:-1], compact.splits[1:], strict=True)]


def _check_equal(found: Any, wanted: Any, dtype: str, what: str) -> None:
    if dtype == "string":
        assert np.array(found, object).tolist() == wanted.tolist(), what
        return
    assert found.dtype == dtype, what
    assert found.shape == wanted.shape, what
    # Bits, so that -0.0 is none of 0.0; which NaN it is, nobody has promised.
    same = (found == wanted) & (np.signbit(found) == np.signbit(wanted)) if found.dtype.kind == "f" else found == wanted
    if found.dtype.kind == "f":
        same |= np.isnan(found) & np.isnan(wanted)
    assert np.all(same), f"{what}: {found!r}, but the docs promise {wanted!r}"
