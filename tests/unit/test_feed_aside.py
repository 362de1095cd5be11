"""Rows that fail a check, set aside: the others come exactly once, in full batches, from any position on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import array, deal, plan_lake, rewrite

from sparktf.driver.plan.plan import Plan
from sparktf.errors import BadValueError, CorruptFileError
from sparktf.feature import FeedLimits
from sparktf.feed.arrays.aside import Aside, BadRow, RowNumbers
from sparktf.feed.arrays.columns import Strings
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.pipeline import NodeFeed
from sparktf.sequence import Assignment, Cursor, Stream, remaining
from sparktf.storage.file_systems import open_storage

TRAIN, VALIDATION = Stream.TRAIN, Stream.VALIDATION
ROWS = 90
BAD = {
    3: ("number", "null; set data.fill_null.number to the value to use instead"),
    4: ("text", "null; set data.fill_null.text to the value to use instead"),
    17: ("label", "nan cannot be a target"),
    18: ("small", "300 does not fit dtype int8 of input:small"),
    19: ("list", "a list of 1 values, not 2"),
    20: ("list", "null; set data.fill_null.list to the value to use instead"),
    21: ("list", "a null within the list; set data.fill_null.list to the value to use instead"),
    22: ("list", "a list of 3 values, not 2"),
    40: ("weight", "-1.0 cannot be a weight"),
    41: ("words", "a list of 3 values, more than 2; set `truncate: true` to cut it off"),
    42: ("words", "null; set data.fill_null.words to the value to use instead"),
    89: ("number", "null; set data.fill_null.number to the value to use instead"),
}
GOOD = sorted(set(range(ROWS)) - BAD.keys())
BROKEN: dict[int, dict[str, Any]] = {
    3: {"number": None},
    4: {"text": None},
    17: {"label": float("nan")},
    18: {"small": 300},
    19: {"list": [1]},
    20: {"list": None},
    21: {"list": [1, None]},
    22: {"list": [1, 2, 3]},
    40: {"weight": -1.0},
    41: {"words": ["a", "b", "c"]},
    42: {"words": None},
    89: {"number": None},
}


def row(i: int) -> dict[str, Any]:
    """Returns a row whose every value follows from its id, but one of a bad row."""
    good = {
        "id": i,
        "number": i * 2,
        "text": f"t{i % 4}",
        "label": i / 2,
        "small": i,
        "list": [i, -i],
        "weight": 1.0,
        "words": [f"w{i}"],
    }
    return good | BROKEN.get(i, {})


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two files with row groups of eight rows."""
    for name, rows in (("a", range(50)), ("b", range(50, ROWS))):
        table = pa.Table.from_pylist([row(i) for i in rows])
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=8, write_page_checksum=True)
    return tmp_path


def plan_of(lake: Path, **data: Any) -> Plan:
    inputs = {
        "id": "id",
        "number": "number",
        "text": "text",
        "small": {"columns": "small", "dtype": "int8"},
        "list": {"columns": "list", "shape": [2]},
        "words": {"columns": "words", "shape": [2], "pad": ""},
    }
    settings = {"inputs": inputs, "targets": {"y": "label"}, "sample_weight": "weight", "shuffle_rows": 20, **data}
    return plan_lake(lake, seed=2, **settings)


def feed_of(plan: Plan, share: Assignment, limit: int = len(BAD), bad: list[BadRow] | None = None) -> NodeFeed:
    """Returns the feed of a share; what it sets aside comes into `bad`."""
    limits = FeedLimits(max_bad_rows=limit)

    def keep(rows: Sequence[BadRow], *, too_many: bool) -> None:
        del too_many
        if bad is not None:
            bad.extend(rows)

    parts = PlannedParts(plan.spec, share, open_storage, sets_aside=limit > 0)
    return NodeFeed(plan.spec, parts, limits=limits, on_bad_rows=keep)


