"""TFRecord files: written and read by Spark, TensorFlow and trainers, all of the same rows.

TensorFlow is imported by the tests that use it: half of the suite does not, and it takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from integration.application import Application
from integration.processes import wait_for
from integration.rows import job
from integration.watch import Watch
from integration.weights import descended, weights_of
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from sparktf import tfrecords
from sparktf.driver.spark.differences import type_of_ddl
from sparktf.errors import BadValueError, ConfigError, CorruptFileError, SourceNotFoundError

ROWS = 600
SCHEMA = "id bigint, t boolean, n smallint, x float, d double, s string, y binary, l array<bigint>, m array<string>"


def record(i: int) -> bytes:
    """Returns what TensorFlow makes of a row."""
    from tensorflow.train import BytesList, Example, Feature, Features, FloatList, Int64List

    features = {
        "id": Feature(int64_list=Int64List(value=[i])),
        "x": Feature(float_list=FloatList(value=[i / 4])),
        "s": Feature(bytes_list=BytesList(value=[f"é{i}".encode()])),
        "l": Feature(int64_list=Int64List(value=range(i % 4))),
    }
    if i % 3:
        features["odd"] = Feature(bytes_list=BytesList(value=[b"\xff\x00"]))
    return bytes(Example(features=Features(feature=features)).SerializeToString())


def test_what_is_written_is_read_back_by_us_and_parsed_by_tensorflow(spark: SparkSession, tmp_path: Path) -> None:
    import tensorflow as tf

    schema = type_of_ddl(SCHEMA)
    assert isinstance(schema, t.StructType)
    schema.add("v", VectorUDT())
    rows = [
        (1, True, -5, 0.5, 1.5, "é", b"\xff", [1, -(2**63)], ["a", ""], Vectors.dense(1, 2)),
        (2, None, None, None, None, None, None, None, None, Vectors.sparse(2, {1: 3.0})),
        (3, False, 7, -0.0, 2.0, "", b"", [], [], Vectors.dense(0, 0)),
    ]
    df = spark.createDataFrame(rows, schema)
    folder = str(tmp_path / "records")
    assert tfrecords.write(df.repartition(2), folder) == 3
    with pytest.raises(ConfigError, match="exists already"):
        tfrecords.write(df, folder)
    assert tfrecords.write(df.coalesce(1), folder, mode="overwrite", compression="gzip") == 3
    assert sorted(path.suffix for path in tmp_path.glob("records/*")) == ["", ".gz"]
    back = tfrecords.read(spark, folder, f"{SCHEMA}, v array<float>").orderBy("id").collect()
    assert [tuple(row)[:-1] for row in back] == [row[:-1] for row in rows]
    assert [row.v for row in back] == [[1, 2], [0, 3], [0, 0]]
    assert [path.name for path in tmp_path.iterdir()] == ["records"]

    dataset = tf.data.TFRecordDataset([str(path) for path in tmp_path.glob("records/*.gz")], "GZIP").batch(8)
    spec = {"id": tf.io.FixedLenFeature([], tf.int64), "v": tf.io.FixedLenFeature([2], tf.float32)}
    spec |= {"l": tf.io.RaggedFeature(tf.int64), "s": tf.io.FixedLenFeature([], tf.string, default_value="none")}
    (parsed,) = (tf.io.parse_example(batch, spec) for batch in dataset)
    assert parsed["id"].numpy().tolist() == [1, 2, 3]
    assert parsed["v"].numpy().tolist() == [[1, 2], [0, 3], [0, 0]]
    assert parsed["l"].to_list() == [[1, -(2**63)], [], []]
    assert parsed["s"].numpy().tolist() == ["é".encode(), b"none", b""]


def test_what_tensorflow_writes_is_read_with_the_types_that_it_has(spark: SparkSession, tmp_path: Path) -> None:
    import tensorflow as tf

    for name, options in (("plain", None), ("gz", tf.io.TFRecordOptions(compression_type="GZIP"))):
        (tmp_path / f"kind={name}").mkdir()
        with tf.io.TFRecordWriter(str(tmp_path / f"kind={name}" / "f"), options) as writer:
            for i in range(300):
                writer.write(record(i))
    df = tfrecords.read(spark, str(tmp_path))
    types = {"id": "bigint", "l": "array<bigint>", "odd": "binary", "s": "string", "x": "float", "kind": "string"}
    assert df.dtypes == [*types.items()]
    expected = [
        Row(id=i, l=list(range(i % 4)), odd=bytearray(b"\xff\x00") if i % 3 else None, s=f"é{i}", x=i / 4, kind=kind)
        for i in range(300)
        for kind in ("gz", "plain")
    ]
    assert df.orderBy("id", "kind").collect() == expected
    assert tfrecords.read(spark, str(tmp_path), "id int").agg(f.sum("id")).head() == (2 * 150 * 299,)


def test_what_cannot_be_read_or_written_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"PAR1" * 30)
    calls: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (CorruptFileError, f"{path} is not a readable TFRecord file", lambda: tfrecords.read(spark, str(path))),
        (SourceNotFoundError, "does not exist", lambda: tfrecords.read(spark, str(tmp_path / "none"))),
        (ConfigError, "'x' has type date", lambda: tfrecords.read(spark, str(path), "x date")),
        (
            BadValueError,
            "column 'd' is of type date32.*cast it",
            lambda: tfrecords.write(spark.sql("SELECT date'2026-01-01' AS d"), str(tmp_path / "out")),
        ),
    ]
    for error, message, call in calls:
        with pytest.raises(error, match=message):
            call()
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


@pytest.fixture(scope="module")
def records(spark: SparkSession, rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of the lake in TFRecord files of two days, plain and compressed."""
    folder = tmp_path_factory.mktemp("records") / "lake"
    df = spark.read.parquet(str(rows))
    tfrecords.write(df.where("id <= 400").repartitionByRange(3, "id"), str(folder / "day=1"))
    tfrecords.write(df.where("id > 400"), str(folder / "day=2"), compression="gzip")
    return folder


