"""Delta and Iceberg tables on HDFS: trainers read their files, which the connectors' plans or the tables' logs name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from integration.application import Application
from integration.lake_tables import KINDS, Kind, connected, of_table

from minihadoop import MiniHadoop
from sparktf.driver.source.delta_log import read_delta_log
from sparktf.driver.source.iceberg_log import read_iceberg_log
from sparktf.driver.source.table_logs import WantedVersion
from sparktf.errors import SourceNotFoundError
from sparktf.hadoop import HadoopConf
from sparktf.storage.file_systems import FileSystems

LOGS = {"delta": read_delta_log, "iceberg": read_iceberg_log}


@pytest.fixture
def spark41(hadoop: MiniHadoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    """An application with both connectors, whose tables lie on HDFS."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop.conf_dir()))
    application = connected(tmp_path / "spark41", f"{HadoopConf.from_folder(hadoop.conf_dir()).default_fs}/tables")
    try:
        yield application
    finally:
        application.close()
        hadoop.hdfs.delete("/tables")


def ids_in(systems: FileSystems, files: Sequence[str]) -> list[int]:
    stored = [pq.read_table(systems.open(file).open(file), columns=["id"]) for file in files]
    return sorted(i for part in stored for i in part["id"].to_pylist())


def test_a_delta_table_on_hdfs_is_read_by_its_log_without_a_connector(hadoop: MiniHadoop, tmp_path: Path) -> None:
    for first in (0, 40):
        ids = pa.array(range(first, first + 40))
        rows = pa.table({"id": ids, "day": pc.add(pc.divide(ids, 20), 1)})
        write_deltalake(tmp_path / "days", rows, mode="append", partition_by=["day"])
    DeltaTable(tmp_path / "days").delete("day = 1")
    systems = FileSystems(HadoopConf.from_folder(hadoop.conf_dir()))
    root = systems.normalise("/tables/days")
    for file in filter(Path.is_file, (tmp_path / "days").rglob("*")):
        systems.open(root).upload(file, f"{root}/{file.relative_to(tmp_path / 'days')}")
    try:
        logged = read_delta_log(systems, root, WantedVersion(None, None), "t", SourceNotFoundError)
        assert logged.version.number == 2
        assert ids_in(systems, logged.files) == list(range(20, 80))
        older = read_delta_log(systems, root, WantedVersion(0, None), "t", SourceNotFoundError)
        assert ids_in(systems, older.files) == list(range(40))
    finally:
        hadoop.hdfs.delete("/tables")


@pytest.mark.more(
    "integration/test_table_files.py::test_trainers_read_the_files_of_a_version_as_spark_does",
    "cluster/test_hdfs_tables.py::test_a_delta_table_on_hdfs_is_read_by_its_log_without_a_connector",
)
def test_trainers_read_the_files_of_tables_on_hdfs_by_a_connectors_plan_and_by_the_log(
    hadoop: MiniHadoop, spark41: Application
) -> None:
    systems = FileSystems(HadoopConf.from_folder(hadoop.conf_dir()))
    spark41.collect("cases.versioned:run", statements=["create namespace if not exists ice.db"])
    for kind in KINDS:
        table, path = f"{kind.schema}.days", systems.normalise(f"/tables/{kind.folder}/days")
        make(spark41, kind, table)
        [[version, said, rows]] = spark41.collect("cases.direct:fed", config=of_table(spark41, "fed", table=table))
        assert said.startswith("data: read directly by the trainers, a plain scan of "), said
        ids = [row[0] for row in json.loads(rows)]
        assert ids == list(range(40, 90))

        logged = LOGS[kind.format](systems, path, WantedVersion(None, None), "t", SourceNotFoundError)
        assert logged.version.number == version
        assert ids_in(systems, logged.files) == ids


def make(spark41: Application, kind: Kind, table: str) -> None:
    """Makes a table of which some files hold rows that were deleted."""
    values = "id, float(id) a, float(-id) b, float(id % 7) y, date_add(date'2026-11-01', int(id div 20)) day"
    statements = [
        f"CREATE TABLE {table} USING {kind.format} PARTITIONED BY (day) AS SELECT {values} FROM range(90)",
        f"DELETE FROM {table} WHERE day < date'2026-11-03'",
    ]
    spark41.collect("cases.versioned:run", statements=statements)
