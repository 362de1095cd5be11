"""Planning: listing, partitions, features, streams, blocks, and the stored plan. Small lakes, no Spark."""

from __future__ import annotations

import datetime
import gc
import json
import os
import time
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import deal, filter_by, id_table, ids, lake_config, no_filter, plan_lake, write_file, write_lake

from sparktf.driver.plan.files import RowGroups
from sparktf.driver.plan.locality import Hosts
from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.partitions import read_partitions
from sparktf.driver.plan.planner import plan_source, split_by_fraction, split_table
from sparktf.driver.plan.spark_reads import SparkReads
from sparktf.driver.plan.stored_plan import load_plan, save_plan
from sparktf.errors import (
    BadValueError,
    ColumnError,
    ConfigError,
    CorruptFileError,
    EmptySourceError,
    SourceNotFoundError,
    StorageNotFoundError,
)
from sparktf.feed.formats.parquet_file import leaf_columns
from sparktf.sequence import Assignment, Keep, PartitionValue, Stream
from sparktf.storage.file_systems import open_storage

TRAIN, VALIDATION = Stream.TRAIN, Stream.VALIDATION
MAP = pa.map_(pa.string(), pa.int32())


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return write_lake(tmp_path / "lake")


@pytest.fixture
def dated(tmp_path: Path) -> Path:
    """Four days, two regions, ten rows in each."""
    for i, (day, region) in enumerate((d, r) for d in range(1, 5) for r in ("de", "fr")):
        write_file(tmp_path / f"dated/date=2026-11-0{day}/region={region}/f.parquet", id_table(10 * i, 10))
    return tmp_path / "dated"


def column_lake(folder: Path, **columns: Any) -> Path:
    """One file with the given columns and a label."""
    rows = len(next(iter(columns.values())))
    write_file(folder / "typed" / "f.parquet", pa.table({**columns, "label": pa.array([0.0] * rows)}))
    return folder / "typed"


def plan_column(folder: Path, column: Any, feature: Any = "c", **data: Any) -> tuple[str, tuple[int, ...]]:
    """Returns dtype and shape of an input made of column c."""
    plan = plan_lake(column_lake(folder, c=column), inputs={"x": feature}, **data)
    return plan.spec.inputs[0].dtype, plan.spec.inputs[0].shape


class TestListing:
    def test_hidden_and_unfinished_files_are_no_data(self, lake: Path) -> None:
        for name in ("_SUCCESS", ".part-00.parquet.crc", "part-9.parquet._COPYING_", "_tmp/x.parquet"):
            (lake / name).parent.mkdir(exist_ok=True)
            (lake / name).write_bytes(b"not parquet")
        assert len(plan_lake(lake).files) == 5

    def test_one_file_is_a_source(self, lake: Path) -> None:
        assert plan_lake(lake / "part-00.parquet").rows(TRAIN) == 70

    def test_a_path_that_does_not_exist(self, tmp_path: Path) -> None:
        with pytest.raises(SourceNotFoundError, match=r"data\.path: .*/nowhere does not exist"):
            plan_lake(tmp_path / "nowhere")

    def test_a_folder_without_files(self, tmp_path: Path) -> None:
        with pytest.raises(EmptySourceError, match=r"data\.path: there are no data files in"):
            plan_lake(tmp_path)

    def test_a_delta_table_is_no_lake_of_parquet_files(self, lake: Path) -> None:
        (lake / "_delta_log").mkdir()
        with pytest.raises(ConfigError, match=r"data\.path: .* is a Delta table, .*: use data\.format: delta"):
            plan_lake(lake)

    def test_files_without_rows(self, tmp_path: Path) -> None:
        write_file(tmp_path / "f.parquet", id_table(0, 0))
        with pytest.raises(EmptySourceError, match=r"the 1 data files in .* have no rows"):
            plan_lake(tmp_path)


