"""Trainers read the files of Delta and Iceberg tables: the rows that Spark reads, or Spark reads them; with connectors
and without.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from integration.application import Application
from integration.cases.direct import fed as fed_by
from integration.lake_tables import DELTA, ICEBERG, Kind, made, of_table
from integration.rows import job
from pyspark.sql import SparkSession

from sparktf import Verdict


def fed(application: Application, **data: Any) -> tuple[int | None, str, list[list[Any]]]:
    """Returns the version that a run would read, what it would say of who reads, and what trainers read themselves."""
    [[version, said, rows]] = application.collect("cases.direct:fed", config=of_table(application, "fed", **data))
    return version, said, json.loads(rows)


DAY = "date'2026-11-02'"


def test_trainers_read_the_files_of_a_version_as_spark_does(spark41: Application, kind: Kind, table_lake: Path) -> None:
    table = f"{kind.schema}.days"
    path = str(table_lake / kind.folder / "days")
    columns = "id BIGINT, a FLOAT, b FLOAT, y FLOAT, day DATE, `x.y` INT"
    values = "id, float(id), float(-id), float(id % 7), date_add(date'2026-11-01', int(id % 3)), 1"
    statements = [
        f"CREATE TABLE {table} ({columns}) USING {kind.format} PARTITIONED BY (day)",
        f"INSERT INTO {table} SELECT {values} FROM range(90)",
        # Rows that no longer belong to the table, in files that are still there.
        f"DELETE FROM {table} WHERE day = date'2026-11-03'",
        # A column that older files lack, and nobody uses.
        f"ALTER TABLE {table} ADD COLUMN z INT",
        f"INSERT INTO {table} SELECT {values}, 1 FROM range(90, 99)",
    ]
    spark41.collect("cases.versioned:run", statements=statements)
    inputs = {"id": "id", "x": ["a", "b"], "day": "day"}
    truth = "unix_date(day), id, array(a, b), y"

    def spark_reads(where: str) -> list[list[Any]]:
        query = f"SELECT {truth} FROM {table} WHERE {where}"
        return sorted(spark41.collect("cases.versioned:run", statements=[query]))

    for where in (None, f"day = {DAY}", f"day = {DAY} and id > 40 and y is not null", "id between 20 and 91"):
        expected = spark_reads(where or "true")
        version, said, rows = fed(spark41, table=table, inputs=inputs, where=where)
        assert version is not None
        assert said.startswith("data: read directly by the trainers, a plain scan of "), said
        assert said.endswith(f" Parquet files of {kind.called}")
        assert rows == expected != []
    assert fed(spark41, path=path, format=kind.format, inputs=inputs, mode="direct")[2] == spark_reads("true")
    _, said, _ = fed(spark41, table=table, inputs={**inputs, "z": {"columns": "z", "mask": "seen"}})
    assert re.fullmatch(r"data: read through Spark, /.*\.parquet has no column 'z'", said), said

    config = of_table(spark41, f"days-{kind.format}", table=table)
    done = spark41.train(config, "r")
    rows_of_all = len(spark_reads("true"))
    assert [(e.planned, e.fed, e.trained, e.complete) for e in done.done.rows] == [(rows_of_all,) * 3 + (True,)]
    assert "data: read directly by the trainers" in done.output


TABLE = "(id INT, a FLOAT, b FLOAT, y FLOAT)"
APPEND = "INSERT INTO {table} SELECT int(id), float(id), float(-id), float(id) FROM range(20)"
OTHER_NAMES = ["a TO t", "b TO a", "t TO b"]
MERGE_ON_READ = "TBLPROPERTIES ('format-version'='%d', 'write.delete.mode'='merge-on-read')"
DELETE = "DELETE FROM {table} WHERE id < 5"

ONLY_SPARK: dict[str, tuple[Kind, str, list[str], str]] = {
    "deletion vectors": (
        DELTA, "TBLPROPERTIES ('delta.enableDeletionVectors'='true')", [DELETE],
        "the Delta table has deletion vectors: rows that are deleted, but still in its files",
    ),
    "mapped columns": (
        DELTA, "TBLPROPERTIES ('delta.columnMapping.mode'='name')", [],
        r"the Delta table maps its columns to others in its files \(columnMapping.mode: name\)",
    ),
    "a wider type": (
        DELTA, "TBLPROPERTIES ('delta.enableTypeWidening'='true')",
        ["ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT", APPEND],
        r"\S+\.parquet: column 'id' is of type int, but bigint in Spark",
    ),
    "position deletes": (
        ICEBERG, MERGE_ON_READ % 2, [DELETE],
        r"the Iceberg table has delete files: rows that are deleted, but still in \S+\.parquet",
    ),
    "deletes of version 3": (
        ICEBERG, MERGE_ON_READ % 3, [DELETE],
        r"the Iceberg table has delete files: rows that are deleted, but still in \S+\.parquet",
    ),
    "names that changed hands": (
        ICEBERG, "", [*(f"ALTER TABLE {{table}} RENAME COLUMN {names}" for names in OTHER_NAMES), APPEND],
        r"\S+\.parquet: column 'a' is another one than the table's, which took its name over",
    ),
    "names that changed hands since": (
        ICEBERG, "", [f"ALTER TABLE {{table}} RENAME COLUMN {names}" for names in OTHER_NAMES],
        r"\S+\.parquet: column 'a' has another name in the table, or had one since",
    ),
    "a wider type of Iceberg's": (
        ICEBERG, "", ["ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT", APPEND],
        r"\S+\.parquet: column 'id' is of type int, but bigint in Spark",
    ),
    "files of another format": (
        ICEBERG, "TBLPROPERTIES ('write.format.default'='orc')", [], r"\S+\.orc is a file of format ORC",
    ),
}  # fmt: skip


def made_wrong(application: Application, name: str) -> str:
    """Makes a table of `ONLY_SPARK`, unless it is there; returns its name."""
    kind, options, changes, _ = ONLY_SPARK[name]
    table = f"{kind.schema}.{name.replace(' ', '_').replace(chr(39), '')}"
    makes = [f"CREATE TABLE {{table}} {TABLE} USING {kind.format} {options}", APPEND, *changes]
    there = application.collect("cases.versioned:run", statements=[f"SHOW TABLES IN {kind.schema}"])
    if not any(table.endswith(f".{row[1]}") for row in there):
        application.collect("cases.versioned:run", statements=[step.format(table=table) for step in makes])
    return table


@pytest.mark.parametrize("name", ONLY_SPARK)
def test_what_a_plain_reader_would_get_wrong_spark_reads(spark41: Application, name: str) -> None:
    reason, table = ONLY_SPARK[name][3], made_wrong(spark41, name)
    version, said, _ = fed(spark41, table=table)
    assert version is not None
    assert re.fullmatch(f"data: read through Spark, {reason}", said), said
    _, refused, _ = fed(spark41, table=table, mode="direct")
    assert re.fullmatch(f"ConfigError: data.mode: direct needs a plain scan of Parquet files, but {reason}", refused)


def test_files_that_were_imported_are_sparks(spark41: Application, table_lake: Path) -> None:
    # Their partition values stand in the table's log alone, and their columns have no ids.
    plain, table = f"parquet.`{table_lake}/warehouse/by_day`", "ice.db.imported"
    columns = "id, float(id) a, float(-id) b, float(id) y"
    statements = [
        f"CREATE TABLE by_day USING parquet PARTITIONED BY (day) AS SELECT {columns}, {DAY} day FROM range(9)",
        f"CREATE TABLE {table} (id BIGINT, a FLOAT, b FLOAT, y FLOAT, day DATE) USING iceberg PARTITIONED BY (day)",
        f"CALL ice.system.add_files(table => 'db.imported', source_table => '{plain}')",
    ]
    spark41.collect("cases.versioned:run", statements=statements)
    assert re.search(r"through Spark, .*column '\w+' has no id, as in files that Iceberg", fed(spark41, table=table)[1])
    inputs = {"id": "id", "x": ["a", "b"], "day": "day"}
    assert re.search(r"through Spark, .* has no column 'day'", fed(spark41, table=table, inputs=inputs)[1])


def test_a_file_that_vacuum_removed_is_named(spark41: Application) -> None:
    table = made(spark41, DELTA, "swept", rows=7)
    config = of_table(spark41, "swept", table=table)
    spark41.train({**config, "model": "cases.failing:build"}, "r")
    removes = [f"DELETE FROM {table} WHERE id < 5", f"VACUUM {table} RETAIN 0 HOURS"]
    spark41.collect("cases.versioned:run", statements=removes)
    outcome = spark41.train(config, "r")
    assert (outcome.error, outcome.verdict) == ("SourceNotFoundError", Verdict.DATA_REFUSED)
    assert re.search(r"/swept/part-\S+\.parquet was deleted after the plan was made: .*VACUUM", outcome.message)


def without_connector(spark: SparkSession, **data: Any) -> tuple[int | None, str, list[list[Any]]]:
    """Returns what `fed` does, in a session that has no connector."""
    [(version, said, rows)] = fed_by(
        spark, job(Path(), Path("/nowhere"), "m:build", data={"path": None, **data})
    ).collect()
    return version, said, json.loads(rows)


def test_a_table_trains_without_its_connector_by_its_log(
    spark41: Application, spark: SparkSession, kind: Kind, table_lake: Path
) -> None:
    table, path = f"{kind.schema}.logged", str(table_lake / kind.folder / "logged")
    values = "id, float(id), float(-id), float(id % 7), date_add(date'2026-11-01', int(id % 3)), concat('a b/', id % 2)"
    columns = "id BIGINT, a FLOAT, b FLOAT, y FLOAT, day DATE, shop STRING"
    statements = [
        f"CREATE TABLE {table} ({columns}) USING {kind.format} PARTITIONED BY (day, shop)",
        f"INSERT INTO {table} SELECT {values} FROM range(90)",
        f"DELETE FROM {table} WHERE day = date'2026-11-03'",
        f"ALTER TABLE {table} ADD COLUMN z INT",
        f"INSERT INTO {table} SELECT {values}, 1 FROM range(90, 99)",
    ]
    spark41.collect("cases.versioned:run", statements=statements[:2])
    older, _, first = fed(spark41, table=table)
    spark41.collect("cases.versioned:run", statements=statements[2:])
    data = {"path": path, "format": kind.format, "shuffle_rows": 40}
    inputs = {"id": "id", "x": ["a", "b"], "day": "day"}
    for where in (None, f"day = {DAY} and id > 40", "shop = 'a b/1'"):
        there = fed(spark41, table=table, inputs=inputs, where=where)
        version, said, rows = without_connector(spark, **data, inputs=inputs, where=where)
        assert (version, rows) == (there[0], there[2])
        assert rows
        assert said.startswith("data: read directly by the trainers, a plain scan of ")
        assert said.endswith(f" Parquet files of {kind.called}")
    assert without_connector(spark, **data, version=older)[::2] == (older, first)
    for refused, error, says in (
        ({"inputs": {"id": "id", "x": ["a", "b"], "z": "z"}}, "NeedsConnectorError", "has no column 'z'"),
        ({"mode": "spark"}, "ConfigError", kind.format),
        ({"version": 99}, "SourceNotFoundError", f"data.version: data.path {path} has no version 99"),
        ({"timestamp": "2020-01-01"}, "SourceNotFoundError", "has no version as old as 2020-01-01"),
        ({"path": f"{path}/no"}, "SourceNotFoundError", f"there is no {kind.called.partition(' ')[2]}"),
    ):
        _, said, rows = without_connector(spark, **{**data, **refused})
        assert said.startswith(f"{error}: ") and says in said and not rows, said


@pytest.mark.more("integration/test_table_files.py::test_a_table_trains_without_its_connector_by_its_log")
def test_a_whole_run_without_the_connector_trains_each_row_of_a_snapshot_and_keeps_to_it(
    spark41: Application, cluster: Application, kind: Kind, table_lake: Path
) -> None:
    table = made(spark41, kind, "whole", rows=200, commits=2)
    data = {"path": str(table_lake / kind.folder / "whole"), "format": kind.format}
    config = of_table(cluster, f"whole-{kind.format}", **data, validation={"fraction": 0.25})
    first = cluster.train(config, "r").done
    [epoch] = first.rows
    assert 100 < epoch.trained < 200
    assert epoch.complete
    spark41.collect("cases.versioned:run", statements=[f"DELETE FROM {table} WHERE id <= 150"])
    config["train"]["epochs"] = 2
    later = cluster.train(config, "r").done
    assert later.source_version == first.source_version is not None
    assert [(e.trained, e.complete) for e in later.rows][-1] == (epoch.trained, True)


@pytest.mark.parametrize("name", ONLY_SPARK)
def test_without_the_connector_what_a_plain_reader_would_get_wrong_is_refused(
    spark41: Application, spark: SparkSession, table_lake: Path, name: str
) -> None:
    kind, _, _, _ = ONLY_SPARK[name]
    path = table_lake / kind.folder / made_wrong(spark41, name).rpartition(".")[2]
    _, said, rows = without_connector(spark, path=str(path), format=kind.format)
    assert re.match(
        rf"NeedsConnectorError: data\.path .* is {kind.called} that only Spark's connector reads, since ", said
    )
    assert not rows
