"""The node agents as the functions of TensorFlowOnSpark's nodes: `cluster.engine: tensorflowonspark`.

Its `TFCluster` reserves the executors, and each runs an agent of ours; all else is sparktf's own.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import threading
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from sparktf.driver.spark.executor_python import unfit_python
from sparktf.driver.spark.gpus import gpus_of
from sparktf.driver.spark.masters import Slots
from sparktf.driver.spark.reservations import Reservations, reserving
from sparktf.errors import NodeLostError, PreflightError
from sparktf.executor.agent import AgentSettings
from sparktf.executor.spark_agent import agent_on_node
from sparktf.told import first_line_of, line_of_error

_PACKAGE = "tensorflowonspark"
_VERSION = "2.2.5"
"""Our replacement of its reservation server is made for this version."""
_LEAVE_S = 30.0
"""Its shutdown looks every five seconds whether its jobs are over."""


def check_engine() -> None:
    """Refuses to begin without the package.

    Raises:
        PreflightError: it is not installed, or in another version, or sparktf's own modules replace it in this process.
    """
    found = importlib.util.find_spec(_PACKAGE)
    if found is None:
        raise PreflightError(f"cluster.engine: {_PACKAGE} needs the package: pip install {_PACKAGE}=={_VERSION}")
    if found.origin is None:
        raise PreflightError(
            f"cluster.engine: {_PACKAGE} needs the real package, but sparktf.compat replaces it in this process"
        )
    if (version := importlib.metadata.version(_PACKAGE)) != _VERSION:
        raise PreflightError(
            f"cluster.engine: {_PACKAGE} needs {_PACKAGE} {_VERSION}, but {version} is installed: pip install "
            f"{_PACKAGE}=={_VERSION}"
        )


class ClusterAgents:
    """Runs an agent on each of its nodes; see `sparktf.driver.gang.site.AgentJob`."""

    def __init__(
        self,
        spark: SparkSession,
        count: int,
        slots: Slots,
        settings: AgentSettings,
        reservations: Reservations,
        reserve_s: float,
    ) -> None:
        """Starts `count` agents.

        Args:
            reservations: Takes its nodes, by the control server in `settings`.
            reserve_s: The time for all of them to come.
        """
        self.spares = 0
        self._leaves_slots = slots.cores > 1
        self._spark = spark
        self._count = count
        deals_gpus = gpus_of(dict(spark.sparkContext.getConf().getAll())) is not None
        address_in, container_in = slots.master.address_in, slots.master.container_in
        self._settings = replace(settings, address_in=address_in, container_in=container_in, deals_gpus=deals_gpus)
        self._reservations = reservations
        self._reserve_s = reserve_s
        self._closing = threading.Event()
        self._reason = "it ended"
        self._unfit: PreflightError | None = None
        self._thread = threading.Thread(target=self._run, name="cluster-agents", daemon=True)
        self._thread.start()

    @property
    def leaves_slots(self) -> bool:
        """Whether feeders find a slot beside the agents."""
        return self._leaves_slots

    def ended(self) -> str | None:
        """Returns why the cluster has ended, and all agents with it; None while it runs."""
        return None if self._closing.is_set() or self._thread.is_alive() else self._reason

    def restart(self) -> None:
        """Always raises: the package starts no node again.

        Raises:
            PreflightError: the executors' Python cannot run them.
            NodeLostError: else.
        """
        if self._unfit is not None:
            raise self._unfit
        raise NodeLostError(f"TensorFlowOnSpark gave up its nodes and does not restart them: {self._reason}")

    def close(self, wait_s: float) -> None:
        """Waits for dismissed agents, and for the package to see that they are gone."""
        self._closing.set()
        self._thread.join(wait_s + _LEAVE_S)

    def _run(self) -> None:
        theirs: Any = importlib.import_module(f"{_PACKAGE}.TFCluster")
        node = importlib.import_module(f"{_PACKAGE}.TFSparkNode")
        try:
            cluster = reserving(theirs, node, self._reservations, self._settings.access)(
                self._spark.sparkContext,
                agent_on_node,
                {"settings": self._settings},
                self._count,
                0,
                input_mode=theirs.InputMode.TENSORFLOW,
                reservation_timeout=self._reserve_s,
            )
            while not self._closing.wait(1.0):
                if "error" in theirs.tf_status:
                    raise NodeLostError(first_line_of(str(theirs.tf_status["error"]), "its job failed"))
            cluster.shutdown(timeout=-1)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it raises bare ones, and ends the process
            self._reason = line_of_error(error)
            self._unfit = unfit_python(error)
        finally:
            theirs.tf_status.clear()
