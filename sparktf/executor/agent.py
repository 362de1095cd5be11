"""The node agent: a Spark task that holds a place in the gang, and starts and stops trainers as the driver orders."""

from __future__ import annotations

import base64
import functools
import importlib.metadata
import os
import platform
import shutil
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sparktf.config.section import Switch
from sparktf.errors import ControlError, RefusedError
from sparktf.executor.forking import Nursery, named_in, sees_gpu, wants_nursery
from sparktf.executor.handed_tokens import HandedTokens
from sparktf.executor.identity import executor_identity
from sparktf.executor.trainer_process import TrainerProcess, python_path, trainer_environment
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.process.module_search import find_module
from sparktf.process.ports import BoundPort
from sparktf.storage.store_keys import HandedKeys
from sparktf.version import __version__
from sparktf.wire.beats import QUICK_S
from sparktf.wire.channel import ControlClient, Silence, is_gone
from sparktf.wire.control import Ack, Action, AgentHeartbeat, Order, Orders, Registered, Registration
from sparktf.wire.security import ControlAccess
from sparktf.wire.trainer_spec import THREADS

_PATIENCE = 0.75
"""Fraction of `timeouts.start` that a trainer waits for the nursery: on its own it would import for as long."""

_Answer = TypeVar("_Answer", bound=Message)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The agent's settings in the task's closure."""

    access: ControlAccess
    host: str  # Address of this executor for its peers; empty for the host's own name
    node_ports: str
    model_module: str  # The module of the user's model, which must be importable here
    heartbeat_s: float
    driver_lost_s: float
    nursery: Switch  # Whether trainers are forked: `cluster.nursery`
    nurseries: str = ""  # On the driver's machine, folder of a nursery that the driver may have started; else empty
    address_in: str = ""  # Variable of the executor that has its address for peers; "" for the host's own name
    container_in: str = ""  # Variable of the executor by which its container is known to the driver; "" for none
    deals_gpus: bool = False  # Whether the application has GPUs, so that a trainer sees those of its task alone
    # Modules to look for, of an agent that looks at its host and starts no trainer; None for any other agent
    looks_for: tuple[str, ...] | None = None


def run_agent(
    partition: int,
    settings: AgentSettings,
    task: int = 0,
    jvm: str = "",
    on_start: Callable[[], None] = lambda: None,
    gpus: Sequence[str] | None = None,
    kind: type[Agent] | None = None,
) -> None:
    """Runs an agent for a partition until the driver dismisses it.

    Args:
        task: Number of its Spark task; see `Registration`.
        jvm: Identity of its executor. Default: that of the processes above this one.
        on_start: Called at the order to start a trainer.
        gpus: Addresses of the GPUs of its Spark task, which its trainers see; None for all of this machine.
        kind: The agent's class; None for a plain one.
    """
    base = Path(tempfile.mkdtemp(prefix="sparktf-", dir=_local_dir()))
    try:
        (kind or Agent)(partition, settings, base, task, jvm, on_start, gpus).run()
    finally:
        shutil.rmtree(base, ignore_errors=True)


def gpus_of_task(resources: Mapping[str, Any], settings: AgentSettings) -> tuple[str, ...] | None:
    """Returns the addresses of the GPUs that Spark gave a task; None where the application has none to give.

    Args:
        resources: Of the task's `TaskContext`.
    """
    found = resources.get("gpu")
    if found is None and not settings.deals_gpus:
        return None
    return () if found is None else tuple(map(str, found.addresses))


class Agent:
    """The life of one agent: `run`.

    Spark counts a task that returns as a success and never restarts it, so an agent returns only when nothing needs it
    any more. An agent that the driver gave up, because it was frozen or cut off, registers again, as another agent.
    """

    def __init__(
        self,
        partition: int,
        settings: AgentSettings,
        base: Path,
        task: int = 0,
        jvm: str = "",
        on_start: Callable[[], None] = lambda: None,
        gpus: Sequence[str] | None = None,
    ) -> None:
        self._gpus = gpus
        self._process = jvm
        self._on_start = on_start
        self._partition = partition
        self._task = task
        self._settings = settings
        self._base = base
        self._id = uuid.uuid4().hex
        self._beats = 0
        self._before = ""
        self._client = ControlClient(settings.access)
        self._port = BoundPort(settings.node_ports)
        self._nursery: Nursery | None = None
        self._trainer: TrainerProcess | None = None
        self._imports_since_s = time.monotonic()
        self._waits = False
        self._silence = Silence(settings.driver_lost_s)
        self._tokens = HandedTokens(Path(_local_dir() or base))
        self._store_keys = HandedKeys(Path(_local_dir() or base))

    def run(self) -> None:
        """Registers, then obeys until dismissed, or until the driver's process is gone.

        Raises:
            ControlError: the driver has not answered for `timeouts.driver_lost`, but may live: Spark restarts the task.
        """
        try:
            self._nursery = self._start_nursery()
            self._register()
            while self._obey():
                self._begin_anew()
                self._register()
        except RefusedError:
            return
        except ControlError as e:
            if not is_gone(e):
                raise
        finally:
            if self._trainer is not None:
                self._trainer.kill()
            if self._nursery is not None:
                self._nursery.close()
            self._port.close()

    def _start_nursery(self) -> Nursery | None:
        """Starts to import TensorFlow while the driver still plans and other nodes come."""
        if not wants_nursery(self._settings.nursery, self._gpus):
            return None
        try:
            also = named_in(self._settings.model_module, python_path().split(os.pathsep))
            shared = self._settings.nurseries or _local_dir()
            environment = trainer_environment(self._base, self._gpus)
            return Nursery(self._base, environment, also, Path(shared) if shared else None)
        except OSError as e:
            print(f"sparktf agent {self._partition}: the nursery could not be started: {e}", file=sys.stderr)
            return None

    def _register(self) -> None:
        """Registers, and waits if another agent has the partition.

        Raises:
            RefusedError: the driver does not need it any more.
        """
        versions = installed_versions()
        registration = Registration(
            agent=self._id,
            partition=self._partition,
            task=self._task,
            host=socket.gethostname(),
            jvm=self._process or executor_identity(),
            address=self._address(),
            container=_variable(self._settings.container_in),
            sees_gpu=sees_gpu(self._gpus),
            processors=0 if THREADS in os.environ else len(os.sched_getaffinity(0)),
            before=self._before,
            versions=versions,
            problems=tuple(_problems(self._settings.model_module, versions)),
        )
        while (answer := self._call(Action.REGISTER, registration, Registered)) is None or not answer.accepted:
            time.sleep(QUICK_S)

    def _obey(self) -> bool:
        """Carries out orders until it is dismissed, or loses its place; returns whether to register again."""
        due_s = 0.0
        while True:
            now_s = time.monotonic()
            exited = self._reap()
            if exited or self._has_waited() or now_s >= due_s:
                self._waits = False
                orders = self._beat()
                due_s = now_s + (QUICK_S if orders is None else orders.beat_s)
                if orders is not None and orders.tokens:
                    self._tokens.take(orders.tokens)
                if orders is not None and orders.store_keys:
                    self._store_keys.take(base64.b64decode(orders.store_keys))
                if orders is not None and orders.order in (Order.DISMISS, Order.REJOIN):
                    return orders.order is Order.REJOIN
                if orders is not None:
                    self._follow(orders, now_s)
            time.sleep(KNOBS.agent_poll_s)

    def _begin_anew(self) -> None:
        """Becomes another agent, without a trainer: the driver must not mistake it for the old one."""
        print(
            f"sparktf agent {self._partition}: the driver gave this agent up, and it registers again", file=sys.stderr
        )
        if self._trainer is not None:
            self._trainer.kill()
            self._trainer = None
        self._renew_port()
        self._before, self._id = self._id, uuid.uuid4().hex

    def _follow(self, orders: Orders, now_s: float) -> None:
        if orders.order is Order.STOP and self._trainer is not None:
            self._trainer.ask_to_stop(now_s)
        if orders.order is Order.START and self._trainer is None and orders.trainer is not None:
            self._on_start()
            self._replace_nursery(now_s)
            limit_s = orders.trainer.timeouts.start * _PATIENCE
            self._waits = self._is_importing() and now_s - self._imports_since_s < limit_s
            if not self._waits:
                access = self._settings.access
                self._trainer = TrainerProcess(orders.trainer, access, self._base, self._nursery, self._gpus)

    def _replace_nursery(self, now_s: float) -> None:
        """Starts another nursery if the old one was killed with the trainer, or the next trainers would start late."""
        if self._nursery is not None and self._nursery.has_ended():
            print(f"sparktf agent {self._partition}: its nursery died, and another one is started", file=sys.stderr)
            self._nursery.close()
            self._nursery = self._start_nursery()
            self._imports_since_s = now_s

    def _is_importing(self) -> bool:
        return self._nursery is not None and self._nursery.is_importing()

    def _has_waited(self) -> bool:
        """Whether the nursery is ready, for which the order to start a trainer waited: that is fetched again."""
        return self._waits and not self._is_importing()

    def _reap(self) -> bool:
        """Reports a trainer that has ended; returns whether there was one."""
        if self._trainer is None:
            return False
        self._trainer.show()
        if self._trainer.exit_code() is None:
            return False
        exited = self._trainer.collect(self._id)
        self._trainer = None
        self._renew_port()
        # If it is refused, it was too late: the answer to the next heartbeat has the next order.
        with suppress(RefusedError):
            self._client.call_patiently(Action.TRAINER_EXITED, exited, Ack, patience_s=self._settings.driver_lost_s)
        return True

    def _renew_port(self) -> None:
        """Reserves another port for the next trainer, so that a leftover of the last one cannot reach its servers."""
        self._port.close()
        self._port = BoundPort(self._settings.node_ports)

    def _beat(self) -> Orders | None:
        self._beats += 1
        beat = AgentHeartbeat(
            agent=self._id,
            number=self._beats,
            address=self._address(),
            trainer=self._trainer.spec.trainer if self._trainer is not None else None,
            tokens=self._tokens.edition,
            store_keys=self._store_keys.edition,
        )
        return self._call(Action.AGENT_HEARTBEAT, beat, Orders)

    def _call(self, action: Action, request: Message, answer: type[_Answer]) -> _Answer | None:
        """Returns the driver's answer; None while it is late.

        Raises:
            RefusedError: the driver does not need this agent.
            ControlError: the driver has been silent for too long. One that was itself frozen first calls again.
        """
        began_s, timeout_s = time.monotonic(), self._settings.heartbeat_s
        try:
            said = self._client.call(action, request, answer, timeout_s=timeout_s)
        except RefusedError:
            raise
        except ControlError as e:
            print(f"sparktf agent {self._partition}: {e}", file=sys.stderr)
            if self._silence.is_too_long(e, began_s=began_s, ended_s=time.monotonic(), timeout_s=timeout_s):
                raise
            return None
        self._silence.end()
        return said

    def _address(self) -> str:
        settings = self._settings
        host = settings.host or _variable(settings.address_in) or socket.gethostname()
        return f"{host}:{self._port.port}"


def _variable(name: str) -> str:
    """Returns a variable of the executor's; "" if it is not named, or not set."""
    return os.environ.get(name, "") if name else ""


def _local_dir() -> str | None:
    """Returns Spark's own temporary folder, which is deleted even after a killed executor; None outside Spark."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None


def installed_versions() -> dict[str, str]:
    """Returns the versions of the packages on which driver and executors must agree; "missing" for absent ones."""
    installed = {name: _version(name) for name in ("tensorflow", "pyarrow")}
    return {"python": platform.python_version(), "sparktf": __version__, **installed}


@functools.cache
def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _problems(module: str, versions: Mapping[str, str]) -> list[str]:
    """Returns why no trainer could start on this executor.

    Looks for the module without importing it: its packages may import TensorFlow, which a forked and reused Python
    worker must never hold.
    """
    found = find_module(module, python_path().split(os.pathsep))
    problems = [] if found is not None else [f"model module '{module}' cannot be found: ship it with --py-files"]
    return problems + [f"{name} is not installed" for name, version in versions.items() if version == "missing"]
