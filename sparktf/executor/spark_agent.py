"""The node agent as a Spark task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark import TaskContext

from sparktf.errors import LifecycleError
from sparktf.executor.agent import AgentSettings, gpus_of_task, run_agent
from sparktf.executor.looking_agent import LookingAgent


def agent_task(partition: int, rows: Iterable[object], settings: AgentSettings) -> Iterator[int]:
    """The function of the agents' job: one agent for the partition, until the driver dismisses it.

    Raises:
        LifecycleError: this is no Spark task.
    """
    del rows
    context = TaskContext.get()
    if context is None:
        raise LifecycleError("an agent can only be started in a Spark task")
    gpus = gpus_of_task(context.resources(), settings)
    kind = None if settings.looks_for is None else LookingAgent
    run_agent(partition, settings, context.taskAttemptId(), gpus=gpus, kind=kind)
    yield partition


def agent_on_node(args: Mapping[str, Any], ctx: Any) -> None:
    """The function of TensorFlowOnSpark's nodes: an agent for the node, until the driver dismisses it."""
    context = TaskContext.get()
    settings = args["settings"]
    gpus = gpus_of_task({} if context is None else context.resources(), settings)
    run_agent(int(ctx.executor_id), settings, 0 if context is None else context.taskAttemptId(), gpus=gpus)
