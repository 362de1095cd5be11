"""Checkpoints of parameter servers, each in a process of its own, without a driver; for processes with TensorFlow."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import psutil
from trainer.failures import place_of
from trainer.local_gang import PROCESSES, keep_files_in
from trainer.served import spec_of

from sparktf.config.job import JobConfig
from sparktf.errors import StorageError
from sparktf.feature import FeedSpec
from sparktf.process.ports import BoundPort
from sparktf.sequence import Cursor
from sparktf.storage.file_systems import open_storage
from sparktf.topology import ClusterSpec, NodeId, Role
from sparktf.wire.control import Action
from sparktf.wire.restore import Restore
from sparktf.wire.uploads import Uploaded

COORDINATOR = NodeId(role=Role.CHIEF, index=0)
TABLES = (600_000, 300_000)
"""Rows of two tables: one is larger than a part."""

WIDTH = 16
STEP = 7
TIMEOUT_S = 120


class Variable(NamedTuple):
    """What is known of one.

    Attributes:
        checksum: Of the bits of all values.
    """

    device: str
    nbytes: int
    checksum: int


class Written(NamedTuple):
    """What has come of a checkpoint that a coordinator has had written, and of another one after it.

    Attributes:
        others: What `write` says that servers have written.
        settled: What `settle` says.
        settled_again: What it says of the other one, of which a file has vanished.
        grown_mib: By how much the coordinator grew meanwhile.
        bare: The checksums as a function finds them that has captured no handle of a variable, plus one each.
        captured: Tensors that this function has captured.
    """

    variables: list[Variable]
    others: tuple[str, ...]
    settled: str
    settled_again: str
    grown_mib: float
    bare: list[int]
    captured: int


def filled(flavour: str, *, trains: bool = True) -> Any:
    """Returns a model with all slots of Adam, where `trains`."""
    keras = importlib.import_module(flavour)
    ids = keras.Input((2,), dtype="int64")
    tables = [keras.layers.Embedding(rows, WIDTH, name=f"table_{rows}")(ids) for rows in TABLES]
    hidden = keras.layers.Flatten()(keras.layers.Concatenate()(tables))
    hidden = keras.layers.BatchNormalization()(keras.layers.Dense(64)(hidden))
    model = keras.Model(ids, keras.layers.Dense(1)(hidden))
    model.compile(keras.optimizers.Adam(), "mse")
    if trains:
        model.optimizer.build(model.trainable_variables)
    return model


def variables_of(model: Any, *, slots: bool = True) -> list[Any]:
    """Returns the tf.Variables of a model, and of its optimizer."""
    tf = importlib.import_module("tensorflow")
    optimizer = model.optimizer
    found = [*model.weights, *([optimizer.learning_rate, *optimizer.variables] if slots else ())]
    unwrapped = [v if isinstance(v, tf.Variable) else v.value for v in found]
    return list({id(v): v for v in unwrapped}.values())


def described(variables: Sequence[Any]) -> list[Variable]:
    """Returns what is known of some variables; the checksums are made where they are."""
    tf = importlib.import_module("tensorflow")

    @tf.function  # type: ignore[untyped-decorator]
    def checksums() -> Any:
        return [checksum(variable) for variable in variables]

    sizes = [int(v.shape.num_elements()) * int(v.dtype.size) for v in variables]
    sums = [int(value) for value in checksums()]
    return [Variable(v.device, *rest) for v, *rest in zip(variables, sizes, sums, strict=True)]


def checksum(variable: Any) -> Any:
    """Returns that of a variable, as a tensor; made where the variable is."""
    tf = importlib.import_module("tensorflow")
    with tf.device(variable.device):
        values = variable.read_value()
        bits = tf.bitcast(values, tf.int32) if values.dtype == tf.float32 else values
        places = tf.range(tf.size(bits, tf.int64), dtype=tf.int64) % 1009 + 1
        return tf.reduce_sum(tf.cast(tf.reshape(bits, [-1]), tf.int64) * places)


def without_handles(variables: Sequence[Any]) -> tuple[list[int], int]:
    """Returns what `Written` has as `bare` and `captured`."""
    tf = importlib.import_module("tensorflow")
    handles = importlib.import_module("sparktf.trainer.parameter_server.update.closure")

    def more(number: Any) -> Any:
        def once(k: Any, _: Any) -> Any:  # in a loop, as updates are
            return k + 1, tf.stack([checksum(variable) for variable in variables]) + number

        return tf.while_loop(lambda k, _: k < number, once, [0 * number, tf.zeros(len(variables), tf.int64)])[1]

    function = tf.function(more, input_signature=[tf.TensorSpec((), tf.int64)]).get_concrete_function()
    bare = handles.without_handles(function)
    return bare(tf.constant(1, tf.int64)).numpy().tolist(), len(bare.captured_inputs)


def fill(variables: Sequence[Any], start: int = 0) -> None:
    """Gives each value another one; those of tables are scattered into them."""
    tf = importlib.import_module("tensorflow")

    @tf.function  # type: ignore[untyped-decorator]
    def fill_all() -> None:
        for seed, variable in enumerate(variables, start):
            with tf.device(variable.device):
                if variable.dtype != tf.float32:
                    variable.assign(tf.cast(seed + 17, variable.dtype))
                    continue
                values = tf.random.stateless_uniform(variable.shape, [seed, 7])
                if variable.shape.rank == 2:
                    rows = tf.range(variable.shape[0])
                    tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=rows, updates=values)
                else:
                    variable.assign(values)

    fill_all()


def write(cluster: ClusterSpec, flavour: str, folder: Path, vanishes: str) -> Written:
    """Writes and uploads two checkpoints as the coordinator of a gang.

    Args:
        folder: Where its own files of the first are to be.
        vanishes: File of the second that is removed from the servers' disks before they upload.
    """
    checkpoint, model = _connected(cluster, flavour)
    variables = variables_of(model)
    fill(variables)
    found, bare = described(variables), without_handles(variables)
    process = psutil.Process()
    before = process.memory_info().rss
    others = checkpoint.write(folder)
    message = Uploaded(attempt=1, node=COORDINATOR, step=STEP, epoch=1, done=(), keras="keras")
    checkpoint.upload(message)
    settled = checkpoint.settle()
    grown = process.memory_info().rss - before
    assert checkpoint.write(folder.with_name("again")) == others
    for path in folder.parent.glob(f"ps-*/shard/{vanishes}"):
        path.unlink()
    checkpoint.upload(message.model_copy(update={"step": STEP + 1}))
    return Written(found, others, settled, checkpoint.settle(), grown / 2**20, *bare)


def restore(cluster: ClusterSpec, flavour: str, paths: Sequence[Path], work: Path) -> list[list[Variable]]:
    """Restores committed checkpoints, one after the other, as the coordinator of a gang; returns the variables then."""
    checkpoint, model = _connected(cluster, flavour)
    found = []
    for path in paths:
        files = tuple(sorted(file.name for file in path.iterdir()))
        source = Restore(path=str(path), step=STEP, cursor=Cursor(), rows_trained=0, files=files)
        checkpoint.restore(open_storage(str(path)), source, work)
        found.append(described(variables_of(model)))
    return found


def restore_alone(flavour: str, path: Path, work: Path) -> list[Variable]:
    """Restores a committed checkpoint in this process alone."""
    model = filled(flavour)
    _restore(model, path, work)
    return described(variables_of(model))


def refused(flavour: str, paths: Sequence[Path], work: Path) -> list[str]:
    """Restores committed checkpoints that cannot be read, in this process alone; returns what is said of each."""
    model, said = filled(flavour), []
    for path in paths:
        try:
            _restore(model, path, work)
            said.append("nothing")
        except StorageError as error:
            said.append(str(error))
    return said


def _restore(model: Any, path: Path, work: Path) -> None:
    module = importlib.import_module("sparktf.trainer.node.checkpoint")
    checkpoint = module.LocalCheckpoint(model=model, optimizer=model.optimizer)
    checkpoint.restore_files(open_storage(str(path)), str(path), [file.name for file in path.iterdir()], work)


def restore_weights(flavour: str, path: Path, work: Path) -> tuple[list[Variable], int]:
    """Restores the weights of a committed checkpoint alone; returns them, and how many bytes were fetched for it."""
    tf = importlib.import_module("tensorflow")
    module = importlib.import_module("sparktf.trainer.node.checkpoint")
    model = filled(flavour, trains=False)
    files = [file.name for file in path.iterdir()]
    module.fetch_for(tf.train.Checkpoint(model=model), open_storage(str(path)), str(path), files, work)
    module.LocalCheckpoint(model=model).read(work)
    return described(variables_of(model, slots=False)), sum(file.stat().st_size for file in work.iterdir())


def write_alone(flavour: str, path: Path) -> list[Variable]:
    """Writes a checkpoint in this process alone."""
    module = importlib.import_module("sparktf.trainer.node.checkpoint")
    model = filled(flavour)
    fill(variables_of(model), 1000)
    path.mkdir()
    module.LocalCheckpoint(model=model, optimizer=model.optimizer).write(path)
    return described(variables_of(model))


def _connected(cluster: ClusterSpec, flavour: str) -> tuple[Any, Any]:
    os.environ["TF_GRPC_REUSE_PORT"] = "1"
    connect = importlib.import_module("sparktf.trainer.parameter_server.membership.connect")
    sharded = importlib.import_module("sparktf.trainer.parameter_server.checkpoint.checkpoint_in_parts")
    servers = importlib.import_module("sparktf.trainer.parameter_server.checkpoint.servers")
    with connect.connected_cluster(cluster).strategy.scope():
        model = filled(flavour)
    weights = variables_of(model, slots=False)
    asked = servers.Servers(len(cluster.ps))
    return sharded.ShardedCheckpoint(asked, weights, model=model, optimizer=model.optimizer), model


def check(config: JobConfig, work: Path, nbytes: Sequence[int]) -> list[str]:
    """Returns what a server answers when it looks for files of so many bytes, of which it has one: 8 bytes long."""
    module = importlib.import_module("sparktf.trainer.parameter_server.checkpoint.shard")
    orders = importlib.import_module("sparktf.trainer.parameter_server.checkpoint.shard_orders")
    cluster = ClusterSpec(chief=("h:1",), worker=("h:2",), ps=("h:3",))
    node = NodeId(role=Role.PS, index=0)
    shard = module.Shard(place_of(spec_of(config, FeedSpec(features=()), cluster, node), work))

    def said(order: Any) -> Any:
        return orders.ShardAnswer.model_validate_json(shard.obey(order.model_dump_json().encode()))

    folder = Path(said(orders.Begin()).folder)
    (folder / "1.data-00000-of-00001").write_bytes(b"12345678")
    (folder / "1.index").touch()
    parts = [orders.PartFile(local=str(n), name=f"part-{n}", nbytes=size) for n, size in enumerate(nbytes, 1)]
    found = str(said(orders.Check(parts=tuple(parts))).error)
    left = sorted(path.name for path in folder.iterdir())
    said(orders.Drop())
    assert not folder.exists()
    return [found, *left]


class Told:
    """Sends what a server tells its driver to the test."""

    def __init__(self, talk: Connection) -> None:
        self._talk = talk

    def send(self, action: Action, message: Uploaded) -> None:
        """See `Reporter`."""
        assert action is Action.UPLOADED
        self._talk.send(message)


def serve(talk: Connection, config: JobConfig, cluster: ClusterSpec, node: NodeId, work: Path) -> None:
    """Is a server, until the process is killed."""
    os.environ["TF_GRPC_REUSE_PORT"] = "1"
    listening = importlib.import_module("sparktf.trainer.parameter_server.ps")
    place = place_of(spec_of(config, FeedSpec(features=()), cluster, node), work, Told(talk))
    if node.role is Role.PS:
        shard = importlib.import_module("sparktf.trainer.parameter_server.checkpoint.shard").Shard(place)
        shard.register()
    server = listening.listen(place)
    talk.send("listens")
    talk.recv()
    del server, shard


def answer(talk: Connection, function: Callable[..., Any], args: Sequence[Any]) -> None:
    """Sends what a function returns."""
    talk.send(function(*args))


class Servers:
    """Some parameter servers and the one worker that TensorFlow asks for."""

    def __init__(self, config: JobConfig, count: int, folder: Path) -> None:
        self._ports = [BoundPort() for _ in range(count + 2)]
        chief, worker, *ps = (f"127.0.0.1:{held.port}" for held in self._ports)
        self._cluster = ClusterSpec(chief=(chief,), worker=(worker,), ps=tuple(ps))
        self._processes: list[BaseProcess] = []
        self._folder = folder
        nodes = [NodeId(role=Role.PS, index=i) for i in range(count)]
        self._talks = [
            self._start(serve, config, self._cluster, node, folder / f"{node.role}-{node.index}")
            for node in [*nodes, NodeId(role=Role.WORKER, index=0)]
        ]

    def _start(self, function: Callable[..., Any], *args: Any) -> Connection:
        here, there = PROCESSES.Pipe()
        process = PROCESSES.Process(target=_with_files_in, args=(str(self._folder), function, there, *args))
        process.start()
        self._processes.append(process)
        return here

    def __enter__(self) -> Self:
        for talk in self._talks:
            assert talk.poll(TIMEOUT_S)
            assert talk.recv() == "listens"
        return self

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Returns what a function returns in a coordinator of these servers."""
        talk = self._start(answer, function, (self._cluster, *args))
        assert talk.poll(TIMEOUT_S)
        return talk.recv()

    def uploaded(self) -> list[Uploaded]:
        """Returns what each parameter server has told its driver."""
        assert all(talk.poll(TIMEOUT_S) for talk in self._talks[:-1])
        return [talk.recv() for talk in self._talks[:-1]]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        for held in self._ports:
            held.close()


def _with_files_in(folder: str, function: Callable[..., Any], *args: Any) -> None:
    keep_files_in(folder)
    function(*args)
