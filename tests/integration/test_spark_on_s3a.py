"""Spark reads a bucket by Hadoop's S3A, and trainers read it by the same keys: those of a JCEKS file of Hadoop's."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from integration.application import Application
from integration.rows import job
from integration.sandbox import REPO, Sandbox
from object_stores import SECRET_KEY, S3Server, s3_server

from sparktf.driver.spark.ticket import command_file_systems
from sparktf.hadoop import HadoopConf
from sparktf.storage.file_systems import FileSystems

ROWS = 600
TABLE = "s3a://lakes/table"
JARS = REPO / ".s3a"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, rows: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        storage = FileSystems(HadoopConf(properties=server.hadoop())).open(TABLE)
        for file in sorted(rows.iterdir()):
            storage.upload(file, f"{TABLE}/{file.name}")
        yield server


@pytest.fixture(scope="module")
def properties(server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A configuration without a secret: that lies in a file of Hadoop's own."""
    folder = tmp_path_factory.mktemp("keys")
    provider = f"localjceks://file{folder}/keys.jceks"
    shell = "org.apache.hadoop.security.alias.CredentialShell"
    said = ["create", "fs.s3a.secret.key", "-value", SECRET_KEY, "-provider", provider]
    jars = f"{Path(pyspark.__file__).parent}/jars/*"
    subprocess.run(["java", "-cp", jars, shell, *said], check=True, capture_output=True)
    properties = {**server.hadoop(), "hadoop.security.credential.provider.path": provider}
    del properties["fs.s3a.secret.key"]
    return properties


@pytest.fixture(scope="module")
def on_s3a(properties: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """An application of that configuration."""
    assert (JARS / ".installed").exists(), "there is no S3A: make integration installs it"
    folder = tmp_path_factory.mktemp("s3a")
    conf = {f"spark.hadoop.{key}": value for key, value in properties.items()}
    conf["spark.driver.extraClassPath"] = f"{JARS}/jars/*"
    application = Application(Sandbox(folder / "app"), "local[3]", conf)
    try:
        yield application
    finally:
        application.close()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"path": TABLE, "mode": "spark"}, "read through Spark, data.mode: spark asks for it"),
        ({"sql": f"SELECT * FROM parquet.`{TABLE}`"}, "read directly by the trainers, a plain scan of 3 Parquet files"),
    ],
    ids=["spark", "scan"],
)
def test_spark_and_trainers_read_a_bucket_by_the_keys_of_hadoops_file(
    on_s3a: Application, data: dict[str, str], said: str, request: pytest.FixtureRequest
) -> None:
    config = job(Path("x"), on_s3a.sandbox.runs, "cases.watched:build", name=request.node.callspec.id)
    del config["data"]["path"]
    config["data"] |= data
    outcome = on_s3a.train(config, "r")
    assert [(e.fed, e.trained) for e in outcome.done.rows] == [(ROWS, ROWS)]
    assert said in outcome.output
    assert SECRET_KEY not in outcome.output


def test_a_command_without_a_session_finds_them_by_a_jvm_of_some_seconds(
    properties: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items())
    (tmp_path / "core-site.xml").write_text(f"<configuration>{entries}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert len(command_file_systems().open(TABLE).list(TABLE)) == 3