class TestPartitions:
    @pytest.mark.parametrize(
        ("raw", "kind", "typed"),
        [
            (["01", "2"], "int", [1, 2]),
            (["+5", "-2147483648"], "int", [5, -2147483648]),
            (["1", "3000000000"], "bigint", [1, 3000000000]),
            (["99999999999999999999", "1"], "decimal(20,0)", ["99999999999999999999", "1"]),
            (["99999999999999999999", "1.5"], "string", ["99999999999999999999", "1.5"]),
            (["1e3", "1."], "decimal(4,0)", ["1000", "1"]),
            (["1e3", "7"], "decimal(10,0)", ["1000", "7"]),
            (["1.5e1", "-2e0"], "decimal(2,0)", ["15", "-2"]),
            (["1" * 38 + "e1"], "double", [float("1" * 38 + "e1")]),
            (["Infinity", "-Infinity"], "double", [float("inf"), float("-inf")]),
            ([" 1", "2\t"], "double", [1.0, 2.0]),
            (["0x1p3", "1.0"], "double", [8.0, 1.0]),
            (["nan"], "string", ["nan"]),
            (["\u0661\u0662", "3"], "int", [12, 3]),
            (["\U0001d7ce"], "string", ["\U0001d7ce"]),
            (["%31", "2"], "string", ["1", "2"]),
            (["%C3%A9%zz"], "string", ["\u00c3\u00a9%zz"]),
            (["__HIVE_DEFAULT_PARTITION__", "5"], "int", [None, 5]),
            (["2026-11-01 10%3A00%3A00", "2026-11-02"], "timestamp", [1793527200000000, 1793577600000000]),
            (["2026-11-01 10:00:00.123"], "string", ["2026-11-01 10:00:00.123"]),
            (["2026-11-01 10:00:00", "x"], "string", ["2026-11-01 10:00:00", "x"]),
            (["12:00:00", "x"], "string", ["12:00:00", "x"]),
            (["1", "2.5"], "double", [1.0, 2.5]),
            (["1d", "-.5e-3"], "double", [1.0, -0.0005]),
            (["3000000000", "2.5"], "string", ["3000000000", "2.5"]),
            (["2026-11-01", "2026-11-30"], "date", ["2026-11-01", "2026-11-30"]),
            (["2026-11-01", "2026-11-31"], "string", ["2026-11-01", "2026-11-31"]),
            (["2026-11-01", "5"], "string", ["2026-11-01", "5"]),
            (["a%2Fb", "x y"], "string", ["a/b", "x y"]),
            (["1_0", "2"], "string", ["1_0", "2"]),
        ],
    )
    def test_values_are_typed_as_spark_types_them(
        self, tmp_path: Path, raw: list[str], kind: str, typed: list[Any]
    ) -> None:
        for value in raw:
            write_file(tmp_path / f"k={value}" / "f.parquet", id_table(0, 1))
        k = {"columns": "k", "mask": "known", **({"dtype": "float64"} if kind.startswith("decimal") else {})}
        plan = plan_lake(tmp_path, inputs={"id": "id", "k": k})
        assert plan.spec.partition_types == (kind,)
        assert [v for _, (v,) in sorted(zip(plan.files, plan.partition_values, strict=True))] == [
            v for _, v in sorted(zip(raw, typed, strict=True))
        ]
        save_plan(plan, open_storage("/"), str(tmp_path / "_plan"))
        assert load_plan(open_storage("/"), str(tmp_path / "_plan")) == plan
        assert len(ids(plan, deal(plan))) == len(raw)

    @pytest.mark.parametrize(
        ("raw", "reason"),
        [
            ("12:00:00", r"partition column 'k' is of type time\(6\)"),
            ("0000-02-29", "partition column 'k' has the date 0000-02-29"),
            ("0000-01-01 00:00:00", "partition column 'k' has the timestamp 0000-01-01 00:00:00"),
        ],
    )
    def test_values_that_only_spark_reads(self, tmp_path: Path, raw: str, reason: str) -> None:
        write_file(tmp_path / f"k={raw}" / "f.parquet", id_table(0, 1))
        with pytest.raises(NotPlainError, match=reason):
            plan_lake(tmp_path, inputs={"id": "id", "k": "k"})
        with pytest.raises(NotPlainError, match=reason):
            plan_lake(tmp_path, where="k is not null")
        assert plan_lake(tmp_path).rows(TRAIN) == 1

    def test_a_session_decides_about_values(self) -> None:
        def typed(raw: str, **reads: Any) -> tuple[str, PartitionValue]:
            found = read_partitions([f"k={raw}"], SparkReads(**reads))
            return found.types[0], found.values[0][0]

        assert typed("1", infers_partitions=False) == ("string", "1")
        assert typed("12:30:00")[0] == "time(6)"
        assert typed("12%3A30%3A00", infers_times=False) == ("string", "12:30:00")
        # The hour that the zone leaves out, and the one that it has twice.
        for local, utc in (("2026-03-08 02:30:00", "07:30"), ("2026-11-01 01:30:00", "05:30")):
            moment = datetime.datetime.fromisoformat(f"{local[:10]} {utc}+00:00")
            assert typed(local, zone="America/New_York") == ("timestamp", round(moment.timestamp() * 1_000_000))
        assert typed("2026-11-01 01:30:00", zone="") == ("timestamp", "2026-11-01 01:30:00")

    def test_partitions_that_are_all_null(self, tmp_path: Path) -> None:
        write_file(tmp_path / "k=__HIVE_DEFAULT_PARTITION__" / "f.parquet", id_table(0, 2))
        with pytest.raises(BadValueError, match=r"data\.inputs\.k: column 'k' is of type null"):
            plan_lake(tmp_path, inputs={"k": "k"})
        assert plan_lake(tmp_path, filter_by(lambda k: k is None), where="k is null").rows(TRAIN) == 2

    def test_a_null_partition_of_a_file_without_rows(self, tmp_path: Path) -> None:
        write_file(tmp_path / "k=__HIVE_DEFAULT_PARTITION__" / "f.parquet", id_table(0, 0))
        write_file(tmp_path / "k=3" / "f.parquet", id_table(0, 2))
        assert plan_lake(tmp_path, inputs={"k": "k"}).rows(TRAIN) == 2

    @pytest.mark.parametrize("folder", ["k=1/k=2", "k=1/K=2"])
    def test_one_column_in_two_folders(self, tmp_path: Path, folder: str) -> None:
        write_file(tmp_path / folder / "f.parquet", id_table(0, 1))
        with pytest.raises(BadValueError, match=r"folder '[kK]=2' in .*: there are two columns called '[kK]'"):
            plan_lake(tmp_path)

    def test_folders_may_spell_a_column_in_two_ways(self, tmp_path: Path) -> None:
        for folder in ("K=1", "k=2"):
            write_file(tmp_path / folder / "f.parquet", id_table(0, 1))
        assert plan_lake(tmp_path, inputs={"k": "K"}).partition_values == ((1,), (2,))
        with pytest.raises(BadValueError, match="partition folders differ"):
            plan_source(lake_config(tmp_path), open_storage, no_filter, reads=SparkReads(case_sensitive=True))

    def test_a_null_partition_value_is_refused_unless_it_is_filled(self, tmp_path: Path) -> None:
        write_file(tmp_path / "k=__HIVE_DEFAULT_PARTITION__" / "f.parquet", id_table(0, 2))
        write_file(tmp_path / "k=3" / "f.parquet", id_table(2, 2))
        with pytest.raises(BadValueError, match=r"HIVE.*: partition column 'k' is null; set data\.fill_null\.k"):
            plan_lake(tmp_path, inputs={"k": "k"})
        assert plan_lake(tmp_path, inputs={"k": "k"}, fill_null={"k": 0}).rows(TRAIN) == 4
        assert plan_lake(tmp_path).rows(TRAIN) == 4  # no feature uses k
        masked = {"k": {"columns": "k", "mask": "known"}}
        assert plan_lake(tmp_path, inputs=masked).rows(TRAIN) == 4
        with pytest.raises(BadValueError, match="partition column 'k' is null"):
            plan_lake(tmp_path, inputs={**masked, "again": "k"})
        with pytest.raises(BadValueError, match=r"'k' is null; leave such files out by data\.where: k IS NOT NULL"):
            plan_lake(tmp_path, targets={"k": "k"})

    def test_folders_with_different_columns(self, dated: Path) -> None:
        write_file(dated / "date=2026-11-09" / "f.parquet", id_table(0, 1))
        with pytest.raises(BadValueError, match="partition folders differ"):
            plan_lake(dated)

    def test_an_empty_value(self, tmp_path: Path) -> None:
        write_file(tmp_path / "k=" / "f.parquet", id_table(0, 1))
        with pytest.raises(BadValueError, match=r"'k=' in .*empty"):
            plan_lake(tmp_path)

    def test_the_folder_counts_where_a_file_has_the_column_too(self, tmp_path: Path) -> None:
        write_file(tmp_path / "a=5" / "f.parquet", id_table(0, 2))
        plan = plan_lake(tmp_path, inputs={"id": "id", "a": "a"})
        assert plan.spec.partition_columns == ("a",)


