"""Tables of vectors, trained and used in processes that have TensorFlow: what the tests of ShardedEmbedding look at."""

from __future__ import annotations

import importlib
import itertools
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from trainer import zoo
from trainer.lake import NUMBERS

from sparktf.config.job import JobConfig
from sparktf.feature import Feature, FeedSpec, Kind

Values = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

FEATURES = (
    Feature(kind=Kind.INPUT, name="row", columns=("row",), dtype="int64"),
    Feature(kind=Kind.INPUT, name="item", columns=("item",), dtype="int64"),
    Feature(kind=Kind.INPUT, name="numbers", columns=NUMBERS, dtype="float32", shape=(len(NUMBERS),)),
    Feature(kind=Kind.TARGET, name="label", columns=("label",), dtype="int64"),
)
EXAMPLE = {
    "row": np.arange(9),
    "item": np.arange(9) * 2,
    "numbers": np.linspace(-1, 1, 36, dtype=np.float32).reshape(9, 4),
}

SLOTS = ("momentums", "_momentums", "_velocities", "_velocity_hats", "_accumulators")


class Step(NamedTuple):
    """One update: the gradient of the row of `ids[i]` is `factors[i]`, that of a dense variable beside is `dense`."""

    ids: Ids
    factors: Values
    dense: Values


class Trained(NamedTuple):
    """A table and its slots, each [rows, width], with what has touched them.

    Attributes:
        gradients: Types of the gradients of the shards.
        ops: Types of the TensorFlow operations that take a shard, or one of its slots.
    """

    before: Values
    after: Values
    slots: dict[str, Values]
    dense: Values
    gradients: set[str]
    ops: set[str]


def layer_of(flavour: str, *sizes: int, **options: Any) -> Any:
    """Returns a layer of a flavour, with the rows, width and shards given."""
    return importlib.import_module(f"sparktf.layers.{flavour}").ShardedEmbedding(*sizes, **options)


def optimizer_of(flavour: str, kind: str, options: Mapping[str, Any]) -> Any:
    """Returns an optimizer; `decay_steps` among the options has its learning rate halved every so many steps."""
    optimizers = importlib.import_module(flavour).optimizers
    options = dict(options)
    if steps := options.pop("decay_steps", None):
        options["learning_rate"] = optimizers.schedules.ExponentialDecay(options["learning_rate"], steps, 0.5)
    optimizer = getattr(optimizers, kind)(**options)
    if kind == "AdamW":
        optimizer.exclude_from_weight_decay(var_names=["shard_", "dense"])
    return optimizer


def train(
    flavour: str, sizes: tuple[int, int, int], kind: str, options: Mapping[str, Any], steps: Sequence[Step]
) -> Trained:
    """Trains a table of rows, width and shards beside a dense variable, in a graph as training loops do."""
    tf = importlib.import_module("tensorflow")
    table = TrainedTable(flavour, sizes, kind, options)
    update = tf.function(table.update, reduce_retracing=True)
    before = table_of(table.layer)
    for step in steps:
        update(*map(tf.constant, step))
    variables = [*table.layer.shard_variables(), *itertools.chain(*table.slots().values())]
    return table.trained(before, ops_on(update.get_concrete_function(*map(tf.constant, steps[0])), variables))


def train_on_servers(
    flavour: str, sizes: tuple[int, int, int], kind: str, options: Mapping[str, Any], steps: Sequence[Step]
) -> tuple[Trained, list[str], dict[str, list[str]]]:
    """Trains the same with one worker and two parameter servers; in a process of its own, which all of them share.

    Returns:
        What `train` does, the devices of the shards, and those of their slots.
    """
    tf = importlib.import_module("tensorflow")
    ports = {"worker": [free_port()], "ps": [free_port(), free_port()]}
    spec = tf.train.ClusterSpec({job: [f"localhost:{port}" for port in of] for job, of in ports.items()})
    servers = [tf.distribute.Server(spec, job, i, protocol="grpc") for job, of in ports.items() for i in range(len(of))]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        table = TrainedTable(flavour, sizes, kind, options)
    before = table_of(table.layer)
    update = tf.function(lambda *step: strategy.run(table.update, args=step), reduce_retracing=True)
    for step in steps:
        coordinator.schedule(update, args=tuple(step))
        coordinator.join()
    del servers
    devices = [variable.device for variable in table.layer.shard_variables()]
    slots = {name: [variable.device for variable in slot] for name, slot in table.slots().items()}
    return table.trained(before, set()), devices, slots


