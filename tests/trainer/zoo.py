"""Model functions for the tests of trainers. Each makes its model in the Keras that `params["flavour"]` names."""

from __future__ import annotations

import importlib
import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from trainer.lake import CLASSES, COLOURS, ITEMS, NUMBERS, WORDS
from trainer.refused import own_train_step

from sparktf import Node

Params = Mapping[str, Any]


def everything(params: Params, assets: Params) -> Any:
    """A model with all that exact updates have to get right.

    Several inputs, two Embeddings (of `item` with duplicates in a batch, of `row` so that a row trained twice or never
    shows), L2, two outputs with loss weights, clipping. With `params["shards"]`, the tables are in so many shards. With
    `params["averages"]`, there are a constraint and averages of the weights, with `params["compiled"]` a layer that XLA
    compiles. With `params["told"]`, whoever makes an update says so, and waits at `params["gates"]` and
    `params["traced"]`, and says with `params["numbered"]` which update it is; see `told`. With `params["rich"]`, there
    is what asynchronous training has to get right, too: a vocabulary, BatchNorm, Dropout. It unlearns from step
    `params["until"]` on. With `params["measured"]`, it has metrics whose states are sums of numbers and of tables.
    """
    del assets
    keras = _flavour(params)
    layers, l2 = keras.layers, keras.regularizers.L2(0.01)
    row, item = (keras.Input((), name=name, dtype="int64") for name in ("row", "item"))
    numbers = keras.Input((len(NUMBERS),), name="numbers")
    # Made early only where it counts: servers are given variables in the order in which these are made.
    early = _optimizer(keras, params) if params.get("numbered") else None
    number = None if early is None else early.iterations
    known = told(keras, row, params.get("gates", ()), params.get("traced", ""), number) if params.get("told") else row
    if shards := params.get("shards"):
        table = importlib.import_module(f"sparktf.layers.{params['flavour']}").ShardedEmbedding
        of_row = table(params["rows"], 2, shards=shards, name="of_row")
        of_item = table(ITEMS, 3, shards=shards, name="of_item")
    else:
        of_row = layers.Embedding(params["rows"], 2, name="of_row")
        of_item = layers.Embedding(ITEMS, 3, name="of_item", embeddings_regularizer=l2)
    embedded = [of_row(known), of_item(item)]
    inputs = [row, item, numbers]
    if params.get("rich"):
        inputs.append(keras.Input((), name="colour", dtype="string"))
        embedded.append(layers.Embedding(len(COLOURS) + 1, 2, name="of_colour")(looked_up(keras, inputs[-1])))
    limited = keras.constraints.MaxNorm(0.6) if "averages" in params else None
    dense = layers.Dense(8, "tanh", kernel_regularizer=l2, kernel_constraint=limited, name="hidden")
    hidden = dense(layers.Concatenate()([*embedded, numbers]))
    if params.get("compiled"):
        hidden = _compiled(keras, hidden)
    if params.get("rich"):
        hidden = layers.Dropout(0.1)(layers.BatchNormalization(momentum=0.9)(hidden))
    price = layers.Dense(1, name="price")(hidden)
    label = layers.Dense(CLASSES, "softmax", name="label")(hidden)
    model = keras.Model(inputs, [price, label])
    model.compile(
        optimizer=early or _optimizer(keras, params),
        loss={"price": "mse", "label": "sparse_categorical_crossentropy"},
        loss_weights={"price": 0.3, "label": 1.0},
        **(_measured(keras) if params.get("measured") else {}),
    )
    return with_fixed_weights(model)


def _measured(keras: Any) -> dict[str, Any]:
    """Returns metrics to compile with: of all rows alike, and weighted as the rows are."""
    table = keras.metrics.MeanIoU(CLASSES, sparse_y_true=True, sparse_y_pred=False, name="iou")
    return {
        "metrics": {"price": ["mae"], "label": ["accuracy", table]},
        "weighted_metrics": {"label": ["sparse_categorical_crossentropy"]},
    }


