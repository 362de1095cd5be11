"""A Spark application as a gang's site: its executors run the agents, its jobs feed them, its sources are planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

from sparktf.clock import Clock, SystemClock
from sparktf.config.job import JobConfig, SecurityConfig
from sparktf.driver.code.module import parameter_count, search_path
from sparktf.driver.gang.control_server import HERE, Addresses, ControlServer, serve
from sparktf.driver.gang.placement import HostNbytes, Request, ask_beside, best_hosts
from sparktf.driver.gang.roster import AgentRecord, ExecutorFacts
from sparktf.driver.gang.site import Handler, Put, Voice
from sparktf.driver.plan.plan import Plan
from sparktf.driver.run_checks import Basis, Scene, refuse_run
from sparktf.driver.source.choice import choose_feed
from sparktf.driver.source.hdfs_blocks import locate_or_warn
from sparktf.driver.source.origin import Origin
from sparktf.driver.source.prepare import prepare_assets
from sparktf.driver.source.statistics_of import statistics_of
from sparktf.driver.spark import early_nursery
from sparktf.driver.spark.agents import SparkAgents
from sparktf.driver.spark.application import (
    SHARED_CORES,
    application_of,
    check_settings,
    check_slots,
    file_systems_of,
    slots_of,
)
from sparktf.driver.spark.cluster_agents import ClusterAgents
from sparktf.driver.spark.driver_keys import handing_keys
from sparktf.driver.spark.driver_tokens import handing_out
from sparktf.driver.spark.executors import await_executors, executor_facts, release_executors
from sparktf.driver.spark.feeders import SparkFeeders
from sparktf.driver.spark.gpus import gpus_of
from sparktf.driver.spark.jvm_executors import request_total
from sparktf.driver.spark.reservations import Reservations
from sparktf.driver.spark.shipping import ship_code
from sparktf.errors import PreflightError
from sparktf.executor.agent import AgentSettings
from sparktf.executor.feeder import FeederSettings
from sparktf.knobs import KNOBS
from sparktf.statistics.column_statistics import TableStatistics
from sparktf.storage.base import Storage
from sparktf.told import line_of_error
from sparktf.wire.control import Action
from sparktf.wire.reserving import ReserveRequest


class SparkSite:
    """See `Site`."""

    def __init__(self, spark: SparkSession) -> None:
        """Looks at the application.

        Raises:
            PreflightError: it cannot hold a gang.
            ConfigError: its Hadoop configuration cannot be read.
        """
        check_settings(spark)
        self.clock: Clock = SystemClock()
        self.application = application_of(spark)
        self.file_systems = file_systems_of(spark)
        self._spark = spark
        self._slots = slots_of(spark)
        self._master = self._slots.master
        self.place = self._master.place(self._conf())
        self.one_machine = self._master.one_machine
        self.duplicates_wait = _flag(spark, "spark.speculation")
        self._agents: SparkAgents | ClusterAgents | None = None
        self._reservations: Reservations | None = None  # where another package's cluster reserves the executors
        self._given: DataFrame | RDD[Any] | None = None
        self._origin: Origin | None = None

    def give(self, data: DataFrame | RDD[Any] | None) -> None:
        """Takes the data handed to the next training, if any; its sources are opened anew."""
        self._given, self._origin = data, None

    def preflight(self, config: JobConfig, voice: Voice) -> None:
        """See `Site`. Raises the errors of the checks."""
        refuse_run(self._scene(config, Basis.SPARK), voice.warn)
        if self._master.runs_in_driver:
            early_nursery.begin(config)

    def is_loop(self, config: JobConfig) -> bool | None:
        """See `Site`."""
        path = search_path(config.code_folder)
        count = parameter_count(config.modules["model"], config.function_of("model"), path)
        return None if count is None else count == 1

    def plan(self, config: JobConfig, voice: Voice) -> Plan:
        """See `Site`."""
        # The functions in what `data.source` returns take along the code that was shipped before they were made.
        self.ship_code(config)
        locate = partial(locate_or_warn, self._spark, voice.warn)
        has_slots = self._agents is None or self._agents.leaves_slots
        origin, systems = self._origin_of(config), self.file_systems
        return choose_feed(self._spark, config, origin, systems, locate, voice.say, has_slots=has_slots)

    def statistics(self, config: JobConfig, plan: Plan) -> TableStatistics:
        """Returns the statistics of the columns that a plan uses; reads all of their rows.

        Raises:
            PreflightError: the agents leave no free slot.
            DataError: the rows cannot be computed.
        """
        if self._agents is not None:
            check_slots(self._slots, config.cluster, feeders=True)
        if self._agents is not None and not self._agents.leaves_slots:
            raise PreflightError(
                "this cluster's nodes hold all cores of their executors and leave none for Spark to compute "
                "data.checks: use a separate cluster"
            )
        cores = self._spark.sparkContext.defaultParallelism
        return statistics_of(self._spark, self._origin_of(config), config, plan, self.file_systems, cores)

    def prepare(self, config: JobConfig, plan: Plan, storage: Storage, path: str, put: Put) -> dict[str, Any]:
        """See `Site`."""
        self.ship_code(config)  # prepare may run functions of the user's on the executors
        origin = self._origin_of(config)
        origin.follow(plan)
        if plan.source_version is not None:
            origin.open()  # so a missing version is reported before nodes are held
        return prepare_assets(config, storage, path, origin, put)

    def ship_code(self, config: JobConfig) -> None:
        """See `Site`."""
        ship_code(self._spark, config.modules, config.code_folder)

    def check_plan(self, config: JobConfig, plan: Plan) -> None:
        """See `Site`."""
        if plan.staged:
            agents = () if self._agents is None else (Basis.AGENTS,)
            # None of these warns.
            refuse_run(self._scene(config, Basis.SPARK, Basis.FED, *agents), lambda warning: None, (Basis.SPARK,))

    def serve(self, config: JobConfig, handlers: Mapping[Action, Handler]) -> ControlServer:
        """See `Site`."""
        if config.cluster.engine == "tensorflowonspark":
            self._reservations = Reservations(config.cluster.nodes)
            handlers = {**handlers, Action.RESERVE: Handler(ReserveRequest, self._reservations.reserve)}
        return self._serve(config.security, config.cluster.control_port, handlers)

    def serve_functions(self, handlers: Mapping[Action, Handler]) -> ControlServer:
        """Starts the server for messages of nodes that run functions, which have no configuration."""
        return self._serve(SecurityConfig(), 0, handlers)

    def _serve(self, security: SecurityConfig, port: int, handlers: Mapping[Action, Handler]) -> ControlServer:
        """Starts a server; a socket's folder goes with the JVM."""
        scratch = str(self._spark.sparkContext._temp_dir)
        handlers = handing_out(self.file_systems.credentials, handing_keys(self.file_systems, handlers))
        return serve(security, port, handlers, self._addresses(), one_machine=self.one_machine, scratch=scratch)

    def start_agents(
        self, config: JobConfig, plan: Plan, settings: AgentSettings, voice: Voice
    ) -> SparkAgents | ClusterAgents:
        """See `Site`."""
        # Of a run that goes on, nobody here has looked at the data: the plan is stored.
        self.file_systems.note((*plan.files, *filter(None, (config.output.path, config.train.init_path))))
        count, hosts = config.cluster.nodes, list[str]()
        if self._slots.dynamic:  # Spark asks for the executors, as many as the agents fill, where they are wanted
            hosts = self._wanted_hosts(config, plan)
        elif self._master.grants_executors:
            count = self._ask_for_executors(config, plan, voice.warn)
        if config.cluster.placement == "data" and plan.hosts and not self._master.places_executors:
            voice.warn(f"cluster.placement: data needs YARN, since {self.place} does not place executors by host")
        feeders = bool(plan.staged)
        # Nothing keeps two agents of one core each from sharing an executor of two: as many are started as there are
        # cores, and one of each executor is chosen.
        gpus, shared = gpus_of(self._conf()), self._slots.cores if self._slots.dynamic else SHARED_CORES
        parted = gpus is not None and gpus.nodes_of_executor == 1  # GPUs keep them from sharing one
        may_share = (feeders or self._slots.dynamic) and self._slots.cores == shared and not parted
        if may_share and not self._master.runs_in_driver:
            count, hosts = min(count * shared, self._slots.total or count * shared), hosts * shared
        spares = count - config.cluster.nodes
        if self._master.runs_in_driver:
            settings = replace(settings, nurseries=early_nursery.begin(config))
        if self._reservations is not None:
            cluster = config.cluster
            self._agents = ClusterAgents(
                self._spark, cluster.nodes, self._slots, settings, self._reservations, config.timeouts.reserve
            )
        else:
            self._agents = SparkAgents(self._spark, count, self._slots, settings, feeders=feeders, hosts=hosts)
            self._agents.spares = spares
        return self._agents

    def feed(self, config: JobConfig, plan: Plan, settings: FeederSettings, on_end: Callable[[], None]) -> SparkFeeders:
        """See `Site`."""
        rows = self._origin_of(config).fed.stream(settings.stream, plan.spec)
        return SparkFeeders(rows, settings, on_end=on_end)

    def let_go(self, agents: Sequence[AgentRecord]) -> None:
        """See `Site`."""
        if self._slots.dynamic:
            return  # Spark itself gives idle executors back, and keeps its own count of them
        containers = [agent.registration.container for agent in agents if agent.registration.container]
        self.clock.beside("let-go", partial(release_executors, self._spark, self._master, containers))

    def facts(self, agents: Sequence[AgentRecord]) -> list[ExecutorFacts]:
        """See `Site`."""
        return executor_facts(self._spark, self._master, [agent.registration.container for agent in agents])

    def _scene(self, config: JobConfig, *has: Basis) -> Scene:
        return Scene(
            config,
            self._slots,
            self.file_systems,
            has=has,
            given_rdd=isinstance(self._given, RDD),
            settings=self._conf(),
            leaves_slots=self._agents is None or self._agents.leaves_slots,
        )

    def _origin_of(self, config: JobConfig) -> Origin:
        if self._origin is None:
            self._origin = Origin(self._spark, config, self._given)
        return self._origin

    def _wanted_hosts(self, config: JobConfig, plan: Plan) -> list[str]:
        """Returns the best hosts for the nodes that read, where the master places executors by host."""
        wanted = self._wanted_nbytes(config, plan)
        return best_hosts(wanted, config.cluster.shape.workers, ()) if wanted else []

    def _wanted_nbytes(self, config: JobConfig, plan: Plan) -> HostNbytes:
        """Returns where the data lies, if executors are wanted there and the master can place them."""
        by_host = self._master.places_executors and config.cluster.placement == "data"
        return plan.host_nbytes() if by_host else {}

    def _ask_for_executors(self, config: JobConfig, plan: Plan, warn: Callable[[str], None]) -> int:
        """Asks the master for the missing executors; returns how many there will be."""
        nodes, readers = config.cluster.nodes, config.cluster.shape.workers
        wanted = self._wanted_nbytes(config, plan)

        def held(total: int) -> list[str]:
            limit_s = KNOBS.placed_s if wanted else 0.0
            return [executor.host for executor in await_executors(self._spark, total, limit_s)]

        def ask(request: Request) -> None:
            request_total(self._spark, request.total, request.hosts, self._slots.cores)

        try:
            return max(ask_beside(wanted, nodes, readers, held, ask), nodes)
        except Py4JError as e:
            warn(f"executors cannot be requested: {line_of_error(e)}")
            return nodes

    def _conf(self) -> dict[str, str]:
        return dict(self._spark.sparkContext.getConf().getAll())

    def _addresses(self) -> Addresses:
        if self.one_machine:
            return HERE
        conf = self._spark.sparkContext.getConf()
        host = str(conf.get("spark.driver.host"))
        return Addresses(str(conf.get("spark.driver.bindAddress") or host), host)


def _flag(spark: SparkSession, key: str) -> bool:
    return str(spark.sparkContext.getConf().get(key, "false")).lower() == "true"
