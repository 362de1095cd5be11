"""What each kind of name in the data section leads to, and whether trainers read it themselves: on real Spark."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from integration.session import write_days
from lakes import id_table, lake_config, write_file
from parquet_footers import write_encrypted
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

from sparktf.config.job import JobConfig
from sparktf.driver.plan.locality import nowhere
from sparktf.driver.source.choice import choose_feed
from sparktf.driver.source.dataframe import open_dataframe
from sparktf.driver.source.origin import Origin
from sparktf.driver.source.prepare import training_rows
from sparktf.errors import ConfigError, ModelError, SourceNotFoundError
from sparktf.sequence import Stream
from sparktf.storage.file_systems import FileSystems


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of the view `days`, of which there is a table too."""
    folder = write_days(spark, tmp_path_factory.mktemp("lakes") / "a lake")
    spark.table("days").write.saveAsTable("sold")
    return folder


def opened(spark: SparkSession, **data: Any) -> DataFrame | RDD[Any]:
    config = lake_config(**data)
    return open_dataframe(spark, config.model_copy(update={"params": {"rows": 7}})).data


def test_every_kind_of_name_leads_to_the_rows(
    spark: SparkSession, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gardens.py").write_text(
        "def rows(spark, params):\n    return spark.range(params['rows'])\n"
        "def records(spark, params):\n    return spark.sparkContext.parallelize(range(params['rows']))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    spark.table("days").write.orc(str(tmp_path / "orc"))
    (tmp_path / "rows.csv").write_text("id;a;b;label\n1;2;3;0\n4;5;6;1\n")
    read = {"format": "csv", "options": {"header": True, "sep": ";", "inferSchema": True}}
    rows = opened(spark, path=str(tmp_path / "rows.csv"), **read)
    assert isinstance(rows, DataFrame)
    assert [tuple(row) for row in rows.collect()] == [(1, 2, 3, 0), (4, 5, 6, 1)]
    counts = {
        90: (
            {"path": str(lake)},
            {"table": "sold"},
            {"table": "days"},
            {"path": str(tmp_path / "orc"), "format": "orc"},
        ),
        30: ({"sql": "select id from days where day = '2026-11-01'"},),
        7: ({"source": "gardens:rows"}, {"source": "gardens:records"}),
    }
    for count, sources in counts.items():
        for source in sources:
            assert opened(spark, **source).count() == count, source


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        ({"table": "no_such"}, SourceNotFoundError, r"^data\.table: .*`no_such` cannot be found"),
        ({"sql": "select * from no_such"}, SourceNotFoundError, r"^data\.sql: .*`no_such` cannot be found"),
        ({"path": Path("/nowhere"), "format": "orc"}, SourceNotFoundError, r"^data\.path: .*/nowhere"),
        ({"path": Path("/"), "format": "no_such"}, ConfigError, r"^data\.path: .*no_such"),
        ({"table": "days", "version": 3}, ConfigError, r"^data\.version: data\.table days has no versions; only"),
        ({"table": "sold", "timestamp": "2026-11-20"}, ConfigError, r"^data\.timestamp: data\.table sold has no ver"),
        ({"sql": "selct 1"}, ConfigError, r"^data\.sql: .*Syntax error at or near 'selct'"),
        ({"sql": "select idd from days"}, ConfigError, r"^data\.sql: .*`idd` cannot be resolved"),
        ({"source": "nowhere:rows"}, ConfigError, r"^data\.source: there is no module 'nowhere' \(ship it with --py-f"),
        ({"source": "weeds:row"}, ConfigError, r"^data\.source: .*'weeds' has no function 'row' \(it has: fails, rows"),
        ({"source": "weeds:rows"}, ConfigError, r"^data\.source: .* must return a DataFrame or an RDD, not list"),
        ({"source": "weeds:fails"}, ModelError, r"^data\.source: weeds:fails: KeyError: 'height'"),
        ({"source": "thorns:rows"}, ModelError, r"^data\.source: thorns:rows: ModuleNotFoundError: .*no_such_module"),
        ({}, ConfigError, r"^data names nothing to read: give data\.path, .* or hand a DataFrame to train\(\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_opened_is_refused_in_one_line(
    spark: SparkSession,
    lake: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    data: dict[str, Any],
    error: type[Exception],
    says: str,
) -> None:
    (tmp_path / "weeds.py").write_text(
        "def rows(spark, params):\n    return [1]\ndef fails(spark, params):\n    return params['height']\n"
    )
    (tmp_path / "thorns.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "weeds", raising=False)
    with pytest.raises(error, match=says) as caught:
        opened(spark, **data)
    assert "\n" not in str(caught.value)
    if isinstance(caught.value, ModelError):
        assert caught.value.record is not None
        assert "Traceback" in caught.value.record.traceback


def test_spark_would_read_files_whatever_version_of_them_is_asked_for(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "orc"
    spark.table("days").write.orc(str(folder))
    with pytest.raises(ConfigError, match=r"^data\.version: data\.path .*/orc has no versions; only tables of Delta"):
        opened(spark, path=folder, format="orc", version=3)


# --- what is chosen ---


def chosen(spark: SparkSession, config: JobConfig, data: object = None) -> tuple[int, str]:
    """Returns the rows of the training stream, and what was said."""
    said: list[str] = []
    plan = choose_feed(spark, config, Origin(spark, config, data), FileSystems(), nowhere, said.append)
    return plan.rows(Stream.TRAIN), "; ".join(said)


def test_plain_data_is_planned_and_the_choice_is_said(spark: SparkSession, lake: Path) -> None:
    held_out = {"where": "day = '2026-11-01'"}
    directly = "data: read directly by the trainers, "
    assert chosen(spark, lake_config(lake)) == (90, f"{directly}all Parquet files at data.path")
    for data, rows, files in (
        ({"path": str(lake), "options": {"mergeSchema": True}}, 90, 3),
        ({"table": "days"}, 90, 3),
        ({"table": "days", "mode": "direct", "where": "day > '2026-11-01'"}, 60, 2),
        ({"sql": "select * from days where day < '2026-11-03'", "validation": held_out}, 30, 2),
        ({"table": "days", "where": "a > 5 and day < '2026-11-03'", "validation": held_out}, 29, 2),
        ({"sql": "select * from days", "where": "day < '2026-11-03'", "validation": {"fraction": 0.5}}, 30, 2),
    ):
        found, said = chosen(spark, lake_config(**data))
        assert found == rows
        assert said.startswith(f"{directly}a plain scan of ")
        assert int(said.split()[-3]) >= files
    assert chosen(spark, lake_config(), spark.table("days").where("day = '2026-11-02'"))[0] == 30


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"sql": "select * from days limit 5"}, r"the plan has a CollectLimit"),
        ({"table": "days", "where": "a + 1 > 5"}, r"the plan has a filter on columns in the files, .*a .* > .*"),
        ({"table": "days", "validation": {"where": "a > 5"}}, r"data\.validation\.where looks at columns in the files"),
        ({"table": "days", "mode": "spark"}, r"data\.mode: spark asks for it"),
    ],
)
def test_what_is_not_plain_is_left_to_spark_and_the_reason_is_said(
    spark: SparkSession, lake: Path, data: dict[str, Any], reason: str
) -> None:
    rows, said = chosen(spark, lake_config(**data))
    assert rows == 0, "nobody knows how many rows there are"
    assert re.fullmatch(f"data: read through Spark, {reason}", said), said


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"sql": "select * from days limit 5", "mode": "direct"}, r"^data\.mode: direct needs a plain.*, but the plan"),
        ({"table": "days", "where": "aa > 5"}, r"^data\.where: .*`aa` cannot be resolved"),
        ({"table": "days", "validation": {"where": "day >"}}, r"^data\.validation\.where: .*Syntax error"),
        ({"table": "days", "mode": "spark", "where": "day >"}, r"^data\.where: .*Syntax error"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_in_either_way_is_refused(
    spark: SparkSession, lake: Path, data: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        chosen(spark, lake_config(**data))
    assert "\n" not in str(caught.value)


def test_files_that_are_gone_since_spark_listed_them(spark: SparkSession, tmp_path: Path) -> None:
    file = write_file(tmp_path / "lake/f.parquet", id_table(0, 5))
    df = spark.read.parquet(str(file.parent))
    file.unlink()
    with pytest.raises(SourceNotFoundError, match=r"^train\(data=\.\.\.\): .*f\.parquet.*: refresh it"):
        chosen(spark, lake_config(), df)


def test_what_is_handed_to_train_must_be_the_only_source_and_rows(spark: SparkSession, lake: Path) -> None:
    df = spark.table("days")
    for config, data, says in (
        (lake_config(lake), df, r"data\.path names a source, and train\(\) was given another one"),
        (lake_config(), [1, 2], r"train\(data=\.\.\.\) must be a DataFrame or an RDD, not list"),
        (lake_config(mode="direct"), df.rdd, r"data\.mode: direct needs .*, but the source is an RDD"),
        (lake_config(), spark.readStream.format("rate").load(), r"an endless stream"),
    ):
        with pytest.raises(ConfigError, match=says):
            chosen(spark, config, data)


def test_a_column_that_came_later_is_there_for_prepare(spark: SparkSession, tmp_path: Path) -> None:
    early = id_table(0, 20)
    late = early.append_column("late", pa.array([2.5] * 20))
    write_file(tmp_path / "day=2026-11-01/part-0.parquet", early)
    write_file(tmp_path / "day=2026-11-02/part-0.parquet", late)
    config = lake_config(tmp_path, where="day = '2026-11-02'", inputs={"late": "late"})
    origin = Origin(spark, config)
    choose_feed(spark, config, origin, FileSystems(), nowhere, lambda line: None)
    rows = training_rows(config, origin.data)
    assert isinstance(rows, DataFrame)
    assert dict(rows.dtypes)["day"] == "date"
    assert rows.agg({"late": "sum", "id": "count"}).first() == (50, 20)


@pytest.mark.parametrize(
    "folders", [("2026/11/19", "2026/11/20"), ("", "2026/11/20"), ("day=2026-11-19/a", "day=2026-11-20/b")]
)
@pytest.mark.parametrize("mode", ["auto", "spark"])
def test_spark_reads_every_file_below_a_folder_as_trainers_do(
    spark: SparkSession, tmp_path: Path, folders: tuple[str, ...], mode: str
) -> None:
    for i, folder in enumerate(folders):
        write_file(tmp_path / folder / "part-0.parquet", id_table(i * 20, 20))
    config = lake_config(tmp_path, mode=mode)
    origin = Origin(spark, config)
    plan = choose_feed(spark, config, origin, FileSystems(), nowhere, lambda line: None)
    assert bool(plan.staged) is (mode == "spark")
    rows = training_rows(config, origin.data)
    assert isinstance(rows, DataFrame)
    assert rows.agg({"id": "sum"}).first() == (sum(range(40)),)


@pytest.mark.parametrize("data", [{}, {"where": "n >= '2'"}, {"validation": {"where": "n = '2'"}}])
def test_prepare_sees_the_files_of_the_plan_and_none_that_came_since(
    spark: SparkSession, tmp_path: Path, data: dict[str, Any]
) -> None:
    for i, value in enumerate(("01", "2", "x [1]")):
        write_file(tmp_path / f"n={value}/part-0.parquet", id_table(i * 20, 20))
    config = lake_config(tmp_path, **data)
    origin = Origin(spark, config)
    plan = choose_feed(spark, config, origin, FileSystems(), nowhere, lambda line: None)
    write_file(tmp_path / "n=31/part-0.parquet", id_table(60, 20))
    rows = training_rows(config, origin.data)
    assert isinstance(rows, DataFrame)
    assert rows.count() == plan.rows(Stream.TRAIN)
    assert dict(rows.dtypes)["n"] == "string"


def test_prepare_sees_a_column_that_the_newest_file_has_no_value_of(spark: SparkSession, tmp_path: Path) -> None:
    early, late = id_table(0, 20), id_table(20, 20)
    write_file(tmp_path / "1.parquet", early.append_column("visits", pa.array([2] * 20)))
    write_file(tmp_path / "2.parquet", late.append_column("visits", pa.nulls(20)))
    config = lake_config(tmp_path, inputs={"visits": "visits"}, fill_null={"visits": 0})
    origin = Origin(spark, config)
    choose_feed(spark, config, origin, FileSystems(), nowhere, lambda line: None)
    rows = training_rows(config, origin.data)
    assert isinstance(rows, DataFrame)
    assert dict(rows.dtypes)["visits"] == "bigint"
    assert rows.agg({"visits": "sum", "id": "count"}).first() == (40, 40)


def test_files_with_encrypted_columns_go_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    write_encrypted(tmp_path / "f.parquet", plaintext_footer=True)
    config = lake_config(tmp_path, inputs={"x": "x"})
    origin, said = Origin(spark, config), list[str]()
    plan = choose_feed(spark, config, origin, FileSystems(), nowhere, said.append)
    assert said == [
        f"data: read through Spark, {tmp_path}/f.parquet cannot be read by trainers: it has encrypted columns"
    ]
    assert plan.staged
    assert origin.fed.table(["x"]).count() == 2
    df = spark.read.parquet(str(tmp_path))
    assert "encrypted columns" in chosen(spark, lake_config(inputs={"x": "x"}), df)[1]
