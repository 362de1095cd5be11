"""Files as a reader opens them: those that were planned and no others, and text in whatever encoding."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import array, batches, deal, id_table, ids, plan_lake, rewrite, write_file

from sparktf.errors import BadValueError, CorruptFileError
from sparktf.feature import FeedLimits
from sparktf.feed.arrays.columns import Column, Ragged, Strings
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.formats.parquet import SplitReader
from sparktf.feed.pipeline import NodeFeed
from sparktf.storage.base import FileEntry
from sparktf.storage.file_systems import open_storage
from sparktf.storage.local import LocalStorage


def write_plain(file: Path, table: pa.Table) -> None:
    """Writes a file whose size its values do not change."""
    pq.write_table(table, file, row_group_size=16, use_dictionary=False, compression="none")


def touch(file: Path) -> None:
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1_000_000))


def change_footer(file: Path) -> None:
    content = file.read_bytes()
    rewrite(file, content.replace(b"written by whom", b"WRITTEN BY WHOM"))


def longer(file: Path) -> None:
    rewrite(file, b"PAR1" + file.read_bytes())


class TestPlannedFiles:
    def test_a_lake_rewritten_file_by_file_with_equal_shapes_between_two_epochs(self, tmp_path: Path) -> None:
        for number in range(3):
            write_plain(tmp_path / f"part-0{number}.parquet", id_table(100 * number, 100))
        plan = plan_lake(tmp_path, seed=3)
        assert sorted(ids(plan, deal(plan))) == list(range(300))
        for number, file in enumerate(sorted(tmp_path.iterdir())):
            size = file.stat().st_size
            write_plain(file, id_table(100 * number + 5000, 100))
            assert file.stat().st_size == size
        with pytest.raises(CorruptFileError, match=r"part-0\d\.parquet has changed since it was planned \("):
            ids(plan, deal(plan, epoch=1))

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (touch, r"it was modified at 20\S+ [\d:.]+ UTC, and again at 20\S+ [\d:.]+ UTC"),
            (change_footer, "its footer has changed"),
            (longer, r"it had [\d,]+ bytes and has [\d,]+"),
        ],
    )
    def test_what_has_changed_is_said(self, tmp_path: Path, change: Callable[[Path], None], reason: str) -> None:
        file = write_file(tmp_path / "f.parquet", id_table(0, 5).replace_schema_metadata({"by": "written by whom"}))
        plan = plan_lake(tmp_path)
        change(file)
        with pytest.raises(CorruptFileError, match=rf"f\.parquet has changed since it was planned \({reason}\)$"):
            batches(plan, deal(plan)[0])

    def test_a_file_written_over_while_it_is_read(self, tmp_path: Path) -> None:
        file = write_file(tmp_path / "f.parquet", id_table(0, 64), group_rows=16)
        plan = plan_lake(tmp_path, shuffle=False)
        splits = [split for piece in deal(plan)[0].pieces for split in piece.splits]
        reader = SplitReader(plan.spec, open_storage)
        assert reader.read(splits[0]).rows == 16
        other = write_file(tmp_path / "other", id_table(1000, 64), group_rows=16).read_bytes()
        with file.open("r+b") as stream:
            stream.write(other)
        os.utime(file, ns=(0, 1))
        with pytest.raises(CorruptFileError, match=r"f\.parquet has changed since it was planned"):
            reader.read(splits[1])
        reader.close()

    @pytest.mark.parametrize("is_pinned", [True, False])
    def test_a_stream_that_holds_its_file_is_compared_once(self, tmp_path: Path, is_pinned: bool) -> None:
        write_file(tmp_path / "f.parquet", id_table(0, 64), group_rows=16)
        plan = plan_lake(tmp_path)
        stats = []

        class Stream(io.BytesIO):
            pass

        class Remote(LocalStorage):
            def open(self, path: str) -> io.BytesIO:
                stream = Stream(Path(path).read_bytes())
                stream.is_pinned = is_pinned  # type: ignore[attr-defined]
                return stream

            def stat(self, path: str) -> FileEntry:
                stats.append(path)
                return super().stat(path)

        reader = SplitReader(plan.spec, lambda path: Remote())
        for piece in deal(plan)[0].pieces:
            for split in piece.splits:
                reader.read(split)
        reader.close()
        assert len(stats) == (1 if is_pinned else 5)

    def test_a_file_that_is_written_over_and_damaged_is_not_set_aside(self, tmp_path: Path) -> None:
        file = write_file(tmp_path / "f.parquet", id_table(0, 5000))
        plan = plan_lake(tmp_path)
        reader = SplitReader(plan.spec, open_storage, sets_aside=True)
        (split,) = deal(plan)[0].pieces[0].splits
        reader._open(split)
        file.write_bytes(file.read_bytes()[:4] + bytes(file.stat().st_size - 4))
        os.utime(file, ns=(0, 1))
        with pytest.raises(CorruptFileError, match="has changed since it was planned"):
            reader.read(split)
        reader.close()


def read(folder: Path, feature: Any = "c", **data: Any) -> Column:
    """Returns the tensor that an input of column c becomes, over all row groups."""
    plan = plan_lake(folder, inputs={"x": feature}, targets={"y": "y"}, shuffle=False, **data)
    (batch,) = batches(plan, deal(plan)[0], rows=1000)
    return batch["input:x"]


def texts(column: Column) -> list[bytes]:
    assert isinstance(column, Strings)
    return [bytes(text) for text in column.to_numpy()]


class TestTextEncodings:
    """Arrow reads pages of deltas, but not as dictionaries."""

    @pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
    @pytest.mark.parametrize("page", ["1.0", "2.0"])
    @pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
    def test_text_in_pages_of_deltas(self, tmp_path: Path, encoding: str, page: str, kind: pa.DataType) -> None:
        column = pa.array(["prefix-a", None, "", "prefix-b", "prefix-a"], pa.string()).cast(kind)
        pq.write_table(
            pa.table({"c": column, "y": range(5)}),
            tmp_path / "f.parquet",
            use_dictionary=False,
            column_encoding={"c": encoding},
            data_page_version=page,
            row_group_size=2,
        )
        fill = {"fill_null": {"c": "none"}}
        assert texts(read(tmp_path, **fill)) == [b"prefix-a", b"none", b"", b"prefix-b", b"prefix-a"]
        with pytest.raises(BadValueError, match=r"f\.parquet: column 'c', row 1: null"):
            read(tmp_path)

    def test_files_and_columns_of_several_encodings(self, tmp_path: Path) -> None:
        words = [f"word-{i % 7}" for i in range(40)]
        table = pa.table({"c": words, "d": words[::-1], "y": range(40)})
        pq.write_table(
            table, tmp_path / "a.parquet", use_dictionary=["d"], column_encoding={"c": "DELTA_BYTE_ARRAY"},
            row_group_size=16,
        )  # fmt: skip
        pq.write_table(
            table, tmp_path / "b.parquet", use_dictionary=["c"], column_encoding={"d": "DELTA_LENGTH_BYTE_ARRAY"},
        )  # fmt: skip
        plan = plan_lake(tmp_path, inputs={"c": "c", "d": "d"}, targets={"y": "y"}, shuffle=False)
        (batch,) = batches(plan, deal(plan)[0], rows=1000)
        expected = [word.encode() for word in words]
        assert texts(batch["input:c"]) == 2 * expected
        assert texts(batch["input:d"]) == 2 * expected[::-1]

    def test_only_row_groups_that_hold_deltas_do_without_dictionaries(self, tmp_path: Path) -> None:
        group = pa.table({"c": ["x", "y"], "y": [0, 1]})
        deltas, plain = io.BytesIO(), io.BytesIO()
        pq.write_table(group, deltas, use_dictionary=False, column_encoding={"c": "DELTA_BYTE_ARRAY"})
        pq.write_table(group, plain)
        for name, content in (("a", deltas), ("b", plain)):
            (tmp_path / f"{name}.parquet").write_bytes(content.getvalue())
        plan = plan_lake(tmp_path, inputs={"x": "c"}, targets={"y": "y"}, shuffle=False)
        reader = SplitReader(plan.spec, open_storage)
        splits = [split for piece in deal(plan)[0].pieces for split in piece.splits]
        kinds = [reader.read(split).columns["c"].type for split in splits]
        reader.close()
        assert kinds == [pa.string(), pa.dictionary(pa.int32(), pa.string())]

    def test_lists_and_fields_of_text_in_pages_of_deltas(self, tmp_path: Path) -> None:
        lists = pa.array([["aa", "ab"], ["b", "ba"]])
        structs = pa.array([{"name": "n1"}, {"name": "n2"}])
        pq.write_table(
            pa.table({"c": lists, "s": structs, "y": [0, 1]}),
            tmp_path / "f.parquet",
            use_dictionary=False,
            column_encoding={"c.list.element": "DELTA_BYTE_ARRAY", "s.name": "DELTA_BYTE_ARRAY", "y": "PLAIN"},
        )
        found = read(tmp_path, {"columns": "c", "shape": [2]})
        assert isinstance(found, Strings)
        assert found.to_numpy().tolist() == [[b"aa", b"ab"], [b"b", b"ba"]]
        ragged = read(tmp_path, {"columns": "c", "ragged": True})
        assert isinstance(ragged, Ragged)
        assert texts(ragged.values) == [b"aa", b"ab", b"b", b"ba"]
        assert texts(read(tmp_path, "s.name")) == [b"n1", b"n2"]


def make_far(file: Path) -> Path:
    """Puts the one time that is on 1970-01-02, 7,000 ns after midnight, to the last day that INT96 has."""
    second = (7_000).to_bytes(8, "little") + (2_440_589).to_bytes(4, "little")
    content = file.read_bytes()
    assert content.count(second) == 1
    file.write_bytes(content.replace(second, second[:8] + b"\xff\xff\xff\x7f"))
    return file


class TestInt96:
    @pytest.fixture
    def far(self, tmp_path: Path) -> Path:
        """A file of three timestamps, the second one of which is on the last day that INT96 has."""
        at = pa.array([1_000_001_000, 86_400_000_000_000 + 7_000, None, -5_000], pa.int64()).cast(pa.timestamp("ns"))
        file = tmp_path / "f.parquet"
        options: dict[str, Any] = {"use_dictionary": False, "compression": "none", "store_schema": False}
        table = pa.table({"c": at, "y": [0.0] * 4})
        pq.write_table(table, file, use_deprecated_int96_timestamps=True, **options)
        return make_far(file)

    def test_what_microseconds_cannot_count_is_refused_with_its_row(self, far: Path) -> None:
        with pytest.raises(BadValueError, match=r"f\.parquet: column 'c', row 1: its INT96 timestamp does not fit"):
            read(far.parent, fill_null={"c": "1970-01-01T00:00:00"})

    @pytest.mark.parametrize("column", ["s.at", "c"])
    def test_within_structs_and_lists_too(self, tmp_path: Path, column: str) -> None:
        days = pa.array([1_000, 86_400_000_000_000 + 7_000, 5_000, 6_000, 8_000], pa.int64()).cast(pa.timestamp("ns"))
        held = (
            pa.StructArray.from_arrays([days.take(pa.array([0, 1, 2]))], ["at"])
            if column == "s.at"
            else pa.ListArray.from_arrays([0, 1, 3, 5], days.take(pa.array([0, 2, 1, 3, 4])))
        )
        table = pa.table({column.partition(".")[0]: held, "y": [0.0] * 3})
        options: dict[str, Any] = {"use_dictionary": False, "compression": "none", "store_schema": False}
        pq.write_table(table, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True, **options)
        make_far(tmp_path / "f.parquet")
        value: Any = column if column == "s.at" else {"columns": "c", "ragged": True}
        with pytest.raises(
            BadValueError, match=rf"f\.parquet: column '{column}', row 1: its INT96 timestamp does not fit"
        ):
            read(tmp_path, value)

    def test_or_set_aside_alone(self, far: Path) -> None:
        inputs, fill = {"x": "c"}, {"c": "1970-01-01T00:00:00"}
        plan = plan_lake(far.parent, inputs=inputs, targets={"y": "y"}, shuffle=False, fill_null=fill)
        parts = PlannedParts(plan.spec, deal(plan)[0], open_storage, sets_aside=True)
        with NodeFeed(plan.spec, parts, limits=FeedLimits(max_bad_rows=1)) as feed:
            assert array(feed.next_rows(5), "input:x").tolist() == [1_000_001, 0, -5]
            assert feed.rows_aside == 1
