"""A driver whose nodes are pretended: its own code runs from preflight to result.json, on any storage, within 50 ms."""

from __future__ import annotations

import hashlib
import io
import threading
from _collections_abc import dict_items, dict_values
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from lakes import lake_config
from rich.console import Console

from sparktf.clock import SystemClock
from sparktf.config.job import JobConfig
from sparktf.driver.attempt.feeding import Feeders
from sparktf.driver.attempt.rows.accounting import EpochAccount
from sparktf.driver.gang.gang import Gang
from sparktf.driver.gang.roster import AgentRecord, ExecutorFacts
from sparktf.driver.gang.site import AgentJob, Handler, Put, Server, Voice
from sparktf.driver.hooks import Hooks
from sparktf.driver.plan.plan import Plan
from sparktf.driver.run import Run
from sparktf.errors import ErrorRecord, SparkTFError, Verdict
from sparktf.executor.agent import AgentSettings
from sparktf.executor.feeder import FeederSettings
from sparktf.message import Message
from sparktf.results.carried import Carried
from sparktf.results.comparison import Comparison
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory, checkpoint_name
from sparktf.sequence import Interval
from sparktf.statistics.column_statistics import TableStatistics
from sparktf.storage.base import FileEntry, Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.local import LocalStorage
from sparktf.topology import NodeId, Role
from sparktf.wire.control import (
    Action,
    AgentHeartbeat,
    EpochDone,
    Failed,
    Order,
    Orders,
    Ready,
    Registration,
    TrainerExited,
)
from sparktf.wire.security import ControlAccess
from sparktf.wire.trainer_spec import Training
from sparktf.wire.uploads import Finished, StagedFile, Uploaded

CHIEF = NodeId(role=Role.WORKER, index=0)
EVERY = 10


class WatchedStorage(LocalStorage):
    """Says before each of its operations that it comes; whoever is told may let something else happen first."""

    def __init__(self, before: Callable[[str, str], None]) -> None:
        super().__init__()
        self._before = before

    def stat(self, path: str) -> FileEntry:
        self._before("stat", path)
        return super().stat(path)

    def list(self, path: str) -> tuple[FileEntry, ...]:
        self._before("list", path)
        return super().list(path)

    def open(self, path: str) -> BinaryIO:
        self._before("open", path)
        return super().open(path)

    def read_bytes(self, path: str) -> bytes:
        self._before("read", path)
        return super().read_bytes(path)

    def write_bytes(self, path: str, content: bytes) -> None:
        self._before("write", path)
        super().write_bytes(path, content)

    def checksum(self, path: str) -> str:
        self._before("checksum", path)
        return super().checksum(path)

    def make_dirs(self, path: str) -> None:
        self._before("make", path)
        super().make_dirs(path)

    def rename(self, source: str, target: str) -> None:
        self._before("rename", source)
        super().rename(source, target)

    def replace(self, source: str, target: str) -> None:
        self._before("replace", source)
        super().replace(source, target)

    def upload(self, local: Path, path: str) -> None:
        self._before("upload", path)
        super().upload(local, path)

    def download(self, path: str, local: Path) -> None:
        self._before("download", path)
        super().download(path, local)

    def copy(self, source: str, target: str) -> str:
        self._before("copy", target)
        return super().copy(source, target)

    def delete(self, path: str) -> None:
        self._before("delete", path)
        super().delete(path)


def pretend_config(lake: Path, root: Path, **sections: Any) -> JobConfig:
    """Returns a configuration of one node that trains on a lake of `tests/lakes.py`, with runs below a folder."""
    plain = lake_config(lake).model_dump(exclude_unset=True)
    return JobConfig.model_validate({**plain, "output": {"path": str(root)}, "cluster": {"workers": 1}, **sections})


def unmeasured(config: JobConfig, plan: Plan) -> TableStatistics:
    """What measures the data of runs that check none."""
    raise AssertionError("data.checks is off, and so nothing is measured")