@pytest.mark.parametrize("mode", ["direct", "spark"])
def test_they_are_trained_as_the_same_rows_of_parquet_files_are(
    mode: str, local: Application, rows: Path, records: Path, watch: Watch
) -> None:
    sections: dict[str, Any] = {"train": {"batch_size": ROWS, "epochs": 2}, "params": watch.params()}
    if mode == "spark":
        sections["cluster"] = {"workers": 1}
    config = job(records, local.sandbox.runs, "cases.watched:build", name=f"records-{mode}", **sections)
    config["data"] |= {"format": "tfrecord", "mode": mode, "checks": {}}
    outcome = local.train(config, "r")
    assert [(e.planned, e.trained, e.complete) for e in outcome.done.rows] == [(ROWS, ROWS, True)] * 2
    assert watch.ids(watch.pids()) == dict.fromkeys(range(1, ROWS + 1), 2)
    if mode == "direct":
        assert (
            "all TFRecord files at data.path; types as 1,000 records have them: a float, b float, id bigint"
            in outcome.output
        )
    table = pq.read_table(rows)
    x = np.column_stack([table[name].to_numpy() for name in ("a", "b")])
    expected = descended(x, table["y"].to_numpy(), updates=2)
    np.testing.assert_allclose(weights_of(Path(outcome.done.model)), expected, rtol=1e-5)


@pytest.mark.more(
    "integration/test_tfrecords.py::test_they_are_trained_as_the_same_rows_of_parquet_files_are",
    "integration/test_spark_resume.py::test_ctrl_c_stops_everything_and_the_run_id_goes_on_inside_the_epoch_with_more_workers",
)
def test_a_run_that_is_interrupted_goes_on_inside_the_epoch_with_the_records_that_are_left(
    local: Application, records: Path, watch: Watch
) -> None:
    config = job(
        records,
        local.sandbox.runs,
        "cases.watched:build",
        name="records-resumed",
        params=watch.params(hold_at=8),
        checkpoint={"every_steps": 3},
        cluster={"workers": 1},
    )
    config["data"] |= {"format": "tfrecord"}
    watch.hold()
    local.begin(config, "r")
    watch.held(1)
    wait_for("a commit", local.run(config, "r").committed, within_s=60)
    local.interrupt()
    assert local.outcome().error == "KeyboardInterrupt"
    watch.release()
    done = local.train({**config, "cluster": {"workers": 2}}, "r").done
    step = done.attempts[0].from_step
    assert step > 0
    first, *others = watch.pids()
    assert watch.ids([first], updates=step) + watch.ids(others) == dict.fromkeys(range(1, ROWS + 1), 1)
