"""The Spark job of the node agents."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession

from sparktf.driver.spark.executor_python import unfit_python
from sparktf.driver.spark.gpus import gpus_of
from sparktf.driver.spark.jvm import is_stopped
from sparktf.driver.spark.jvm_executors import partitions_at
from sparktf.driver.spark.masters import Slots
from sparktf.errors import NodeLostError, PreflightError, RunInterruptedError
from sparktf.executor.agent import AgentSettings
from sparktf.executor.detached_agent import detached_agent_task
from sparktf.executor.spark_agent import agent_task

_MAX_RESTARTS = 10
_ALL_CANCELLED = "as part of cancellation of all jobs"
"""Spark's message on a job ended by `cancelAllJobs`, which PySpark calls on Ctrl-C."""

_GONE = (Py4JError, OSError)
"""Raised by py4j when the JVM fails or is gone."""


class SparkAgents:
    """Runs one agent per partition as a plain Spark job, on a thread of its own.

    A plain job, not a barrier stage: Spark starts a lost agent again while the others stay, and other jobs run beside.
    If Spark gives the whole job up (`local[n]` retries no task), `restart` begins a new one.
    """

    def __init__(
        self,
        spark: SparkSession,
        count: int,
        slots: Slots,
        settings: AgentSettings,
        *,
        feeders: bool = False,
        detached: bool = False,
        first: int = 0,
        hosts: Sequence[str] = (),
    ) -> None:
        """Starts `count` agents; the caller says in `spares` how many of them are only there to choose from.

        Args:
            feeders: Leave a slot of each executor to feeders.
            detached: They outlive their tasks, which end once all of them have come: then no slot is held.
            first: Partition of the first one.
            hosts: Where the first ones are wanted, one host each.
        """
        self.spares = 0
        self._feeders = feeders
        self._detached = detached
        self._first = first
        self._hosts = hosts
        self._context: SparkContext = spark.sparkContext
        self._count = count
        self._slots = slots
        self._gpus = gpus_of(dict(self._context.getConf().getAll())) if not slots.master.runs_in_driver else None
        address_in, container_in = slots.master.address_in, slots.master.container_in
        self._settings = replace(
            settings, address_in=address_in, container_in=container_in, deals_gpus=self._gpus is not None
        )
        self._group = f"sparktf-agents-{uuid.uuid4().hex[:8]}"
        self._restarts = 0
        self._closing = False
        self._reason = "it ended"
        self._succeeded = False
        self._cancelled = False
        self._unfit: PreflightError | None = None
        self._thread = self._launch()

    @property
    def leaves_slots(self) -> bool:
        """Whether feeders find a slot beside the agents."""
        return self._feeders or not self._fills_executors()

    def ended(self) -> str | None:
        """Returns why the job has ended, and all of its agents with it; None while it runs."""
        has_ended = not (self._closing or self._thread.is_alive() or self._succeeded)
        return self._reason if has_ended else None

    def restart(self) -> None:
        """Starts the agents again after their job has ended.

        Raises:
            PreflightError: the executors' Python cannot run them.
            NodeLostError: it has ended too often, so the reason will not go away.
            RunInterruptedError: the whole application has ended, or all of its jobs were cancelled; then the agents
                are started nevertheless, for the next training.
        """
        if self._unfit is not None:
            raise self._unfit
        cancelled, self._cancelled = self._cancelled, False
        self._restarts += 1
        if self._restarts > _MAX_RESTARTS:
            raise NodeLostError(f"Spark gave up the agents' job {self._restarts} times: {self.ended()}")
        try:
            stopped = is_stopped(self._context)
            self._thread = self._launch()
        except _GONE:
            stopped = True
        if cancelled and not stopped:
            raise RunInterruptedError(
                "all jobs of the application were cancelled; submit the same run id again to go on from the last "
                "checkpoint"
            )
        if stopped:
            raise RunInterruptedError(
                "the Spark application was stopped or its JVM killed; submit the same run id again to go on from "
                "the last checkpoint"
            )

    def close(self, wait_s: float) -> None:
        """Waits for dismissed agents to end, then cancels the others."""
        self._closing = True
        self._thread.join(wait_s)
        if self._thread.is_alive():
            with suppress(*_GONE):
                self._context.cancelJobGroup(self._group)
            self._thread.join(wait_s)

    def _launch(self) -> Any:
        thread = InheritableThread(target=self._run, name="agents", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        context = self._context
        run, first = (detached_agent_task if self._detached else agent_task), self._first
        settings = self._settings

        def task(partition: int, rows: Any) -> Any:
            return run(first + partition, rows, settings)

        try:
            context.setJobGroup(self._group, "sparktf node agents", interruptOnCancel=False)
            rdd = partitions_at(context, self._count, self._hosts)
            requests = self._requests()
            if requests is not None:
                rdd = rdd.withResources(ResourceProfileBuilder().require(requests).build)
            rdd.mapPartitionsWithIndex(task).collect()
            self._succeeded = self._detached
        except Exception as e:  # noqa: BLE001 - the end of a thread: the job is gone; the roster sees which agents are
            self._reason, self._cancelled = _first_line(e), _ALL_CANCELLED in _text_of(e)
            self._unfit = unfit_python(e, self._group)

    def _requests(self) -> TaskResourceRequests | None:
        """Returns the cores and GPUs that each agent asks for; None for those of any task."""
        if self._slots.dynamic:  # a profile of its own would have Spark ask for new executors, which no other job uses
            return None
        fills = self._fills_executors() and not self._detached
        if not fills and self._gpus is None:
            return None
        requests = TaskResourceRequests().cpus(self._slots.cores - self._feeders if fills else 1)
        return requests if self._gpus is None else requests.resource("gpu", self._gpus.of_node)

    def _fills_executors(self) -> bool:
        """Whether each agent takes a whole executor, so that no two share one; `local[n]` has no task-only profiles."""
        slots = self._slots
        if slots.dynamic:
            return False
        enough = slots.master.grants_executors or (slots.executors is not None and slots.executors >= self._count)
        return enough and not slots.master.runs_in_driver and slots.cores > 1


def _first_line(error: Exception) -> str:
    """Returns the most informative line of a Spark error."""
    lines = [line.strip() for line in _text_of(error).splitlines() if line.strip()] or [type(error).__name__]
    causes = [line for line in lines if any(part in line for part in ("Lost task", "aborted due to", _ALL_CANCELLED))]
    return (causes or lines)[0][:300]


def _text_of(error: Exception) -> str:
    try:
        return str(error)
    except _GONE:  # py4j asks the JVM for the text
        return type(error).__name__