class TrainedTable:
    """A table beside a dense variable, with an optimizer."""

    def __init__(self, flavour: str, sizes: tuple[int, int, int], kind: str, options: Mapping[str, Any]) -> None:
        self._model, self._optimizer = model_of(flavour, sizes), optimizer_of(flavour, kind, options)
        self._optimizer.build(self._model.trainable_variables)
        importlib.import_module("sparktf.layers").update_rows(self._model, self._optimizer)
        self.layer, self._dense = self._model.table, tensorflow_variable(self._model.dense)
        self._gradients: set[str] = set()

    def update(self, ids: Any, factors: Any, of_dense: Any) -> None:
        """Makes one update; see `Step`."""
        tf = importlib.import_module("tensorflow")
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.layer(ids) * factors) + tf.reduce_sum(self._dense * of_dense)
        found = tape.gradient(loss, [*self.layer.shard_variables(), self._dense])
        self._gradients.update(type(g).__name__ for g in found[:-1])
        self._optimizer.apply_gradients(zip(found, self._model.trainable_variables, strict=True))

    def slots(self) -> dict[str, list[Any]]:
        """Returns the shards' slots in the optimizer."""
        return {
            name: [tensorflow_variable(v) for v in slot[: self.layer.shards]]
            for name in SLOTS
            if (slot := getattr(self._optimizer, name, None))
        }

    def trained(self, before: Values, ops: set[str]) -> Trained:
        """Returns what has become of the table."""
        slots = {name: dealt([variable.numpy() for variable in slot]) for name, slot in self.slots().items()}
        return Trained(before, table_of(self.layer), slots, self._dense.numpy(), self._gradients, ops)