def ids_of(plan: Plan, shares: Sequence[Assignment], size: int = 7) -> list[int]:
    """Returns the ids that the shares hand out, having looked at all of their values."""
    found: list[int] = []
    for share in shares:
        with feed_of(plan, share) as feed:
            while n := len(ids := array(batch := feed.next_rows(size), "input:id")):
                for key, of in {"number": ids * 2, "small": ids, "list": np.stack([ids, -ids], 1)}.items():
                    np.testing.assert_array_equal(array(batch, f"input:{key}"), of)
                text, words = batch["input:text"], batch["input:words"]
                assert isinstance(text, Strings)
                assert isinstance(words, Strings)
                assert text.to_numpy().tolist() == [f"t{i % 4}".encode() for i in ids]
                assert words.to_numpy().tolist() == [[f"w{i}".encode(), b""] for i in ids]
                found.extend(ids.tolist())
                if n < size:
                    assert not len(array(feed.next_rows(size), "input:id"))
            assert feed.rows_taken + feed.rows_aside == share.rows
            assert feed.is_all(feed.rows_taken)
            assert feed.rows == feed.rows_taken
    return found


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_all_others_come_exactly_once(lake: Path, shuffle: bool, nodes: int) -> None:
    plan = plan_of(lake, shuffle=shuffle)
    for epoch in range(2):
        found = ids_of(plan, deal(plan, epoch=epoch, nodes=nodes))
        assert sorted(found) == GOOD
        assert shuffle or found == GOOD


def test_batches_are_full_until_the_end(lake: Path) -> None:
    plan = plan_of(lake)
    with feed_of(plan, deal(plan)[0]) as feed:
        sizes = [len(array(feed.next_rows(11), "input:id")) for _ in range(9)]
    assert sizes == [11] * 7 + [1, 0]


def test_where_a_fraction_is_held_out_each_stream_sets_its_own_aside(lake: Path) -> None:
    plan = plan_of(lake, validation={"fraction": 0.4})
    bad: list[BadRow] = []
    for stream in (TRAIN, VALIDATION):
        with feed_of(plan, deal(plan, stream)[0], bad=bad) as feed:
            feed.next_rows(ROWS)
    assert sorted(_id_of(found) for found in bad) == sorted(BAD)
    assert sorted(ids_of(plan, deal(plan, nodes=2)) + ids_of(plan, deal(plan, VALIDATION))) == GOOD


@pytest.mark.parametrize("shuffle", [True, False])
def test_each_is_named_with_its_reason_by_one_node_only(lake: Path, shuffle: bool) -> None:
    plan = plan_of(lake, shuffle=shuffle)
    bad: list[BadRow] = []
    for share in deal(plan, nodes=3):  # which read the blocks where one's share ends and the next begins both
        with feed_of(plan, share, bad=bad) as feed:
            feed.next_rows(ROWS)
    assert {_id_of(found): (found.column, found.reason) for found in bad} == BAD
    assert len(bad) == len(BAD)


def _id_of(bad: BadRow) -> int:
    assert bad.rows == 1
    return bad.row + (50 if bad.origin.endswith("b.parquet") else 0)


def test_one_more_than_may_be_is_refused(lake: Path) -> None:
    plan = plan_of(lake, shuffle=False)
    bad: list[BadRow] = []
    with (
        feed_of(plan, deal(plan)[0], limit=len(BAD) - 1, bad=bad) as feed,
        pytest.raises(
            BadValueError, match=r"^12 rows fail a check, and data\.max_bad_rows is 11; one of them: .*b\.par"
        ),
    ):
        feed.next_rows(ROWS)
    assert len(bad) == len(BAD)


def test_without_leave_the_first_one_is_refused(lake: Path) -> None:
    plan = plan_of(lake, shuffle=False)
    with (
        feed_of(plan, deal(plan)[0], limit=0) as feed,
        pytest.raises(BadValueError, match=r"a\.parquet: column 'number', row 3: null"),
    ):
        feed.next_rows(1)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("nodes_after", [1, 3])
def test_wherever_it_goes_on_the_rest_comes_exactly_once(lake: Path, shuffle: bool, nodes_after: int) -> None:
    plan = plan_of(lake, shuffle=shuffle)
    before = deal(plan, epoch=1, nodes=2)
    for taken in range(3 * shuffle, 41, 6):
        cursor, seen, aside = Cursor(epoch=1), [], 0
        for share in before:
            with feed_of(plan, share) as feed:
                ahead = array(feed.next_rows(taken + 9), "input:id").tolist()  # more is handed out than is trained
                count = min(taken, len(ahead))
                cursor = cursor.advance(feed.consumed(count))
                seen += ahead[:count]
                aside += feed.aside_within(count)
        assert cursor.rows == len(seen) + aside
        rest = deal(plan, epoch=1, nodes=nodes_after, intervals=remaining(plan.rows(TRAIN), cursor.done))
        found = ids_of(plan, rest)
        assert Counter(seen + found) == Counter(GOOD)
        assert aside + sum(share.rows for share in rest) - len(found) == len(BAD)