class TestWhere:
    def test_only_the_selected_partitions_are_read(self, dated: Path) -> None:
        (dated / "date=2026-11-01/region=de/f.parquet").write_bytes(b"never looked at")
        plan = plan_lake(dated, filter_by(lambda date, region: date > "2026-11-02"), where="date > '2026-11-02'")
        assert plan.rows(TRAIN) == 40

    def test_the_filter_sees_each_partition_once_with_its_types(self, tmp_path: Path) -> None:
        for i in range(3):
            write_file(tmp_path / "k=1" / f"{i}.parquet", id_table(0, 1))
        seen: list[Any] = []

        def spy(names: Any, types: Any, rows: Any, predicate: str) -> list[bool]:
            seen.append((names, types, rows, predicate))
            return [True] * len(rows)

        plan_lake(tmp_path, spy, where="k = 1")
        assert seen == [(("k",), ("int",), [(1,)], "k = 1")]

    def test_no_partition_selected_says_what_there_is(self, dated: Path) -> None:
        with pytest.raises(EmptySourceError, match=r"data\.where: \"date > '2027'\" selects none of 8 partitions") as e:
            plan_lake(dated, filter_by(lambda date, region: False), where="date > '2027'")
        assert "date 2026-11-01, 2026-11-02, 2026-11-03, 2026-11-04; region de, fr" in str(e.value)

    def test_many_values_are_shown_as_a_range(self, tmp_path: Path) -> None:
        for i in range(9):
            write_file(tmp_path / f"k={i}" / "f.parquet", id_table(i, 1))
        with pytest.raises(EmptySourceError, match=r"they have k 0 \.\.\. 8 \(9 values\)"):
            plan_lake(tmp_path, filter_by(lambda k: False), where="k > 9")

    def test_a_lake_without_partitions(self, lake: Path) -> None:
        with pytest.raises(ConfigError, match=r"data\.where: .* has no partition columns, .*`data\.mode: spark`"):
            plan_lake(lake, where="id > 3")

    def test_a_wrong_predicate_names_the_setting(self, dated: Path) -> None:
        def refuse(*_: Any) -> list[bool]:
            raise ConfigError("Spark says no")

        with pytest.raises(ConfigError, match=r"^data\.where: Spark says no"):
            plan_lake(dated, refuse, where="nonsense")


