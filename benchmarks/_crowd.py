"""Many nodes without trainers, in processes of their own: they say to a driver what agents and trainers would say."""

from __future__ import annotations

import hashlib
import heapq
import random
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from sparktf.executor.agent import AgentSettings, installed_versions
from sparktf.rundir import checkpoint_name
from sparktf.sequence import Assignment, Stream, leading
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import (
    Ack,
    Action,
    AgentHeartbeat,
    AssignmentAnswer,
    AssignmentRequest,
    EpochDone,
    Heartbeat,
    Order,
    Orders,
    Progress,
    Ready,
    Registered,
    Registration,
    StopOrder,
    TrainerExited,
    TrainerOrders,
)
from sparktf.wire.security import ControlAccess
from sparktf.wire.trainer_spec import Training
from sparktf.wire.uploads import Finished, StagedFile, Uploaded

_THREADS = 16
_PATIENCE_S = 300.0
_POLL_S = 0.5

_Said = TypeVar("_Said")


class Beats(NamedTuple):
    """What a crowd's heartbeats came to.

    Attributes:
        told: How many were answered.
        asked: How many a second were asked of the driver, by the intervals that it gave.
    """

    told: int
    asked: float


class PretendNode:
    """An agent and its trainer, each with a connection of its own."""

    def __init__(self, partition: int, host: str, access: ControlAccess) -> None:
        self.partition = partition
        self._id = f"agent-{partition}"
        self._beats = 0
        self._host = host
        self._address = f"{host}:{20_000 + partition % 40_000}"
        self._access = access
        self.agent = ControlClient(access)
        self._trainer: ControlClient | None = None
        self._spec: Training | None = None
        self._share: Assignment | None = None
        self._progress = Progress()

    @property
    def trainer(self) -> ControlClient:
        """The trainer's own connection, from its first word on."""
        if self._trainer is None:
            self._trainer = ControlClient(self._access)
        return self._trainer

    @property
    def spec(self) -> Training:
        """What the driver has ordered."""
        if self._spec is None:
            raise RuntimeError(f"node {self.partition} has no trainer")
        return self._spec

    @property
    def share(self) -> Assignment:
        """What the driver has dealt to it."""
        if self._share is None:
            raise RuntimeError(f"node {self.partition} has no share")
        return self._share

    @property
    def _who(self) -> dict[str, Any]:
        return {"attempt": self.spec.attempt, "node": self.spec.node}

    def register(self) -> None:
        """The agent presents itself."""
        message = Registration(
            agent=self._id,
            partition=self.partition,
            host=self._host,
            jvm=f"{self.partition}@0",
            address=self._address,
            versions=installed_versions(),
        )
        answer = self.agent.call_patiently(Action.REGISTER, message, Registered, patience_s=_PATIENCE_S)
        if not answer.accepted:
            raise RuntimeError(answer.reason)

    def agent_beat(self) -> Orders:
        """The agent asks what to do."""
        trainer = self._spec.trainer if self._spec is not None else None
        self._beats += 1
        beat = AgentHeartbeat(agent=self._id, number=self._beats, address=self._address, trainer=trainer)
        return self.agent.call(Action.AGENT_HEARTBEAT, beat, Orders, timeout_s=_PATIENCE_S)

    def trainer_beat(self) -> TrainerOrders:
        """The trainer says how far it is."""
        beat = Heartbeat(**self._who, progress=self._progress)
        return self.trainer.call(Action.HEARTBEAT, beat, TrainerOrders, timeout_s=_PATIENCE_S)

    def take_order(self) -> int:
        """Waits for the order to start; returns the bytes of it."""
        while (orders := self.agent_beat()).order is not Order.START:
            time.sleep(_POLL_S)
        assert isinstance(orders.trainer, Training)
        self._spec = orders.trainer
        return len(orders.model_dump_json())

    def ready(self) -> None:
        """The trainer could begin."""
        self._tell(Action.READY, Ready(**self._who, replicas=1, keras="keras", versions={}, weights=1))

    def ask(self) -> int:
        """The trainer asks for its share of the epoch; returns the bytes of the answer."""
        request = AssignmentRequest(**self._who, stream=Stream.TRAIN, epoch=0)
        answer = self.trainer.call_patiently(Action.ASSIGNMENT, request, AssignmentAnswer, patience_s=_PATIENCE_S)
        self._share = answer.assignment
        self._progress = Progress(step=1, rows_trained=1, loss=0.5, phase="training")
        return len(answer.model_dump_json())

    def upload(self, step: int, *, complete: bool) -> None:
        """Its part of a checkpoint is there: in the middle of the epoch, or at its end."""
        done = () if complete else tuple(leading(self.share.intervals, self.share.rows // 2))
        files = self._stage(checkpoint_name(step))
        message = Uploaded(**self._who, step=step, epoch=int(complete), done=done, keras="keras", files=files)
        self._tell(Action.UPLOADED, message)

    def end_epoch(self, step: int) -> None:
        """It has gone through its share."""
        rows = self.share.rows
        done = EpochDone(**self._who, epoch=0, step=step, rows_fed=rows, rows_trained=rows, complete=True)
        self._tell(Action.EPOCH_DONE, done)

    def finish(self, step: int) -> None:
        """The trainer has done all of its work."""
        self._tell(Action.FINISHED, Finished(**self._who, step=step, model=self._stage("model")))

    def exit(self) -> None:
        """The trainer exits when it is told to."""
        while not any(isinstance(order, StopOrder) for order in self.trainer_beat().orders):
            time.sleep(_POLL_S)
        exited = TrainerExited(agent=self._id, **self._who, exit_code=0, time_s=time.time(), log="", log_tail="")
        self.agent.call_patiently(Action.TRAINER_EXITED, exited, Ack, patience_s=_PATIENCE_S)
        self._spec = None
        self.agent_beat()  # where its next trainer may begin: until then the driver waits for it

    def _tell(self, action: Action, message: Any) -> None:
        self.trainer.call_patiently(action, message, Ack, patience_s=_PATIENCE_S)

    def _stage(self, what: str) -> tuple[StagedFile, ...]:
        """Puts the chief's file of a checkpoint or of the model where the driver looks for it."""
        spec, content = self.spec, what.encode()
        if spec.node.index:
            return ()
        folder = Path(spec.rundir.staged(spec.attempt, what))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "weights").write_bytes(content)
        return (StagedFile(name="weights", nbytes=len(content), sha256=hashlib.sha256(content).hexdigest()),)


_nodes: list[PretendNode] = []
"""Of a process of the crowd."""


class Crowd:
    """Nodes in some processes: a call goes to all of them, and comes back when all have done it."""

    def __init__(self, nodes: int, processes: int) -> None:
        self._stack = ExitStack()
        self._processes = [
            self._stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"))) for _ in range(processes)
        ]
        self._parts = [range(i, nodes, processes) for i in range(processes)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def meet(self, hosts: list[str], settings: AgentSettings) -> None:
        """Makes the nodes, one on each host, which as yet have no connection."""
        _all(
            process.submit(_meet, [(i, hosts[i]) for i in part], settings)
            for process, part in zip(self._processes, self._parts, strict=True)
        )

    def each(self, call: Callable[[PretendNode], _Said]) -> list[_Said]:
        """Has every node do something; `call` is a function of a module."""
        said = _all(process.submit(_each, call) for process in self._processes)
        return [one for part in said for one in part]

    def beat(self, seconds: float) -> Beats:
        """Has all agents and trainers beat for some time, as often as they are told to."""
        said = _all(process.submit(_beat, seconds) for process in self._processes)
        return Beats(sum(beats.told for beats in said), sum(beats.asked for beats in said))


def _all(futures: Iterable[Future[_Said]]) -> list[_Said]:
    return [future.result() for future in list(futures)]


def _meet(places: list[tuple[int, str]], settings: AgentSettings) -> None:
    _nodes[:] = [PretendNode(partition, host, settings.access) for partition, host in places]


def _each(call: Callable[[PretendNode], _Said]) -> list[_Said]:
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(call, _nodes))


def _beat(seconds: float) -> Beats:
    """Beats from a few threads, each node in its turn."""
    stop_s, lock, told = time.monotonic() + seconds, threading.Lock(), 0
    intervals: dict[int, float] = {}
    calls: list[Callable[[], Orders | TrainerOrders]] = [
        call for node in _nodes for call in (node.agent_beat, node.trainer_beat)
    ]
    due = [(time.monotonic() + random.random() * _POLL_S, i) for i in range(len(calls))]
    heapq.heapify(due)

    def work() -> None:
        nonlocal told
        while True:
            with lock:
                at_s, i = heapq.heappop(due)
            if at_s >= stop_s:
                with lock:
                    heapq.heappush(due, (at_s, i))
                return
            time.sleep(max(at_s - time.monotonic(), 0.0))
            interval_s = getattr(calls[i](), "beat_s", _POLL_S)
            with lock:
                told += 1
                # Spread, as the beats of nodes are that did not all start at once.
                first = i not in intervals
                intervals[i] = interval_s
                heapq.heappush(due, (time.monotonic() + interval_s * (random.random() if first else 1.0), i))

    with ThreadPoolExecutor(_THREADS) as threads:
        _all(threads.submit(work) for _ in range(_THREADS))
    return Beats(told, sum(1 / interval_s for interval_s in intervals.values()))
