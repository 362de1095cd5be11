"""Folders of files in a real S3 server that others read by listing: a day's predictions, and TFRecords."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from object_stores import S3Server
from pyspark.sql import SparkSession

from sparktf import tfrecords
from sparktf.errors import ConfigError, StorageExistsError, StorageUnavailableError
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.partition import MARKER, DayFolder, Marker, Partition
from sparktf.storage.transactions.replaced_folder import ReplacedFolder

ROOT = "s3a://bucket/out"
NOW_S = 1.8e9
OURS = Marker(name="churn", version="14", job="app-1")


@pytest.fixture
def storage(s3_store: S3Server) -> Storage:
    return FileSystems(HadoopConf(properties=s3_store.hadoop())).open(ROOT)


def writer(storage: Storage, content: str, files: int = 3) -> Callable[[str], None]:
    def write(folder: str) -> None:
        for number in range(files):
            storage.write_bytes(f"{folder}/part-{number}.parquet", content.encode())
        storage.write_bytes(f"{folder}/_SUCCESS", b"")

    return write


def read(storage: Storage, folder: str) -> list[str]:
    """Returns the files' content as whoever lists the folder finds them."""
    return [storage.read_bytes(entry.path).decode() for entry in storage.walk(folder)]


def test_a_day_is_replaced_and_holds_the_files_of_one_job(storage: Storage) -> None:
    partition = Partition(storage, DayFolder(ROOT, "date", "2026-11-20"))
    partition.replace(writer(storage, "first"), OURS, NOW_S)
    partition.replace(writer(storage, "second", 2), OURS, NOW_S)
    assert read(storage, partition.folder) == ["second"] * 2
    marker = Marker.model_validate_json(storage.read_bytes(f"{partition.folder}/{MARKER}"))
    assert sorted(marker.files) == [e.path.rpartition("/")[2] for e in storage.walk(partition.folder)]
    assert [entry.path for entry in storage.list(ROOT)] == [partition.folder]
    with pytest.raises(ConfigError, match="holds predictions of churn, and other replaces only its own"):
        partition.replace(writer(storage, "other"), OURS.model_copy(update={"name": "other"}), NOW_S)


def test_of_two_jobs_that_replace_a_day_at_once_one_does_and_the_other_leaves_nothing(storage: Storage) -> None:
    place = DayFolder(ROOT, "date", "2026-11-21")
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


def test_a_job_that_is_killed_while_it_copies_is_put_right_when_it_runs_again(storage: Storage) -> None:
    partition = Partition(storage, DayFolder(ROOT, "date", "2026-11-22"))

    def killed(folder: str) -> None:
        writer(storage, "killed")(folder)
        storage.write_bytes(f"{partition.folder}/0-part-0.parquet", b"killed")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        partition.replace(killed, OURS, NOW_S)
    partition.replace(writer(storage, "again"), OURS, NOW_S)
    assert read(storage, partition.folder) == ["again"] * 3


def test_records_replace_a_folder_only_when_told_to(storage: Storage) -> None:
    folder = ReplacedFolder(storage, f"{ROOT}/records")
    for content, replaces in (("first", False), ("second", True)):
        with folder.staged() as aside:
            writer(storage, content)(aside)
            folder.put(aside, replaces=replaces)
    assert read(storage, f"{ROOT}/records") == ["second"] * 3
    assert storage.exists(f"{ROOT}/records/_SUCCESS")
    with folder.staged() as aside, pytest.raises(StorageExistsError):
        writer(storage, "third")(aside)
        folder.put(aside, replaces=False)
    assert read(storage, f"{ROOT}/records") == ["second"] * 3
    assert not [e.path for e in storage.list(ROOT) if e.path.rpartition("/")[2].startswith("_")]


def test_a_dataframe_is_written_as_records_and_read_again(s3_store: S3Server, spark: SparkSession) -> None:
    for key, value in s3_store.hadoop().items():
        spark._jsc.hadoopConfiguration().set(key, value)
    path = "s3a://bucket/examples"
    assert tfrecords.write(spark.range(90).repartition(3), path) == 90
    with pytest.raises(ConfigError, match="exists already"):
        tfrecords.write(spark.range(5), path)
    assert tfrecords.write(spark.range(60).repartition(2), path, mode="overwrite") == 60
    assert sorted(row.id for row in tfrecords.read(spark, path).collect()) == list(range(60))