class TestFeatures:
    @pytest.mark.parametrize(
        ("column", "dtype"),
        [
            (pa.array([True]), "bool"),
            (pa.array([1], pa.int8()), "int8"),
            (pa.array([1], pa.int16()), "int16"),
            (pa.array([1], pa.int32()), "int32"),
            (pa.array([1], pa.int64()), "int64"),
            (pa.array([1], pa.uint8()), "int16"),
            (pa.array([1], pa.uint16()), "int32"),
            (pa.array([1], pa.uint32()), "int64"),
            (pa.array([1], pa.float32()), "float32"),
            (pa.array([1], pa.float64()), "float32"),
            (pa.array(["x"]), "string"),
            (pa.array(["x"]).dictionary_encode(), "string"),
            (pa.array([b"x"]), "string"),
            (pa.array([b"xy"], pa.binary(2)), "string"),
            (pa.array([1], pa.date32()), "int32"),
            (pa.array([1], pa.timestamp("ms", "UTC")), "int64"),
            (pa.array([1], pa.time32("ms")), "int64"),
            (pa.array([1], pa.duration("us")), "int64"),
        ],
    )
    def test_dtypes_of_single_columns(self, tmp_path: Path, column: pa.Array, dtype: str) -> None:
        assert plan_column(tmp_path, column) == (dtype, ())

    def test_lists(self, tmp_path: Path) -> None:
        fixed = pa.array([[1, 2, 3, 4]], pa.list_(pa.uint8(), 4))
        variable = pa.array([[1.0, 2.0]], pa.list_(pa.float64()))
        assert plan_column(tmp_path, fixed) == ("int16", (4,))
        assert plan_column(tmp_path, fixed, {"columns": "c", "shape": [2, 2], "dtype": "uint8"}) == ("uint8", (2, 2))
        assert plan_column(tmp_path, variable, {"columns": "c", "shape": [2]}) == ("float32", (2,))

    def test_a_variable_list_asks_for_its_shape(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"data\.inputs\.x: column 'c' .*array<int>.*; add `shape: \[3\]`"):
            plan_column(tmp_path, pa.array([[1, 2, 3]], pa.list_(pa.int32())))

    def test_a_shape_that_does_not_fit(self, tmp_path: Path) -> None:
        fixed = pa.array([[1, 2, 3, 4]], pa.list_(pa.uint8(), 4))
        with pytest.raises(ConfigError, match=r"data\.inputs\.x\.shape: \[3, 2\] is 6 values a row, but .* has 4"):
            plan_column(tmp_path, fixed, {"columns": "c", "shape": [3, 2]})

    def test_lists_of_text(self, tmp_path: Path) -> None:
        texts = pa.array([["x", "y"]])
        assert plan_column(tmp_path, texts, {"columns": "c", "shape": [2]}) == ("string", (2,))
        with pytest.raises(BadValueError, match=r"column 'c' is of type array<string>, but a number is needed"):
            plan_column(tmp_path, texts, {"columns": "c", "shape": [2], "dtype": "int32"})

    @pytest.mark.parametrize(
        ("column", "settings", "shape"),
        [
            (pa.array([[1, 2]]), {"shape": [5], "pad": -1}, (5,)),
            (pa.array([[1, 2]]), {"shape": [5, 2], "pad": 0, "truncate": True}, (5, 2)),
            (pa.array([[1, 2]]), {"shape": [1], "truncate": True}, (1,)),
            (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), {"shape": [3], "pad": 0}, (3,)),
            (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), {"shape": [1], "truncate": True}, (1,)),
            (pa.array([[1, 2]]), {"shape": [3], "dtype": "float32", "pad": 0.5}, (3,)),
            (pa.array([[True]]), {"shape": [3], "pad": False}, (3,)),
            (pa.array([["x"]]), {"shape": [3], "pad": "?"}, (3,)),
        ],
    )
    def test_lists_that_are_padded_and_cut(
        self, tmp_path: Path, column: pa.Array, settings: dict[str, Any], shape: tuple[int, ...]
    ) -> None:
        assert plan_column(tmp_path, column, {"columns": "c", **settings})[1] == shape

    @pytest.mark.parametrize(
        ("column", "settings", "message"),
        [
            (pa.array([[1]]), {"pad": 0}, r"\.pad: the length is not set; add `shape: \[n\]`"),
            (pa.array([[1]]), {"truncate": True}, r"\.truncate: the length is not set"),
            (pa.array([1]), {"shape": [1], "pad": 0}, r"\.pad: column 'c' is of type bigint, not a list"),
            (pa.array([[1]]), {"shape": [2], "pad": 0.5}, r"\.pad: 0\.5 is not a value of dtype int64"),
            (pa.array([[1]]), {"shape": [2], "dtype": "uint8", "pad": -1}, r"\.pad: -1 is not a value of dtype uint8"),
            (pa.array([[1]]), {"shape": [2], "pad": "x"}, r"\.pad: 'x' is not a value of dtype int64"),
            (pa.array([[1]]), {"shape": [2], "pad": True}, r"\.pad: True is not a value of dtype int64"),
            (pa.array([["x"]]), {"shape": [2], "pad": 0}, r"\.pad: 0 is not a value of dtype string"),
            (pa.array([[1] * 4], pa.list_(pa.int8(), 4)), {"shape": [3], "pad": 0}, r"\.shape: .* the source has 4"),
            (pa.array([[1] * 4], pa.list_(pa.int8(), 4)), {"shape": [5], "truncate": True}, r"\.shape: .* has 4"),
        ],
    )
    def test_padding_that_does_not_fit(
        self, tmp_path: Path, column: pa.Array, settings: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ConfigError, match=rf"data\.inputs\.x{message}"):
            plan_column(tmp_path, column, {"columns": "c", **settings})

    def test_only_a_list_column_alone_is_padded(self, lake: Path) -> None:
        with pytest.raises(ConfigError, match=r"data\.inputs\.x\.pad: column 'a' is of type float, not a list"):
            plan_lake(lake, inputs={"x": {"columns": ["a", "b"], "shape": [2], "pad": 0}})

    def test_bytes_of_a_binary_column(self, tmp_path: Path) -> None:
        images = pa.array([bytes(12)] * 2)
        raw = {"columns": "c", "dtype": "uint8"}
        assert plan_column(tmp_path, images, {**raw, "shape": [2, 2, 3]}) == ("uint8", (2, 2, 3))
        with pytest.raises(ConfigError, match=r"column 'c' is of type binary, whose rows .*; add `shape: \[12\]`"):
            plan_column(tmp_path, images, raw)
        with pytest.raises(BadValueError, match=r"of type binary, but a number is needed; `dtype: uint8` takes its by"):
            plan_column(tmp_path, images, {**raw, "dtype": "float32"})
        with pytest.raises(BadValueError, match=r"of type string, but a number is needed$"):
            plan_column(tmp_path, pa.array(["x"]), raw)

    def test_a_mask_is_an_input_behind_its_own(self, tmp_path: Path) -> None:
        lists = pa.array([[1.0]])
        lake = column_lake(tmp_path, l=lists, a=[1], b=[2])
        padded = {"columns": "l", "shape": [3], "pad": 0, "mask": "l_there"}
        plan = plan_lake(lake, inputs={"l": padded, "p": {"columns": ["a", "b"], "mask": "known"}, "a": "a"})
        found = [(f.name, f.dtype, f.shape, f.is_mask) for f in plan.spec.inputs]
        assert found == [
            ("l", "float32", (3,), False),
            ("l_there", "bool", (3,), True),
            ("p", "float32", (2,), False),
            ("known", "bool", (2,), True),
            ("a", "int64", (), False),
        ]

    @pytest.mark.parametrize("name", ["a", "other", "x"])
    def test_a_mask_needs_a_name_of_its_own(self, tmp_path: Path, name: str) -> None:
        lake = column_lake(tmp_path, c=[1], d=[2])
        inputs = {"x": {"columns": "c", "mask": name}, "a": {"columns": "d", "mask": "other"}}
        with pytest.raises(
            ConfigError, match=rf"data\.inputs\.\w\.mask: '{name}' is already the name of another input or mask"
        ):
            plan_lake(lake, inputs=inputs)

    def test_targets_have_no_mask(self, lake: Path) -> None:
        with pytest.raises(ConfigError, match=r"data\.targets\.y\.mask: only inputs have masks; .* sample weight of 0"):
            plan_lake(lake, targets={"y": {"columns": "label", "mask": "m"}})

    def test_patterns_follow_the_schema_and_pack(self, tmp_path: Path) -> None:
        lake = column_lake(tmp_path, p_2=[1], q=[5], p_10=[2], p_1=[3])
        plan = plan_lake(lake, inputs={"x": ["p_1", "p_*"], "y": {"columns": ["p_?", "q"], "shape": [3, 1]}})
        assert plan.spec.inputs[0].columns == ("p_1", "p_2", "p_10")
        assert (plan.spec.inputs[0].dtype, plan.spec.inputs[0].shape) == ("float32", (3,))
        assert plan.spec.inputs[1].columns == ("p_2", "p_1", "q")
        assert plan.spec.inputs[1].shape == (3, 1)

    def test_a_pattern_that_takes_in_the_label_is_refused(self, lake: Path) -> None:
        with pytest.raises(ConfigError, match=r"data\.inputs\.x: the pattern matches 'label', which is a target"):
            plan_lake(lake, inputs={"x": ["*"]})

    def test_weights(self, tmp_path: Path) -> None:
        lake = column_lake(tmp_path, a=[1], w=pa.array([1.0]))
        weight = plan_lake(lake, inputs={"x": "a"}, sample_weight="w").spec.weights[0]
        assert (weight.key, weight.dtype, weight.shape) == ("weight:", "float32", ())
        per_output = plan_lake(lake, inputs={"x": "a"}, sample_weight={"y": "w"}).spec.weights[0]
        assert per_output.key == "weight:y"
        with pytest.raises(ConfigError, match="there is no target 'z'"):
            plan_lake(lake, inputs={"x": "a"}, sample_weight={"z": "w"})

    def test_an_unknown_column_names_the_nearest(self, lake: Path) -> None:
        with pytest.raises(
            ColumnError, match=r"data\.targets\.y: there is no column 'labell' in .*; did you mean 'label'\?"
        ):
            plan_lake(lake, targets={"y": "labell"})
        with pytest.raises(ColumnError, match=r"no column matches 'pixel_\*' in .*; there are a, b, id, label"):
            plan_lake(lake, inputs={"x": ["pixel_*"]})

    @pytest.mark.parametrize("feature", [["c"], {"columns": "c", "dtype": "float32"}])
    def test_a_string_where_a_number_is_needed(self, tmp_path: Path, feature: Any) -> None:
        with pytest.raises(
            BadValueError, match=r"data\.inputs\.x: column 'c' is of type string, but a number is needed"
        ):
            plan_column(tmp_path, pa.array(["1"]), feature)

    def test_a_string_target(self, tmp_path: Path) -> None:
        with pytest.raises(BadValueError, match=r"data\.targets\.y: column 'c' is of type string, but a number"):
            plan_column(tmp_path, pa.array(["1"]), "label", targets={"y": "c"})

    def test_a_decimal_asks_for_a_dtype(self, tmp_path: Path) -> None:
        column = pa.array([1], pa.decimal128(9, 2))
        with pytest.raises(ConfigError, match=r"column 'c' is of type decimal\(9,2\).*add `dtype: float32`"):
            plan_column(tmp_path, column)
        assert plan_column(tmp_path, column, {"columns": "c", "dtype": "float64"}) == ("float64", ())

    @pytest.mark.parametrize("column", [pa.array([[[1]]]), pa.array([[{"k": 1}]]), pa.array([[("k", 1)]], MAP)])
    def test_types_of_which_no_tensor_can_be_made(self, tmp_path: Path, column: pa.Array) -> None:
        with pytest.raises(BadValueError, match=r"column 'c' is of type .*, which cannot become a tensor"):
            plan_column(tmp_path, column)

    def test_a_struct_has_no_tensor_but_its_fields_have(self, tmp_path: Path) -> None:
        message = r"column 'c' is of type struct<k:bigint,m:map<string,int>>; name its fields: one as `c\.<field>`"
        column = pa.array([{"k": 1, "m": []}], pa.struct({"k": pa.int64(), "m": MAP}))
        with pytest.raises(BadValueError, match=message):
            plan_column(tmp_path, column)
        assert plan_column(tmp_path, column, "c.k") == ("int64", ())

    def test_patterns_take_in_the_fields_of_structs_in_the_order_of_the_schema(self, tmp_path: Path) -> None:
        user = pa.array([{"age": 1, "of": {"b": 2, "a": 3}}])
        plan = plan_lake(column_lake(tmp_path, z=[1], user=user), inputs={"x": ["user.*", "z"], "of": ["*.of.?"]})
        assert plan.spec.inputs[0].columns == ("user.age", "user.of.b", "user.of.a", "z")
        assert plan.spec.inputs[1].columns == ("user.of.b", "user.of.a")

    def test_a_pattern_over_a_struct_that_takes_in_the_label_is_refused(self, tmp_path: Path) -> None:
        lake = column_lake(tmp_path, row=pa.array([{"x": 1, "y": 2}]))
        with pytest.raises(ConfigError, match=r"data\.inputs\.x: the pattern matches 'row\.y', which is a target"):
            plan_lake(lake, inputs={"x": ["row.*"]}, targets={"y": "row.y"})

    def test_an_unknown_field_names_the_nearest(self, tmp_path: Path) -> None:
        with pytest.raises(ColumnError, match=r"there is no column 'c\.agee' in .*f\.parquet; did you mean 'c\.age'\?"):
            plan_column(tmp_path, pa.array([{"age": 1}]), "c.agee")

    def test_only_the_fields_that_are_used_count_as_bytes_to_read(self, tmp_path: Path) -> None:
        column = pa.array([{"small": 1, "large": "x" * 10_000}])
        lake = column_lake(tmp_path, c=column)
        small, large = (plan_lake(lake, inputs={"x": f"c.{field}"}).nbytes(TRAIN) for field in ("small", "large"))
        assert small < 500 < large

    def test_a_list_cannot_be_packed(self, tmp_path: Path) -> None:
        with pytest.raises(BadValueError, match="only single values can be packed"):
            plan_column(tmp_path, pa.array([[1]], pa.list_(pa.int32(), 1)), ["c", "label"], targets={"y": "c"})

    def test_an_unknown_dtype(self, tmp_path: Path) -> None:
        with pytest.raises(
            ConfigError, match=r"data\.inputs\.x\.dtype: 'flaot32' is not a dtype; did you mean 'float32'"
        ):
            plan_column(tmp_path, pa.array([1]), {"columns": "c", "dtype": "flaot32"})

    def test_fill_values_must_fit(self, tmp_path: Path) -> None:
        column = pa.array([1], pa.int32())
        for wrong in (0.5, "0", True, 1 << 40):
            with pytest.raises(ConfigError, match=r"data\.fill_null\.c: .* is not a value of type int"):
                plan_column(tmp_path, column, fill_null={"c": wrong})
        with pytest.raises(ConfigError, match=r"data\.fill_null\.d: no input, target or weight has this column"):
            plan_column(tmp_path, column, fill_null={"d": 0})
        assert plan_column(tmp_path, column, fill_null={"c": 0}) == ("int32", ())


