"""Messages and trips of an update under parameter servers, counted in TensorFlow's own graphs: _async_messages.py OUT.

A closure is traced and run in one process, whose worker and parameter server are devices of it: TensorFlow divides its
graph among them as it does among processes, with a message where an edge goes from one to the other.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparktf.config.job import JobConfig
from sparktf.feature import Feature, FeedSpec, Kind

BATCH, UPDATES = 8, 3
TABLE_ROWS, WIDTH, IDS = 40, 16, 4
"""Of so few rows, ids come several times in an update."""
WORKER, SERVER = "CPU:0", "CPU:1"
_OUTSIDE = ("while/LoopControlInputs", "while/LoopExecuted", "while/Exit")
"""Of a loop, what is done once."""


class Counted(NamedTuple):
    """What an update is made of.

    Attributes:
        messages: Between worker and server, either way.
        trips: There and back, one after another.
    """

    messages: int
    trips: float


class Subject(NamedTuple):
    """A model whose updates are counted.

    Attributes:
        x: dtype and width of its input.
    """

    build: Callable[..., Any]
    x: tuple[str, int]


def mlp(params: dict[str, Any], assets: dict[str, Any]) -> Any:
    """Returns a compiled MLP of 16 columns, 64 units and a number."""
    import keras  # noqa: PLC0415 - who counts in a process that is forked has it already

    x = keras.Input((16,), name="x")
    hidden = keras.layers.Dense(64, activation="relu")(x)
    model = keras.Model(x, keras.layers.Dense(1, name="y")(hidden))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def table(params: dict[str, Any], assets: dict[str, Any], flavour: str = "keras") -> Any:
    """Returns a compiled model that is hardly more than a table: 4 ids in, one number out."""
    keras = importlib.import_module(flavour)
    layer = importlib.import_module(f"sparktf.layers.{flavour}").ShardedEmbedding(TABLE_ROWS, WIDTH, name="table")
    ids = keras.Input((IDS,), name="x", dtype="int64")
    model = keras.Model(ids, keras.layers.Dense(1, name="y")(keras.layers.Flatten()(layer(ids))))
    model.compile(keras.optimizers.Adagrad(), "mse")
    return model


SUBJECTS = {
    "MLP 16-64-1": Subject(mlp, ("float32", 16)),
    "table of 4 shards": Subject(table, ("int64", IDS)),
    "table of 4 shards, tf_keras": Subject(partial(table, flavour="tf_keras"), ("int64", IDS)),
}


class Traced(NamedTuple):
    """A closure's function, its model, and what must live as long."""

    function: Callable[[Any], Any]
    model: Any
    kept: list[Any]

    def run(self) -> None:
        """Makes so many updates."""
        self.function(np.array([0, UPDATES, 0, 0], np.int64))


def traced(name: str, *, measured: bool) -> Traced:
    """Traces in a process whose TensorFlow has not begun, or has done that before.

    Args:
        measured: An execution that measures where its time goes.
    """
    from sparktf.trainer.model.model import UserModel  # noqa: PLC0415
    from sparktf.trainer.parameter_server.update.closure import Closure  # noqa: PLC0415

    subject, strategy = SUBJECTS[name], _strategy()
    kept = _answer(subject)
    with strategy.scope():
        model = UserModel(subject.build, _config(), {}, _spec(subject))
        closure = Closure(strategy, model, batch_size=BATCH)
    return Traced(closure.function if measured else closure.plain(), model, kept)


def counted(name: str, *, measured: bool) -> Counted:
    """Counts what an update is made of; see `traced`."""
    from tensorflow.python.eager import context  # noqa: PLC0415

    closure = traced(name, measured=measured)
    context.context().enable_run_metadata()
    closure.run()
    graphs = context.context().export_run_metadata().function_graphs
    context.context().disable_run_metadata()
    return Graph([node for graph in graphs for part in graph.partition_graphs for node in part.node]).counted()


