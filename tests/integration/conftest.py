"""Spark applications for tests. Two are shared; a test that ends or breaks its application starts one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest
from integration.application import Application
from integration.lake_tables import KINDS, NAMES, SINGLE, Kind, connected
from integration.rows import job, write_rows
from integration.sandbox import REPO, Sandbox
from integration.session import session
from integration.watch import Watch
from object_stores import AzureServer, S3Server, StoreServer, running, s3_server
from pyspark.sql import SparkSession

from sparktf.hadoop import HadoopConf
from sparktf.storage.file_systems import FileSystems


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks what trains in the shared application of one machine: one half of the suite, that only it starts one."""
    if isinstance(item, pytest.Function) and "local" in item.fixturenames:
        item.add_marker("local")


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory, rows: Path) -> Iterator[Application]:
    """An application on `local[6]`, whose trainings share a gang of three nodes."""
    for application in _application(tmp_path_factory.mktemp("local"), "local[6]"):
        first = job(rows, application.sandbox.runs, "cases.watched:build", name="first", cluster={"workers": 3})
        application.share_gang(first)
        yield application


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """An application on three executors, with speculation, though Spark starts no copy of a task on the same host."""
    speculation = {"spark.speculation": "true", "spark.speculation.task.duration.threshold": "1s"}
    # Spark's own limit is four failed tasks of one agent.
    losing = {"spark.task.maxFailures": os.environ["KILLS"]} if "KILLS" in os.environ else {}
    yield from _application(tmp_path_factory.mktemp("cluster"), "local-cluster[3,2,1024]", {**speculation, **losing})


def _application(folder: Path, master: str, conf: Mapping[str, str] | None = None) -> Iterator[Application]:
    application = Application(Sandbox(folder / "app"), master, conf)
    try:
        yield application
    finally:
        left = application.close()
    assert not left
    assert not application.sandbox.leftovers()


@pytest.fixture(scope="session")
def s3_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server with a bucket of the name "bucket", in which each test has folders of its own; some kill it."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        made = FileSystems(HadoopConf(properties=server.hadoop())).open("s3a://bucket/x")
        made.write_bytes("s3a://bucket/made", b"")
        yield server


@pytest.fixture(scope="session")
def azure_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """The same on Azure."""
    with running(AzureServer(tmp_path_factory.mktemp("azure"))) as server:
        server.container("bucket")
        yield server


@pytest.fixture(params=["s3_store", "azure_store"], ids=["S3", "Azure"])
def server(request: pytest.FixtureRequest) -> StoreServer:
    """Each kind of store."""
    found: StoreServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def table_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tables of `spark41`."""
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="session")
def spark41(tmp_path_factory: pytest.TempPathFactory, rows: Path, table_lake: Path) -> Iterator[Application]:
    """An application with the connectors of Delta and Iceberg; its trainings share a node."""
    application = connected(tmp_path_factory.mktemp("spark41"), table_lake)
    try:
        application.share_gang(job(rows, application.sandbox.runs, "cases.watched:build", name="first", cluster=SINGLE))
        application.collect("cases.versioned:run", statements=["create namespace if not exists ice.db"])
        yield application
    finally:
        left = application.close()
    assert not left


@pytest.fixture(params=KINDS, ids=NAMES)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind of table."""
    found: Kind = request.param
    return found


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of this process itself, for tests that train nothing."""
    with session(tmp_path_factory.mktemp("warehouse")) as spark:
        yield spark


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """The folders of an application that only this test uses; whatever still runs there in the end is killed."""
    made = Sandbox(tmp_path / "app")
    try:
        yield made
    finally:
        made.family.kill()


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    """A watch that lets all trainers go in the end, also when its test fails: they hold a shared application."""
    made = Watch(tmp_path / "books")
    yield made
    made.release()


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of 600 rows in three files of different sizes."""
    return write_rows(tmp_path_factory.mktemp("rows") / "lake")


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of `make train`."""
    folder = tmp_path_factory.mktemp("digits") / "lake"
    subprocess.run([sys.executable, REPO / "jobs/digits_lake.py", folder], check=True)
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows with a failed test what its applications said."""
    report = yield
    if report.when == "call" and report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            owner = value.sandbox if isinstance(value, Application) else value
            if isinstance(owner, Sandbox):
                report.sections.append((f"what {name} said", owner.report()))
    return report