def damage(lake: Path, row_group: int) -> None:
    """Overwrites a page of a row group of the first file."""
    file = lake / "a.parquet"
    column = pq.read_metadata(file).row_group(row_group).column(1)
    content = bytearray(file.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    content[middle : middle + 4] = bytes(byte ^ 0xFF for byte in content[middle : middle + 4])
    rewrite(file, bytes(content))


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_damaged_row_group_is_set_aside_as_a_whole(lake: Path, shuffle: bool) -> None:
    plan = plan_of(lake, shuffle=shuffle)
    damage(lake, row_group=4)
    lost = set(range(32, 40))
    bad: list[BadRow] = []
    found: list[int] = []
    for share in deal(plan, nodes=3):
        with feed_of(plan, share, limit=20, bad=bad) as feed:
            found += array(feed.next_rows(ROWS), "input:id").tolist()
    assert sorted(found) == sorted(set(GOOD) - lost)
    unreadable = [row for row in bad if not row.column]
    assert sum(row.rows for row in unreadable) == 8
    assert {(Path(row.origin).name, row.row) for row in unreadable} == {("a.parquet", 32)}
    assert all("a.parquet is not a readable Parquet file" in row.reason for row in unreadable)


def test_a_damaged_row_group_counts_with_all_of_its_rows(lake: Path) -> None:
    plan = plan_of(lake, shuffle=False)
    damage(lake, row_group=4)
    with (
        feed_of(plan, deal(plan)[0], limit=15) as feed,
        pytest.raises(
            BadValueError, match=r"\d rows fail .* is 15; one of them: .*a\.parquet: 8 rows from row 32 on: "
        ),
    ):
        feed.next_rows(ROWS)


def test_a_file_that_has_changed_is_refused_whatever_may_be_set_aside(lake: Path) -> None:
    plan = plan_of(lake)
    pq.write_table(pa.Table.from_pylist([row(i) for i in range(10)]), lake / "b.parquet")
    with (
        feed_of(plan, deal(plan)[0], limit=ROWS) as feed,
        pytest.raises(CorruptFileError, match=r"b\.parquet has changed since it was planned"),
    ):
        feed.next_rows(ROWS)


def test_blocks_in_which_every_row_is_bad(tmp_path: Path) -> None:
    label = pa.array([float(i) if i // 10 in (1, 3) else float("nan") for i in range(50)])
    pq.write_table(pa.table({"id": range(50), "label": label}), tmp_path / "f.parquet", row_group_size=10)
    plan = plan_lake(tmp_path, inputs={"id": "id"}, targets={"y": "label"}, shuffle=False, shuffle_rows=10)
    with feed_of(plan, deal(plan)[0], limit=30) as feed:
        assert feed.consumed(0) == []
        assert array(feed.next_rows(15), "input:id").tolist() == [*range(10, 20), *range(30, 35)]
        assert feed.consumed(0) == [(0, 10)]
        assert feed.consumed(10) == [(0, 30)]
        assert feed.consumed(11) == [(0, 31)]
        assert array(feed.next_rows(15), "input:id").tolist() == [*range(35, 40)]
        assert feed.consumed(20) == [(0, 50)]
        assert feed.rows_aside == 30


def test_many_bad_rows_are_noted_without_their_reasons() -> None:
    aside = Aside(1_000_000, limit=3)
    aside.judge("f", lambda row: 100 + row, None, 0, "c", np.arange(0, 1_000_000, 2), lambda i: f"reason {i}")
    assert aside.bad.sum() == 500_000
    assert aside.among(np.arange(1_000_000)) == [BadRow("f", 100 + 2 * i, 1, "c", f"reason {i}") for i in range(3)]


@pytest.mark.parametrize("kept", [None, np.array([0, 2])])
def test_a_row_with_many_bad_values_takes_no_place_from_the_reasons_of_others(kept: RowNumbers | None) -> None:
    aside = Aside(3, limit=3)
    aside.judge("f", lambda row: row, kept, 0, "c", np.array([0, 0, 0, 1, 2, 2]), lambda i: f"value {i}")
    told = [(bad.row, bad.reason) for bad in aside.among(np.arange(3))]
    assert told == (
        [(0, "value 0"), (1, "value 3"), (2, "value 4")] if kept is None else [(0, "value 0"), (2, "value 4")]
    )