@cache
def _strategy() -> Any:
    import tensorflow as tf  # noqa: PLC0415

    (processor,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.experimental.CentralStorageStrategy([WORKER], SERVER)


def _answer(subject: Subject) -> list[Any]:
    """Answers for the worker's feed; returns what TensorFlow holds by weak references alone."""
    from tensorflow.python.ops import script_ops  # noqa: PLC0415

    from sparktf.trainer.parameter_server.update.packing import DONE, ROWS  # noqa: PLC0415

    x, y = data(subject)

    def rows(*asked: Any) -> list[Any]:
        return [x, y, np.int64(len(y)), np.int64(0)]

    def done(*told: Any) -> bytes:
        return b"{}"

    script_ops._py_funcs._funcs.update({ROWS: rows, DONE: done})
    return [rows, done]


def data(subject: Subject) -> tuple[Any, Any]:
    """Returns inputs and targets for all updates."""
    count, (dtype, width) = BATCH * UPDATES, subject.x
    draw = np.random.default_rng(0)
    x = draw.integers(0, TABLE_ROWS, (count, width)) if dtype == "int64" else draw.random((count, width), np.float32)
    return x, draw.random(count, np.float32)


def untraced(name: str) -> Any:
    """Returns the model, for a process that makes its updates by itself."""
    from sparktf.trainer.model.model import UserModel  # noqa: PLC0415

    subject = SUBJECTS[name]
    return UserModel(subject.build, _config(), {}, _spec(subject))


def _spec(subject: Subject) -> FeedSpec:
    dtype, width = subject.x
    x = Feature(kind=Kind.INPUT, name="x", columns=("x",), dtype=dtype, shape=(width,))
    return FeedSpec(features=(x, Feature(kind=Kind.TARGET, name="y", columns=("y",), dtype="float32")))


def _config() -> JobConfig:
    data = {"path": "/lake", "inputs": {"x": "x"}, "targets": {"y": "y"}}
    return JobConfig.model_validate({"name": "counted", "model": "m:f", "data": data, "output": {"path": "/runs"}})


class Graph:
    """A closure's graph as it is divided among its devices."""

    def __init__(self, nodes: list[Any]) -> None:
        """Takes the nodes of all parts."""
        self._nodes = {node.name: node for node in nodes}
        self._sends = {self._key(node): node.name for node in nodes if node.op in ("_Send", "_HostSend")}

    def counted(self) -> Counted:
        """Returns what an update is made of: a turn of the closure's loop."""
        messages = sum(self._is_in_loop(self._nodes[name]) for name in self._sends.values())
        longest = cache(lambda name: self._longest(name, longest))
        sys.setrecursionlimit(100_000)
        return Counted(messages, max(longest(name) for name in self._nodes) / 2)

    def _longest(self, name: str, longest: Callable[[str], int]) -> int:
        """Returns how many messages come one after another, at most, before a node has what it needs."""
        node = self._nodes[name]
        if node.op in ("_Recv", "_HostRecv"):
            send = self._sends[self._key(node)]
            return longest(send) + self._is_in_loop(self._nodes[send])
        return max((longest(one) for one in self._inputs(node)), default=0)

    def _inputs(self, node: Any) -> Iterator[str]:
        names = (text.removeprefix("^").partition(":")[0] for text in node.input)
        # What the next turn begins with is the end of this one.
        return (name for name in names if self._nodes[name].op != "NextIteration")

    def _is_in_loop(self, send: Any) -> bool:
        name = send.attr["tensor_name"].s.decode()
        return "while/" in name and not any(before_or_after in name for before_or_after in _OUTSIDE)

    @staticmethod
    def _key(node: Any) -> tuple[bytes, ...]:
        return tuple(node.attr[name].s for name in ("tensor_name", "send_device", "recv_device"))


def main(out: str) -> None:
    """Counts all, and writes it down."""
    found = {
        f"{name}{', measured' if measured else ''}": counted(name, measured=measured)._asdict()
        for name in SUBJECTS
        for measured in (False, True)
    }
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
