"""A gang on this machine whose trainers a test takes away, one after the other, and knows by their logs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
from integration.processes import doing, wait_for
from trainer.local_gang import LocalGang, LocalSite
from trainer.told import has_trained, logs_in, rows_in

from sparktf.config.job import JobConfig
from sparktf.driver.gang.site import Handler, Server
from sparktf.results.result import RunResult
from sparktf.rundir import checkpoint_name
from sparktf.wire.control import Action
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest

WITHIN_S = 120


class Gate:
    """Keeps an epoch from ending: while it is shut, each trainer gets about `rows` rows of it, and then none for now.

    Attributes:
        asked_us: When rows of an epoch were first asked for, by attempt and epoch.
    """

    def __init__(self, rows: int) -> None:
        self.asked_us: dict[tuple[int, int], int] = {}
        self._rows = rows
        self._lock = threading.Lock()
        self._leased: Counter[tuple[int, int, str, int]] = Counter()
        self._open: set[int] = set()

    def open(self, epoch: int) -> None:
        """Lets all rows of an epoch through."""
        self._open.add(epoch)

    def shut(self, epoch: int) -> None:
        """Keeps an epoch from ending again, in runs to come."""
        self._open.discard(epoch)
        self._leased.clear()

    def before(self, handler: Handler) -> Handler:
        """Returns what answers in a handler's place."""

        def answer(message: BlockLeaseRequest) -> BlockLease:
            who = (message.attempt, message.epoch, str(message.node), message.incarnation)
            self.asked_us.setdefault(who[:2], int(time.time() * 1e6))
            if message.epoch not in self._open and self._leased[who] >= self._rows:
                return BlockLease()
            lease = handler.answer(message)
            assert isinstance(lease, BlockLease)
            with self._lock:
                self._leased[who] += sum(piece.rows for piece in lease.pieces)
            return lease

        return handler._replace(answer=answer)


class GatedSite(LocalSite):
    """This machine, with a gate before the rows."""

    def __init__(self, nodes: int, gate: Gate) -> None:
        super().__init__(nodes)
        self._gate = gate

    def serve(self, config: JobConfig, handlers: Mapping[Action, Handler]) -> Server:
        """See `Site`."""
        gated = self._gate.before(handlers[Action.LEASE_BLOCKS])
        return super().serve(config, {**handlers, Action.LEASE_BLOCKS: gated})


