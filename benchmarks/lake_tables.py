"""A Delta table read by trainers themselves, beside the same version fed by Spark: `make bench-lake_tables`.

Two nodes on two executors of two cores drain it to tensors; in the Spark that the connectors in `.connectors` are for.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

CONNECTORS = Path(__file__).resolve().parents[1] / ".connectors"
ROWS = 2_000_000


def in_connectors_spark() -> None:
    """Begins anew with the Spark of the connectors, unless this is it."""
    packages = str(CONNECTORS / "python")
    if os.environ.get("PYTHONPATH", "").split(os.pathsep)[0] != packages:
        path = os.pathsep.join(filter(None, (packages, os.environ.get("PYTHONPATH", ""))))
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONPATH": path})


def main() -> None:
    """Measures and reports."""
    import pyspark  # noqa: PLC0415 - once it is the connectors'
    from _lake import float_columns, write_lake  # noqa: PLC0415
    from _report import figure, report  # noqa: PLC0415
    from _watch import ProcessorTime  # noqa: PLC0415
    from dataframe import fed, start_spark  # noqa: PLC0415

    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_HOME=str(Path(pyspark.__file__).parent))
    jars = ",".join(map(str, sorted((CONNECTORS / "jars").glob("*.jar"))))
    table = float_columns(ROWS)
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root, ProcessorTime() as used:
        work = Path(root)
        spark = start_spark(
            {
                "spark.jars": jars,
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
                "spark.sql.warehouse.dir": str(work / "warehouse"),
            }
        )
        spark.read.parquet(str(write_lake(work / "lake", table))).write.format("delta").saveAsTable("bench")
        version = spark.read.option("versionAsOf", "0").table("bench")
        direct = [one.rate for one in fed(spark, version, table, work, used, mode="direct")]
        sparks = [one.rate for one in fed(spark, version, table, work, used)]
        spark.stop()
    middle = sorted(sparks)[len(sparks) // 2]
    report(
        "lake_tables",
        [
            figure(f"Delta, {table.name}: read by trainers", direct, unit="k rows/s"),
            figure(f"Delta, {table.name}: fed by Spark", sparks, unit="k rows/s"),
            figure("read by trainers / fed by Spark", [rate / middle for rate in direct], unit="ratio", goal=">= 1.5"),
        ],
    )


if __name__ == "__main__":
    in_connectors_spark()
    main()
