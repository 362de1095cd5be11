"""Folders of files in real servers of stores that others read by listing: a day's predictions, and TFRecords.

And what Spark tasks read and write there, where Spark itself has no client for it.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_stores import StoreServer
from pyspark.sql import SparkSession

from sparktf import tfrecords
from sparktf.driver.source.stored_frame import read_stored_frame
from sparktf.driver.source.written_frame import write_parquet_frame
from sparktf.errors import BadValueError, ColumnError, ConfigError, StorageExistsError, StorageUnavailableError
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.partition import MARKER, DayFolder, Marker, Partition
from sparktf.storage.transactions.replaced_folder import ReplacedFolder

only_s3 = pytest.mark.parametrize("server", ["s3_store"], indirect=True)
"""The night tells that tasks read and write each kind of store; what they make of the rows is the same."""

NOW_S = 1.8e9
OURS = Marker(name="churn", version="14", job="app-1")


@pytest.fixture
def root(server: StoreServer) -> str:
    return f"{server.root}/out"


@pytest.fixture
def storage(server: StoreServer, root: str) -> Storage:
    return FileSystems(HadoopConf(properties=server.hadoop())).open(root)


def writer(storage: Storage, content: str, files: int = 3) -> Callable[[str], None]:
    def write(folder: str) -> None:
        for number in range(files):
            storage.write_bytes(f"{folder}/part-{number}.parquet", content.encode())
        storage.write_bytes(f"{folder}/_SUCCESS", b"")

    return write


def read(storage: Storage, folder: str) -> list[str]:
    """Returns the files' content as whoever lists the folder finds them."""
    return [storage.read_bytes(entry.path).decode() for entry in storage.walk(folder)]


def test_a_day_is_replaced_and_holds_the_files_of_one_job(storage: Storage, root: str) -> None:
    partition = Partition(storage, DayFolder(root, "date", "2026-11-20"))
    partition.replace(writer(storage, "first"), OURS, NOW_S)
    partition.replace(writer(storage, "second", 2), OURS, NOW_S)
    assert read(storage, partition.folder) == ["second"] * 2
    marker = Marker.model_validate_json(storage.read_bytes(f"{partition.folder}/{MARKER}"))
    assert sorted(marker.files) == [e.path.rpartition("/")[2] for e in storage.walk(partition.folder)]
    assert [entry.path for entry in storage.list(root)] == [partition.folder]
    with pytest.raises(ConfigError, match="holds predictions of churn, and other replaces only its own"):
        partition.replace(writer(storage, "other"), OURS.model_copy(update={"name": "other"}), NOW_S)