class TestFiles:
    @pytest.mark.parametrize("content", [b"", b"PAR1", b"this is no parquet file", None])
    def test_a_corrupt_file_is_named(self, lake: Path, content: bytes | None) -> None:
        bad = lake / "part-03.parquet"
        bad.write_bytes(bad.read_bytes()[:-9] if content is None else content)
        with pytest.raises(CorruptFileError, match=r"part-03\.parquet is not a readable Parquet file: \w"):
            plan_lake(lake)

    def test_a_file_that_has_a_column_twice(self, tmp_path: Path) -> None:
        def refusal(names: list[str], **data: Any) -> str:
            file = write_file(tmp_path / "f.parquet", pa.Table.from_arrays([pa.array([0, 1])] * len(names), names))
            with pytest.raises(ColumnError) as caught:
                plan_lake(tmp_path, **{"inputs": {"a": "a"}, **data})
            return str(caught.value).removeprefix(f"{file} has ")

        assert refusal(["a", "label", "a"]) == "two columns called 'a'"
        assert (
            refusal(["a", "label", "A"]) == "columns 'a' and 'A', which Spark takes for one (spark.sql.caseSensitive)"
        )
        assert refusal(["a", "label", "b", "B"], inputs={"x": ["a", "b"]}).startswith("columns 'b' and 'B'")
        assert plan_lake(tmp_path, inputs={"a": "a"}).rows(TRAIN) == 2  # the others are not used
        config = lake_config(tmp_path, inputs={"b": "B"})
        assert plan_source(config, open_storage, no_filter, reads=SparkReads(case_sensitive=True)).rows(TRAIN) == 2

    def test_a_struct_that_has_a_field_twice(self, tmp_path: Path) -> None:
        user = pa.array([{"age": 1, "Age": 2, "name": "x"}])
        with pytest.raises(ColumnError, match=r"f\.parquet has columns 'age' and 'Age', which Spark takes for one"):
            plan_column(tmp_path, user, "c.age")

    def test_the_folders_column_hides_the_files_in_any_case(self, tmp_path: Path) -> None:
        write_file(tmp_path / "A=5" / "f.parquet", id_table(0, 1))
        assert plan_lake(tmp_path, inputs={"a": "A"}).partition_values == ((5,),)
        with pytest.raises(ColumnError, match=r"no column 'a'.*'A'"):
            plan_lake(tmp_path, inputs={"a": "a"})

    def test_a_file_that_lacks_a_column(self, lake: Path) -> None:
        write_file(lake / "part-03.parquet", id_table(0, 3).drop_columns(["b"]))
        with pytest.raises(
            ColumnError,
            match=r"part-03\.parquet has no column 'b', which other files have; there are .*; .* data\.where, .*merge",
        ):
            plan_lake(lake)

    def test_a_column_that_came_later_or_was_renamed_names_the_file_and_the_ways(self, lake: Path) -> None:
        late = id_table(0, 3).append_column("weight", pa.array([1.0, 2.0, 3.0]))
        write_file(lake / "part-09.parquet", late)
        with pytest.raises(
            ColumnError,
            match=r"^data\.inputs\.w: there is no column 'weight' in .*/part-00\.parquet, the first of 6 files; "
            r"there are .*; .*data\.where, .* data\.mode: spark and spark\.sql\.parquet\.mergeSchema",
        ):
            plan_lake(lake, inputs={"w": "weight"})
        write_file(lake / "part-05.parquet", id_table(0, 3).rename_columns(["id", "a", "b", "labels"]))
        with pytest.raises(ColumnError, match=r"part-05\.parquet has no column 'label', .*; did you mean 'labels'\?; "):
            plan_lake(lake)

    def test_a_file_that_lacks_a_field(self, tmp_path: Path) -> None:
        lake = column_lake(tmp_path, c=pa.array([{"k": 1, "l": 2}]))
        write_file(lake / "g.parquet", pa.table({"c": pa.array([{"l": 2}]), "label": [0.0]}))
        with pytest.raises(ColumnError, match=r"g\.parquet has no column 'c\.k', which other files have"):
            plan_lake(lake, inputs={"x": "c.k"})

    def test_a_file_with_another_type(self, lake: Path) -> None:
        other = id_table(0, 3)
        write_file(lake / "part-03.parquet", other.set_column(1, "a", other["a"].cast(pa.float64())))
        with pytest.raises(
            BadValueError, match=r"part-03\.parquet: column 'a' is of type double, but float in other files"
        ):
            plan_lake(lake)


