"""A worker under parameter servers, beside a driver that keeps books of leases alone; for processes with TensorFlow."""

from __future__ import annotations

import importlib
import json
import os
import zlib
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lakes import no_filter
from trainer.failures import place_of
from trainer.local_gang import keep_files_in

from sparktf.config.job import JobConfig
from sparktf.driver.attempt.rows.lease_books import LeaseBooks
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.planner import plan_source
from sparktf.errors import ErrorRecord
from sparktf.feature import FeedSpec
from sparktf.message import Message
from sparktf.sequence import Cursor, Stream
from sparktf.storage.file_systems import open_storage
from sparktf.topology import ClusterSpec, NodeId, Role, tf_config
from sparktf.wire.control import Action
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest, Fetched, Receipt
from sparktf.wire.trainer_spec import Training

COORDINATOR, WORKER, SERVER = (NodeId(role=role, index=0) for role in (Role.CHIEF, Role.WORKER, Role.PS))
ID = "input:id"
UPDATES = 3


class Lender:
    """A driver that leases the rows of a lake, with columns as in `lakes`, to the one worker there is."""

    def __init__(self, config: JobConfig) -> None:
        self.plan: Plan = plan_source(config, open_storage, no_filter)
        self.books = LeaseBooks(self.plan, Cursor(), config, {WORKER: "h"})

    def lease(self, request: BlockLeaseRequest) -> BlockLease:
        """Leases rows."""
        return self.books.lease(request)

    def ask(self, action: Action, request: Message, answer: type[Message]) -> Message:
        """See `Place`."""
        assert action is Action.LEASE_BLOCKS
        assert isinstance(request, BlockLeaseRequest)
        return answer.model_validate_json(self.lease(request).model_dump_json())

    def tell(self, receipts: Sequence[Receipt]) -> None:
        """Tells of receipts as the coordinator does."""
        self.books.fetched(Fetched(attempt=1, node=COORDINATOR, receipts=tuple(receipts)))


def spec_of(config: JobConfig, feed: FeedSpec, cluster: ClusterSpec, node: NodeId = WORKER) -> Training:
    """Returns what a node's trainer gets."""
    return Training(
        run_id="r",
        run_root=config.output.path,
        attempt=1,
        node=node,
        cluster=cluster,
        config=config,
        feed=feed,
        rows={},
        assets={},
    )


def execution(spec: FeedSpec) -> Any:
    """Returns what a coordinator has its workers execute: (epoch, acknowledged, breaks off) -> ids, receipts as JSON.

    Its kernels work in the memory of what they read, as far as TensorFlow lets them.
    """
    tf = importlib.import_module("tensorflow")
    packing = importlib.import_module("sparktf.trainer.parameter_server.update.packing")
    kinds = [flat.dtype for flat in packing.flat_specs(spec)]

    def execute(epoch: Any, acknowledged: Any, breaks: Any) -> Any:
        *flat, n, take = tf.raw_ops.PyFunc(
            input=[epoch, tf.constant(UPDATES, tf.int64), acknowledged],
            token=packing.ROWS,
            Tout=[*kinds, tf.int64, tf.int64],
        )
        ids = tf.raw_ops.Neg(x=packing.unflatten(spec, flat)[ID])
        with tf.control_dependencies([tf.debugging.Assert(tf.logical_not(breaks), [ids])]):
            made = [take, tf.cast([n, 0, 0], tf.float32), tf.zeros(0, tf.int64), tf.zeros(0, tf.float64)]
            (answer,) = tf.raw_ops.PyFunc(input=made, token=packing.DONE, Tout=[tf.string])
        return tf.raw_ops.Neg(x=ids), answer

    number = tf.TensorSpec((), tf.int64)
    return tf.function(
        execute, input_signature=[number, tf.TensorSpec((None, 2), tf.int64), tf.TensorSpec((), tf.bool)]
    )


def receipts_in(answer: bytes) -> list[Receipt]:
    """Returns the receipts that an execution has answered."""
    return [Receipt.model_validate(fields) for fields in json.loads(zlib.decompress(answer))]


