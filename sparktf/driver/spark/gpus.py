"""The GPUs that a Spark application has for its nodes. Pure, of Spark's settings.

An agent asks Spark for whole GPUs, and its trainer sees the addresses that Spark gives it. Spark's other tasks ask for
`spark.task.resource.gpu.amount`: where that is set, they wait for GPUs, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparktf.config.nodes import ClusterConfig
from sparktf.driver.spark.allocation import is_dynamic
from sparktf.errors import PreflightError

OF_EXECUTOR, OF_TASK = "spark.executor.resource.gpu.amount", "spark.task.resource.gpu.amount"
SCRIPT, VENDOR = "spark.executor.resource.gpu.discoveryScript", "spark.executor.resource.gpu.vendor"
_PLUGIN = "spark.resources.discoveryPlugin"
_OTHERWISE = {
    SCRIPT: "executors do not find their GPUs, and end: set it to a script of theirs that prints the addresses",
    VENDOR: "Spark makes no pods: set it to the domain of the device plugin, e.g. nvidia.com",
}
"""Setting that a master may need -> what follows without it."""


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs of an application's executors and tasks."""

    of_executor: int
    of_task: float | None  # As Spark's other tasks ask for them; None if they ask for none

    @property
    def of_node(self) -> int:
        """How many a node's agent asks for: as many as a task, else all of its executor."""
        return self.of_executor if self.of_task is None else max(int(self.of_task), 1)

    @property
    def nodes_of_executor(self) -> int:
        """How many nodes find GPUs on one executor."""
        return self.of_executor // self.of_node


def gpus_of(settings: Mapping[str, str]) -> Gpus | None:
    """Returns the GPUs of an application by its Spark settings; None without any.

    Raises:
        PreflightError: an amount is no number.
    """
    of_executor, of_task = _amount(settings, OF_EXECUTOR), _amount(settings, OF_TASK)
    if not of_executor:
        return None
    return Gpus(int(of_executor), of_task or None)


def check_gpus(
    settings: Mapping[str, str],
    cluster: ClusterConfig,
    executors: int | None = None,
    *,
    needs: Sequence[str] = (),
    is_fed: bool = False,
) -> None:
    """Refuses GPUs that the nodes would not get.

    Args:
        executors: How many the application has; None if unknown.
        needs: Settings without which the master's executors would have none.
        is_fed: Whether Spark's own tasks feed the nodes.

    Raises:
        PreflightError: it names the setting to change.
    """
    gpus, of_task = gpus_of(settings), _amount(settings, OF_TASK)
    if gpus is None:
        if of_task:
            raise PreflightError(
                f"{OF_TASK}={of_task:g}, but the executors have no GPUs: set {OF_EXECUTOR}, and "
                "spark.executor.resource.gpu.discoveryScript, or leave it out"
            )
        return
    for key in needs:
        if not settings.get(key) and not (key == SCRIPT and settings.get(_PLUGIN)):
            raise PreflightError(f"{OF_EXECUTOR}={gpus.of_executor}, but without {key} {_OTHERWISE[key]}")
    _check_amounts(gpus, cluster)
    if is_dynamic(settings) and gpus.of_task is None:
        raise PreflightError(
            "with dynamic allocation the nodes ask for what any task asks for, and so would get no GPUs: set "
            f"{OF_TASK}={gpus.of_executor}, or spark.dynamicAllocation.enabled=false"
        )
    if executors is not None and executors * gpus.nodes_of_executor < cluster.nodes:
        raise PreflightError(
            f"{cluster.in_words} need {cluster.nodes * gpus.of_node} GPUs, {gpus.of_node} each, but {executors} "
            f"executors have {gpus.of_executor} each ({OF_EXECUTOR}): lower {OF_TASK}, or {cluster.sizes}"
        )
    if is_fed and gpus.of_task is not None and gpus.of_node * gpus.nodes_of_executor + gpus.of_task > gpus.of_executor:
        raise PreflightError(
            f"Spark feeds the nodes, and its tasks would wait for GPUs that the nodes hold: leave out {OF_TASK}, so "
            "that the nodes alone ask for GPUs, for all of their executor"
        )


def _check_amounts(gpus: Gpus, cluster: ClusterConfig) -> None:
    """Compares what an executor has, what a task asks for, and what a node's strategy is to use."""
    if gpus.of_task is not None and gpus.of_task > gpus.of_executor:
        raise PreflightError(
            f"{OF_TASK}={gpus.of_task:g}, but an executor has {gpus.of_executor} ({OF_EXECUTOR}): lower the one, or "
            "raise the other"
        )
    if gpus.of_task is not None and gpus.of_task != int(gpus.of_task):
        raise PreflightError(
            f"{OF_TASK}={gpus.of_task:g} would have trainers share a GPU: set a whole number, or leave it out, so that "
            "each node has all GPUs of its executor"
        )
    if cluster.engine == "tensorflowonspark" and gpus.of_task is None:
        raise PreflightError(
            f"cluster.engine: tensorflowonspark asks for no GPUs by itself: set {OF_TASK}={gpus.of_executor}"
        )
    if cluster.traits.several_workers and cluster.updates_together and gpus.of_node > cluster.devices:
        raise PreflightError(
            f"cluster.devices: {cluster.devices}, but a node would have {gpus.of_node} GPUs: set cluster.devices: "
            f"{gpus.of_node}, or {OF_TASK}={cluster.devices} and more cluster.workers"
        )
    if cluster.traits.splits_devices and cluster.devices > gpus.of_node:
        raise PreflightError(
            f"cluster.devices: {cluster.devices}, but a node has {gpus.of_node} GPUs: raise {OF_EXECUTOR} and "
            f"{OF_TASK}, or lower cluster.devices"
        )


def _amount(settings: Mapping[str, str], key: str) -> float:
    """Returns an amount, 0 for none. Raises `PreflightError` if it is no number."""
    text = settings.get(key, "0")
    try:
        return float(text)
    except ValueError:
        raise PreflightError(f"{key}={text}: not a number of GPUs") from None
