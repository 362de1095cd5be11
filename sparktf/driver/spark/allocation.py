"""Spark's dynamic allocation: whether it is on, and what it allows. Functions of Spark's settings.

An executor is taken away only once no task has run on it for a while. A node's agent is a task, so its executor stays;
spare executors go by themselves. Spark's allocation manager replaces every total that others ask for, and takes the
hosts that tasks prefer for its own wish.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparktf.errors import PreflightError

_ON = "spark.dynamicAllocation.enabled"
_MOST = "spark.dynamicAllocation.maxExecutors"


def is_dynamic(settings: Mapping[str, str]) -> bool:
    """Whether Spark asks for executors, and gives them back, by itself."""
    return settings.get(_ON, "false").lower() == "true"


def check_allocation(settings: Mapping[str, str], nodes: int, *, engine: str = "sparktf") -> None:
    """Refuses a gang that dynamic allocation would never let come together, or would take apart.

    Args:
        settings: Spark's, as the application has them.
        nodes: Of the gang, each of which takes an executor.

    Raises:
        PreflightError: with the setting to change.
    """
    if not is_dynamic(settings):
        return
    if engine == "tensorflowonspark":
        raise PreflightError(
            "cluster.engine: tensorflowonspark counts on executors that stay, and dynamic allocation is on: set "
            f"{_ON}=false (and spark.executor.instances={nodes})"
        )
    most = settings.get(_MOST, "")
    if most.isdecimal() and int(most) < nodes:
        raise PreflightError(f"{nodes} nodes need as many executors, but {_MOST} is {most}: set it to {nodes} or more")


def check_outlives_tasks(settings: Mapping[str, str]) -> None:
    """Refuses nodes that go on when their tasks have ended: to Spark, their executors are idle.

    Raises:
        PreflightError: with the setting to change.
    """
    if is_dynamic(settings):
        raise PreflightError(
            "dynamic allocation would take the executors of nodes that Spark feeds, whose tasks end before they do: "
            f"set {_ON}=false (and spark.executor.instances)"
        )
