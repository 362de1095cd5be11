"""Lakes in an object store, read by the trainers of real executors: a real S3 server, Spark without a jar for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import convert_to_deltalake
from integration.application import Application
from integration.rows import job
from integration.sandbox import Sandbox
from integration.weights import weights_of
from object_stores import ACCESS_KEY, SECRET_KEY, S3Server, s3_server

from sparktf.feed.formats.example_writer import record_bytes
from sparktf.hadoop import HadoopConf
from sparktf.storage.file_systems import FileSystems

ROWS = 600


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def lake(server: S3Server, rows: Path) -> str:
    """The same files as at `rows`, in a bucket."""
    path = "s3a://lakes/a table"
    storage = FileSystems(HadoopConf(properties=server.hadoop())).open(path)
    for file in sorted(rows.iterdir()):
        storage.upload(file, f"{path}/{file.name}")
    return path


@pytest.fixture(scope="module")
def delta(server: S3Server, rows: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Delta table of these files, in the bucket."""
    here, path = tmp_path_factory.mktemp("delta") / "table", "s3a://lakes/a delta table"
    shutil.copytree(rows, here)
    convert_to_deltalake(str(here))
    storage = FileSystems(HadoopConf(properties=server.hadoop())).open(path)
    for file in filter(Path.is_file, sorted(here.rglob("*"))):
        storage.upload(file, f"{path}/{file.relative_to(here)}")
    return path


@pytest.fixture(scope="module")
def stores(server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """An application of two executors that is configured as for Hadoop's own connector."""
    conf = {f"spark.hadoop.{key}": value for key, value in server.hadoop().items()}
    sandbox = Sandbox(tmp_path_factory.mktemp("stores") / "app")
    application = Application(sandbox, "local-cluster[2,2,1024]", conf)
    try:
        yield application
    finally:
        left = application.close()
    assert not left
    assert not sandbox.leftovers()


def test_a_table_in_a_bucket_gives_the_digits_of_the_same_table_on_a_disk(
    stores: Application, rows: Path, lake: str, delta: str
) -> None:
    results = {}
    sources = {"disk": {"path": str(rows)}, "bucket": {"path": lake}, "delta": {"path": delta, "format": "delta"}}
    for name, source in sources.items():
        config = job(Path("x"), stores.sandbox.runs, "cases.prepared:build", name=name, train={"epochs": 2})
        config["data"] |= {**source, "shuffle_rows": 100}
        config["params"] = {"columns": ["a", "b"]}  # of which `prepare` has Spark compute means
        results[name] = stores.train(config, "r").done
    for found in (results["bucket"], results["delta"]):
        assert [(e.planned, e.fed, e.trained) for e in found.rows] == [(ROWS,) * 3] * 2
        assert found.metrics == results["disk"].metrics
        assert (weights_of(Path(found.model)) == weights_of(Path(results["disk"].model))).all()
    assert results["delta"].source_version == 0, "by the table's log, which Spark has no connector for"
    # What a run leaves behind, and what its processes say, tells nobody the keys.
    sandbox = stores.sandbox
    files = [file for file in [sandbox.log, *sandbox.runs.rglob("*")] if file.is_file()]
    said = b"".join(file.read_bytes() for file in files) + sandbox.executor_logs().encode()
    assert SECRET_KEY.encode() not in said
    assert ACCESS_KEY.encode() not in said


def test_records_in_a_bucket_are_read_and_kept_and_the_data_is_measured(
    stores: Application, server: S3Server, rows: Path
) -> None:
    path = "s3a://lakes/records"
    storage = FileSystems(HadoopConf(properties=server.hadoop())).open(path)
    for i, file in enumerate(sorted(rows.iterdir())):
        records = b"".join(bytes(record_bytes(batch)) for batch in pq.read_table(file).to_batches())
        storage.write_bytes(f"{path}/day=2026-11-2{i}/part.tfrecord", records)
    config = job(Path("x"), stores.sandbox.runs, "cases.watched:build", name="records", train={"epochs": 3})
    config["data"] |= {
        "path": path,
        "format": "tfrecord",
        "cache": "disk",
        "checks": {"refuse": {"rows": [ROWS, ROWS]}},
    }
    config["data"] |= {"validation": {"where": "day = '2026-11-21'"}}
    found = stores.train(config, "r").done
    assert [(e.planned, e.fed, e.trained) for e in found.rows] == [(ROWS - 90,) * 3] * 3
    assert (Path(found.path) / "statistics.json").exists()