class LosingRun:
    """A run on a thread of its own, and its trainers by the names of their logs: "001-worker-1.2"."""

    def __init__(self, gang: LocalGang, config: JobConfig) -> None:
        self._gang = gang
        self._path = Path(config.output.path, config.name, "run")
        self._pool = ThreadPoolExecutor(1)
        self._run: Future[RunResult] = self._pool.submit(gang.train, config)

    def result(self) -> RunResult:
        """Waits for the run's end; raises what it does."""
        return self._run.result(WITHIN_S)

    def kill(self, *names: str) -> None:
        """Kills trainers that have begun to train, all at the same moment."""
        for process in [self._training(name) for name in names]:
            process.kill()

    def freeze(self, name: str) -> None:
        """Stops a trainer that has begun to train."""
        self._training(name).suspend()

    def kill_starting(self, name: str) -> None:
        """Kills a trainer as soon as it is there."""
        self._wait(f"the process of {name}", lambda: self._process_of(name) is not None)
        self._process(name).kill()

    def end(self, name: str) -> None:
        """Kills a trainer that makes no updates."""
        self._process(name).kill()

    def take_executor(self, name: str) -> int:
        """Kills a trainer together with its agent, so that nobody can follow it; returns which place is free.

        Its log goes with it, and is put where it would have come in the end.
        """
        agents, process = self._gang.agents, self._training(name)
        assert agents is not None
        process.suspend()
        (log,) = logs_in(agents.folder, f"{name}.log")
        said = log.read_bytes()
        partition = agents.partition_of(process.pid)
        agents.kill(partition)
        (self._path / "logs" / log.name).write_bytes(said)
        return partition

    def give_executor(self, partition: int) -> None:
        """Has another agent in the place of one that was killed."""
        agents = self._gang.agents
        assert agents is not None
        agents.start_again(partition)

    def wait_for_words(self, text: str) -> None:
        """Waits until the driver has said something."""
        self._wait(text, lambda: text in self._gang.output.getvalue())

    def wait_for_log(self, node: str, text: str) -> None:
        """Waits until a node's log says something."""
        self._wait(f"'{text}' of {node}", lambda: any(text in log for log in self._logs(f"*-{node}.log")))

    def wait_for_stand_in(self, node: str) -> None:
        """Waits until a stand-in has a worker's place: TensorFlow waits for ever for one that is lost meanwhile."""
        self.wait_for_log("chief-0", f"sparktf: {node} is missing: a stand-in has its place")

    def wait_for_updates(self, *names: str) -> None:
        """Waits until each of these trainers has made one."""
        for name in names:
            self._wait(f"updates of {name}", partial(self._has_trained, name))

    def wait_for_any_updates(self) -> str:
        """Waits until somebody trains; returns the name of its log."""
        self._wait("an update", lambda: any(self.updates().values()))
        return next(name for name, updates in self.updates().items() if updates)

    def who_trains(self, row: int) -> str:
        """Waits until somebody trains a row; returns the name of its log."""
        found: list[str] = []

        def look() -> bool:
            found.extend(name for name, updates in self.updates().items() if any(row in rows for rows in updates))
            return bool(found)

        self._wait(f"an update of row {row}", look)
        return found[0]

    def updates(self) -> dict[str, list[tuple[int, ...]]]:
        """Returns the rows of each update so far of the trainers there are, by the names of their logs."""
        agents, updates = self._gang.agents, {}
        for log in logs_in(agents.folder, "*-worker-*.log") if agents is not None else ():
            with suppress(OSError):  # it goes to the run directory meanwhile
                updates[log.stem] = rows_in(log)
        return updates

    def wait_for_checkpoint(self, step: int) -> None:
        """Waits until the checkpoint of an update is committed."""
        manifest = self._path / "checkpoints" / checkpoint_name(step) / "MANIFEST.json"
        self._wait(f"the checkpoint of update {step}", manifest.exists)

    def wait_for_commit(self) -> None:
        """Waits for the first checkpoint."""
        self._wait("a checkpoint", lambda: any(self._path.glob("checkpoints/step-*/MANIFEST.json")))

    def wait_for_evaluation(self) -> None:
        """Waits for the metrics of an evaluator."""
        self._wait("an evaluation", lambda: any(self._path.glob("tensorboard/validation/*")))

    def trainer(self, node: str) -> str:
        """Returns the name of a node's log, "001-worker-1", in the attempt that is under way."""
        agents = self._gang.agents
        assert agents is not None
        (log,) = logs_in(agents.folder, f"*-{node}.log")
        return log.stem

    def _training(self, name: str) -> psutil.Process:
        self.wait_for_updates(name)
        return self._process(name)

    def _process(self, name: str) -> psutil.Process:
        """Returns the process that writes the log of this name."""
        found = self._process_of(name)
        assert found is not None
        return found

    def _process_of(self, name: str) -> psutil.Process | None:
        agents = self._gang.agents
        assert agents is not None
        return next((child for child in agents.children() if _output(child) == f"{name}.log"), None)

    def _logs(self, pattern: str) -> list[str]:
        agents = self._gang.agents
        return [log.read_text(errors="replace") for log in logs_in(agents.folder, pattern)] if agents else []

    def _has_trained(self, name: str) -> bool:
        agents = self._gang.agents
        with suppress(OSError):  # it goes to the run directory meanwhile
            return agents is not None and any(has_trained(log) for log in logs_in(agents.folder, f"{name}.log"))
        return False

    def _wait(self, what: str, found: Callable[[], bool]) -> None:
        try:
            wait_for(what, lambda: self._run.done() or found(), within_s=WITHIN_S)
        except AssertionError as error:
            error.add_note(self._gang.output.getvalue())
            for child in self._gang.agents.children() if self._gang.agents is not None else ():
                error.add_note(doing(child))
            raise
        if self._run.done():
            raise AssertionError(f"the run is over before {what}: {self._run.exception()}")


def _output(process: psutil.Process) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process.pid}/fd/1").readlink().name
    return ""
