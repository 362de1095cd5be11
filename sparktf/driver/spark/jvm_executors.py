"""Executors and tasks in Spark's scheduler in the JVM, and requests to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pyspark import RDD, SparkContext
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

from sparktf.driver.spark.jvm import Java, as_dict, as_list, as_scala, empty_map, java, scala_context

_DRIVER = "driver"
_DEFAULT_PROFILE = 0
"""Id of the default ResourceProfile."""

_LOOKED_AT = 100
"""The most tasks of a stage that are looked at."""

_LISTENED_MS = 2_000
"""Time for Spark to record which task has failed."""


class ExecutorSummary(NamedTuple):
    """An executor in Spark's status store."""

    id: str
    address: str  # Host and port
    log: str  # Address of its standard error, "" where the cluster manager serves no logs
    active: bool
    reason: str | None  # Why it was removed; None if it was not, or unknown
    tasks: int  # Number of running tasks


def executor_summaries(spark: SparkSession) -> list[ExecutorSummary]:
    """Returns the present and past executors, without the driver. Raises `Py4JError` if the JVM does not answer."""
    store = scala_context(spark.sparkContext).statusStore()
    return [_summary(summary) for summary in as_list(store.executorList(False)) if summary.id() != _DRIVER]


def _summary(summary: Java) -> ExecutorSummary:
    active, reason = bool(summary.isActive()), summary.removeReason()
    return ExecutorSummary(
        id=str(summary.id()),
        address=str(summary.hostPort()),
        log=str(as_dict(summary.executorLogs()).get("stderr") or ""),
        active=active,
        reason=str(reason.get()) if not active and reason.isDefined() else None,
        tasks=int(summary.activeTasks()),
    )


def request_total(spark: SparkSession, total: int, hosts: Sequence[str], cores: int) -> None:
    """Asks the cluster manager for executors until there are `total`, the new ones on these hosts if possible.

    This goes to the scheduler's backend: SparkContext's `requestTotalExecutors` passes on its map of hosts the wrong
    way round, and asks for no host at all.

    Args:
        hosts: One entry for each executor that is wanted there.
        cores: Of an executor: the backend counts tasks, one for each core.

    Raises:
        Py4JError: this Spark has another interface.
    """
    empty = empty_map()
    tasks = empty
    for host in dict.fromkeys(hosts):
        tasks = tasks.updated(host, hosts.count(host) * cores)
    scala_context(spark.sparkContext).schedulerBackend().requestTotalExecutors(
        empty.updated(_DEFAULT_PROFILE, total),
        empty.updated(_DEFAULT_PROFILE, len(hosts) * cores),
        empty.updated(_DEFAULT_PROFILE, tasks),
    )


def kill_executor(spark: SparkSession, executor: str) -> None:
    """Gives an executor back, without replacement. Raises `Py4JError` if the JVM does not answer."""
    adjust_target, count_failures, force = True, False, True
    backend = scala_context(spark.sparkContext).schedulerBackend()
    backend.killExecutors(as_scala([executor]), adjust_target, count_failures, force)


def partitions_at(context: SparkContext, count: int, hosts: Sequence[str]) -> RDD[int]:
    """Returns the numbers up to `count`, one a partition.

    Args:
        hosts: That the first of them are to be computed on: where Spark allocates executors dynamically, it asks for
            executors there.

    Raises:
        Py4JError: this Spark has another interface.
    """
    if not hosts:
        return context.parallelize(range(count), count)
    scala = java().scala
    serializer: Any = CPickleSerializer()
    wanted = [*([host] for host in hosts[:count]), *([] for _ in range(count - len(hosts)))]
    numbers = [scala.Tuple2(bytearray(serializer.dumps(i)), as_scala(host)) for i, host in enumerate(wanted)]
    placed = scala_context(context).makeRDD(as_scala(numbers), scala.reflect.ClassTag.AnyRef())
    return RDD(placed.toJavaRDD(), context, serializer)


def failed_tasks(context: SparkContext, group: str) -> Iterator[str]:
    """Yields where tasks of a job have failed: "host (executor 1)".

    Args:
        group: Of the job.

    Raises:
        Py4JError, OSError: the JVM is too busy, or gone.
    """
    scala_context(context).listenerBus().waitUntilEmpty(_LISTENED_MS)
    jobs = [context.statusTracker().getJobInfo(job) for job in context.statusTracker().getJobIdsForGroup(group)]
    for stage in [stage for job in jobs if job is not None for stage in job.stageIds]:
        for task in as_list(scala_context(context).statusStore().taskList(stage, 0, _LOOKED_AT)):
            if task.status() == "FAILED":
                yield f"{task.host()} (executor {task.executorId()})"