class LockedBook(dict[Any, Any]):
    """A dict to be gone through only under a lock: nodes that report meanwhile would make it fail now and then."""

    def __init__(self, lock: threading.Condition) -> None:
        super().__init__()
        self._lock = lock

    def __iter__(self) -> Iterator[Any]:
        self._check()
        return super().__iter__()

    def items(self) -> dict_items[Any, Any]:
        self._check()
        return super().items()

    def values(self) -> dict_values[Any, Any]:
        self._check()
        return super().values()

    def _check(self) -> None:
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            raise RuntimeError("dictionary changed size during iteration")


class PretendDriver:
    """A driver whose only node is pretended, in an application of this id.

    Attributes:
        refusal: What its preflight raises.
        failures: How many attempts fail after their first checkpoint, with an error of class `failure`.
        not_stored: What the chief says of each of its checkpoints; "" if they arrive.
        freezes: Whether the node freezes for good once it has failed.
        hooks: What acts at the run's stations.
        run_id: Of its run.
        wait: Whether it waits while another one owns the run.
        compare: What its node finds of its model, where there is a gate.
    """

    def __init__(self, application: Application, config: JobConfig, plan: Plan, storage: Storage | None = None) -> None:
        self.said = io.StringIO()
        self.config = config
        self.site = PretendSite(application, plan, storage or LocalStorage())
        self.gang = Gang(config, self.site, Console(file=self.said, width=200))
        self.refusal: SparkTFError | None = None
        self.failures = 0
        self.failure = "NodeLostError"
        self.not_stored = ""
        self.freezes = False
        self.hooks = Hooks()
        self.run_id = "r"
        self.wait = False
        self.compare: Callable[[Training], Comparison | None] = lambda spec: None
        self.site.driver = self

    def train(self) -> RunResult:
        """Runs to the end, as a submission of its run does; raises what `Run.execute` does."""
        return Run(self.gang, self.config, self.run_id, self.hooks, wait=self.wait).execute()


class SetClock(SystemClock):
    """Threads as ever, and a time that is set."""

    set_s = 0.0

    def now_s(self) -> float:
        """See `Clock`."""
        return self.set_s


class PretendClock:
    """Time that passes only where somebody waits for it; what runs beside ends at once.

    Attributes:
        passed: Is called after each wait.
        start: Runs something beside. Default: at once.
    """

    def __init__(self) -> None:
        self.passed: Callable[[], None] = lambda: None
        self.start: Callable[[str, Callable[[], None]], None] = lambda name, work: work()
        self._now_s = 0.0
        self._regular: list[tuple[float, float, Callable[[], bool]]] = []

    def now_s(self) -> float:
        """See `Clock`."""
        return self._now_s

    def wall_s(self) -> float:
        """See `Clock`."""
        return 1.7e9 + self._now_s

    def wait(self, condition: threading.Condition, limit_s: float) -> None:
        """See `Clock`."""
        self.sleep(limit_s)

    def sleep(self, seconds: float) -> None:
        """See `Clock`."""
        self.advance(seconds)
        self.passed()

    def advance(self, seconds: float, *, asleep: bool = False) -> None:
        """Lets time pass, and what runs beside have its turn, unless the process is asleep."""
        self._now_s += seconds
        if asleep:
            return
        regular, self._regular = self._regular, []
        for due_s, interval_s, work in regular:
            if due_s > self._now_s:
                self._regular.append((due_s, interval_s, work))
            elif work():
                self._regular.append((self._now_s + interval_s, interval_s, work))

    def beside(self, name: str, work: Callable[[], None]) -> None:
        """See `Clock`."""
        self.start(name, work)

    def every(self, name: str, interval_s: float, work: Callable[[], bool]) -> None:
        """See `Clock`."""
        self._regular.append((self._now_s + interval_s, interval_s, work))


