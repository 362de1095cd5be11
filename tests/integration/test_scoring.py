"""A model scores DataFrames as it was trained: the same columns become the same tensors, whoever reads them."""

from __future__ import annotations

import datetime as dt
import stat
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from integration.application import Application
from integration.metastore import Metastore
from integration.processes import command_of, wait_for
from integration.sandbox import REPO, Sandbox
from integration.submit import spark_submit
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from stored_runs import StoredRuns

from sparktf import BadValueError, ColumnError, ConfigError, JobConfig, LoadedModel, load_model
from sparktf.predict.dated import score

ROWS = 500


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows with nulls in every column but the id, and lists of any length."""
    draw = np.random.default_rng(3)

    def some(values: Any) -> pa.Array:
        return pa.array(values, mask=draw.random(ROWS) < 0.2)

    words = np.array(["red", "green", "blue"])
    table = pa.table(
        {
            "id": np.arange(1, ROWS + 1),
            "a": some(draw.normal(size=ROWS).astype(np.float32)),
            "b": some(draw.normal(size=ROWS)),
            "c": pa.array(draw.integers(0, 9, ROWS)),
            "colour": some(words[draw.integers(0, 3, ROWS)]),
            "tags": pa.array([draw.normal(size=n).tolist() for n in draw.integers(0, 4, ROWS)]),
            "y": draw.normal(size=ROWS).astype(np.float32),
            "kind": draw.integers(0, 3, ROWS),
        }
    )
    folder = tmp_path_factory.mktemp("scored") / "lake"
    folder.mkdir()
    pq.write_table(table, folder / "part-0.parquet")
    return folder


@pytest.fixture(scope="module")
def trained(local: Application, lake: Path) -> tuple[dict[str, Any], Path]:
    """A configuration, and the folder of its run, whose model is published with rows and what training predicted."""
    config: dict[str, Any] = {
        "name": "scored",
        "model": "cases.scored:build",
        "data": {
            "path": str(lake),
            "inputs": {
                "id": "id",
                "x": ["a", "c"],
                "b": {"columns": ["b"], "mask": "b_there"},
                "colour": "colour",
                "tags": {"columns": "tags", "ragged": True, "dtype": "float32"},
            },
            "targets": {"y": "y", "kind": "kind"},
            "fill_null": {"a": 0.25, "colour": "none"},
        },
        "cluster": {"workers": 1},
        "train": {"batch_size": 50, "epochs": 1},
        "output": {"path": str(local.sandbox.runs)},
        "publish": {},
    }
    return config, Path(local.train(config, "1").done.path)


# A process that scores ends soon after another model has been asked for: tests of one model are beside each other.


@pytest.fixture
def model(trained: tuple[dict[str, Any], Path]) -> Path:
    return trained[1]


@pytest.fixture
def loaded(model: Path, spark: SparkSession) -> LoadedModel:
    return load_model(spark, str(model))


def test_it_predicts_what_training_predicted(loaded: LoadedModel, model: Path, lake: Path, spark: SparkSession) -> None:
    df = spark.read.parquet(str(lake)).drop("y").select("tags", "colour", "kind", "c", "b", "a", "id")
    with np.load(model / "model/predictions.npz") as stored:
        ids = stored["inputs/id"].tolist()
        trained = {name: dict(zip(ids, stored[f"outputs/{name}"].tolist(), strict=True)) for name in ("y", "kind")}
    columns = {"y": "y", "kind": "of_kind", "called": "called"}
    scored = loaded.transform(df.repartition(3), columns, batch_rows=64)
    assert scored.dtypes == [*df.dtypes, ("y", "float"), ("of_kind", "array<float>"), ("called", "string")]
    rows = {row.id: row for row in scored.collect()}
    assert sorted(rows) == list(range(1, ROWS + 1))
    assert len(ids) > 20
    for name, values in {"y": [rows[i].y for i in ids], "kind": [rows[i].of_kind for i in ids]}.items():
        expected = np.array([trained[name][i] for i in ids]).reshape(len(ids), -1)
        np.testing.assert_allclose(np.array(values).reshape(len(ids), -1), expected, rtol=1e-4, atol=1e-5)
    assert all(row.called == ("a", "grün", "c")[int(np.argmax(row.of_kind))] for row in rows.values())


def test_a_model_that_the_version_before_has_published_predicts_what_it_did(
    spark: SparkSession, tmp_path: Path
) -> None:
    stored = StoredRuns(tmp_path)
    loaded = load_model(spark, str(stored.root / "nightly"))
    rows = loaded.transform(spark.read.parquet(str(stored.lake)), keep=["id"]).collect()
    assert sorted(row.id for row in rows) == list(range(1, 240 + 1))
    with np.load(stored.root / "nightly/serving/2/predictions.npz") as told:
        expected = dict(zip(told["inputs/id"].tolist(), told["outputs/y"].ravel().tolist(), strict=True))
    assert len(expected) > 20
    assert {row.id: row.prediction for row in rows if row.id in expected} == pytest.approx(expected, rel=1e-4)


def test_some_columns_go_on_and_some_outputs(loaded: LoadedModel, lake: Path, spark: SparkSession) -> None:
    known = {"ml_attr": {"type": "nominal", "vals": ["none", "some", "all"]}}
    df = spark.read.parquet(str(lake)).withMetadata("kind", known)
    scored = loaded.transform(df, {"y": "score"}, keep=["kind", "id"])
    assert scored.columns == ["kind", "id", "score"]
    assert [field.metadata for field in scored.schema] == [known, {}, {}]
    assert scored.count() == ROWS
    whole = {row.id: row.y for row in loaded.transform(df.drop("y", "kind"), keep=["id"]).collect()}
    assert {row.id: row.score for row in scored.collect()} == pytest.approx(whole)


def test_what_training_would_refuse_is_refused_by_name(loaded: LoadedModel, lake: Path, spark: SparkSession) -> None:
    df = spark.read.parquet(str(lake)).drop("y", "kind")
    with pytest.raises(ColumnError, match=r"input colour: there is no column 'colour'; did you mean 'colours'\?"):
        loaded.transform(df.withColumnRenamed("colour", "colours"))
    with pytest.raises(BadValueError, match=r"input colour: column 'colour' is int64"):
        loaded.transform(df.withColumn("colour", f.col("id")))
    with pytest.raises(ConfigError, match="the model has no output 'z'"):
        loaded.transform(df, {"z": "z"})
    with pytest.raises(ConfigError, match="there is a column 'y' already"):
        loaded.transform(df.withColumn("y", f.lit(1)))


def test_rows_that_fail_a_check_end_the_job_or_have_no_prediction(
    loaded: LoadedModel, lake: Path, spark: SparkSession
) -> None:
    df = spark.read.parquet(str(lake)).drop("y", "kind").coalesce(1)
    damaged = df.withColumn("c", f.when(f.col("id") % 250 == 7, None).otherwise(f.col("c")))
    with pytest.raises(Exception, match=r"BadValueError: partition 0: column 'c', row 6: null; set data\.fill_null\.c"):
        loaded.transform(damaged).collect()
    rows = loaded.transform(damaged, keep=["id"], max_bad_rows=2).collect()
    assert {row.id for row in rows if row.y is None} == {row.id for row in rows if row.kind is None} == {7, 257}
    assert len(rows) == ROWS
    with pytest.raises(Exception, match=r"2 rows fail a check, and data\.max_bad_rows is 1"):
        loaded.transform(damaged, max_bad_rows=1).collect()


def scorers() -> list[psutil.Process]:
    """The processes that score for this session's executor: its JVM is a child of this process."""
    below = psutil.Process().children(recursive=True)
    jvms = {str(process.pid) for process in below if process.name() == "java"}
    found = [(process, command_of(process)) for process in psutil.process_iter()]
    return [
        process
        for process, command in found
        if "sparktf.trainer.scoring" in command and command[-3].partition("@")[0] in jvms
    ]


