"""The node agent: one Spark task that holds a place in the gang, and starts and stops trainers on the driver's word."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sparktf.channel import ControlClient, patience_with
from sparktf.errors import ControlError, RefusedError
from sparktf.executor.identity import executor_identity
from sparktf.executor.process import TrainerProcess, python_path
from sparktf.messages import Ack, Action, AgentHeartbeat, Order, Orders, Registered, Registration
from sparktf.ports import HeldPort
from sparktf.security import ControlAccess
from sparktf.version import __version__

_POLL_S = 0.1
_HEARTBEAT_S = 0.5


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What the driver puts into the task's closure.

    Attributes:
        host: Address that peers reach this executor at; empty to take the host's own name.
        model_module: Must be importable here.
    """

    access: ControlAccess
    host: str
    node_ports: str
    model_module: str
    heartbeat_s: float
    driver_lost_s: float


def agent_task(partition: int, rows: Iterable[object], settings: AgentSettings) -> Iterator[int]:
    """The function of the Spark job: one agent for the partition, until the driver dismisses it."""
    del rows
    base = Path(tempfile.mkdtemp(prefix="sparktf-", dir=_local_dir()))
    try:
        Agent(partition, settings, base).run()
    finally:
        shutil.rmtree(base, ignore_errors=True)
    yield partition


class Agent:
    """One agent; `run` is its whole life."""

    def __init__(self, partition: int, settings: AgentSettings, base: Path) -> None:
        self._partition = partition
        self._settings = settings
        self._base = base
        self._id = uuid.uuid4().hex
        self._client = ControlClient(settings.access)
        self._port = HeldPort(settings.node_ports)
        self._trainer: TrainerProcess | None = None
        self._heard_s = time.monotonic()
        self._patience_s = settings.driver_lost_s

    def run(self) -> None:
        """Registers, then obeys until dismissed, or until the driver is gone."""
        try:
            if self._register():
                self._obey()
        finally:
            if self._trainer is not None:
                self._trainer.kill()
            self._port.close()

    def _register(self) -> bool:
        """Registers; returns False if the driver is gone. A second agent of a partition waits here for its turn."""
        registration = Registration(
            agent=self._id,
            partition=self._partition,
            host=socket.gethostname(),
            jvm=executor_identity(),
            address=self._address(),
            container=os.environ.get("CONTAINER_ID", ""),
            versions=installed_versions(),
            problems=tuple(_problems(self._settings.model_module)),
        )
        while not self._driver_lost():
            try:
                answer = self._client.call(
                    Action.REGISTER, registration, Registered, timeout_s=self._settings.heartbeat_s
                )
                self._heard_s = time.monotonic()
                if answer.accepted:
                    return True
            except RefusedError:
                return False
            except ControlError as e:
                self._note(e)
            time.sleep(_HEARTBEAT_S)
        return False

    def _obey(self) -> None:
        beaten_s = -1.0
        while not self._driver_lost():
            now_s = time.monotonic()
            exited = self._reap()
            if exited or now_s - beaten_s >= _HEARTBEAT_S:
                beaten_s = now_s
                orders = self._beat()
                if orders is not None and not self._follow(orders, now_s):
                    return
            time.sleep(_POLL_S)

    def _follow(self, orders: Orders, now_s: float) -> bool:
        """Carries out an order; returns False for a dismissal."""
        if orders.order is Order.DISMISS:
            return False
        if orders.order is Order.STOP and self._trainer is not None:
            self._trainer.ask_to_stop(now_s)
        if orders.order is Order.START and self._trainer is None and orders.trainer is not None:
            self._trainer = TrainerProcess(orders.trainer, self._settings.access, self._base)
        return True

    def _reap(self) -> bool:
        """Reports a trainer that has ended; returns whether there was one."""
        if self._trainer is None or self._trainer.exit_code() is None:
            return False
        exited = self._trainer.collect(self._id)
        self._trainer = None
        # The next attempt gets a port of its own, so that a straggler of this one cannot reach its servers.
        self._port.close()
        self._port = HeldPort(self._settings.node_ports)
        self._client.call_patiently(Action.TRAINER_EXITED, exited, Ack, patience_s=self._settings.driver_lost_s)
        return True

    def _beat(self) -> Orders | None:
        beat = AgentHeartbeat(
            agent=self._id,
            address=self._address(),
            attempt=self._trainer.spec.attempt if self._trainer is not None else None,
        )
        try:
            orders = self._client.call(Action.AGENT_HEARTBEAT, beat, Orders, timeout_s=self._settings.heartbeat_s)
        except RefusedError:
            return Orders(order=Order.DISMISS)
        except ControlError as e:
            self._note(e)
            return None
        self._heard_s = time.monotonic()
        return orders

    def _note(self, error: ControlError) -> None:
        self._patience_s = patience_with(error, self._settings.driver_lost_s)
        print(f"sparktf agent {self._partition}: {error}", file=sys.stderr)

    def _driver_lost(self) -> bool:
        return time.monotonic() - self._heard_s > self._patience_s

    def _address(self) -> str:
        return f"{self._settings.host or socket.gethostname()}:{self._port.port}"


def _local_dir() -> str | None:
    """Returns Spark's own temporary folder, which it deletes even after a killed executor; None outside Spark."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None


def installed_versions() -> dict[str, str]:
    """Returns the versions here of what driver and executors must agree on; "missing" for what is not installed."""
    installed = {name: _version(name) for name in ("tensorflow", "pyarrow")}
    return {"python": platform.python_version(), "sparktf": __version__, **installed}


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _problems(module: str) -> list[str]:
    """Returns why no trainer could start on this executor.

    The module is looked for in a process of its own: its packages may import TensorFlow, which a forked and reused
    Python worker must never hold.
    """
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    found = subprocess.run(
        [sys.executable, "-P", "-c", look, module],
        env={**os.environ, "PYTHONPATH": python_path()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    problems = [] if found.returncode == 0 else [f"model module '{module}' cannot be found: ship it with --py-files"]
    return problems + [
        f"{name} is not installed" for name, version in installed_versions().items() if version == "missing"
    ]
