"""Facts about a Spark application: its master, slots and settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.sql import SparkSession

from sparktf.config.job import JobConfig
from sparktf.config.nodes import ClusterConfig
from sparktf.driver.spark import early_nursery
from sparktf.driver.spark.allocation import is_dynamic
from sparktf.driver.spark.allowed_losses import missing_losses
from sparktf.driver.spark.catalog import catalog_settings
from sparktf.driver.spark.driver_keys import DriverKeys, keys_for_job
from sparktf.driver.spark.driver_tokens import credentials_of, tokens_for_job
from sparktf.driver.spark.jvm import (
    application_attempt,
    end_application,
    hadoop_xml,
    ignore_interrupts,
    quiet_hadoop,
    ssl_client_xml,
    start_jvm,
)
from sparktf.driver.spark.jvm_tokens import try_login
from sparktf.driver.spark.log import quiet_settings
from sparktf.driver.spark.login import tokens_in_time
from sparktf.driver.spark.masters import Slots, master_of
from sparktf.errors import PreflightError
from sparktf.executor.handed_tokens import TaskAccess
from sparktf.hadoop import HadoopConf
from sparktf.results.result import Application
from sparktf.storage.file_systems import FileSystems

_ASK_FOR_TABLES = ("table", "sql", "source")

SHARED_CORES = 2
"""Cores of an executor for the node's agent and for feeders, one each: two agents would find room, too."""


def slots_of(spark: SparkSession) -> Slots:
    """Returns the application's slots, as its master and configuration promise them."""
    context = spark.sparkContext
    settings = dict(context.getConf().getAll())
    slots = master_of(str(context.master)).slots(int(settings.get("spark.executor.cores") or 1))
    slots = replace(slots, dynamic=is_dynamic(settings) and not slots.master.runs_in_driver)
    return replace(slots, cores=context.defaultParallelism) if slots.master.runs_in_driver else slots


def asks_for_tables(config: JobConfig, *, scores: bool) -> bool:
    """Whether a job looks for tables in Spark's catalogs, one that trains or one that scores."""
    source, asked = config.data.source_key, config.predict if scores else None
    if asked is not None and asked.source is not None:
        source = "path" if asked.source.path is not None else "table"
    return source in _ASK_FOR_TABLES or (asked is not None and asked.output.table is not None)


