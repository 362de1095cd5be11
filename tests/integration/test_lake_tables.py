"""Tables of Delta and Iceberg, with their own connectors: which version a run reads, and reads again."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from integration.application import Application
from integration.processes import wait_for
from integration.rows import job
from integration.sandbox import REPO, RunFolder, Sandbox
from integration.watch import Watch
from split import only

from sparktf import Verdict
from sparktf.wire.exported import EXPORTED, ModelFeed

CONNECTORS = REPO / ".connectors"
SINGLE = {"strategy": "single", "workers": 1}

ROWS = 300
EVERY, HOLD_AT = 5, 7  # of 10 updates in an epoch


class Kind(NamedTuple):
    """Where tests have tables of a kind.

    Attributes:
        called: In messages.
        commits: In which six files are written: Iceberg lists them in any order only where there are several.
        options: Of a table of which Spark makes a partition for each file; Spark's own settings do it for Delta.
        mode: Who reads in the test of whole runs: one kind each way.
    """

    format: str
    schema: str
    folder: str
    called: str
    commits: int = 1
    options: str = ""
    mode: str = "auto"


DELTA = Kind("delta", "default", "warehouse", "a Delta table")
ICEBERG = Kind(
    "iceberg", "ice.db", "ice/db", "an Iceberg table", 6,
    "TBLPROPERTIES ('read.split.open-file-cost' = '134217728')", "spark",
)  # fmt: skip
KINDS = [DELTA, ICEBERG]
NAMES = [kind.format for kind in KINDS]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def spark41(tmp_path_factory: pytest.TempPathFactory, rows: Path, lake: Path) -> Iterator[Application]:
    """An application with the connectors, of the Spark that they are made for; its trainings share a node."""
    assert (CONNECTORS / ".installed").exists(), "there are no connectors: make integration installs them"
    application = Application(
        Sandbox(tmp_path_factory.mktemp("spark41") / "app", CONNECTORS / "python"),
        "local[3]",
        {
            "spark.jars": ",".join(map(str, sorted((CONNECTORS / "jars").glob("*.jar")))),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(lake / "ice"),
            "spark.sql.warehouse.dir": str(lake / "warehouse"),
            "spark.sql.files.openCostInBytes": "134217728",
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.databricks.delta.retentionDurationCheck.enabled": "false",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM's tasks: 10,000 by default
            # Delta asks many queries of few rows, each of which would be compiled.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
    )
    try:
        application.share_gang(job(rows, application.sandbox.runs, "cases.watched:build", name="first", cluster=SINGLE))
        application.collect("cases.versioned:run", statements=["create namespace if not exists ice.db"])
        yield application
    finally:
        left = application.close()
    assert not left


@pytest.fixture(params=KINDS, ids=NAMES)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


def made(application: Application, kind: Kind, table: str, *, rows: int, commits: int = 1, files: int = 1) -> str:
    """Makes a table; returns its name."""
    name, columns = f"{kind.schema}.{table}", "id BIGINT, a FLOAT, b FLOAT, y FLOAT"
    statement = f"CREATE TABLE {name} ({columns}) USING {kind.format} {kind.options}"
    application.collect("cases.versioned:run", statements=[statement])
    if rows:
        written = {"kind": kind.format, "rows": rows, "commits": commits, "files": files}
        application.collect("cases.versioned:append", table=name, **written)
    return name


def now() -> str:
    return dt.datetime.now(dt.UTC).isoformat()


def of_table(application: Application, name: str, **data: Any) -> dict[str, Any]:
    """Returns a configuration over another source than a path."""
    source = {"path": None, "cache": "off", "shuffle_rows": 40, **data}
    return job(Path(), application.sandbox.runs, "cases.watched:build", name=name, data=source, cluster=SINGLE)


def ids(application: Application, config: dict[str, Any]) -> list[list[int]]:
    """Returns the ids that a configuration leads to, each with its partition."""
    return application.collect("cases.versioned:ids", config=config)


def exported(run: RunFolder) -> ModelFeed:
    return ModelFeed.model_validate_json((run.model / EXPORTED).read_bytes())


def test_a_run_reads_one_version_whatever_becomes_of_the_table(
    spark41: Application, kind: Kind, watch: Watch, lake: Path, tmp_path: Path
) -> None:
    # Files of as many rows each: nobody could see by their rows' number that they have changed places.
    table = made(spark41, kind, "sales", rows=ROWS, commits=kind.commits, files=6 // kind.commits)
    config = of_table(spark41, f"sales-{kind.format}", table=table, mode=kind.mode)
    config |= {
        "model": "cases.hand_written:train",
        "params": watch.params(hold_at=HOLD_AT),
        "train": {"batch_size": 30},
        "checkpoint": {"every_steps": EVERY},
    }
    run = spark41.run(config, "r")
    watch.hold()
    spark41.begin(config, "r")
    [held] = watch.held(1)
    wait_for("a commit", run.committed, within_s=60)
    spark41.interrupt()
    interrupted = spark41.outcome()
    assert interrupted.error == "KeyboardInterrupt"
    version = run.result().source_version
    assert f"data: version {version} of the table is read" in interrupted.output
    watch.release()

    then = now()
    changes = [f"DELETE FROM {table} WHERE id <= 100", f"ALTER TABLE {table} ADD COLUMN z INT"]
    spark41.collect("cases.versioned:run", statements=changes)
    resumed = spark41.train(config, "r").done
    assert (resumed.source_version, resumed.attempts[0].from_step) == (version, EVERY)
    assert [(e.planned, e.fed, e.trained, e.complete) for e in resumed.rows] == [(ROWS, ROWS, ROWS, True)]
    later = [pid for pid in watch.pids() if pid != held.pid]
    assert watch.ids([held.pid], updates=EVERY) + watch.ids(later) == dict.fromkeys(range(1, ROWS + 1), 1)
    assert exported(run).source_version == version
    assert json.loads((run.path / "result.json").read_bytes())["source_version"] == version

    newest = of_table(spark41, "newest", table=table)
    assert {i for i, _ in ids(spark41, newest)} == set(range(101, ROWS + 1))
    path = str(lake / kind.folder / "sales")
    for older in ({"version": version}, {"timestamp": then}):
        there = of_table(spark41, "there", path=path, format=kind.format, **older)
        assert {i for i, _ in ids(spark41, there)} == set(range(1, ROWS + 1))
    named = of_table(spark41, f"older-{kind.format}", table=table, timestamp=then)
    outcome = spark41.train(named, "r").done
    assert (outcome.rows_trained, outcome.source_version) == (ROWS, version)

    source = {"table": table, "version": version}
    config["predict"] = {"model": "run:r", "source": source, "output": {"path": str(tmp_path / "scores")}}
    scored = spark41.collect("cases.versioned:scored", config=config, date="2026-11-20")
    assert {i for (i,) in scored} == set(range(1, ROWS + 1))


@pytest.mark.parametrize("kind", only(DELTA, of=KINDS), ids=NAMES, indirect=True)
def test_a_version_that_is_gone_ends_the_run_that_has_read_it(spark41: Application, kind: Kind) -> None:
    table = made(spark41, kind, "gone", rows=7)
    config = of_table(spark41, f"gone-{kind.format}", table=table)
    failed = spark41.train({**config, "model": "cases.failing:build"}, "r").failed
    version = failed.source_version
    spark41.collect("cases.versioned:run", statements=[f"DROP TABLE {table} PURGE"])
    made(spark41, kind, "gone", rows=0)
    outcome = spark41.train(config, "r")
    assert (outcome.error, outcome.verdict) == ("SourceNotFoundError", Verdict.DATA_REFUSED)
    assert f"data.table {table}: version {version}, which this run reads, no longer exists" in outcome.message
    assert "use another --run-id" in outcome.message


@pytest.mark.parametrize("kind", only(ICEBERG, of=KINDS), ids=NAMES, indirect=True)
def test_a_version_has_the_same_partitions_whenever_it_is_read(spark41: Application, kind: Kind) -> None:
    table = made(spark41, kind, "parts", rows=ROWS, commits=kind.commits, files=6 // kind.commits)
    config = of_table(spark41, "parts", table=table)
    first, *others = (ids(spark41, config) for _ in range(8))
    assert {partition for _, partition in first} == set(range(6))
    assert others == [first] * 7


def fed(application: Application, **data: Any) -> tuple[int | None, str, list[list[Any]]]:
    """Returns the version that a run would read, what it would say of who reads, and what trainers read themselves."""
    [[version, said, rows]] = application.collect("cases.direct:fed", config=of_table(application, "fed", **data))
    return version, said, json.loads(rows)


DAY = "date'2026-11-02'"


def test_trainers_read_the_files_of_a_version_as_spark_does(spark41: Application, kind: Kind, lake: Path) -> None:
    table = f"{kind.schema}.days"
    path = str(lake / kind.folder / "days")
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


@pytest.mark.parametrize("name", ONLY_SPARK)
def test_what_a_plain_reader_would_get_wrong_spark_reads(spark41: Application, name: str) -> None:
    kind, options, changes, reason = ONLY_SPARK[name]
    table = f"{kind.schema}.{name.replace(' ', '_').replace(chr(39), '')}"
    made = [f"CREATE TABLE {{table}} {TABLE} USING {kind.format} {options}", APPEND, *changes]
    spark41.collect("cases.versioned:run", statements=[statement.format(table=table) for statement in made])
    version, said, _ = fed(spark41, table=table)
    assert version is not None
    assert re.fullmatch(f"data: read through Spark, {reason}", said), said
    _, refused, _ = fed(spark41, table=table, mode="direct")
    assert re.fullmatch(f"ConfigError: data.mode: direct needs a plain scan of Parquet files, but {reason}", refused)


def test_files_that_were_imported_are_sparks(spark41: Application, lake: Path) -> None:
    # Their partition values stand in the table's log alone, and their columns have no ids.
    plain, table = f"parquet.`{lake}/warehouse/by_day`", "ice.db.imported"
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


def test_what_is_not_there_is_refused_by_its_name(spark41: Application, kind: Kind, lake: Path) -> None:
    table = made(spark41, kind, "few", rows=7)
    views = [f"CREATE OR REPLACE TEMPORARY VIEW seen AS SELECT * FROM {table}"]
    spark41.collect("cases.versioned:run", statements=views)
    path = str(lake / kind.folder / "few")
    # Delta by itself refuses moments after the last commit.
    assert len(ids(spark41, of_table(spark41, "quiet", table=table, timestamp=now()))) == 7
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"table": table, "version": 99}, "SourceNotFoundError", f"data.version: data.table {table} has no version 99"),
        (
            {"table": table, "timestamp": "2020-01-01"},
            "SourceNotFoundError",
            f"data.timestamp: data.table {table} has no version as old as 2020-01-01",
        ),
        ({"table": table, "timestamp": "2999-01-01"}, "SourceNotFoundError", "2999-01-01 is in the future"),
        ({"table": "seen", "version": 0}, "ConfigError", "data.version: data.table seen has no versions"),
        (
            {"path": path, "format": kind.format, "version": 99},
            "SourceNotFoundError",
            f"data.version: data.path {path} has no version 99",
        ),
    ]
    for data, error, says in cases:
        outcome = spark41.train(of_table(spark41, f"refused-{kind.format}", **data))
        assert (outcome.error, says in outcome.message) == (error, True), outcome.message
        assert outcome.verdict in (Verdict.REFUSED, Verdict.DATA_REFUSED)
        assert "\n" not in outcome.message.strip()