class PretendServer:
    """Takes no calls: who pretends to be a node has the handlers."""

    def access(self) -> ControlAccess:
        """See `Server`."""
        return ControlAccess(location="nowhere", secret="")

    def withdraw(self) -> None:
        """See `Server`."""

    def shutdown(self) -> None:
        """See `Server`."""


class PretendSite:
    """One agent and its trainer, who act whenever the driver waits.

    Attributes:
        spares: See `AgentJob`; they do not come.
        spare_is_late: One comes when training has begun.
        let_gone: The agents whose executors were given back.
        removed: Why the executor of an agent is gone, by its id.
    """

    place = "nowhere"
    one_machine = True
    duplicates_wait = False

    def __init__(self, application: Application, plan: Plan, storage: Storage) -> None:
        self.application = application
        self.clock = PretendClock()
        self.clock.passed = self._act
        self.file_systems: FileSystems = _OneStorage(storage)
        self.spares = 0
        self.spare_is_late = False
        self.let_gone: list[str] = []
        self.removed: dict[str, str] = {}
        self.driver: PretendDriver | None = None
        self._plan = plan
        self._handlers: Mapping[Action, Handler] = {}
        self._is_frozen = False
        self._running: Training | None = None
        self._beats = 0
        self._trainer: Iterator[None] = iter(())

    def is_loop(self, config: JobConfig) -> bool | None:
        return False

    def preflight(self, config: JobConfig, voice: Voice) -> None:
        """See `Site`."""
        if self._driver.refusal is not None:
            raise self._driver.refusal

    def plan(self, config: JobConfig, voice: Voice) -> Plan:
        """See `Site`."""
        return self._plan

    def prepare(self, config: JobConfig, plan: Plan, storage: Storage, path: str, put: Put) -> dict[str, Any]:
        """See `Site`."""
        put(path, self.application.id.encode())
        return {}

    def ship_code(self, config: JobConfig) -> None:
        """See `Site`."""

    def check_plan(self, config: JobConfig, plan: Plan) -> None:
        """See `Site`."""

    def serve(self, config: JobConfig, handlers: Mapping[Action, Handler]) -> Server:
        """See `Site`."""
        self._handlers = handlers
        return PretendServer()

    def start_agents(self, config: JobConfig, plan: Plan, settings: AgentSettings, voice: Voice) -> AgentJob:
        """See `Site`."""
        self._register("a", 0)
        return self

    def ended(self) -> str | None:
        """See `AgentJob`."""
        return None

    def restart(self) -> None:
        """See `AgentJob`."""

    def close(self, wait_s: float) -> None:
        """See `AgentJob`."""

    def feed(self, config: JobConfig, plan: Plan, settings: FeederSettings, on_end: Callable[[], None]) -> Feeders:
        """See `Site`."""
        raise NotImplementedError

    def let_go(self, agents: Sequence[AgentRecord]) -> None:
        """See `Site`."""
        self.let_gone += [agent.id for agent in agents]

    def facts(self, agents: Sequence[AgentRecord]) -> list[ExecutorFacts]:
        """See `Site`."""
        return [ExecutorFacts(removed=self.removed.get(agent.id, "")) for agent in agents]

    @property
    def _driver(self) -> PretendDriver:
        assert self.driver is not None
        return self.driver

    def _register(self, agent: str, partition: int) -> None:
        jvm = str(partition)
        self._say(
            Action.REGISTER,
            Registration(agent=agent, partition=partition, host="h", jvm=jvm, address="h:1", versions={}),
        )

    def _say(self, action: Action, message: Message) -> Message:
        handler = self._handlers[action]
        assert type(message) is handler.request
        return handler.answer(message)

    def _act(self) -> None:
        """Is the agent for a moment, and its trainer, if it has one."""
        if self._is_frozen or not self._handlers:
            return
        running = None if self._running is None else self._running.trainer
        self._beats += 1
        orders = self._say(
            Action.AGENT_HEARTBEAT, AgentHeartbeat(agent="a", number=self._beats, address="h:1", trainer=running)
        )
        assert isinstance(orders, Orders)
        if isinstance(orders.trainer, Training):
            if self.spare_is_late:
                self._register("late", 1)
            self._running, self._trainer = orders.trainer, self._trained(orders.trainer)
        elif orders.order is Order.STOP:
            self._exited(-15)
        elif self._running is not None:
            try:
                next(self._trainer)
            except StopIteration:
                self._exited(0)

    def _exited(self, code: int) -> None:
        assert self._running is not None
        spec, self._running = self._running, None
        message = TrainerExited(
            agent="a",
            attempt=spec.attempt,
            node=spec.node,
            exit_code=code,
            time_s=self.clock.wall_s(),
            log="",
            log_tail="",
        )
        self._say(Action.TRAINER_EXITED, message)

    def _trained(self, spec: Training) -> Iterator[None]:
        """Is a trainer that has read half of the only epoch at its first checkpoint, and all at its second."""
        number, lock = spec.attempt, self._driver.gang.roster.changed
        attempt = self._driver.gang.attempt
        assert attempt is not None
        attempt.epochs = LockedBook(lock)
        ready = Ready(attempt=number, node=CHIEF, replicas=1, keras="keras", versions={}, weights=1)
        if spec.init is not None:
            carried = Carried(source=spec.init.label, full_date=spec.init.full_date)
            ready = ready.model_copy(update={"carried": carried})
        self._say(Action.READY, ready)
        yield
        rows = self._plan.rows(next(iter(self._plan.tables)))
        begun = 0 if spec.restore is None else spec.restore.step // EVERY
        for part in range(begun, 2):
            if part:
                before = rows // 2 if begun else 0
                attempt.epochs[0] = EpochAccount(0, rows, before=before, nodes=1, reports=LockedBook(lock))
                self._say(Action.EPOCH_DONE, self._epoch_done(number, rows - before))
            self._say(Action.UPLOADED, self._uploaded(spec, part, ((0, rows // 2),) if part == 0 else ()))
            yield
            if self._driver.failures:
                self._driver.failures -= 1
                self._say(Action.FAILED, self._failed(number))
                if self._driver.freezes:
                    self._is_frozen = True
                    yield
                return
        compared = self._driver.compare(spec)
        finished = Finished(attempt=number, node=CHIEF, step=20, model=self._stage(spec, "model"), comparison=compared)
        self._say(Action.FINISHED, finished)
        yield

    def _epoch_done(self, attempt: int, rows: int) -> EpochDone:
        return EpochDone(attempt=attempt, node=CHIEF, epoch=0, step=20, rows_fed=rows, rows_trained=rows, complete=True)

    def _uploaded(self, spec: Training, part: int, done: tuple[Interval, ...]) -> Uploaded:
        step, error = EVERY * (part + 1), self._driver.not_stored
        return Uploaded(
            attempt=spec.attempt,
            node=CHIEF,
            step=step,
            epoch=part,
            done=done,
            keras="keras",
            files=() if error else self._stage(spec, checkpoint_name(step)),
            error=error,
        )

    def _failed(self, attempt: int) -> Failed:
        record = ErrorRecord(
            type=self._driver.failure, message="lost", verdict=Verdict.INFRASTRUCTURE, time_s=0.0, node=str(CHIEF)
        )
        return Failed(attempt=attempt, node=CHIEF, record=record)

    def _stage(self, spec: Training, what: str) -> tuple[StagedFile, ...]:
        content = f"{what} of {self.application.id}".encode()
        folder = Path(RunDirectory(spec.run_root, spec.config.name, spec.run_id).staged(spec.attempt, what))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "weights").write_bytes(content)
        return (StagedFile(name="weights", nbytes=len(content), sha256=hashlib.sha256(content).hexdigest()),)


class _OneStorage(FileSystems):
    """Opens one storage, whatever the path is."""

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self._one = storage

    def open(self, path: str, *, deadline_s: float | None = None) -> Storage:
        return self._one
