"""The public entry points: `train`, and `Cluster`, a gang of a Spark application's executors."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Self

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from sparktf.config.job import JobConfig
from sparktf.driver.attempt.feeding import Feeders
from sparktf.driver.code.module import check_code, importable
from sparktf.driver.console import make_console
from sparktf.driver.gang.gang import AgentJob, Gang
from sparktf.driver.gang.placement import request_for
from sparktf.driver.gang.roster import Agent, ExecutorFacts
from sparktf.driver.plan.locality import FileBlock
from sparktf.driver.plan.plan import Plan
from sparktf.driver.run import Run
from sparktf.driver.source.choice import choose_feed
from sparktf.driver.source.hdfs_blocks import locate_or_warn
from sparktf.driver.source.origin import Origin
from sparktf.driver.source.prepare import prepare_assets
from sparktf.driver.spark.agents import SparkAgents
from sparktf.driver.spark.application import (
    SHARED_CORES,
    Slots,
    application_of,
    check_settings,
    check_slots,
    check_speculation,
    hadoop_conf,
    slots_of,
)
from sparktf.driver.spark.encryption import check_encryption
from sparktf.driver.spark.executors import executor_facts, executors_of, release_executors, request_executors
from sparktf.driver.spark.feeders import SparkFeeders
from sparktf.driver.spark.shipping import ship_code
from sparktf.driver.spark.yarn_memory import check_overhead
from sparktf.errors import PreflightError
from sparktf.executor.agent import AgentSettings
from sparktf.result import RunResult
from sparktf.sequence import Stream
from sparktf.storage import FileSystems, Storage


def train(
    spark: SparkSession,
    config: JobConfig,
    data: DataFrame | RDD[Any] | None = None,
    *,
    run_id: str | None = None,
    console: Console | None = None,
) -> RunResult:
    """Trains as the configuration says, on executors of this application.

    Args:
        data: A DataFrame or RDD, where the configuration names no source.
        run_id: Names the run directory; the same id again resumes the run, or repeats the result of one that is done.
            Default: the Spark application's id.

    Returns:
        The result of a run that is done; result.json holds the same.

    Raises:
        SparkTFError: the run failed; the error's class is that of the root cause, `error.verdict` the exit code, and
            `error.result` the result.
        KeyboardInterrupt: the run was interrupted; everything is stopped.
    """
    with Cluster(spark, config, console) as cluster:
        return cluster.train(data=data, run_id=run_id)


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
        self._given: DataFrame | RDD[Any] | None = None
        self._origin: Origin | None = None
        self.application = application_of(spark)
        super().__init__(
            config,
            place=_place(spark, self._slots),
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

    def train(
        self,
        config: JobConfig | None = None,
        data: DataFrame | RDD[Any] | None = None,
        *,
        run_id: str | None = None,
    ) -> RunResult:
        """Runs one training; see `sparktf.train`."""
        config = config or self.config
        self._given, self._origin = data, None
        with importable(config.code_folder):
            return Run(self, config, _default_run_id(self._spark, config.name) if run_id is None else run_id).execute()

    def preflight(self, config: JobConfig) -> None:
        """See `Gang`. Raises what `check_code` does, too."""
        check_code(config)
        # What Spark surely feeds; a DataFrame may turn out to be a plain scan, which trainers read themselves.
        is_fed = config.data.mode == "spark" or isinstance(self._given, RDD)
        check_slots(self._slots, config.cluster.nodes, feeders=is_fed or None)
        conf = dict(self._spark.sparkContext.getConf().getAll())
        if not self._slots.one_machine and (warning := check_encryption(conf, config.security.tls)):
            self.warn(warning)
        if self._slots.is_yarn:
            check_overhead(conf, config.cluster.trainer_memory_mib)

    @cached_property
    def file_systems(self) -> FileSystems:
        """See `Gang`. Where Spark reads and writes: as the driver's JVM is configured."""
        return FileSystems(hadoop_conf(self._spark))

    def plan(self, config: JobConfig) -> Plan:
        """See `Gang`."""
        # The functions in what `data.source` returns take along the code that was shipped before they were made.
        self.ship_code(config)
        origin = self._origin_of(config)
        return choose_feed(self._spark, config, origin, self.file_systems, self._locate, self.say)

    def feed(self, config: JobConfig, plan: Plan, attempt: int, stream: Stream, epoch: int) -> Feeders:
        """See `Gang`."""
        rows = self._origin_of(config).fed.stream(stream, plan.spec)
        return SparkFeeders(rows, self.feeder_settings(config, attempt, stream, epoch), on_end=self.wake)

    def prepare(self, config: JobConfig, storage: Storage, path: str) -> dict[str, Any]:
        """See `Gang`."""
        self.ship_code(config)  # prepare may run functions of the user's on the executors
        return prepare_assets(config, storage, path, self._origin_of(config))

    def ship_code(self, config: JobConfig) -> None:
        """See `Gang`."""
        ship_code(self._spark, config)

    def reserve(self, config: JobConfig, plan: Plan) -> None:
        """See `Gang`.

        Raises:
            PreflightError: Spark is to feed the nodes, and no slot is left for that.
        """
        if plan.staged:
            check_slots(self._slots, config.cluster.nodes, feeders=True)
            check_speculation(self._slots, speculation=_flag(self._spark, "spark.speculation"))
            if isinstance(self._agents, SparkAgents) and not self._agents.leaves_slots:
                raise PreflightError(
                    "this cluster's nodes hold all cores of their executors, and Spark is to feed them now: "
                    "begin with a training that Spark feeds, or use a cluster of its own"
                )
        super().reserve(config, plan)

    def start_agents(self, config: JobConfig, plan: Plan, settings: AgentSettings) -> AgentJob:
        """See `Gang`."""
        count = config.cluster.nodes
        if self._slots.is_yarn:
            count = self._ask_for_executors(config, plan)
        elif config.cluster.placement == "data" and plan.hosts:
            self.warn(f"{self.place} places executors as it likes: cluster.placement: data needs YARN")
        feeders = bool(plan.staged)
        # Nothing keeps two agents of one core each from sharing an executor of two: as many are started as there are
        # cores, and one of each executor is chosen.
        count *= SHARED_CORES if feeders and self._slots.cores == SHARED_CORES and not self._slots.is_local else 1
        spares = count - config.cluster.nodes
        return SparkAgents(self._spark, count, self._slots, settings, spares=spares, feeders=feeders)

    def let_go(self, agents: Sequence[Agent]) -> None:
        """See `Gang`."""
        containers = [agent.registration.container for agent in agents if agent.registration.container]
        release = partial(release_executors, self._spark, containers)
        threading.Thread(target=release, name="let-go", daemon=True).start()

    def facts(self, agents: Sequence[Agent]) -> list[ExecutorFacts]:
        """See `Gang`."""
        return executor_facts(self._spark, [agent.registration.container for agent in agents])

    def _origin_of(self, config: JobConfig) -> Origin:
        """Returns where the rows of the current run come from."""
        if self._origin is None:
            self._origin = Origin(self._spark, config, self._given)
        return self._origin

    def _locate(self, files: Sequence[str]) -> Mapping[str, Sequence[FileBlock]]:
        blocks, warning = locate_or_warn(self._spark, files)
        if warning:
            self.warn(warning)
        return blocks

    def _ask_for_executors(self, config: JobConfig, plan: Plan) -> int:
        """Asks YARN for the executors that are missing; returns how many there will be."""
        nodes, held = config.cluster.nodes, [e.host for e in executors_of(self._spark) if not e.removed]
        request = request_for(plan.host_nbytes() if config.cluster.placement == "data" else {}, nodes, held)
        try:
            request_executors(self._spark, request.total, request.hosts, self._slots.cores)
        except Py4JError as e:
            self.warn(f"executors cannot be asked for at the hosts of the data: {str(e).splitlines()[0]}")
            return nodes
        return max(request.total, nodes)

    def scratch(self) -> str | None:
        """See `Gang`. The JVM deletes it at its end."""
        return str(self._spark.sparkContext._temp_dir)

    def addresses(self) -> tuple[str, str]:
        """See `Gang`."""
        if self._slots.one_machine:
            return super().addresses()
        conf = self._spark.sparkContext.getConf()
        host = str(conf.get("spark.driver.host"))
        return str(conf.get("spark.driver.bindAddress") or host), host


def _place(spark: SparkSession, slots: Slots) -> str:
    """Returns where the gang runs, for people: "local[2]", or "yarn, queue default"."""
    queue = spark.sparkContext.getConf().get("spark.yarn.queue", "default")
    return f"{slots.master}, queue {queue}" if slots.is_yarn else slots.master


def _flag(spark: SparkSession, key: str) -> bool:
    return str(spark.sparkContext.getConf().get(key, "false")).lower() == "true"


def _default_run_id(spark: SparkSession, name: str) -> str:
    """Returns the application's id, numbered from the second run of one name on: the same for a second YARN attempt."""
    key = f"sparktf.runs.{name}"
    number = int(spark.conf.get(key, "0") or 0) + 1
    spark.conf.set(key, str(number))
    return spark.sparkContext.applicationId + (f"-{number}" if number > 1 else "")