def test_of_two_jobs_that_replace_a_day_at_once_one_does_and_the_other_leaves_nothing(
    storage: Storage, root: str
) -> None:
    place = DayFolder(root, "date", "2026-11-21")
    Partition(storage, place).replace(writer(storage, "first"), OURS, NOW_S)
    both = threading.Barrier(2)
    ends: list[str] = []

    def replace(content: str) -> None:
        def write(folder: str) -> None:
            both.wait(60)
            writer(storage, content)(folder)

        try:
            Partition(storage, place).replace(write, OURS, NOW_S)
            ends.append(content)
        except StorageUnavailableError as error:
            assert "was replaced by another job at the same moment: run this one again" in str(error)

    threads = [threading.Thread(target=replace, args=(content,)) for content in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 1
    assert read(storage, Partition(storage, place).folder) == ends * 3


def test_a_job_that_is_killed_while_it_copies_is_put_right_when_it_runs_again(storage: Storage, root: str) -> None:
    partition = Partition(storage, DayFolder(root, "date", "2026-11-22"))

    def killed(folder: str) -> None:
        writer(storage, "killed")(folder)
        storage.write_bytes(f"{partition.folder}/0-part-0.parquet", b"killed")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        partition.replace(killed, OURS, NOW_S)
    partition.replace(writer(storage, "again"), OURS, NOW_S)
    assert read(storage, partition.folder) == ["again"] * 3


def test_records_replace_a_folder_only_when_told_to(storage: Storage, root: str) -> None:
    folder = ReplacedFolder(storage, f"{root}/records")
    for content, replaces in (("first", False), ("second", True)):
        with folder.staged() as aside:
            writer(storage, content)(aside)
            folder.put(aside, replaces=replaces)
    assert read(storage, f"{root}/records") == ["second"] * 3
    assert storage.exists(f"{root}/records/_SUCCESS")
    with folder.staged() as aside, pytest.raises(StorageExistsError):
        writer(storage, "third")(aside)
        folder.put(aside, replaces=False)
    assert read(storage, f"{root}/records") == ["second"] * 3
    assert not [e.path for e in storage.list(root) if e.path.rpartition("/")[2].startswith("_")]


@pytest.fixture
def session(server: StoreServer, spark: SparkSession) -> SparkSession:
    """The session, configured for the server; it has no connector for it."""
    for key, value in server.hadoop().items():
        spark._jsc.hadoopConfiguration().set(key, value)
    return spark


def test_a_dataframe_is_written_as_records_and_read_again(session: SparkSession, root: str) -> None:
    spark, path = session, f"{root}/examples"
    assert tfrecords.write(spark.range(90).repartition(3), path) == 90
    with pytest.raises(ConfigError, match="exists already"):
        tfrecords.write(spark.range(5), path)
    assert tfrecords.write(spark.range(60).repartition(2), path, mode="overwrite") == 60
    assert sorted(row.id for row in tfrecords.read(spark, path).collect()) == list(range(60))


COLUMNS = (
    "id",
    "timestamp'2026-01-01 12:00:00' + make_interval(0, 0, 0, 0, 0, 0, id) as time",
    "date_add(date'2026-11-01', cast(id % 3 as int)) as day",
    "cast(id as decimal(12, 2)) as price",
    "array(named_struct('a', id, 'b', cast(null as string))) as items",
    "map('k', id) as counts",
    "cast(id % 100 as tinyint) as small",
    "case when id % 2 = 0 then 'even' end as text",
    "cast('ab' as binary) as raw",
)


@only_s3
def test_tasks_read_what_spark_wrote_and_write_what_spark_reads(
    session: SparkSession, storage: Storage, root: str, tmp_path: Path
) -> None:
    spark, here = session, tmp_path / "here"
    spark.range(12_000).selectExpr(*COLUMNS).write.partitionBy("day").parquet(str(here))
    for file in sorted(here.rglob("*.parquet")):
        storage.upload(file, f"{root}/lake/{file.relative_to(here)}")
    by_spark = spark.read.parquet(str(here))
    found = read_stored_frame(spark, f"{root}/lake", None, None)
    assert found.dtypes == by_spark.dtypes
    assert sorted(map(str, found.collect())) == sorted(map(str, by_spark.collect()))
    written = LocalStorage()
    assert write_parquet_frame(found, written, str(tmp_path / "written"), "a test") == 12_000
    again = spark.read.parquet(str(tmp_path / "written"))
    assert again.schema == by_spark.schema
    assert sorted(map(str, again.collect())) == sorted(map(str, by_spark.collect()))
    # Files that a predicate leaves out by their folders are not looked at.
    chosen = read_stored_frame(spark, f"{root}/lake", "day = '2026-11-02'", None)
    assert chosen.count() == 4000
    none = read_stored_frame(spark, f"{root}/lake", "day = '1999-11-02'", None)
    assert (none.dtypes, none.count()) == (by_spark.dtypes, 0)


def lake_of(storage: Storage, folder: str, *tables: dict[str, Any]) -> str:
    for i, table in enumerate(tables):
        sink = io.BytesIO()
        pq.write_table(pa.table(table), sink)
        storage.write_bytes(f"{folder}/part-{i}.parquet", sink.getvalue())
    return folder


@only_s3
def test_files_whose_columns_differ_have_nulls_or_are_refused(
    session: SparkSession, storage: Storage, root: str
) -> None:
    spark = session
    lacking = lake_of(storage, f"{root}/lacking", {"a": [1], "b": [2.5]}, {"a": [2]})
    rows = read_stored_frame(spark, lacking, None, None).collect()
    assert sorted((row.a, row.b or 0.0) for row in rows) == [(1, 2.5), (2, 0.0)]
    with pytest.raises(BadValueError, match=r"part-1\.parquet: column 'a' is of type string, but int64 in other files"):
        read_stored_frame(spark, lake_of(storage, f"{root}/typed", {"a": [1]}, {"a": ["x"]}), None, None)
    with pytest.raises(ColumnError, match=r"part-1\.parquet has a column 'A', and other files have 'a'"):
        read_stored_frame(spark, lake_of(storage, f"{root}/cased", {"a": [1]}, {"A": [1]}), None, None)
    changing = lake_of(storage, f"{root}/changing", {"a": [1]})
    found = read_stored_frame(spark, changing, None, None)
    lake_of(storage, f"{root}/changing", {"a": [1, 2, 3]})
    with pytest.raises(Exception, match=r"part-0\.parquet has changed since it was looked at \(it had"):
        found.collect()
    unsigned = lake_of(storage, f"{root}/unsigned", {"a": pa.array([1], pa.uint8())})
    with pytest.raises(ConfigError, match=r"column 'a' of .* Spark alone knows .* give Spark Hadoop's connector"):
        read_stored_frame(spark, unsigned, None, None)
