"""The executors of a Spark application, as Spark knows them: their hosts, their logs, and the reasons of losses."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sparktf.driver.gang.roster import ExecutorFacts
from sparktf.driver.spark.jvm_executors import ExecutorSummary, executor_summaries, kill_executor
from sparktf.driver.spark.masters import Master
from sparktf.knobs import KNOBS
from sparktf.told import log_of

_log = log_of(__name__)

_TAKEN_BACK = re.compile(
    r"^Container \S+( on host: \S+)? was preempted\.|^Executor decommission: |^its pod was deleted|"
    r"^its pod ended with exit code (143\.$|.*: (Terminated|NodeShutdown|Shutdown|Preempting)\b)"
)
"""As YARN's allocator and Spark's scheduler begin their reasons on all Sparks since 3.5, and as `_of_pod` does."""

_POD = re.compile(
    r"^The executor with id \S+ (?:exited with exit code (?P<code>-?\d+)|"
    r"(?P<deleted>was deleted by|(?:\([^)]*\) )?was not found in the cluster))",
    re.IGNORECASE,
)
_SAID_OF_POD = {
    "reason": re.compile(r"brief reason: (?P<said>.+?)(?= The API gave|$)"),
    "message": re.compile(r"following message: (?P<said>.+?)(?= The API gave|$)"),
    "container": re.compile(r"termination reason: (?P<said>\S+)"),
}
_CONTAINER = re.compile(
    r"^Container from a bad node: \S+ on host: \S+ Exit status: (?P<code>-?\d+)\."
    r"( Possible causes: .*?)? Diagnostics: (?P<said>.*)$"
)
_OF_CONTAINER_AGAIN = re.compile(
    r"\[[\d: .-]+\]|Container killed on request\. Exit code is -?\d+|"
    r"Container exited with a non-zero exit code -?\d+\."
)
"""What YARN's diagnostics have besides: the time of each line, and the exit code once more."""
_NOTHING = ("N/A", "Error", "Completed")
_MEMORY = re.compile(r"physical memory|OOMKilled|low on resource: memory")


class Executor(NamedTuple):
    """One executor."""

    id: str
    host: str
    log: str  # Address of its standard error, "" where the cluster manager serves no logs
    removed: str  # Why it was removed; "" if it was not
    tasks: int  # Number of running tasks


def executors_of(spark: SparkSession) -> list[Executor]:
    """Returns the present and past executors, without the driver. Raises `Py4JError` if the JVM does not answer."""
    return [_executor(summary) for summary in executor_summaries(spark)]


def _executor(summary: ExecutorSummary) -> Executor:
    return Executor(
        id=summary.id,
        host=summary.address.rpartition(":")[0],
        log=summary.log,
        removed="" if summary.active else why_removed("it was removed" if summary.reason is None else summary.reason),
        tasks=summary.tasks,
    )


def why_removed(reason: str) -> str:
    """Returns Spark's reason for a removal in one line, with the setting of ours that would have helped."""
    line = " ".join(reason.split())
    line = _of_pod(line) or _of_container(line) or line
    if _MEMORY.search(line):
        line += " In sparktf's configuration that is cluster.trainer_memory_mib."
    return line


def _of_pod(line: str) -> str:
    """Returns in a few words what Spark tells of a pod's end in a page of them; "" if it is of none."""
    found = _POD.search(line)
    if found is None:
        return ""
    if found["deleted"]:
        return "its pod was deleted: its host was drained, other pods needed the room, or somebody deleted it."
    told = {key: pattern.search(line) for key, pattern in _SAID_OF_POD.items()}
    words = [match["said"] for match in told.values() if match is not None and match["said"] not in _NOTHING]
    return f"its pod ended with exit code {found['code']}{': ' if words else ''}{': '.join(words)}".rstrip(".") + "."


def _of_container(line: str) -> str:
    """Returns in a few words what Spark tells of the end of YARN's container in a page; "" if it is of none."""
    found = _CONTAINER.search(line)
    if found is None:
        return ""
    said = " ".join(_OF_CONTAINER_AGAIN.sub("", found["said"]).split()).rstrip(" .")
    return f"its container ended with exit status {found['code']}{': ' if said else ''}{said}."


def is_taken_back(reason: str) -> bool:
    """Whether by Spark's reason the cluster took an executor back that had done nothing wrong.

    Either it was preempted, for another queue's sake, or its host is being decommissioned. Of a host that leaves YARN
    without notice, Spark says that the host was lost, as of one that died.
    """
    return _TAKEN_BACK.search(reason) is not None


def await_executors(spark: SparkSession, total: int, limit_s: float) -> list[Executor]:
    """Waits until there are `total` executors, or for `limit_s`; returns those present.

    Raises:
        Py4JError: the JVM does not answer.
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        here = [executor for executor in executors_of(spark) if not executor.removed]
        if len(here) >= total or time.monotonic() >= deadline_s:
            return here
        time.sleep(KNOBS.executors_poll_s)


def release_executors(spark: SparkSession, master: Master, containers: Sequence[str]) -> None:
    """Gives the executors in these containers back to the master; waits until no task runs on them.

    Earlier, Spark would run the task again elsewhere.
    """
    left = list(containers)
    deadline_s = time.monotonic() + KNOBS.release_s
    while left and time.monotonic() < deadline_s:
        try:
            executors = executors_of(spark)
            for container in list(left):
                executor = find_executor(master, executors, container)
                if executor is None or executor.removed:
                    left.remove(container)
                elif not executor.tasks:
                    kill_executor(spark, executor.id)
                    left.remove(container)
        except (Py4JError, OSError) as e:
            _log.warning("an executor that is not needed was not released: %s", e)
            return
        time.sleep(KNOBS.release_poll_s)


def find_executor(master: Master, executors: Sequence[Executor], container: str) -> Executor | None:
    """Returns the executor in a container of the master's."""
    return next((e for e in executors if master.has_executor(container, e.id, e.log)), None)


def executor_facts(spark: SparkSession, master: Master, containers: Sequence[str]) -> list[ExecutorFacts]:
    """Returns the facts about the executor in each container; empty if there is none, or the JVM does not answer.

    The executors are listed once: each of them costs several crossings to the JVM.
    """
    try:
        executors = executors_of(spark) if any(containers) else []
    except (Py4JError, OSError):
        executors = []
    found = [find_executor(master, executors, container) for container in containers]
    return [
        ExecutorFacts() if e is None else ExecutorFacts(e.log, e.removed, taken_back=is_taken_back(e.removed))
        for e in found
    ]