class Epoch(NamedTuple):
    """What was trained: the ids as the graph had them, and the driver's books."""

    ids: list[int]
    fed: int
    trained: int
    aside: int
    replayed: int


def trained_alone(config: JobConfig, folder: Path, epochs: int) -> tuple[list[Epoch], list[int]]:
    """Trains in this process, where every second execution breaks off.

    Returns each epoch, and the rows that the position has told of at its end.
    """
    tf = importlib.import_module("tensorflow")
    lender = Lender(config)
    worker, _ = _worker(config, lender, folder)
    execute = execution(lender.plan.spec)
    rows, acknowledged, found, positions = lender.plan.rows(Stream.TRAIN), 0, [], []
    for epoch in range(epochs):
        ids: list[int] = []
        count = 0
        while (books := lender.books.receipts(epoch)) is None or books.counts.fed < rows:
            count += 1
            try:
                seen, answer = execute(epoch, np.array([[0, acknowledged]], np.int64), count % 2 == 0)
            except tf.errors.InvalidArgumentError:
                continue
            ids += seen.numpy().tolist()
            receipts = receipts_in(answer.numpy())
            lender.tell(receipts)
            acknowledged = max([acknowledged, *(receipt.number for receipt in receipts)])
        found.append(Epoch(sorted(ids), books.counts.fed, books.counts.trained, books.counts.aside, books.replayed))
        positions.append(worker.position.rows)
    return found, positions


def refused_alone(config: JobConfig, folder: Path) -> tuple[ErrorRecord, list[int]]:
    """Trains in this process until the worker fails; returns what its driver is told, and the ids after that."""
    failure = importlib.import_module("sparktf.trainer.node.failure")
    lender = Lender(config)
    worker, spec = _worker(config, lender, folder)
    execute = execution(lender.plan.spec)
    error = None
    while error is None:
        execute(0, np.zeros((1, 2), np.int64), False)
        error = worker.failure(0.0)
    ids, _ = execute(0, np.zeros((1, 2), np.int64), False)
    return failure.error_record(error, spec, work=folder, time_s=1.0, host="h"), ids.numpy().tolist()


def _worker(config: JobConfig, lender: Lender, folder: Path) -> tuple[Any, Training]:
    module = importlib.import_module("sparktf.trainer.parameter_server.worker")
    inputs = importlib.import_module("sparktf.trainer.node.inputs")
    spec = spec_of(config, lender.plan.spec, ClusterSpec(chief=("h:1",), worker=("h:2",), ps=("h:3",)))
    place = place_of(spec, folder)
    place.ask = lender.ask  # type: ignore[assignment, method-assign]
    worker = module.Worker(place, inputs.Input(place))
    worker.register()
    return worker, spec


def coordinate(folder: str, talk: Connection, cluster: ClusterSpec, spec: FeedSpec, rows: int) -> None:
    """Has the gang's worker train an epoch of so many rows, and then asks it for the next until the process ends.

    What is trained is counted on the parameter server: the sum of the ids, which is sent, with where the variable is.
    """
    keep_files_in(folder)
    os.environ |= {"TF_CONFIG": tf_config(cluster, COORDINATOR), "TF_GRPC_REUSE_PORT": "1"}
    tf = importlib.import_module("tensorflow")
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    execute = execution(spec)
    with strategy.scope():
        total = tf.Variable(0, dtype=tf.int64, trainable=False)

    @tf.function  # type: ignore[untyped-decorator]
    def update(epoch: Any, acknowledged: Any) -> Any:
        ids, answer = execute(epoch, acknowledged, tf.constant(False))
        total.assign_add(tf.reduce_sum(ids))
        return answer

    told: dict[int, Receipt] = {}
    while sum(stop - start for receipt in told.values() for start, stop in receipt.intervals) < rows:
        asked = (np.int64(0), np.array([[0, max(told, default=0)]], np.int64))
        answer = coordinator.schedule(update, args=asked).fetch()
        told |= {receipt.number: receipt for receipt in receipts_in(answer)}
    talk.send((int(total.numpy()), total.device, list(told.values())))
    talk.recv()
    coordinator.schedule(update, args=(np.int64(1), np.zeros((1, 2), np.int64)))
    talk.recv()
