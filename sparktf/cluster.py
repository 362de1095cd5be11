"""The public entry points: `train`, and `Cluster`, a gang of a Spark application's executors."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from sparktf.config.job import JobConfig
from sparktf.driver.code.module import importable
from sparktf.driver.console import make_console
from sparktf.driver.gang.gang import Gang
from sparktf.driver.run import Run
from sparktf.driver.spark_site import SparkSite
from sparktf.nightly.night import Night
from sparktf.result import RunResult


def train(
    spark: SparkSession,
    config: JobConfig,
    data: DataFrame | RDD[Any] | None = None,
    *,
    run_id: str | None = None,
    wait: bool = False,
    console: Console | None = None,
) -> RunResult:
    """Trains as the configuration says, on executors of this application.

    Args:
        data: A DataFrame or RDD, where the configuration names no source.
        run_id: Names the run directory; the same id again resumes the run, or repeats the result of one that is done.
            Default: the Spark application's id.
        wait: While another submission owns the run; without it, that is an `OwnedError`.

    Returns:
        The result of a run that is done; result.json holds the same.

    Raises:
        SparkTFError: the run failed; the error's class is that of the root cause, `error.verdict` the exit code, and
            `error.result` the result.
        KeyboardInterrupt: the run was interrupted; everything is stopped.
    """
    with Cluster(spark, config, console) as cluster:
        return cluster.train(data=data, run_id=run_id, wait=wait)


class Cluster:
    """Holds a gang of executors; reserve once, train several times.

    with Cluster(spark, config) as cluster:
        first = cluster.train()
        second = cluster.train(other_config)
    """

    def __init__(self, spark: SparkSession, config: JobConfig, console: Console | None = None) -> None:
        self.config = config
        self._spark = spark
        self._site = SparkSite(spark)
        self._gang = Gang(config, self._site, console or make_console())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def train(
        self,
        config: JobConfig | None = None,
        data: DataFrame | RDD[Any] | None = None,
        *,
        run_id: str | None = None,
        wait: bool = False,
    ) -> RunResult:
        """Runs one training; see `sparktf.train`."""
        config = config or self.config
        run_id = _default_run_id(self._spark, config.name) if run_id is None else run_id
        self._site.give(data)
        with importable(config.code_folder):
            night = Night(self._site.file_systems, self._site.clock, self._site.statistics)
            return Run(self._gang, config, run_id, night, wait=wait).execute()

    def close(self) -> None:
        """Stops what runs, and gives the executors back."""
        self._gang.close()


def _default_run_id(spark: SparkSession, name: str) -> str:
    """Returns the application's id, numbered from the second run of one name on: the same for a second YARN attempt."""
    key = f"sparktf.runs.{name}"
    number = int(spark.conf.get(key, "0") or 0) + 1
    spark.conf.set(key, str(number))
    return spark.sparkContext.applicationId + (f"-{number}" if number > 1 else "")
