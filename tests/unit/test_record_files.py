"""TFRecord files: framing, checksums, plans and feeds."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c
from lakes import array, batches, deal, filter_by, id_table, ids, plan_lake, rewrite, values

from sparktf.driver.plan import record_plan
from sparktf.errors import BadValueError, ColumnError, ConfigError, CorruptFileError
from sparktf.feature import FeedLimits
from sparktf.feed.arrays.aside import BadRow
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.formats.example_writer import record_bytes
from sparktf.feed.formats.record_file import first_records, group_records, masked, read_records, stream_records
from sparktf.feed.pipeline import NodeFeed
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage
from sparktf.storage.local import LocalStorage

STORAGE = LocalStorage()


def write_records(path: Path, table: pa.Table, *, compressed: bool = False) -> Path:
    content = b"".join(bytes(record_bytes(batch)) for batch in table.to_batches())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if compressed else content)
    return path


def record_lake(folder: Path, file_rows: tuple[int, ...] = (70, 5, 1, 120, 33)) -> Path:
    first = 0
    for i, rows in enumerate(file_rows):
        write_records(folder / f"part-r-{i:05d}", id_table(first, rows), compressed=i % 2 == 1)
        first += rows
    return folder


def frame(content: bytes) -> bytes:
    head = len(content).to_bytes(8, "little")
    return head + _sum(head) + content + _sum(content)


def _sum(content: bytes) -> bytes:
    return masked(np.array([crc32c(content)], np.uint32)).astype("<u4").tobytes()


def test_records_are_the_bytes_that_tensorflow_writes() -> None:
    """Of an empty Example and of one with x = 1: TFRecordWriter of TensorFlow 2.21."""
    written = record_bytes(pa.record_batch({"x": pa.array([None, 1], pa.int64())}))
    assert bytes(written).hex() == (
        "000000000000000029039807d8ea82a2"
        "0e00000000000000c5e5693f" "0a0c0a0a0a017812051a030a0101" "5bcee9ef"
    )  # fmt: skip


@pytest.mark.parametrize("nbytes", [1, 100, 1000, 1 << 20])
@pytest.mark.parametrize("compressed", [False, True])
def test_groups_cover_a_file_once_whatever_their_size(tmp_path: Path, nbytes: int, compressed: bool) -> None:
    lengths = [3, 500, 3, 3, *[20] * 100, 700, 1] * 3
    table = pa.table({"s": ["x" * n for n in lengths]})
    path = str(write_records(tmp_path / "f", table, compressed=compressed))
    groups = group_records(STORAGE, path, nbytes)
    assert sum(group.records for group in groups) == len(lengths)
    assert sum(group.nbytes for group in groups) == Path(path).stat().st_size
    assert [group.start for group in groups] == np.cumsum([0, *(group.nbytes for group in groups[:-1])]).tolist()
    for group in groups:
        with STORAGE.open(path) as stream:
            assert len(read_records(stream, path, group.start, group.nbytes).starts) == group.records
    assert sum(len(records.starts) for records in stream_records(STORAGE, path, nbytes)) == len(lengths)
    assert len(first_records(STORAGE, path, 7)) == 7
    assert len(first_records(STORAGE, path, 10_000)) == len(lengths)


@pytest.mark.parametrize(
    ("at", "reason"),
    [(8, "checksum of its length"), (0, "breaks off|checksum of its length"), (20, "checksum is wrong"), (-1, "wrong")],
)
def test_a_byte_that_is_not_what_it_was_is_told_by_its_place(tmp_path: Path, at: int, reason: str) -> None:
    path = write_records(tmp_path / "f", id_table(0, 3))
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(
        CorruptFileError, match=rf"{path} is not a readable TFRecord file.* record at byte [\d,]+: .*({reason})"
    ):
        for _ in stream_records(STORAGE, str(path), 1 << 20):
            pass


def test_a_file_that_breaks_off_or_is_something_else_is_no_tfrecord_file(tmp_path: Path) -> None:
    whole = write_records(tmp_path / "f", id_table(0, 50)).read_bytes()
    for content in (whole[:-1], whole[:30], b"PAR1" * 20, gzip.compress(whole)[:-20], gzip.compress(b"PAR1" * 9)):
        (tmp_path / "f").write_bytes(content)
        with pytest.raises(CorruptFileError, match="is not a readable TFRecord file"):
            group_records(STORAGE, str(tmp_path / "f"), 100)


def test_every_record_is_fed_once_on_any_number_of_nodes_and_from_the_middle_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_plan, "GROUP_NBYTES", 600)
    plan = plan_lake(record_lake(tmp_path / "lake"), format="tfrecord", shuffle_rows=40)
    assert plan.rows(Stream.TRAIN) == 229
    assert len(plan.tables[Stream.TRAIN].rows) > 15
    for nodes in (1, 3):
        for epoch in (0, 1):
            assert sorted(ids(plan, deal(plan, epoch=epoch, nodes=nodes))) == list(range(229))
    before = ids(plan, deal(plan, intervals=[(0, 100)]))
    after = ids(plan, deal(plan, intervals=[(100, 229)], nodes=2))
    assert sorted(before + after) == list(range(229))
    (whole,) = deal(plan)
    found = batches(plan, whole)
    np.testing.assert_array_equal(
        values(found, "input:x"), np.outer(values(found, "input:id"), [2, 3]).astype(np.float32)
    )
    np.testing.assert_array_equal(values(found, "target:y"), values(found, "input:id") % 7)


def test_partition_folders_are_columns_and_hold_out_rows(tmp_path: Path) -> None:
    for day in ("2026-11-19", "2026-11-20"):
        first = 100 * int(day[-2:])
        write_records(tmp_path / f"date={day}" / "part-r-00000", id_table(first, 20))
    plan = plan_lake(
        tmp_path,
        filter_by(lambda date: date == "2026-11-20"),
        format="tfrecord",
        validation={"where": "date = '2026-11-20'"},
        inputs={"id": "id", "day": "date"},
    )
    assert sorted(ids(plan, deal(plan))) == list(range(1900, 1920))
    assert sorted(ids(plan, deal(plan, Stream.VALIDATION))) == list(range(2000, 2020))


def test_types_are_those_of_the_first_records_or_declared(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [1, 2],
            "many": [[1.0], [1.0, 2.0]],
            "text": ["a", "é"],
            "blob": [b"\xff", b"a"],
            "label": pa.array([0, 1], pa.int32()),
        }
    )
    write_records(tmp_path / "f", table)
    plan = plan_lake(
        tmp_path,
        format="tfrecord",
        inputs={"id": "id", "m": {"columns": "many", "ragged": True}, "t": "text", "b": "blob"},
    )
    assert plan.spec.record_types == {
        "id": "bigint", "many": "array<float>", "text": "string", "blob": "binary", "label": "bigint",
    }  # fmt: skip
    declared = {"id": "int", "label": "boolean"}
    plan = plan_lake(tmp_path, format="tfrecord", record_types=declared, inputs={"id": "id"})
    assert plan.spec.record_types == declared
    with pytest.raises(ColumnError, match=r"there is no column 'text' in data\.record_types"):
        plan_lake(tmp_path, format="tfrecord", record_types=declared, inputs={"t": "text"})
    with pytest.raises(ColumnError, match=r"'late' in the first 1,000 records; .*; list features that come later"):
        plan_lake(tmp_path, format="tfrecord", inputs={"late": "late"})
    with pytest.raises(ConfigError, match="record_types needs format: tfrecord"):
        plan_lake(tmp_path, record_types=declared)
    with pytest.raises(ConfigError, match="record_types"):
        plan_lake(tmp_path, format="tfrecord", record_types={"id": "int4"})
    write_records(tmp_path / "g", pa.table({"id": [1.5], "label": [1]}))
    with pytest.raises(
        BadValueError, match=r"g: feature 'id' has float values in one record and int64 values in another: set its"
    ):
        plan_lake(tmp_path, format="tfrecord", inputs={"id": "id"})


def test_a_record_that_does_not_fit_is_refused_by_file_column_and_row_or_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_plan, "GROUP_NBYTES", 400)
    table = id_table(0, 60).set_column(3, "label", pa.array([*range(59), 2**40]))
    content = bytes(record_bytes(table.to_batches()[0])) + frame(b"\x0a\x05nothing")
    path = tmp_path / "f"
    path.write_bytes(content)
    types = {"id": "bigint", "a": "float", "b": "float", "label": "int"}
    plan = plan_lake(tmp_path, format="tfrecord", record_types=types, shuffle=False)
    (share,) = deal(plan)
    with pytest.raises(BadValueError, match=rf"{path}: column 'label', row 59: .*1099511627776 not in range"):
        ids(plan, [share])
    limits = FeedLimits(max_bad_rows=2)
    parts = PlannedParts(plan.spec, share, open_storage, sets_aside=True)
    bad: list[BadRow] = []

    def keep(rows: Sequence[BadRow], *, too_many: bool) -> None:
        assert not too_many
        bad.extend(rows)

    with NodeFeed(plan.spec, parts, limits=limits, on_bad_rows=keep) as feed:
        found = feed.next_rows(61)
        assert array(found, "input:id").tolist() == list(range(59))
    assert [(row.row, row.column) for row in bad] == [(59, "label"), (60, "")]
    assert "not a tensorflow.Example" in bad[1].reason


def test_a_file_that_was_changed_since_it_was_planned_is_refused(tmp_path: Path) -> None:
    path = write_records(tmp_path / "f", id_table(0, 60))
    plan = plan_lake(tmp_path, format="tfrecord")
    rewrite(path, bytes(record_bytes(id_table(100, 61).to_batches()[0])))
    with pytest.raises(CorruptFileError, match="has changed since it was planned"):
        ids(plan, deal(plan))