def _compiled(keras: Any, hidden: Any) -> Any:
    """Returns the values bent a little by a function that XLA compiles, with its gradient."""
    tf = importlib.import_module("tensorflow")

    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator]
    def bent(values: Any) -> Any:
        return values + 0.1 * tf.sin(values)

    @keras.saving.register_keras_serializable(package="zoo")
    class Bent(keras.layers.Layer):  # type: ignore[misc]
        def call(self, values: Any) -> Any:
            return bent(values)

        def compute_output_spec(self, values: Any) -> Any:  # Keras 3
            return keras.KerasTensor(values.shape, values.dtype)

    return Bent()(hidden)


def looked_up(keras: Any, colour: Any) -> Any:
    """Returns colours as a vocabulary has them; where a process has another vocabulary, or none, training fails."""
    tf = importlib.import_module("tensorflow")

    @keras.saving.register_keras_serializable(package="zoo")
    class Checked(keras.layers.Layer):  # type: ignore[misc]
        def call(self, codes: Any, colour: Any) -> Any:
            known = tf.equal(colour[:, None], list(COLOURS))
            expected = tf.where(tf.reduce_any(known, 1), tf.argmax(known, 1) + 1, 0)
            with tf.control_dependencies([tf.debugging.assert_equal(expected, tf.cast(codes, tf.int64), "looked up")]):
                return tf.identity(codes)

        def compute_output_spec(self, codes: Any, colour: Any) -> Any:  # Keras 3
            del colour
            return keras.KerasTensor(codes.shape, codes.dtype)

    return Checked()(keras.layers.StringLookup(vocabulary=list(COLOURS))(colour), colour)


def sharded(params: Params, assets: Params) -> Any:
    """A model with two tables in shards: of `item`, which repeats in a batch, and of `row`, each once in an epoch."""
    del assets
    keras = _flavour(params)
    layers, embedding = keras.layers, importlib.import_module(f"sparktf.layers.{params['flavour']}").ShardedEmbedding
    row, item = (keras.Input((), name=name, dtype="int64") for name in ("row", "item"))
    numbers = keras.Input((len(NUMBERS),), name="numbers")
    embedded = [
        embedding(params["rows"], 2, shards=3, name="of_row")(told(keras, row) if params.get("told") else row),
        embedding(ITEMS, 3, shards=2, name="of_item")(item),
    ]
    hidden = layers.Dense(8, "tanh", name="hidden")(layers.Concatenate()([*embedded, numbers]))
    return _classifier(keras, params, {"row": row, "item": item, "numbers": numbers}, hidden)


def told(keras: Any, row: Any, gates: Sequence[tuple[int, str]] = (), traced: str = "", number: Any = None) -> Any:
    """Returns the rows, and has the process that trains on them write into its log when it does; see `trainer.told`.

    Args:
        gates: Rows, and pipes that a process then waits at which trains on them: `integration.gates.Pipe`.
        traced: Where this is a pipe, who traces the model to evaluate it waits at it, and says so in its log.
        number: Counts the updates that were made, and is written, too.
    """
    tf = importlib.import_module("tensorflow")

    def passed(pipe: str) -> Any:
        with tf.control_dependencies([tf.io.write_file(pipe, "")]):
            return tf.constant(True)

    @keras.saving.register_keras_serializable(package="zoo")
    class Told(keras.layers.Layer):  # type: ignore[misc]
        def call(self, row: Any, training: bool = False) -> Any:
            done = []
            if not training and Path(traced).is_fifo():
                print("traces an evaluation", flush=True)
                Path(traced).write_text("")
            if training:
                now_us = tf.cast(tf.timestamp() * 1e6, tf.int64)
                which = [] if number is None else ["in update", tf.convert_to_tensor(number)]
                done = [tf.print("trained at", now_us, "rows", row, *which, summarize=-1, output_stream=sys.stderr)]
            for at, pipe in gates if training else ():
                with tf.control_dependencies(done):
                    here = tf.reduce_any(tf.equal(row, at))
                    done = [tf.cond(here, lambda pipe=pipe: passed(pipe), lambda: True)]
            with tf.control_dependencies(done):
                return tf.identity(row)

        def compute_output_spec(self, row: Any, training: bool = False) -> Any:  # Keras 3
            del training
            return keras.KerasTensor(row.shape, row.dtype)

    return Told()(row)


