"""The node agent as a Spark task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark import TaskContext

from sparktf.errors import LifecycleError
from sparktf.executor.agent import AgentSettings, run_agent


def agent_task(partition: int, rows: Iterable[object], settings: AgentSettings) -> Iterator[int]:
    """The function of the agents' job: one agent for the partition, until the driver dismisses it.

    Raises:
        LifecycleError: this is no Spark task.
    """
    del rows
    context = TaskContext.get()
    if context is None:
        raise LifecycleError("an agent can only be started in a Spark task")
    run_agent(partition, settings, context.taskAttemptId())
    yield partition


def agent_on_node(args: Mapping[str, Any], ctx: Any) -> None:
    """The function of TensorFlowOnSpark's nodes: an agent for the node, until the driver dismisses it."""
    context = TaskContext.get()
    run_agent(int(ctx.executor_id), args["settings"], 0 if context is None else context.taskAttemptId())
