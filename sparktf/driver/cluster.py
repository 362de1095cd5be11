"""The public entry points: `train`, and `Cluster`, a gang of a Spark application's executors."""

from __future__ import annotations

from functools import cached_property, partial
from types import TracebackType
from typing import Any, Self

from pyspark.sql import SparkSession
from rich.console import Console

from sparktf.config import JobConfig
from sparktf.driver.agents import SparkAgents
from sparktf.driver.gang import AgentJob, Gang
from sparktf.driver.partition_filter import filter_partitions
from sparktf.driver.planner import plan_source
from sparktf.driver.preflight import ship_model_code
from sparktf.driver.prepare import prepare_assets
from sparktf.driver.progress import make_console
from sparktf.driver.result import RunResult
from sparktf.driver.run import Run
from sparktf.driver.spark import check_settings, check_slots, hadoop_conf, slots_of
from sparktf.driver.stored_plan import Plan
from sparktf.errors import ConfigError
from sparktf.executor.agent import AgentSettings
from sparktf.storage import FileSystems, Storage


def train(
    spark: SparkSession,
    config: JobConfig,
    data: None = None,
    *,
    run_id: str | None = None,
    console: Console | None = None,
) -> RunResult:
    """Trains as the configuration says, on executors of this application.

    Args:
        data: Reserved for a DataFrame or RDD; the configuration names the data for now.
        run_id: Names the run directory; the same id again resumes the run, or repeats the result of one that is done.
            Default: the Spark application's id.

    Returns:
        The result of a run that is done; result.json holds the same.

    Raises:
        SparkTFError: the run failed; the error's class is that of the root cause, `error.verdict` the exit code, and
            `error.result` the result.
        KeyboardInterrupt: the run was interrupted; everything is stopped.
    """
    if data is not None:
        raise ConfigError("train(data=...) is not supported yet: name the data in data.path")
    with Cluster(spark, config, console) as cluster:
        return cluster.train(run_id=run_id)


class Cluster(Gang):
    """Holds a gang of executors; reserve once, train several times.

    with Cluster(spark, config) as cluster:
        first = cluster.train()
        second = cluster.train(other_config)
    """

    def __init__(self, spark: SparkSession, config: JobConfig, console: Console | None = None) -> None:
        check_settings(spark)
        self._spark = spark
        self._slots = slots_of(spark)
        self._shipped: set[str] = set()
        super().__init__(
            config,
            place=self._slots.master,
            one_machine=self._slots.one_machine,
            duplicates_wait=_flag(spark, "spark.speculation"),
            console=console or make_console(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def train(self, config: JobConfig | None = None, *, run_id: str | None = None) -> RunResult:
        """Runs one training; see `sparktf.train`."""
        config = config or self.config
        return Run(self, config, run_id or _default_run_id(self._spark, config.name)).execute()

    def preflight(self, config: JobConfig) -> None:
        """See `Gang`."""
        check_slots(self._slots, config.cluster.nodes)

    @cached_property
    def file_systems(self) -> FileSystems:
        """See `Gang`. Where Spark reads and writes: as the driver's JVM is configured."""
        return FileSystems(hadoop_conf(self._spark))

    def plan(self, config: JobConfig) -> Plan:
        """See `Gang`."""
        return plan_source(config, self.file_systems.open, partial(filter_partitions, self._spark))

    def prepare(self, config: JobConfig, storage: Storage, path: str) -> dict[str, Any]:
        """See `Gang`."""
        return prepare_assets(self._spark, config, storage, path)

    def ship_code(self, config: JobConfig) -> None:
        """See `Gang`."""
        if config.model_module not in self._shipped:
            ship_model_code(self._spark, config.model_module)
            self._shipped.add(config.model_module)

    def start_agents(self, config: JobConfig, settings: AgentSettings) -> AgentJob:
        """See `Gang`."""
        return SparkAgents(self._spark, config.cluster.nodes, self._slots, settings)

    def addresses(self) -> tuple[str, str]:
        """See `Gang`."""
        if self._slots.one_machine:
            return super().addresses()
        conf = self._spark.sparkContext.getConf()
        host = str(conf.get("spark.driver.host"))
        return str(conf.get("spark.driver.bindAddress") or host), host


def _flag(spark: SparkSession, key: str) -> bool:
    return str(spark.sparkContext.getConf().get(key, "false")).lower() == "true"


def _default_run_id(spark: SparkSession, name: str) -> str:
    """Returns the application's id, numbered from the second run of one name on: the same for a second YARN attempt."""
    key = f"sparktf.runs.{name}"
    number = int(spark.conf.get(key, "0") or 0) + 1
    spark.conf.set(key, str(number))
    return spark.sparkContext.applicationId + (f"-{number}" if number > 1 else "")