def kill(process: psutil.Process) -> None:
    """Kills it, and waits until it is dead; tasks may find its socket for a moment more, until its threads are gone."""
    process.kill()
    wait_for("it is dead", lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, within_s=30)


def test_tasks_of_an_executor_share_one_process_and_start_another_where_it_has_died(
    loaded: LoadedModel, lake: Path, spark: SparkSession
) -> None:
    scored = loaded.transform(spark.read.parquet(str(lake)).drop("y", "kind").repartition(4), keep=["id"])
    assert len(scored.collect()) == ROWS
    for process in (dead := scorers()):  # this model's, and those of models of other tests: they stay a while
        kill(process)
    assert dead
    assert len(scored.collect()) == ROWS
    (process,) = scorers()
    place = Path(command_of(process)[-2])  # in a folder of Spark's that other users may look into
    # Of one that was killed before, the working folder is there too.
    open_to_others = {
        path.name: stat.S_IMODE(path.stat().st_mode) & 0o077 for path in place.parent.glob(f"{place.name}*")
    }
    assert {place.name, f"{place.name}.log"} < set(open_to_others)
    assert not any(open_to_others.values()), open_to_others
    assert len(scored.collect()) == ROWS
    assert scorers() == [process]


@pytest.mark.timeout(120)
def test_as_many_calls_as_rows_do_not_make_task_and_model_wait_for_each_other(
    loaded: LoadedModel, lake: Path, spark: SparkSession
) -> None:
    df = spark.read.parquet(str(lake)).drop("y", "kind")
    many = df.crossJoin(spark.range(2).select(f.col("id").alias("copy"))).coalesce(1)
    assert len(loaded.transform(many, keep=["id"], batch_rows=1).collect()) == 2 * ROWS