class TestValidation:
    def test_a_fraction_adds_up_however_small_the_row_groups_are(self, tmp_path: Path) -> None:
        write_lake(tmp_path, [1000], group_rows=3)
        plan = plan_lake(tmp_path, validation={"fraction": 0.13})
        assert (plan.rows(TRAIN), plan.rows(VALIDATION)) == (870, 130)

    def test_a_fraction_never_takes_more_than_there_is(self) -> None:
        rng = np.random.default_rng(0)
        for fraction in (1e-9, 0.1, 0.5, 0.999999):
            rows = rng.integers(1, 9, 10_000)
            held = split_by_fraction(RowGroups(*[rows] * 7), fraction)[VALIDATION].rows
            assert np.all((held >= 0) & (held <= rows))
            assert abs(held.sum() - fraction * rows.sum()) <= 0.5

    def test_where_holds_out_partitions(self, dated: Path) -> None:
        keep = filter_by(lambda date, region: date == "2026-11-04")
        plan = plan_lake(dated, keep, validation={"where": "date = '2026-11-04'"})
        assert (plan.rows(TRAIN), plan.rows(VALIDATION)) == (60, 20)
        held = {plan.files[i] for i in plan.tables[VALIDATION].file}
        assert all("date=2026-11-04" in file for file in held)

    def test_a_source_of_its_own(self, lake: Path, tmp_path: Path) -> None:
        other = write_lake(tmp_path / "other", [9])
        plan = plan_lake(lake, validation={"path": str(other)})
        assert (plan.rows(TRAIN), plan.rows(VALIDATION)) == (229, 9)
        (assignment,) = deal(plan, VALIDATION)
        assert assignment.pieces[0].splits[0].path == str(other / "part-00.parquet")

    def test_a_source_of_its_own_needs_the_partition_columns_that_are_used(self, dated: Path, lake: Path) -> None:
        with pytest.raises(
            ColumnError, match=r"data\.validation\.path: 'region' is a partition column of .*, but not of"
        ):
            plan_lake(dated, inputs={"r": "region"}, validation={"path": str(lake)})

    def test_nothing_held_out(self, tmp_path: Path) -> None:
        write_lake(tmp_path, [9])
        with pytest.raises(EmptySourceError, match=r"data\.validation holds out none of 9 rows"):
            plan_lake(tmp_path, validation={"fraction": 0.01})

    def test_nothing_left_to_train_on(self, tmp_path: Path, dated: Path) -> None:
        with pytest.raises(EmptySourceError, match=r"holds out all 80 rows .* no rows are left to train on"):
            plan_lake(dated, filter_by(lambda date, region: True), validation={"where": "true"})


