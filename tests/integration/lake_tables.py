"""Tables of Delta and Iceberg, in an application with their connectors, of the Spark that these are made for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from integration.application import Application
from integration.rows import job
from integration.sandbox import REPO, Sandbox

CONNECTORS = REPO / ".connectors"
SINGLE = {"strategy": "single", "workers": 1}


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


def connected(folder: Path, lake: Path | str) -> Application:
    """Starts one whose tables lie in a folder, here or on HDFS."""
    assert (CONNECTORS / ".installed").exists(), "there are no connectors: make integration installs them"
    return Application(
        Sandbox(folder / "app", CONNECTORS / "python"),
        "local[3]",
        {
            "spark.jars": ",".join(map(str, sorted((CONNECTORS / "jars").glob("*.jar")))),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": f"{lake}/ice",
            "spark.sql.warehouse.dir": f"{lake}/warehouse",
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


def made(application: Application, kind: Kind, table: str, *, rows: int, commits: int = 1, files: int = 1) -> str:
    """Makes a table; returns its name."""
    name, columns = f"{kind.schema}.{table}", "id BIGINT, a FLOAT, b FLOAT, y FLOAT"
    statement = f"CREATE TABLE {name} ({columns}) USING {kind.format} {kind.options}"
    application.collect("cases.versioned:run", statements=[statement])
    if rows:
        written = {"kind": kind.format, "rows": rows, "commits": commits, "files": files}
        application.collect("cases.versioned:append", table=name, **written)
    return name


def of_table(application: Application, name: str, **data: Any) -> dict[str, Any]:
    """Returns a configuration over another source than a path."""
    source = {"path": None, "cache": "off", "shuffle_rows": 40, **data}
    return job(Path(), application.sandbox.runs, "cases.watched:build", name=name, data=source, cluster=SINGLE)