def start_session(
    config: JobConfig, settings: Mapping[str, str] | None = None, *, scores: bool = False
) -> SparkSession:
    """Returns the session of an application that is a job of its own, for its entry point.

    Tables are looked up in the Hive metastore only if the job may need them: a run that reads a path does not depend on
    it. The log shows errors only, unless it is configured. The JVM ignores SIGINT: on Ctrl-C a terminal sends that to
    spark-submit too, which would end at once and take output and executors along while Python still stops the run in
    order; so it ends when Python has.

    Raises:
        PreflightError: the cluster wants Kerberos, and does not let this user in.
    """
    start_jvm()
    conf = SparkConf()
    quiet = quiet_settings(conf)
    if quiet:
        quiet_hadoop()
    tokens_in_time(partial(try_login, conf))  # Spark would say so by a page of its own, or late
    if not scores and master_of(conf.get("spark.master") or "").runs_in_driver:
        early_nursery.begin(config)
    tables = catalog_settings(conf) if asks_for_tables(config, scores=scores) else {}
    losses = {} if scores else missing_losses(config, dict(conf.getAll()))
    builder = SparkSession.builder.appName(f"sparktf {config.name}")
    for key, value in {**quiet, **tables, **losses, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    ignore_interrupts()
    return spark


def stop_session(spark: SparkSession, exit_code: int) -> None:
    """Ends an application that is a job of its own, with its verdict: YARN calls it SUCCEEDED only for 0."""
    with suppress(Py4JError, OSError):  # the JVM may be gone, or on its way: the verdict is decided all the same
        end_application(spark, exit_code)
    with suppress(Py4JError, OSError):
        spark.stop()


def application_of(spark: SparkSession) -> Application:
    """Returns the application that a session belongs to."""
    number = application_attempt(spark)
    return Application(str(spark.sparkContext.applicationId), int(number) if number.isdecimal() else 0)


def check_settings(spark: SparkSession) -> None:
    """Refuses an application that cannot hold a gang.

    Raises:
        PreflightError: Spark Connect.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise PreflightError(
            "this is a Spark Connect session, which has no driver to coordinate from: "
            "use spark-submit without spark.remote"
        )


def check_slots(slots: Slots, cluster: ClusterConfig, *, feeders: bool | None = None) -> None:
    """Refuses a gang that can never be held.

    Args:
        feeders: Whether Spark feeds the nodes, which takes a slot of each executor besides; None before that is known.

    Raises:
        PreflightError: there are fewer slots than nodes and feeders need; it names the setting that provides them.
    """
    cores, nodes = 2 if feeders else 1, cluster.nodes
    if not slots.master.runs_in_driver and slots.cores < cores and (slots.total is None or slots.total >= nodes):
        raise PreflightError(
            "Spark feeds the nodes, which takes one more core of each executor: set spark.executor.cores=2 or more "
            "(submit.executor_cores)"
        )
    besides = 1 if feeders and slots.master.runs_in_driver else 0
    if slots.total is None or slots.total >= nodes + besides:
        return
    if slots.master.runs_in_driver:
        remedy = f"'local[{nodes + besides}]'"
        if feeders is None and cluster.may_be_fed:
            remedy += f", or 'local[{nodes + 1}]' if Spark feeds the nodes, which takes one more slot"
    else:
        remedy = f"'local-cluster[{nodes},{max(slots.cores, cores)},...]'"
    fed = " and one more for Spark to feed them" if feeders else ""
    raise PreflightError(
        f"{cluster.in_words} need as many slots{fed}, but {slots.master.url} has {slots.total}: use --master "
        f"{remedy}; or lower {cluster.sizes}"
    )


def check_speculation(slots: Slots, *, speculation: bool) -> None:
    """Refuses feeders if Spark would give their slots to second copies of node agents, which never end.

    Agents that hold more than one core of their executor leave too little for a copy beside them.

    Raises:
        PreflightError: executors of two cores, and speculation.
    """
    if speculation and not slots.master.one_machine and slots.cores == SHARED_CORES:
        raise PreflightError(
            "spark.speculation would start second copies of the nodes' agents in the slots from which Spark feeds "
            "the nodes: set spark.executor.cores=3 or more (submit.executor_cores), or spark.speculation=false"
        )


def hadoop_conf(spark: SparkSession) -> HadoopConf:
    """Returns the Hadoop configuration of the driver's JVM, as files and `spark.hadoop.*` make it.

    Raises:
        ConfigError: it cannot be read.
    """
    return HadoopConf.from_xml(hadoop_xml(spark), ssl_client_xml(spark))


_opened: list[FileSystems] = []


def task_access(spark: SparkSession) -> TaskAccess:
    """Returns how the tasks of a job to come reach files: they have no agent that would be handed newer tokens."""
    systems = file_systems_of(spark)
    # On the driver's machine they read its own token file, which it renews.
    tokens = b"" if master_of(str(spark.sparkContext.master)).runs_in_driver else tokens_for_job(systems.credentials)
    return TaskAccess(systems.hadoop.for_nodes(), tokens, keys_for_job(systems))


def file_systems_of(spark: SparkSession) -> FileSystems:
    """Returns the driver's file systems, as its JVM is configured.

    There is one set of them, with one set of credentials, as long as nobody changes that configuration.

    Raises:
        ConfigError: the configuration cannot be read.
    """
    hadoop = hadoop_conf(spark)
    if not _opened or _about_files(_opened[0].hadoop) != _about_files(hadoop):
        keys = DriverKeys(spark, hadoop, time.monotonic)
        _opened[:] = [FileSystems(hadoop, credentials_of(spark, hadoop, time.monotonic), keys=keys)]
    return _opened[0]


def _about_files(hadoop: HadoopConf) -> dict[str, str]:
    """Returns the properties without those of Hive, which Spark itself adds with its first query."""
    return {key: value for key, value in hadoop.properties.items() if not key.startswith("hive.")}