def free_port() -> int:
    """Returns a port that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return int(listener.getsockname()[1])


def model_of(flavour: str, sizes: tuple[int, int, int]) -> Any:
    """Returns a model with a table and a dense variable of ten values, built."""
    keras = importlib.import_module(flavour)

    class Model(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table = layer_of(flavour, *sizes, name="table")
            self.dense = self.add_weight(shape=(10,), name="dense", initializer="zeros")

        def call(self, ids: Any) -> Any:
            return self.table(ids)

    model = Model()
    model(np.zeros((1, 2), np.int64))
    # The shards first, wherever a flavour puts them.
    order = [*model.table.shard_weights, model.dense]
    assert {id(v) for v in order} == {id(v) for v in model.trainable_variables}
    type(model).trainable_variables = property(lambda _: order)
    return model


def first_values(flavour: str, seed: int | None) -> tuple[list[Values], list[tuple[int, ...]]]:
    """Returns the shards of a new table of 11 rows in 3 shards, and the shapes for which its initializer was called."""
    keras = importlib.import_module(flavour)
    made = []

    class Noted(keras.initializers.RandomUniform):  # type: ignore[misc, name-defined]
        def __call__(self, shape: Any, dtype: Any = None, **options: Any) -> Any:
            made.append(tuple(shape))
            return super().__call__(shape, dtype, **options)

    layer = layer_of(flavour, 11, 2, 3, embeddings_initializer=Noted(seed=seed))
    layer.build((None,))
    return [variable.numpy() for variable in layer.shard_variables()], made


def looked_up(flavour: str, ids: Any, ids_dtype: str, **options: Any) -> tuple[Values, Any, Any, str]:
    """Returns a table of 11 rows in 3 shards, what the ids become, their mask, and the dtype of the rows.

    Args:
        ids: An array, or lists that become ragged ids.
    """
    tf = importlib.import_module("tensorflow")
    layer = layer_of(flavour, 11, 2, 3, **options)
    given = tf.ragged.constant(ids, ids_dtype) if isinstance(ids, list) else tf.constant(ids, ids_dtype)
    rows = tf.function(layer)(given)
    mask = layer.compute_mask(given)
    ragged = isinstance(rows, tf.RaggedTensor)
    found = rows.to_list() if ragged else tf.cast(rows, tf.float32).numpy()
    return table_of(layer), found, None if mask is None else mask.numpy(), rows.dtype.name


def error_of(flavour: str, ids: Sequence[int]) -> str:
    """Returns the error that ids end with in a table of 11 rows called "user"."""
    tf = importlib.import_module("tensorflow")
    try:
        tf.function(layer_of(flavour, 11, 2, 3, name="user"))(tf.constant(ids))
    except tf.errors.InvalidArgumentError as error:
        return str(error)
    return ""


def mixed(flavour: str, other: str) -> None:
    """Puts a layer of one flavour into a model of the other."""
    layer_of(flavour, 11, 2, 3, name="user")(importlib.import_module(other).Input((2,), dtype="int64"))


def large(flavour: str) -> tuple[dict[str, int], list[str]]:
    """Returns what is said of a model with three Embeddings, one large, and of a large one in shards: twice."""
    keras = importlib.import_module(flavour)
    ids = keras.Input((2,), dtype="int64")
    embedded = [
        keras.layers.Embedding(2**18, 16, name="just_not")(ids),
        keras.layers.Embedding(2**18 + 1, 16, name="large")(ids),
        keras.layers.Embedding(100, 4, name="small")(ids),
        layer_of(flavour, 2**19, 16, name="sharded")(ids),
    ]
    model = keras.Model(ids, keras.layers.Concatenate()(embedded))
    found: dict[str, int] = importlib.import_module("sparktf.layers").large_embeddings(model)
    return found, importlib.import_module("sparktf.trainer.model.trackables").on_large_tables(model)


def export(config: JobConfig, folder: str) -> Values:
    """Exports and checkpoints the model of a configuration over rows, items and numbers; returns what it predicts.

    Raises:
        ValueError: a checkpoint of it, read into another one, does not give the same weights.
    """
    trainer = importlib.import_module("sparktf.trainer.model.model")
    local = importlib.import_module("sparktf.trainer.node.checkpoint").LocalCheckpoint
    model, other = (trainer.UserModel(zoo.sharded, config, {}, FeedSpec(features=FEATURES)) for _ in range(2))
    other.model.set_weights([weight + 1 for weight in other.model.get_weights()])
    local(model=model.model, optimizer=model.optimizer).write(Path(folder, "ckpt"))
    local(model=other.model, optimizer=other.optimizer).read(Path(folder, "ckpt"))
    if any((a != b).any() for a, b in zip(model.model.get_weights(), other.model.get_weights(), strict=True)):
        raise ValueError("not what was written")
    importlib.import_module("sparktf.trainer.model.export").export_model(model, {}, Path(folder))
    predicted: Values = model.model(EXAMPLE).numpy()
    return predicted


def ops_on(function: Any, variables: Sequence[Any]) -> set[str]:
    """Returns the types of the operations of a function on some variables."""
    outer = {id(variable.handle) for variable in variables}
    handles = {inner.name for captured, inner in function.graph.captures if id(captured) in outer}
    assert handles
    return {op.type for op in function.graph.get_operations() for tensor in op.inputs if tensor.name in handles}


def tensorflow_variable(variable: Any) -> Any:
    """Returns the tf.Variable of either flavour's variable."""
    return getattr(variable, "_value", variable)


def table_of(layer: Any) -> Values:
    """Returns all rows of a layer, in order."""
    return dealt([variable.numpy() for variable in layer.shard_variables()])


def dealt(shards: Sequence[Values]) -> Values:
    """Returns the rows of shards in the order of their ids."""
    whole = np.empty((sum(map(len, shards)), shards[0].shape[1]), np.float32)
    for i, shard in enumerate(shards):
        whole[i :: len(shards)] = shard
    return whole