def slow(keras: Any, row: Any, first: int, seconds: float) -> Any:
    """Returns the rows, and has a process that trains on one from `first` on take some seconds longer for an update."""
    tf = importlib.import_module("tensorflow")

    def sleep() -> Any:
        with tf.control_dependencies([tf.numpy_function(lambda: time.sleep(seconds), [], [])]):
            return tf.constant(True)

    @keras.saving.register_keras_serializable(package="zoo")
    class Slow(keras.layers.Layer):  # type: ignore[misc]
        def call(self, row: Any, training: bool = False) -> Any:
            here = tf.reduce_any(row >= first) if training else tf.constant(False)
            with tf.control_dependencies([tf.cond(here, sleep, lambda: True)]):
                return tf.identity(row)

        def compute_output_spec(self, row: Any, training: bool = False) -> Any:  # Keras 3
            del training
            return keras.KerasTensor(row.shape, row.dtype)

    return Slow()(row)


def metered(params: Params, assets: Params) -> Any:
    """A model with metrics of several kinds, and a Dropout that evaluation must leave out."""
    del assets
    keras = _flavour(params)
    numbers = keras.Input((len(NUMBERS),), name="numbers")
    hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(8, "tanh", kernel_regularizer="l2")(numbers))
    label = keras.layers.Dense(CLASSES, "softmax", name="label")(hidden)
    click = keras.layers.Dense(1, "sigmoid", name="click")(hidden)
    model = keras.Model(numbers, [label, click])
    model.compile(
        optimizer=_optimizer(keras, params),
        loss={"label": "sparse_categorical_crossentropy", "click": "binary_crossentropy"},
        metrics={"label": ["accuracy"], "click": [keras.metrics.AUC(name="auc")]},
        weighted_metrics={"label": ["accuracy"], "click": ["mse"]},
    )
    return with_fixed_weights(model)


def normalised(params: Params, assets: Params) -> Any:
    """A model with BatchNorm."""
    del assets
    keras = _flavour(params)
    numbers = keras.Input((len(NUMBERS),), name="numbers")
    hidden = keras.layers.BatchNormalization(momentum=0.5)(keras.layers.Dense(8)(numbers))
    return _classifier(keras, params, numbers, hidden)


def text(params: Params, assets: Params) -> Any:
    """A model with a text input, whose vocabulary is an asset."""
    keras = _flavour(params)
    colour = keras.Input((), name="colour", dtype="string")
    numbers = keras.Input((len(NUMBERS),), name="numbers")
    codes = keras.layers.StringLookup(vocabulary=assets["colours"])(colour)
    embedded = keras.layers.Embedding(len(assets["colours"]) + 1, 2)(codes)
    hidden = keras.layers.Concatenate()([embedded, numbers])
    return _classifier(keras, params, {"colour": colour, "numbers": numbers}, hidden)


