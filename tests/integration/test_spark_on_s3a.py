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
from object_stores import ACCESS_KEY, SECRET_KEY, S3Server, s3_server

from sparktf.driver.spark.ticket import command_file_systems
from sparktf.hadoop import HadoopConf
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.objects.object_storage import ObjectStorage
from sparktf.storage.transactions.partition import MARKER

ROWS = 600
TABLE = "s3a://lakes/table"
CHAINED = "s3a://chained/table"
"""In a bucket whose keys a class gives that only a JVM with S3A loads, as that of an assumed role."""

PROVIDER = "software.amazon.awssdk.auth.credentials.SystemPropertyCredentialsProvider"
JARS = REPO / ".s3a"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, rows: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        systems = FileSystems(HadoopConf(properties=server.hadoop()))
        for table in (TABLE, CHAINED):
            for file in sorted(rows.iterdir()):
                systems.open(table).upload(file, f"{table}/{file.name}")
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
    properties["fs.s3a.buffer.dir"] = str(folder)  # else below /tmp, where it stays
    del properties["fs.s3a.secret.key"]
    return properties


@pytest.fixture(scope="module")
def on_s3a(properties: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """An application of that configuration."""
    assert (JARS / ".installed").exists(), "there is no S3A: make integration installs it"
    folder = tmp_path_factory.mktemp("s3a")
    conf = {f"spark.hadoop.{key}": value for key, value in properties.items()}
    conf["spark.hadoop.fs.s3a.bucket.chained.aws.credentials.provider"] = PROVIDER
    conf["spark.driver.defaultJavaOptions"] = f"-Daws.accessKeyId={ACCESS_KEY} -Daws.secretAccessKey={SECRET_KEY}"
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


def test_a_bucket_of_other_keys_trains_and_spark_scores_it_and_replaces_a_days_predictions_whole(
    on_s3a: Application, server: S3Server
) -> None:
    config = job(Path(), on_s3a.sandbox.runs, "cases.watched:build", name="chained")
    config["data"]["path"] = CHAINED
    outcome = on_s3a.train(config, "r")
    assert [(e.fed, e.trained) for e in outcome.done.rows] == [(ROWS, ROWS)]
    assert "read directly by the trainers, all Parquet files at data.path" in outcome.output
    assert SECRET_KEY not in outcome.output
    output = "s3a://lakes/scores"
    config["predict"] = {"model": "run:r", "source": {"path": CHAINED}, "output": {"path": output}, "keep": ["id"]}
    storage = FileSystems(HadoopConf(properties=server.hadoop())).open(output)
    assert isinstance(storage, ObjectStorage)
    seen = set[str]()
    for _ in range(2):
        scored = on_s3a.collect("cases.versioned:scored", config=config, date="2026-11-20")
        assert sorted(row[0] for row in scored) == list(range(1, ROWS + 1))
        found = {entry.path for entry in storage.below(output)}
        assert {path.rpartition("/")[0] for path in found} == {f"{output}/date=2026-11-20"}  # nothing that was staged
        assert found & seen <= {f"{output}/date=2026-11-20/{MARKER}"}
        seen = found
    assert storage.uploads("s3a://lakes") == ()


def test_a_command_without_a_session_finds_them_by_a_jvm_of_some_seconds(
    properties: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items())
    (tmp_path / "core-site.xml").write_text(f"<configuration>{entries}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert len(command_file_systems().open(TABLE).list(TABLE)) == 3