DAYS = ("2026-11-19", "2026-11-20")


def test_the_files_of_a_table_that_has_a_log_are_not_scored_as_they_lie_there(
    trained: tuple[dict[str, Any], Path], spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    config = job(trained, DAYS[0], source={"path": str(tmp_path / "table")}, output={"path": str(tmp_path / "scores")})
    with pytest.raises(ConfigError, match=r"predict\.source\.path: .* Delta"):
        score(spark, config)


def job(trained: tuple[dict[str, Any], Path], date: str, **predict: Any) -> JobConfig:
    """Returns the configuration of a job that scores."""
    config = JobConfig.model_validate({**trained[0], "predict": predict})
    return config.for_day(dt.date.fromisoformat(date))


def test_a_days_predictions_go_into_a_table_too(
    trained: tuple[dict[str, Any], Path], lake: Path, spark: SparkSession
) -> None:
    asked: dict[str, Any] = {"output": {"table": "scores", "partition": "day"}, "keep": ["id"], "model": "run:1"}
    for date, where in ((DAYS[0], "id <= 9"), (DAYS[1], "id <= 5"), (DAYS[0], "id > 498")):
        done = score(spark, job(trained, date, source={"path": str(lake), "where": where}, **asked))
        assert done.place == f"scores, day={date}"
    rows = spark.table("scores").collect()
    assert sorted((str(row.day), row.id) for row in rows) == [
        (DAYS[0], 499),
        (DAYS[0], 500),
        *((DAYS[1], i) for i in range(1, 6)),
    ]
    assert {row.model_version for row in rows} == {"run:1"}
    assert {len(row.kind) for row in rows} == {3}
    assert score(spark, job(trained, DAYS[0], source={"path": str(lake), "where": "id < 0"}, **asked)).rows == 0
    assert [str(row.day) for row in spark.table("scores").collect()] == [DAYS[1]] * 5


def test_what_is_scored_is_not_replaced_by_its_predictions_whatever_names_it(
    trained: tuple[dict[str, Any], Path], lake: Path, spark: SparkSession, tmp_path: Path
) -> None:
    days = tmp_path / "days"
    rows = pq.read_table(lake / "part-0.parquet")
    for day in DAYS:
        (days / f"date={day}").mkdir(parents=True)
        pq.write_table(rows, days / f"date={day}" / "part 0.parquet")
    (tmp_path / "linked").symlink_to(days)
    spark.sql(f"CREATE TABLE scored_days USING parquet LOCATION '{days}'")
    spark.sql("MSCK REPAIR TABLE scored_days")
    path = {"path": str(days), "where": f"date = '{DAYS[1]}'"}
    for source, output, said in (
        (path, {"path": str(days)}, "is predict.source.path"),
        (path, {"path": str(tmp_path / "linked/../linked")}, "is predict.source.path"),
        ({"table": "scored_days"}, {"path": str(days)}, "is what is scored"),
        ({"table": "scored_days"}, {"path": str(days / "scores")}, "is below what is scored"),
        ({"sql": "SELECT * FROM scored_days WHERE id < 3"}, {"path": str(tmp_path)}, "is above what is scored"),
        ({"sql": f"SELECT * FROM parquet.`{days}/date={DAYS[1]}`"}, {"path": str(days)}, "is above what is scored"),
        (
            {"sql": "SELECT * FROM scored_days"},
            {"table": "scored_days"},
            "predict.output.table scored_days: .* is what is scored",
        ),
    ):
        asked = {"source": source, "output": output, "keep": ["id"], "overwrite": "any"}
        with pytest.raises(ConfigError, match=said):
            score(spark, job(trained, DAYS[1], **asked))
    assert spark.read.parquet(str(days)).count() == 2 * ROWS
    beside = score(spark, job(trained, DAYS[1], source=path, output={"path": str(tmp_path / "scores")}, keep=["id"]))
    assert beside.rows == ROWS


def test_a_days_predictions_are_replaced_as_a_whole_also_by_none_and_say_which_model_made_them(
    trained: tuple[dict[str, Any], Path], lake: Path, spark: SparkSession, tmp_path: Path
) -> None:
    output, columns = {"path": str(tmp_path / "scores")}, {"y": "score"}
    for date, where, rows in ((DAYS[0], "id <= 9", 9), (DAYS[1], "id <= 5", 5), (DAYS[0], "id > 490", 10)):
        source = {"path": str(lake), "where": where}
        done = score(spark, job(trained, date, source=source, output=output, columns=columns, keep=["id"]))
        assert (done.rows, done.version, done.place) == (rows, "1", f"{output['path']}/date={date}")
        assert f"scored {rows} rows with model 1 in " in done.in_words()
    stored = spark.read.parquet(output["path"])
    assert stored.columns == ["id", "score", "model_version", "date"]
    found = sorted((str(row.date), row.id, row.model_version) for row in stored.collect())
    assert found == sorted([(DAYS[1], i, "1") for i in range(1, 6)] + [(DAYS[0], i, "1") for i in range(491, 501)])

    # A night whose rows cannot be scored leaves what was there, and says why.
    bad = {"sql": f"SELECT id, a, b, CAST(NULL AS BIGINT) AS c, colour, tags FROM parquet.`{lake}`"}
    with pytest.raises(BadValueError, match=r"partition 0: column 'c', row 0: null"):
        score(spark, job(trained, DAYS[0], source=bad, output=output, columns=columns, keep=["id"]))
    assert spark.read.parquet(output["path"]).count() == len(found)
    assert sorted(path.name for path in Path(output["path"]).iterdir()) == [f"date={day}" for day in DAYS]

    none = {"path": str(lake), "where": "id < 0"}
    assert score(spark, job(trained, DAYS[0], source=none, output=output, columns=columns, keep=["id"])).rows == 0
    assert [str(row.date) for row in spark.read.parquet(output["path"]).collect()] == [DAYS[1]] * 5


def test_a_table_is_there_before_its_first_rows_are_and_its_columns_are_those_of_any_case(
    trained: tuple[dict[str, Any], Path], lake: Path, spark: SparkSession
) -> None:
    """A job that is killed while it makes a table leaves files that no later one can make it over."""
    asked: dict[str, Any] = {"output": {"table": "first_night", "partition": "Day"}, "columns": {"y": "Y"}}
    bad = {"sql": f"SELECT id, a, b, CAST(NULL AS BIGINT) AS c, colour, tags FROM parquet.`{lake}`"}
    with pytest.raises(BadValueError, match="null"):
        score(spark, job(trained, DAYS[0], source=bad, keep=["id"], **asked))
    assert spark.table("first_night").count() == 0
    source = {"path": str(lake), "where": "id <= 2"}
    assert score(spark, job(trained, DAYS[0], source=source, keep=["id"], **asked)).rows == 2
    spark.sql(
        "CREATE TABLE lower_case (y FLOAT, id BIGINT, model_version STRING, day DATE) USING parquet "
        "PARTITIONED BY (day)"
    )
    asked["output"]["table"] = "lower_case"
    assert score(spark, job(trained, DAYS[1], source=source, keep=["id"], **asked)).rows == 2
    assert sorted((row.id, str(row.day)) for row in spark.table("lower_case").collect()) == [(1, DAYS[1]), (2, DAYS[1])]


@pytest.mark.parametrize("by", [(), ("version",), ("day", "version")])
def test_a_table_in_which_a_day_is_no_partition_of_its_own_is_refused_and_keeps_its_rows(
    by: tuple[str, ...], trained: tuple[dict[str, Any], Path], lake: Path, spark: SparkSession
) -> None:
    table = "_".join(("kept_by", *by))
    there = spark.sql(f"SELECT 7L AS id, 0.5F AS y, '0' AS version, date'{DAYS[0]}' AS day")
    there.write.partitionBy(*by).format("parquet").saveAsTable(table)
    asked: dict[str, Any] = {"output": {"table": table, "partition": "day"}, "keep": ["id"], "columns": {"y": "y"}}
    source = {"path": str(lake), "where": "id <= 2"}
    with pytest.raises(ColumnError, match=rf"table {table} is partitioned by .*, not by 'day' alone"):
        score(spark, job(trained, DAYS[1], source=source, version_column="version", **asked))
    assert [(row.id, str(row.day)) for row in spark.table(table).collect()] == [(7, DAYS[0])]


CUSTOMERS = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").enableHiveSupport().getOrCreate()
spark.sql("create database shop")
spark.read.parquet(sys.argv[1]).write.saveAsTable("shop.customers")
spark.stop()
"""


def test_the_job_is_a_script_for_spark_submit_that_scores_from_table_to_table_of_the_hive_metastore(
    trained: tuple[dict[str, Any], Path], lake: Path, sandbox: Sandbox, tmp_path: Path
) -> None:
    source = {"table": "shop.customers", "where": "id <= day('{{date}}')"}
    output = {"table": "shop.scores", "partition": "day"}
    predict = {"source": source, "output": output, "columns": {"y": "y"}, "keep": ["id"]}
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump({**trained[0], "predict": predict}), encoding="utf-8")
    metastore = Metastore(sandbox, tmp_path)
    made, said = metastore.run("-c", CUSTOMERS, str(lake))
    assert made == 0, said
    script = (str(REPO / "jobs/predict.py"), "--config", str(job), "--date", DAYS[1])
    code, said = metastore.run(*script, program=spark_submit())
    assert code == 0, said
    assert "scored 20 rows with model 1 in " in said
    assert f": shop.scores, day={DAYS[1]}" in said
    [(partition, place)] = metastore.partitions("scores")
    assert partition == f"day={DAYS[1]}"
    rows = pq.read_table(place.removeprefix("file:"), partitioning=None).to_pylist()
    assert sorted((row["id"], row["model_version"]) for row in rows) == [(i, "1") for i in range(1, 21)]
    assert not sandbox.leftovers(), "the process that scored has ended with the application"