def carried(params: Params, assets: Params) -> Any:
    """A model with tables of all kinds, for a warm start: over a lookup's vocabulary, in `shards`, over an asset.

    With `params["lambda"]`, Keras refuses to load what it has saved of it.
    """
    keras = _flavour(params)
    layers, sharded = keras.layers, importlib.import_module(f"sparktf.layers.{params['flavour']}").ShardedEmbedding
    colour = keras.Input((), name="colour", dtype="string")
    item = keras.Input((), name="item", dtype="int64")
    numbers = keras.Input((len(NUMBERS),), name="numbers")
    same = layers.Lambda(lambda values: values, name="same")(numbers) if params.get("lambda") else numbers
    look = layers.StringLookup(vocabulary=assets["colours"], num_oov_indices=2)
    items = layers.IntegerLookup(vocabulary=assets["items"])
    shades = len(assets["colours"])
    parts = [
        layers.Embedding(shades + 2, 3, name="of_colour")(look(colour)),
        sharded(len(assets["items"]) + 1, 2, shards=params["shards"], name="of_item")(items(item)),
        layers.Embedding(shades + 4, 2, name="of_shade")(look(colour) + 2),
        layers.Embedding(ITEMS, 2, name="of_number")(item),
        layers.Dense(params.get("width", 4), "tanh", name="widened")(same),
    ]
    hidden = layers.Dense(5, "tanh")(layers.BatchNormalization()(layers.Concatenate()(parts)))
    inputs = {"colour": colour, "item": item, "numbers": numbers}
    model = keras.Model(inputs, layers.Dense(CLASSES, "softmax", name="label")(hidden))
    model.compile(_optimizer(keras, params), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def weighed(params: Params, assets: Params) -> Any:
    """A model whose input `row` names the rows, and changes nothing."""
    del assets
    keras = _flavour(params)
    numbers = keras.Input((len(NUMBERS),), name="numbers")
    row = keras.Input((), name="row")
    nothing = keras.layers.Rescaling(0.0)(keras.layers.Reshape((1,))(row))
    hidden = keras.layers.Add()([keras.layers.Dense(8, "tanh")(numbers), nothing])
    model = _classifier(keras, params, {"numbers": numbers, "row": row}, hidden)
    model.compile(optimizer=keras.optimizers.SGD(0.2), loss=model.loss, metrics=["accuracy"])
    return with_fixed_weights(model)


def spoiled(params: Params, assets: Params) -> Any:
    """A model that learns until step `params["until"]`, and then forgets."""
    del assets
    keras = _flavour(params)
    numbers = keras.Input((len(NUMBERS),), name="numbers")
    model = _classifier(keras, params, numbers, keras.layers.Dense(8, "tanh")(numbers))
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([params["until"]], [0.2, 100.0])
    rate = constant_rate(keras) if params.get("unwritable") else rate
    optimizer = keras.optimizers.SGD(rate, **_averaging(params))
    model.compile(optimizer=optimizer, loss=model.loss, metrics=["accuracy"])
    return model


def nested(params: Params, assets: Params) -> Any:
    """A model of padded lists of words and tags, and of an age that may be missing, each behind its mask."""
    keras = _flavour(params)
    layers = keras.layers
    age = keras.Input((), name="age")
    age_known = keras.Input((), name="age_known", dtype="bool")
    words = keras.Input((5,), name="words", dtype="int32")
    words_there = keras.Input((5,), name="words_there")  # float32, as Keras has it where nothing else is said
    tags = keras.Input((2, 1), name="tags", dtype="string")
    embedded = layers.Multiply()([layers.Embedding(WORDS, 3)(words), layers.Reshape((5, 1))(words_there)])
    tagged = layers.Embedding(len(assets["tags"]) + 1, 2)(layers.StringLookup(vocabulary=assets["tags"])(tags))
    parts = [layers.Reshape((1,))(age), layers.Embedding(2, 2)(age_known)]
    hidden = layers.Concatenate()([*parts, layers.Flatten()(embedded), layers.Flatten()(tagged)])
    inputs = {"age": age, "age_known": age_known, "words": words, "words_there": words_there, "tags": tags}
    return _classifier(keras, params, inputs, hidden)


def ragged(params: Params, assets: Params) -> Any:
    """A model of words and tags in lists of any length: the sum of what each stands for; `shards` of a table."""
    del assets
    keras, tf = _flavour(params), importlib.import_module("tensorflow")
    embedding = importlib.import_module(f"sparktf.layers.{params['flavour']}").ShardedEmbedding

    @keras.saving.register_keras_serializable(package="zoo")
    class Bag(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def build(self, shape: Any) -> None:
            del shape
            if shards := params.get("shards"):
                self.table = embedding(WORDS, 3, shards=shards)
                self.table.build(None)
                self.rows = self.table
            else:
                self.table = self.add_weight(shape=(WORDS, 3), name="table", initializer="uniform")
                self.rows = lambda codes: codes.with_flat_values(
                    tf.gather(tf.convert_to_tensor(self.table), codes.flat_values)
                )

        def call(self, words: Any) -> Any:
            flat = words.flat_values
            codes = tf.strings.to_hash_bucket_fast(flat, WORDS) if flat.dtype == tf.string else flat
            return tf.reduce_sum(self.rows(words.with_flat_values(codes)), axis=1)

        def compute_output_shape(self, shape: Any) -> Any:
            return (shape[0], 3)

        def compute_output_spec(self, words: Any) -> Any:  # Keras 3; StringTensors have no flat values there
            return keras.KerasTensor((words.shape[0], 3))

    words = keras.Input((None,), name="words", dtype="int32", ragged=True)
    tags = keras.Input((None,), name="tags", dtype="string", ragged=True)
    hidden = keras.layers.Concatenate()([Bag(name="of_words")(words), Bag(name="of_tags")(tags)])
    return _classifier(keras, params, {"words": words, "tags": tags}, hidden)


def subclassed(params: Params, assets: Params) -> Any:
    """A model that is a class, with a weight that the loss does not use."""
    del assets
    keras = _flavour(params)

    class Subclassed(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.unused = self.add_weight(shape=(2,), name="unused", initializer="ones")
            self.hidden = keras.layers.Dense(8, "tanh")
            self.label = keras.layers.Dense(CLASSES, "softmax")

        def call(self, x: Any) -> Any:
            return self.label(self.hidden(x))

    model = Subclassed()
    model.compile(optimizer=_optimizer(keras, params), loss="sparse_categorical_crossentropy")
    return model


def without_spark(params: Params, assets: Params) -> Any:
    """Refuses to be built in a process that has imported any of Spark, or has not begun as `begun` says."""
    found = sorted(name for name in sys.modules if name.partition(".")[0] in ("pyspark", "py4j"))
    if found:
        raise RuntimeError(f"the trainer has imported {found}")
    if (begun := sys.modules["__main__"].__spec__.name) != params["begun"]:  # type: ignore[union-attr]
        raise RuntimeError(f"the trainer began as {begun}")
    return everything(params, assets)


def never_built(params: Params, assets: Params) -> Any:
    """Waits for something that does not come."""
    threading.Event().wait()


def fails_later(params: Params, assets: Params) -> Any:
    """A model that fails on the row of number `params["row"]`."""
    del assets
    keras, tf = _flavour(params), importlib.import_module("tensorflow")

    class Fails(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, row: Any) -> Any:
            unwanted = tf.constant(params["row"], tf.int64)
            with tf.control_dependencies([tf.debugging.assert_none_equal(row, unwanted, "a row that nobody wants")]):
                return tf.cast(row, tf.float32)[:, None]

        def compute_output_spec(self, row: Any) -> Any:  # Keras 3
            return keras.KerasTensor((row.shape[0], 1))

    row = keras.Input((), name="row", dtype="int64")
    return _classifier(keras, params, row, Fails()(row))


def refused_step(params: Params, assets: Params) -> Any:
    """A model with a training step of its own."""
    del assets
    return own_train_step(_flavour(params))


def loop(node: Node) -> None:
    """A loop of its own, for the low-level contract; writes down the rows that it trains on, step by step.

    Raises `RuntimeError` after step `params["break_after"]`. Tells in `params["ports"]` at how many ports it listens.
    """
    import keras
    import psutil
    import tensorflow as tf

    with node.strategy.scope():
        numbers = keras.Input((len(NUMBERS),), name="numbers")
        model = with_fixed_weights(keras.Model(numbers, keras.layers.Dense(CLASSES, name="label")(numbers)))
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
    node.restore(model=model, optimizer=optimizer)

    def replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x["numbers"], training=True))
            loss = tf.reduce_sum(each) / (node.batch_size * node.workers)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def update(x: Any, y: Any) -> Any:
        return node.strategy.reduce("SUM", node.strategy.run(replica, args=(x, y)), axis=None)

    step = node.step
    if "ports" in node.params:
        listening = [c.laddr for c in psutil.Process().net_connections("inet") if c.status == psutil.CONN_LISTEN]
        Path(node.params["ports"], f"{node.workers}-{node.index}").write_text(str(len(listening)))
    # By the line: a worker that is stopped writes nothing more.
    with Path(node.params["diary"], f"{node.workers}-{node.index}").open("a", buffering=1) as diary:
        for _ in node.epochs():
            for x, y in node.strategy.distribute_datasets_from_function(lambda _: node.dataset("train")):
                loss = update(x, y)
                step += 1
                rows = node.strategy.experimental_local_results(x["row"])[0].numpy().tolist()
                diary.write(f"{step} {' '.join(map(str, rows))}\n")
                node.report(step=step, rows=len(rows), loss=float(loss))
                node.checkpoint()
                if step == node.params.get("break_after"):
                    raise RuntimeError("broken on purpose")
    node.export(keras.Model(numbers, keras.layers.Softmax(name="label")(model(numbers))))


def scheduled(node: Node) -> None:
    """A loop of its own for a coordinator; whoever makes an update says so.

    It writes the rows that it reports into `params["diary"]`. It leaves its epochs early at step `params["leave_at"]`;
    if that is 0, it trains nothing and goes on.
    """
    keras, tf = _flavour(node.params), importlib.import_module("tensorflow")
    with node.strategy.scope():
        row = keras.Input((), name="row", dtype="int64")
        numbers = keras.Input((len(NUMBERS),), name="numbers")
        of_row = keras.layers.Embedding(node.params["rows"], 2, name="of_row")(told(keras, row))
        hidden = keras.layers.Concatenate()([of_row, numbers])
        model = keras.Model({"row": row, "numbers": numbers}, keras.layers.Dense(CLASSES, name="label")(hidden))
        optimizer = keras.optimizers.Adam(0.005)
        optimizer.build(model.trainable_variables)
    node.restore(model=model, optimizer=optimizer)

    def update(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
            loss = tf.reduce_mean(each)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return tf.reduce_sum(each)

    @tf.function  # type: ignore[untyped-decorator]
    def updates(rows: Any, factor: Any) -> tuple[Any, Any]:
        total = tf.constant(0.0)
        for k in tf.range(rows.batches):
            total += node.strategy.run(update, args=rows.batch(k))
        return total * factor, rows.count

    leave_at = node.params.get("leave_at")
    with Path(node.params["diary"]).open("a", buffering=1) as diary:
        for _ in node.epochs():
            while leave_at != 0 and node.coordinator.schedule(updates, args=(2.0,)):
                for total, rows in node.coordinator.results():
                    node.report(step=node.step, rows=int(rows), loss=float(total / 2.0 / rows))
                    diary.write(f"{rows}\n")
                node.checkpoint()
                if leave_at and node.step >= leave_at:
                    break
            if leave_at and node.step >= leave_at:
                break
    node.export(model)


def spell(node: Node) -> None:
    """Trains nothing, and writes down each row with its lists."""
    node.restore()
    step = node.step
    with Path(node.params["diary"], str(node.index)).open("a") as diary:
        for _ in node.epochs():
            for x, _y in node.dataset():
                rows = x["row"].numpy().tolist()
                for row, words, tags in zip(rows, x["words"].to_list(), x["tags"].to_list(), strict=True):
                    diary.write(json.dumps([row, words, [tag.decode() for tag in tags]]) + "\n")
                step += 1
                node.report(step=step, rows=len(rows))


def leaves(node: Node) -> None:
    """Sums rows over the workers in place of training, and ends as `params["how"]` says."""
    import keras
    import tensorflow as tf

    def gang_rows(x: Any) -> Any:
        return tf.distribute.get_replica_context().all_reduce("SUM", tf.identity(x))

    @tf.function  # type: ignore[untyped-decorator]
    def update(x: Any) -> Any:
        return node.strategy.experimental_local_results(node.strategy.run(gang_rows, args=(x,)))[0]

    how = node.params["how"]
    if how == "before restore":
        return
    numbers = keras.Input((len(NUMBERS),), name="numbers")
    model = keras.Model(numbers, keras.layers.Dense(CLASSES, name="label")(numbers))
    node.restore(model=model)
    if how == "before epochs":
        return
    step = node.step
    for epoch in node.epochs():
        for x, _ in node.dataset():
            if how == "before a report":
                return
            update(tf.constant(len(x)))
            step += 1
            node.report(step=step, rows=len(x))
            if how == "batches left" or (how == "inside an epoch" and step == 3):
                break
        if how == "inside an epoch" or (how == "after an epoch" and epoch == 1):
            break
    node.export(model)


def rewrites(node: Node) -> None:
    """Trains nothing, and after the first epoch writes each file of `params["lake"]` anew: its rows backwards."""
    import keras
    import pyarrow.parquet as pq

    numbers = keras.Input((len(NUMBERS),), name="numbers")
    model = keras.Model(numbers, keras.layers.Dense(CLASSES, name="label")(numbers))
    node.restore(model=model)
    step = node.step
    for epoch in node.epochs():
        for x, _ in node.dataset():
            step += 1
            node.report(step=step, rows=len(x))
        for file in Path(node.params["lake"]).glob("*.parquet") if epoch == 0 else ():
            table = pq.read_table(file)
            pq.write_table(table.take(list(reversed(range(len(table))))), file, row_group_size=len(table))
    node.export(model)


def with_fixed_weights(model: Any) -> Any:
    """Gives a model's matrices values that depend on neither seeds nor the Keras in use; vectors start as in both."""
    draw = np.random.default_rng(1)
    weights = model.get_weights()
    model.set_weights([draw.normal(0.0, 0.3, w.shape).astype(w.dtype) if w.ndim > 1 else w for w in weights])
    return model


def _classifier(keras: Any, params: Params, inputs: Any, hidden: Any) -> Any:
    model = keras.Model(inputs, keras.layers.Dense(CLASSES, "softmax", name="label")(hidden))
    model.compile(optimizer=_optimizer(keras, params), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return with_fixed_weights(model)


def _flavour(params: Params) -> Any:
    return importlib.import_module(params["flavour"])


def _optimizer(keras: Any, params: Params) -> Any:
    kind = getattr(keras.optimizers, params.get("optimizer", "SGD"))
    rate = params.get("learning_rate", 0.1)
    if "until" in params:
        rate = keras.optimizers.schedules.PiecewiseConstantDecay([params["until"]], [rate, -rate])
    return kind(rate, global_clipnorm=params.get("global_clipnorm"), **_averaging(params))


def constant_rate(keras: Any) -> Any:
    """Returns a schedule as tutorials have one: without `get_config`, so that Keras cannot write it into a file."""

    class Constant(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
        def __call__(self, step: Any) -> Any:
            del step
            return 0.1

    return Constant()


def _averaging(params: Params) -> dict[str, Any]:
    """Returns the options of an optimizer that averages weights, where `params["averages"]` says by which momentum."""
    return {"use_ema": True, "ema_momentum": params["averages"]} if "averages" in params else {}


def counted(params: Params, assets: Params) -> Any:
    """A model that counts: one weight a row, which grows by one in each update that has the row.

    Workers in lockstep take the mean over the rows of all, whose number no model knows: `params["by_sign"]` goes by one
    wherever there is a gradient.
    """
    del assets
    keras = _flavour(params)
    tf = importlib.import_module("tensorflow")
    row = keras.Input((), name="row", dtype="int64")

    @keras.saving.register_keras_serializable(package="zoo")
    class Counts(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def build(self, shape: Any) -> None:
            self.counts = self.add_weight(shape=(params["rows"], 1), initializer="zeros", name="counts")

        def call(self, row: Any) -> Any:
            taken = tf.gather(tf.convert_to_tensor(self.counts), row)
            return taken * tf.cast(tf.shape(row)[0], taken.dtype)  # a loss is the mean over the rows

    @keras.saving.register_keras_serializable(package="zoo")  # type: ignore[untyped-decorator]
    def less(y_true: Any, y_pred: Any) -> Any:
        del y_true
        return -tf.squeeze(y_pred, -1)

    looked_up = told(keras, row, params.get("gates", ())) if params.get("told") else row
    if "slow" in params:
        looked_up = slow(keras, looked_up, *params["slow"])
    model = keras.Model({"row": row}, Counts(name="price")(looked_up))
    by_sign = keras.optimizers.RMSprop(1.0, rho=0.0, epsilon=1e-12)
    model.compile(by_sign if params.get("by_sign") else keras.optimizers.SGD(1.0), less)
    return model