class TestBlocks:
    def test_blocks_hold_up_to_shuffle_rows(self, tmp_path: Path) -> None:
        write_lake(tmp_path, [100, 100, 100, 100], group_rows=10)
        rows = plan_lake(tmp_path, shuffle_rows=35).block_rows(TRAIN)
        assert rows.tolist() == [30] * 13 + [10]

    def test_a_large_row_group_is_a_block_of_its_own(self, tmp_path: Path) -> None:
        write_lake(tmp_path, [5, 5, 50, 5, 5], group_rows=1000)
        plan = plan_lake(tmp_path, shuffle_rows=20, shuffle=False)
        assert plan.block_rows(TRAIN).tolist() == [10, 50, 10]

    def test_without_shuffling_blocks_are_in_the_order_of_files(self, lake: Path) -> None:
        table = plan_lake(lake, shuffle=False, shuffle_rows=40).tables[TRAIN]
        places = list(zip(table.file.tolist(), table.row_group.tolist(), strict=True))
        assert places == sorted(places)

    def test_shuffled_blocks_are_drawn_from_all_files(self, tmp_path: Path) -> None:
        write_lake(tmp_path, [160, 160, 160, 160])
        plan, again, other = (plan_lake(tmp_path, shuffle_rows=64, seed=seed) for seed in (1, 1, 2))
        assert plan == again != other
        assert len(set(plan.tables[TRAIN].file[plan.tables[TRAIN].block == 0].tolist())) > 1

    def test_a_million_row_groups_are_planned_in_seconds(self) -> None:
        n = 1_000_000
        index = np.arange(n, dtype=np.int64)
        start = index % 100 << 20
        rows = np.full(n, 10_000)
        groups = RowGroups(index // 100, index % 100, rows, np.full(n, 1 << 20), start, start + (1 << 20), rows)
        started = time.process_time()  # of this process, however busy the machine is
        table = split_table(split_by_fraction(groups, 0.1)[TRAIN], 131_072, Hosts((), {}), seed=3)
        assert table.block_rows.sum() == 9_000 * n
        assert table.block_rows.max() <= 131_072
        assert time.process_time() - started < 5


class TestAssignments:
    def test_nodes_get_their_own_splits_only(self, lake: Path) -> None:
        plan = plan_lake(lake, shuffle_rows=40)
        parts = deal(plan, nodes=3)
        assert [part.rows for part in parts] == [76, 76, 77]
        for part in parts:
            for piece in part.pieces:
                assert sum(split.rows for split in piece.splits) == plan.block_rows(TRAIN)[piece.block]

    def test_json_and_back(self, dated: Path) -> None:
        plan = plan_lake(dated, inputs={"d": "date", "r": "region"}, validation={"fraction": 0.3})
        for part in [*deal(plan, epoch=2, nodes=3), *deal(plan, VALIDATION)]:
            assert Assignment.model_validate_json(part.model_dump_json()) == part

    def test_a_stream_that_there_is_not_has_no_rows(self, lake: Path) -> None:
        plan = plan_lake(lake)
        assert plan.rows(VALIDATION) == 0
        assert [part.pieces for part in deal(plan, VALIDATION, nodes=2)] == [(), ()]


class TestStoredPlan:
    @pytest.mark.parametrize("data", [{}, {"validation": {"fraction": 0.2}}, {"shuffle": False}])
    def test_what_was_saved_is_loaded(self, lake: Path, tmp_path: Path, data: dict[str, Any]) -> None:
        storage, folder = open_storage("/"), str(tmp_path / "run" / "plan")
        config = lake_config(lake, fill_null={"a": 0.5}, **data)
        plan = plan_source(config, open_storage, no_filter)
        save_plan(plan, storage, folder)
        loaded = load_plan(storage, folder)
        assert loaded == plan
        assert loaded.plan_hash == config.plan_hash()
        assert deal(loaded, epoch=1, nodes=2) == deal(plan, epoch=1, nodes=2)

    def test_the_version_of_a_table_is_kept_and_an_earlier_plan_has_none(self, lake: Path, tmp_path: Path) -> None:
        storage, folder = open_storage("/"), str(tmp_path / "plan")
        plan = replace(plan_lake(lake), source_version=5271175311196693878)
        save_plan(plan, storage, folder)
        assert load_plan(storage, folder) == plan
        spec = json.loads((tmp_path / "plan" / "spec.json").read_bytes())
        del spec["source_version"]
        (tmp_path / "plan" / "spec.json").write_text(json.dumps(spec))
        assert load_plan(storage, folder).source_version is None

    def test_partition_values_keep_their_types(self, tmp_path: Path) -> None:
        for i, folder in enumerate(["i=1/d=2026-11-01/s=x/f=0.5", "i=2/d=2026-11-02/s=__HIVE_DEFAULT_PARTITION__/f=1"]):
            write_file(tmp_path / "lake" / folder / "f.parquet", id_table(i, 1))
        plan = plan_lake(tmp_path / "lake", inputs={c: c for c in "idsf"}, fill_null={"s": ""})
        save_plan(plan, open_storage("/"), str(tmp_path / "plan"))
        assert load_plan(open_storage("/"), str(tmp_path / "plan")) == plan
        assert plan.partition_values == ((1, "2026-11-01", "x", 0.5), (2, "2026-11-02", None, 1.0))
        assert plan.tables[TRAIN].keep is Keep.ALL

    def test_a_resumed_run_refuses_files_that_have_taken_the_place_of_the_planned_ones(
        self, lake: Path, tmp_path: Path
    ) -> None:
        storage, folder = open_storage("/"), str(tmp_path / "plan")
        save_plan(plan_lake(lake), storage, folder)
        plan = load_plan(storage, folder)
        assert len(ids(plan, deal(plan))) == 229
        os.utime(lake / "part-03.parquet", ns=(0, 1))
        with pytest.raises(CorruptFileError, match=r"part-03\.parquet has changed since it was planned"):
            ids(plan, deal(plan))

    def test_a_plan_of_before_files_had_stamps_is_read(self, lake: Path, tmp_path: Path) -> None:
        storage, folder = open_storage("/"), tmp_path / "plan"
        save_plan(replace(plan_lake(lake), stamps=None), storage, str(folder))
        (folder / "spec.json").write_text((folder / "spec.json").read_text().replace('"format": 5', '"format": 4'))
        plan = load_plan(storage, str(folder))
        assert sorted(ids(plan, deal(plan))) == list(range(229))

    def test_what_a_start_may_set_anew_is_not_in_the_plan(self, lake: Path, tmp_path: Path) -> None:
        storage, folder = open_storage("/"), tmp_path / "plan"
        one, other = (plan_lake(lake, prefetch_mib=mib, max_bad_rows=mib) for mib in (1, 2))
        assert one == other
        save_plan(one, storage, str(folder))
        text = (folder / "spec.json").read_text()
        (folder / "spec.json").write_text(
            text.replace('"shuffle":', '"prefetch_bytes": 1, "max_bad_rows": 1, "shuffle":')
        )
        assert "prefetch_bytes" in (folder / "spec.json").read_text()
        assert load_plan(storage, str(folder)) == one

    def test_a_plan_of_a_later_version_is_refused(self, lake: Path, tmp_path: Path) -> None:
        storage, folder = open_storage("/"), tmp_path / "plan"
        save_plan(plan_lake(lake), storage, str(folder))
        (folder / "spec.json").write_text((folder / "spec.json").read_text().replace('"format": 5', '"format": 99'))
        with pytest.raises(ConfigError, match=r"made by another version of sparktf \(format 99\).*--run-id"):
            load_plan(storage, str(folder))

    def test_a_plan_without_its_spec_is_not_there(self, lake: Path, tmp_path: Path) -> None:
        storage = open_storage("/")
        save_plan(plan_lake(lake), storage, str(tmp_path / "plan"))
        (tmp_path / "plan" / "spec.json").unlink()
        with pytest.raises(StorageNotFoundError):
            load_plan(storage, str(tmp_path / "plan"))


def test_footers_that_have_been_read_do_not_stay_in_memory(tmp_path: Path) -> None:
    metadata = pq.read_metadata(write_file(tmp_path / "part.parquet", id_table(0, 64), group_rows=8))
    gone = weakref.finalize(metadata, lambda: None)
    gc.disable()
    try:
        assert leaf_columns(metadata, frozenset(["a", "label"])) == [1, 3]
        del metadata
        assert not gone.alive, "nothing holds it in a ring"
    finally:
        gc.enable()
