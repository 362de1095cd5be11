"""A task's share of row groups as it measures them: whatever it reads at a time, and of which rows."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import plan_lake, rewrite

from sparktf.driver.plan.plan import Plan
from sparktf.errors import CorruptFileError
from sparktf.executor import measuring
from sparktf.executor.handed_tokens import TaskAccess
from sparktf.executor.measuring import MeasureSettings, PartialStatistics, measure_splits
from sparktf.hadoop import HadoopConf
from sparktf.predicate import Condition, Op
from sparktf.sequence import Split, Stream
from sparktf.statistics.column_parts import ColumnKind, put_together
from sparktf.statistics.column_sketch import Room
from sparktf.statistics.column_statistics import ColumnStatistics

KINDS = {
    "a": ColumnKind.NUMBER,
    "text": ColumnKind.TEXT,
    "user.age": ColumnKind.NUMBER,
    "day": ColumnKind.NUMBER,
    "y": ColumnKind.NUMBER,
}
WHERE = (Condition(column="a", op=Op.GE, values=(15.0,)), Condition(column="y", op=Op.EQ, values=(1.0,)))
ROOM = Room(counted=1000, sampled=10_000, points=1000)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two days of 40 rows in row groups of 10; the text is a column of its own in most bytes."""
    for day in (1, 2):
        ids = np.arange(40) + 40 * (day - 1)
        rows = {
            "a": ids.astype(np.float64),
            "text": [f"text {i}" * 20 for i in ids],
            "user": [{"age": int(i) % 7} for i in ids],
            "y": (ids % 2).astype(np.float64),
        }
        folder = tmp_path / f"day=2026-11-0{day}"
        folder.mkdir()
        pq.write_table(
            pa.table(rows), folder / "part.parquet", row_group_size=10, use_dictionary=False, write_page_checksum=True
        )
    return tmp_path


def planned(lake: Path, **data: Any) -> tuple[Plan, list[Split]]:
    inputs = {"a": "a", "text": "text", "age": "user.age", "day": "day"}
    plan = plan_lake(lake, inputs=inputs, targets={"y": "y"}, **data)
    splits = [split for piece in _whole(plan) for split in piece]
    return plan, splits


def _whole(plan: Plan) -> list[tuple[Split, ...]]:
    (share,) = plan.assignments(Stream.TRAIN, 0, [(0, plan.rows(Stream.TRAIN))], [""], rebalance=False)
    return [piece.splits for piece in share.pieces]


def measured(plan: Plan, splits: list[Split], *, sample: float = 1.0, sets_aside: bool = False) -> PartialStatistics:
    settings = MeasureSettings(KINDS, ROOM, seed=3, sample=sample)
    shares = [splits[:3], splits[3:]]
    (part,) = measure_splits(0, shares, settings, plan.spec, TaskAccess(HadoopConf()), sets_aside=sets_aside)
    return part


def statistics(part: PartialStatistics) -> dict[str, ColumnStatistics]:
    return {name: put_together("any", kind, [part.columns[name]]) for name, kind in KINDS.items()}


@pytest.mark.parametrize("at_once", [1, 500, 1 << 20])
@pytest.mark.parametrize("is_filtered", [False, True])
def test_row_groups_are_read_some_columns_at_a_time(
    lake: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, is_filtered: bool
) -> None:
    monkeypatch.setattr(measuring, "_READ_BYTES", at_once)
    plan, splits = planned(lake)
    ids = list(range(80))
    if is_filtered:
        plan = replace(plan, spec=plan.spec.model_copy(update={"where": WHERE}))
        ids = [i for i in ids if i >= 15 and i % 2]
        selected = [
            sum(40 * s.file + 10 * s.row_group <= i < 40 * s.file + 10 * s.row_group + 10 for i in ids) for s in splits
        ]
        splits = [split._replace(selected=n, rows=n) for split, n in zip(splits, selected, strict=True)]
    part = measured(plan, splits)
    found = statistics(part)
    assert part.rows == len(ids)
    assert found["text"].distinct == len(ids)
    for name, values in {
        "a": ids,
        "user.age": [i % 7 for i in ids],
        "y": [i % 2 for i in ids],
        "day": [(dt.date(2026, 11, 1 + i // 40) - dt.date(1970, 1, 1)).days for i in ids],
    }.items():
        numbers = found[name].numbers
        assert numbers is not None
        assert (numbers.count, numbers.min, numbers.max) == (len(ids), min(values), max(values))
        assert numbers.mean == pytest.approx(np.mean(values))


def test_a_sample_is_of_whole_rows(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_READ_BYTES", 1)
    part = measured(*planned(lake), sample=0.5)
    assert 20 < part.rows < 60
    found = statistics(part)
    counts = [found[name].numbers.count for name in KINDS if found[name].numbers is not None]  # type: ignore[union-attr]
    assert counts == [part.rows] * 4
    assert found["text"].distinct == part.rows
    # Each row has another text and another `a`: the same rows have both.
    texts = {str(common.value) for common in found["text"].commonest}
    assert texts == {f"text {common.value:.0f}" * 20 for common in found["a"].commonest} == texts


def test_row_groups_that_cannot_be_read_are_passed_over_where_bad_rows_are(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_READ_BYTES", 1)
    file = lake / "day=2026-11-01" / "part.parquet"
    plan, splits = planned(lake)
    column = pq.read_metadata(file).row_group(1).column(1)
    content = bytearray(file.read_bytes())
    end = column.data_page_offset + column.total_compressed_size  # before it are values, after its beginning a header
    content[end - 4 : end] = bytes(byte ^ 0xFF for byte in content[end - 4 : end])
    rewrite(file, bytes(content))
    with pytest.raises(CorruptFileError):
        measured(plan, splits)
    part = measured(plan, splits, sets_aside=True)
    assert part.rows == 70
    assert statistics(part)["a"].distinct == 70
