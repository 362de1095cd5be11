"""A worker under parameter servers: what it answers to the graph that runs in it, and to its driver."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import id_table, write_file, write_lake
from trainer.conftest import OwnNursery
from trainer.local_gang import PROCESSES
from trainer.served import (
    SERVER,
    WORKER,
    Epoch,
    Lender,
    coordinate,
    refused_alone,
    spec_of,
    trained_alone,
)

from sparktf.config.job import JobConfig
from sparktf.driver.gang.control_server import LocalControlServer
from sparktf.driver.gang.site import Handler
from sparktf.errors import Verdict
from sparktf.executor.forking import Nursery
from sparktf.executor.trainer_process import TrainerProcess
from sparktf.process.ports import BoundPort
from sparktf.sequence import Stream
from sparktf.topology import ClusterSpec, NodeId
from sparktf.wire.control import Ack, Action, Failed, Heartbeat, Ready, StopOrder, TrainerOrders
from sparktf.wire.leasing import BlockLeaseRequest
from sparktf.wire.security import new_secret

ROWS = 229
TIMEOUT_S = 120


def job(folder: Path, **data: Any) -> JobConfig:
    lake = {"path": str(folder / "lake"), "inputs": {"id": "id", "x": ["a", "b"]}, "targets": {"y": "label"}}
    return JobConfig.model_validate(
        {
            "name": "served",
            "model": "no.such.module:build",
            "output": {"path": str(folder / "runs")},
            "cluster": {"strategy": "parameter_server", "workers": 1, "ps": 1},
            "train": {"batch_size": 8, "steps_per_call": 4},
            "timeouts": {"stop": 2},
            "data": {"shuffle_rows": 40, **lake, **data},
        }
    )


def test_each_row_goes_into_the_graph_once_though_executions_break_off(
    tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    write_lake(tmp_path / "lake")
    epochs, positions = elsewhere.submit(trained_alone, job(tmp_path), tmp_path, 2).result()
    assert [epoch.ids for epoch in epochs] == [list(range(ROWS))] * 2
    assert [(epoch.fed, epoch.trained, epoch.aside) for epoch in epochs] == [(ROWS, ROWS, 0)] * 2
    assert all(ROWS // 4 < epoch.replayed < ROWS for epoch in epochs)
    assert positions == [ROWS] * 2


def test_rows_that_fail_a_check_are_left_out_and_counted(tmp_path: Path, elsewhere: ProcessPoolExecutor) -> None:
    write_holes(tmp_path / "lake")
    ((epoch,), _) = elsewhere.submit(trained_alone, job(tmp_path, max_bad_rows=9), tmp_path, 1).result()
    assert epoch == Epoch([i for i in range(60) if i % 10], fed=60, trained=54, aside=6, replayed=epoch.replayed)


def test_a_refused_row_is_told_of_by_the_worker_and_the_graph_gets_none(
    tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    write_holes(tmp_path / "lake")
    record, after = elsewhere.submit(refused_alone, job(tmp_path, shuffle=False), tmp_path).result()
    assert (record.verdict, record.type, record.node) == (Verdict.DATA_REFUSED, "BadValueError", "worker 0")
    assert "/lake/f.parquet: column 'label', row 0: null" in record.message
    assert not record.peer
    assert after == []


def write_holes(folder: Path) -> None:
    """Writes rows of which every tenth has no label."""
    table = id_table(0, 60)
    label = [None if i % 10 == 0 else i % 7 for i in range(60)]
    table = table.set_column(table.column_names.index("label"), "label", pa.array(label, pa.int32()))
    write_file(folder / "f.parquet", table, group_rows=16)


class Driver(Lender):
    """Serves the control channel of a gang of three, and keeps what it is told.

    Attributes:
        changed: Told of every message.
        stops: Trainers are ordered to stop.
    """

    def __init__(self, config: JobConfig) -> None:
        super().__init__(config)
        self.changed = threading.Condition()
        self.ready: list[NodeId] = []
        self.failed: list[Failed] = []
        self.phases: dict[NodeId, str] = {}
        self.stops = False
        handlers = {
            Action.READY: Handler(Ready, self._ready),
            Action.HEARTBEAT: Handler(Heartbeat, self._heartbeat),
            Action.FAILED: Handler(Failed, self._failed),
            Action.LEASE_BLOCKS: Handler(BlockLeaseRequest, self.lease),
        }
        self.server = LocalControlServer(None, new_secret(), handlers)

    def _ready(self, message: Ready) -> Ack:
        with self.changed:
            self.ready.append(message.node)
            self.changed.notify_all()
        return Ack()

    def _failed(self, message: Failed) -> Ack:
        with self.changed:
            self.failed.append(message)
            self.changed.notify_all()
        return Ack()

    def _heartbeat(self, message: Heartbeat) -> TrainerOrders:
        with self.changed:
            self.phases[message.node] = message.progress.phase
            self.changed.notify_all()
            return TrainerOrders(orders=(StopOrder(),) if self.stops else (), beat_s=0.1)


class Nodes:
    """A worker and a parameter server, each in its process, as an agent starts them."""

    def __init__(self, config: JobConfig, folder: Path, nursery: Nursery) -> None:
        self.driver = Driver(config)
        self._nursery = nursery
        self._ports = [BoundPort() for _ in range(3)]
        chief, worker, ps = (f"127.0.0.1:{held.port}" for held in self._ports)
        self.cluster = ClusterSpec(chief=(chief,), worker=(worker,), ps=(ps,))
        self.processes = {node: self._start(config, node, folder) for node in (WORKER, SERVER)}

    def _start(self, config: JobConfig, node: NodeId, folder: Path) -> TrainerProcess:
        spec = spec_of(config, self.driver.plan.spec, self.cluster, node)
        return TrainerProcess(spec, self.driver.server.access(), folder, self._nursery)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        for held in self._ports:
            held.close()
        self.driver.server.shutdown()
        self.driver.server.withdraw()


@pytest.fixture
def nodes(tmp_path: Path, nursery: OwnNursery) -> Iterator[Nodes]:
    write_lake(tmp_path / "lake")
    nodes = Nodes(job(tmp_path), tmp_path, nursery.server)
    yield nodes
    nodes.close()


def test_processes_serve_a_coordinator_without_the_models_module_and_tell_of_their_failures(
    nodes: Nodes, tmp_path: Path
) -> None:
    driver = nodes.driver
    with driver.changed:
        assert driver.changed.wait_for(lambda: Counter(driver.ready) == Counter([WORKER, SERVER]), TIMEOUT_S)
    here, there = PROCESSES.Pipe()
    args = (str(tmp_path), there, nodes.cluster, driver.plan.spec, driver.plan.rows(Stream.TRAIN))
    coordinator = PROCESSES.Process(target=coordinate, args=args)
    coordinator.start()
    try:
        assert here.poll(TIMEOUT_S)
        total, device, receipts = here.recv()
        assert total == sum(range(ROWS))
        assert "/job:ps/" in device
        driver.tell(receipts)
        books = driver.books.receipts(0)
        assert books is not None
        assert (books.counts.trained, books.replayed) == (ROWS, 0)
        assert driver.phases == {WORKER: "training", SERVER: "serving"}
        for path in (tmp_path / "lake").iterdir():
            path.unlink()
        here.send("go on")
        with driver.changed:
            assert driver.changed.wait_for(lambda: driver.failed, TIMEOUT_S)
    finally:
        coordinator.kill()
        coordinator.join()
    (failed,) = driver.failed
    assert (failed.node, failed.record.verdict) == (WORKER, Verdict.DATA_REFUSED)
    assert "was deleted after the plan was made" in failed.record.message
    assert nodes.processes[WORKER].collect("a").exit_code == 1
    driver.stops = True
    assert nodes.processes[SERVER].collect("a").exit_code == 0
