"""A plain scan's files: what Spark and Arrow read alike is planned, what they do not is told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import array, batches, deal, id_table, ids, lake_config, no_filter, values, write_file, write_lake

from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.parquet_scan import ParquetScan
from sparktf.driver.plan.partitions import NO_PARTITIONS, Partitions
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.planner import plan_source
from sparktf.driver.plan.stored_plan import load_plan, save_plan
from sparktf.errors import BadValueError, ColumnError, EmptySourceError
from sparktf.feed.arrays.columns import Strings
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage

ID_TYPES = {"id": "bigint", "a": "float", "b": "float", "label": "int"}


def scan_of(folder: Path, types: Mapping[str, str], columns: Mapping[str, str] | None = None) -> ParquetScan:
    """Returns a scan of all files of a folder; `columns` are those that have another name in the files."""
    files = tuple(str(path) for path in sorted(folder.rglob("*.parquet")))
    names = {name: name for name in types} | dict(columns or {})
    return ParquetScan(files, names, types, replace(NO_PARTITIONS, values=((),) * len(files)))


def plan_scan(scan: ParquetScan, **data: Any) -> Plan:
    """Plans a scan as that of `data.table`."""
    config = lake_config(table="t", **data)
    return plan_source(config, open_storage, no_filter, scan=scan)


def plan_column(folder: Path, column: pa.Array, spark: str, **written: Any) -> Plan:
    """Plans one file of one column, whose type in the DataFrame is `spark`, and a label."""
    folder.mkdir()
    table = pa.table({"c": column, "label": pa.array([0] * len(column), pa.int32())})
    metadata = written.pop("metadata", {})
    pq.write_table(table.replace_schema_metadata(metadata), folder / "f.parquet", **written)
    scan = scan_of(folder, {"c": spark, "label": "int"})
    return plan_scan(scan, inputs={"x": "c"})


class TestRows:
    def test_columns_are_read_by_their_names_in_the_files(self, tmp_path: Path) -> None:
        write_lake(tmp_path)
        types = {"id": "bigint", "a": "float", "b": "float", "again": "float", "label": "int"}
        scan = scan_of(tmp_path, types, {"a": "b", "b": "a", "again": "a"})
        plan = plan_scan(scan, inputs={"id": "id", "x": ["a", "b", "again"]})
        found = batches(plan, deal(plan)[0])
        row = values(found, "input:id")
        assert sorted(row) == list(range(229))
        np.testing.assert_array_equal(values(found, "input:x"), np.stack([row * 3, row * 2, row * 2], axis=1))

    def test_a_refused_row_is_named_as_the_dataframe_names_it(self, tmp_path: Path) -> None:
        write_file(tmp_path / "f.parquet", pa.table({"raw": pa.array([1.0, None]), "label": pa.array([1, 2])}))
        plan = plan_scan(scan_of(tmp_path, {"x": "double", "label": "bigint"}, {"x": "raw"}), inputs={"x": "x"})
        with pytest.raises(BadValueError, match=r"f\.parquet: column 'x', row 1: null; set data\.fill_null\.x to"):
            batches(plan, deal(plan)[0])
        filled = plan_scan(
            scan_of(tmp_path, {"x": "double", "label": "bigint"}, {"x": "raw"}), inputs={"x": "x"}, fill_null={"x": 5}
        )
        assert sorted(values(batches(filled, deal(filled)[0]), "input:x")) == [1.0, 5.0]

    def test_fields_of_structs_are_read_from_columns_of_other_names(self, tmp_path: Path) -> None:
        people = pa.array([{"age": i, "of": {"city": f"c{i}", "l": [i, i]}} for i in range(5)])
        write_file(tmp_path / "f.parquet", pa.table({"p": people, "label": [0] * 5}))
        spark = "struct<age:bigint,of:struct<city:string,l:array<bigint>>>"
        scan = scan_of(tmp_path, {"who": spark, "label": "bigint"}, {"who": "p"})
        inputs = {"age": "who.age", "city": "who.of.city", "l": {"columns": "who.of.l", "shape": [2]}}
        plan = plan_scan(scan, inputs=inputs, shuffle=False)
        (batch,) = batches(plan, deal(plan)[0])
        assert array(batch, "input:age").tolist() == [0, 1, 2, 3, 4]
        assert array(batch, "input:l").tolist() == [[i, i] for i in range(5)]
        text = batch["input:city"]
        assert isinstance(text, Strings)
        assert text.to_numpy().tolist() == [f"c{i}".encode() for i in range(5)]

    def test_a_struct_of_which_spark_says_something_else_is_not_plain(self, tmp_path: Path) -> None:
        write_file(tmp_path / "f.parquet", pa.table({"p": pa.array([{"age": 1}]), "label": [0]}))
        scan = scan_of(tmp_path, {"p": "struct<age:bigint,name:string>", "label": "bigint"})
        with pytest.raises(NotPlainError, match=r"column 'p' is of type struct<age:bigint>, but struct<age:bigint,nam"):
            plan_scan(scan, inputs={"x": "p.age"})

    def test_partition_values_are_those_of_the_scan(self, tmp_path: Path) -> None:
        for i in range(3):
            write_file(tmp_path / f"f{i}.parquet", id_table(10 * i, 10))
        scan = scan_of(tmp_path, {**ID_TYPES, "day": "date", "shop": "int"}, {"day": "date"})
        scan = replace(
            scan,
            partitions=Partitions(
                ("day", "shop"), ("date", "int"), (("2026-11-01", 7), ("2026-11-02", 8), ("2026-11-03", 9))
            ),
        )
        plan = plan_scan(scan, inputs={"id": "id", "day": "day", "shop": "shop"})
        found = batches(plan, deal(plan)[0])
        row = values(found, "input:id")
        first = (date(2026, 11, 1) - date(1970, 1, 1)).days
        np.testing.assert_array_equal(values(found, "input:day"), first + row // 10)
        np.testing.assert_array_equal(values(found, "input:shop"), 7 + row // 10)

    def test_a_stored_plan_reads_the_same_rows(self, tmp_path: Path) -> None:
        write_lake(tmp_path / "lake")
        plan = plan_scan(scan_of(tmp_path / "lake", {**ID_TYPES, "a": "float"}, {"a": "b", "b": "a"}))
        save_plan(plan, open_storage(str(tmp_path)), str(tmp_path / "plan"))
        stored = load_plan(open_storage(str(tmp_path)), str(tmp_path / "plan"))
        assert stored == plan
        assert ids(stored, deal(stored, nodes=2)) == ids(plan, deal(plan, nodes=2))

    def test_validation_may_lie_elsewhere_unless_columns_are_renamed(self, tmp_path: Path) -> None:
        write_lake(tmp_path / "lake", [30])
        write_lake(tmp_path / "held-out", [20])
        held_out = {"path": str(tmp_path / "held-out")}
        plan = plan_scan(scan_of(tmp_path / "lake", ID_TYPES), validation=held_out)
        assert (plan.rows(Stream.TRAIN), plan.rows(Stream.VALIDATION)) == (30, 20)
        with pytest.raises(NotPlainError, match=r"columns are renamed, but not those of data\.validation\.path"):
            plan_scan(scan_of(tmp_path / "lake", ID_TYPES, {"a": "b"}), validation=held_out)

    def test_no_file_is_left(self) -> None:
        with pytest.raises(EmptySourceError, match=r"data\.table: the partition filters select no file"):
            plan_scan(ParquetScan((), {"id": "id"}, {"id": "bigint"}, NO_PARTITIONS))

    def test_an_unknown_column_is_the_users_mistake(self, tmp_path: Path) -> None:
        write_lake(tmp_path)
        with pytest.raises(ColumnError, match=r"data\.inputs\.x: there is no column 'aa'; did you mean 'a'"):
            plan_scan(scan_of(tmp_path, ID_TYPES), inputs={"x": "aa"})


class TestFilesThatSparkReadsInAnotherWay:
    def test_a_column_that_some_files_lack(self, tmp_path: Path) -> None:
        write_file(tmp_path / "f0.parquet", id_table(0, 10))
        write_file(tmp_path / "f1.parquet", id_table(10, 10).drop_columns("b"))
        with pytest.raises(NotPlainError, match=r"f1\.parquet has no column 'b'"):
            plan_scan(scan_of(tmp_path, ID_TYPES))
        assert plan_scan(scan_of(tmp_path, ID_TYPES), inputs={"x": "a"}).rows(Stream.TRAIN) == 20

    def test_a_column_that_the_first_file_lacks(self, tmp_path: Path) -> None:
        write_lake(tmp_path)
        with pytest.raises(NotPlainError, match=r"part-00\.parquet has no column 'B'"):
            plan_scan(scan_of(tmp_path, {**ID_TYPES, "b": "float"}, {"b": "B"}))

    def test_a_column_that_was_made_wider(self, tmp_path: Path) -> None:
        write_lake(tmp_path)
        with pytest.raises(NotPlainError, match=r"column 'label' is of type int, but bigint in Spark"):
            plan_scan(scan_of(tmp_path, {**ID_TYPES, "label": "bigint"}))

    @pytest.mark.parametrize(
        ("zone", "spark", "alike"),
        [
            ("UTC", "timestamp", True),
            (None, "timestamp_ntz", True),
            (None, "timestamp", False),
            (None, "array<timestamp>", False),
            ("UTC", "timestamp_ntz", False),
        ],
    )
    def test_timestamps_with_and_without_a_zone(
        self, tmp_path: Path, zone: str | None, spark: str, alike: bool
    ) -> None:
        column = pa.array([datetime(2026, 11, 1)], pa.timestamp("us", zone))
        if spark.startswith("array"):
            column = pa.FixedSizeListArray.from_arrays(column, 1)
        if alike:
            assert plan_column(tmp_path / "lake", column, spark).rows(Stream.TRAIN) == 1
        else:
            with pytest.raises(NotPlainError, match=f"of type .*, but {spark} in Spark"):
                plan_column(tmp_path / "lake", column, spark)

    def test_int96_timestamps(self, tmp_path: Path) -> None:
        column = pa.array([datetime(2026, 11, 1)], pa.timestamp("us", "UTC"))
        metadata = {"org.apache.spark.version": "4.3.0"}
        with pytest.raises(NotPlainError, match=r"f\.parquet has INT96 timestamps"):
            plan_column(tmp_path / "lake", column, "timestamp", metadata=metadata, use_deprecated_int96_timestamps=True)

    @pytest.mark.parametrize(
        ("metadata", "alike"),
        [
            ({}, True),
            ({"org.apache.spark.version": "3.0.0"}, True),
            ({"org.apache.spark.version": "2.4.8"}, False),
            ({"org.apache.spark.version": "4.3.0", "org.apache.spark.legacyDateTime": ""}, False),
        ],
    )
    @pytest.mark.parametrize("is_date", [True, False])
    def test_dates_of_the_old_calendar(
        self, tmp_path: Path, metadata: dict[str, str], alike: bool, is_date: bool
    ) -> None:
        column = pa.array([date(1200, 1, 1)]) if is_date else pa.array([1.5])
        spark = "date" if is_date else "double"
        if alike or not is_date:
            assert plan_column(tmp_path / "lake", column, spark, metadata=metadata).rows(Stream.TRAIN) == 1
        else:
            with pytest.raises(NotPlainError, match=r"f\.parquet may have dates of the old calendar"):
                plan_column(tmp_path / "lake", column, spark, metadata=metadata)

    def test_dates_of_unknown_writers_where_spark_converts_them(self, tmp_path: Path) -> None:
        write_file(tmp_path / "f.parquet", pa.table({"d": [date(1200, 1, 1)], "label": [1]}))
        scan = scan_of(tmp_path, {"d": "date", "label": "bigint"})
        assert plan_scan(scan, inputs={"x": "d"}).rows(Stream.TRAIN) == 1
        with pytest.raises(NotPlainError, match="old calendar"):
            plan_scan(replace(scan, rebases_unknown=True), inputs={"x": "d"})
