"""A driver whose nodes are pretended: its own code runs from preflight to result.json, on any storage, within 50 ms."""

from __future__ import annotations

import hashlib
import io
import threading
from _collections_abc import dict_items, dict_values
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from lakes import lake_config
from rich.console import Console

from sparktf.config.job import JobConfig
from sparktf.driver.attempt.accounting import EpochAccount
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.console import Display
from sparktf.driver.gang.gang import AgentJob, Gang
from sparktf.driver.gang.roster import Agent
from sparktf.driver.plan.plan import Plan
from sparktf.driver.run import Run
from sparktf.errors import ErrorRecord, SparkTFError, Verdict
from sparktf.executor.agent import AgentSettings
from sparktf.result import Application, RunResult
from sparktf.rundir import RunDirectory, checkpoint_name
from sparktf.storage import FileEntry, FileSystems, Storage
from sparktf.storage.base import write_once
from sparktf.storage.local import LocalStorage
from sparktf.topology import NodeId, Role
from sparktf.wire.control import EpochDone, Failed, Finished, Ready, Registration, StagedFile, TrainerSpec, Uploaded

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

    def delete(self, path: str) -> None:
        self._before("delete", path)
        super().delete(path)


def pretend_config(lake: Path, root: Path, **sections: Any) -> JobConfig:
    """Returns a configuration of one node that trains on a lake of `tests/lakes.py`, with runs below a folder."""
    plain = lake_config(lake).model_dump(exclude_unset=True)
    return JobConfig.model_validate({**plain, "output": {"path": str(root)}, "cluster": {"workers": 1}, **sections})


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


class PretendDriver(Gang):
    """Trains one epoch on one node: a checkpoint in its middle, one at its end, then the model.

    What it uploads holds its application's id. Its nodes act whenever the driver waits.

    Attributes:
        refusal: What its preflight raises.
        failures: How many attempts fail after their first checkpoint, with an error of class `failure`.
        not_stored: What the chief says of each of its checkpoints; "" if they arrive.
    """

    def __init__(self, application: Application, config: JobConfig, plan: Plan, storage: Storage | None = None) -> None:
        self.said = io.StringIO()
        super().__init__(
            config, place="nowhere", one_machine=True, duplicates_wait=False, console=Console(file=self.said, width=200)
        )
        self.application = application
        self.refusal: SparkTFError | None = None
        self.failures = 0
        self.failure = "NodeLostError"
        self.not_stored = ""
        self._plan = plan
        self._storage = storage or LocalStorage()
        self._nodes: Iterator[None] = iter(())

    def train(self) -> RunResult:
        """Runs to the end, as a submission of run `r` does; raises what `Run.execute` does."""
        return Run(self, self.config, "r").execute()

    @property
    def file_systems(self) -> FileSystems:
        """See `Gang`."""
        return _OneStorage(self._storage)

    def preflight(self, config: JobConfig) -> None:
        """See `Gang`."""
        if self.refusal is not None:
            raise self.refusal

    def plan(self, config: JobConfig) -> Plan:
        """See `Gang`."""
        return self._plan

    def prepare(self, config: JobConfig, storage: Storage, path: str) -> dict[str, Any]:
        """See `Gang`."""
        write_once(storage, path, self.application.id.encode())
        return {}

    def start_agents(self, config: JobConfig, plan: Plan, settings: AgentSettings) -> AgentJob:
        """See `Gang`."""
        raise NotImplementedError

    def ship_code(self, config: JobConfig) -> None:
        """See `Gang`."""

    def reserve(self, config: JobConfig, plan: Plan) -> None:
        """See `Gang`."""

    def gather(self, config: JobConfig, plan: Plan, display: Display, *, first: bool) -> list[Agent]:
        """See `Gang`."""
        return [Agent(Registration(agent="a", partition=0, host="h", jvm="1", address="h:1", versions={}), 0.0, "h:1")]

    def begin(self, attempt: Attempt, specs: list[tuple[str, TrainerSpec]]) -> None:
        """See `Gang`."""
        ((_, spec),) = specs
        attempt.epochs = LockedBook(self.roster.changed)
        self._nodes = self._trained(attempt, spec)

    def end_attempt(self, attempt: Attempt, limit_s: float) -> bool:
        """See `Gang`."""
        attempt.stop()
        return True

    def tick(self) -> None:
        """See `Gang`."""
        with self.roster.changed:
            next(self._nodes, None)

    def _trained(self, attempt: Attempt, spec: TrainerSpec) -> Iterator[None]:
        number = attempt.number
        attempt.ready(Ready(attempt=number, node=CHIEF, replicas=1, keras="keras", versions={}, weights=1))
        yield
        rows = self._plan.rows(next(iter(self._plan.tables)))
        begun = 0 if spec.restore is None else spec.restore.step // EVERY
        for part in range(begun, 2):
            done = () if part else ((0, rows // 2),)
            if part:
                before = rows // 2 if begun else 0
                account = EpochAccount(0, rows, before, nodes=1, reports=LockedBook(self.roster.changed))
                attempt.epochs[0] = account
                attempt.epoch_done(
                    EpochDone(
                        attempt=number,
                        node=CHIEF,
                        epoch=0,
                        step=20,
                        rows_fed=rows - before,
                        rows_trained=rows - before,
                        complete=True,
                    )
                )
            step = EVERY * (part + 1)
            files = () if self.not_stored else self._stage(spec, checkpoint_name(step))
            attempt.uploaded(
                Uploaded(
                    attempt=number,
                    node=CHIEF,
                    step=step,
                    epoch=part,
                    done=done,
                    keras="keras",
                    files=files,
                    error=self.not_stored,
                )
            )
            yield
            if self.failures:
                self.failures -= 1
                record = ErrorRecord(
                    type=self.failure, message="lost", verdict=Verdict.INFRASTRUCTURE, time_s=0.0, node=str(CHIEF)
                )
                attempt.failed(Failed(attempt=number, node=CHIEF, record=record))
                return
        attempt.finished(Finished(attempt=number, node=CHIEF, step=20, model=self._stage(spec, "model")))
        yield

    def _stage(self, spec: TrainerSpec, what: str) -> tuple[StagedFile, ...]:
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
