"""What one plain Keras process makes of the same rows: nothing here knows `sparktf`'s loop, feed or checkpoints.

These functions run in a process of their own, which has TensorFlow; see the fixture `elsewhere`.
"""

from __future__ import annotations

import importlib
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sparktf.config.data_section import DataConfig
from sparktf.config.job import JobConfig

Rows = Sequence[int]
Values = npt.NDArray[Any]


class Comparison(NamedTuple):
    """A trained model beside the reference.

    Attributes:
        difference: Greatest absolute difference of any weight.
        moved: Greatest absolute change of any weight by the training.
        norms: Global norm of the gradient of each update, before it was clipped.
        loss: Mean loss over all rows, each at its own update.
        state: Greatest difference of any variable of the optimizer, or of any weight that it trains, from those of the
            checkpoint, relative to the variable's greatest value; 0 without a checkpoint.
        iterations: Updates that the checkpoint has counted; 0 without one.
    """

    difference: float
    moved: float
    norms: list[float]
    loss: float
    state: float
    iterations: int


class Export(NamedTuple):
    """An exported model beside the checkpoint that it comes from.

    Attributes:
        difference: Greatest absolute difference of any weight.
        unmoved: Names of weights that the training has left as they began.
    """

    difference: float
    unmoved: list[str]


def compare_training(config: JobConfig, updates: Sequence[Rows], exported: str, checkpoint: str = "") -> Comparison:
    """Trains the configuration's model as `fit` does, with one batch for each update, given as rows of the lake.

    Args:
        exported: The `model.keras` to compare with.
        checkpoint: Folder of a committed checkpoint of the last update to compare with, if any.
    """
    model, lake = _build(config), _read(str(config.data.path))
    before = model.get_weights()
    importlib.import_module("sparktf.layers").update_rows(model)
    model.run_eagerly = True
    norms, total = [], 0.0
    for update in updates:
        x, y, weight = _batch(config.data, model, lake.take(update))
        loss, norm = _loss_and_norm(model, x, y, weight)
        norms.append(norm)
        total += loss * len(update)
        model.train_on_batch(x, y, sample_weight=weight)
    state = _compare_state(config, model, checkpoint) if checkpoint else 0.0
    counted = iterations(checkpoint) if checkpoint else 0
    model.optimizer.finalize_variable_values(model.trainable_variables)  # as `fit` does at its end
    after = model.get_weights()
    difference = _difference(after, _load(config, exported).get_weights())
    loss = total / sum(map(len, updates))
    return Comparison(difference, _difference(after, before), norms, loss, state, counted)


def _compare_state(config: JobConfig, model: Any, checkpoint: str) -> float:
    """Returns the greatest difference of `Comparison.state`; TensorFlow alone reads the checkpoint."""
    tf, stored = importlib.import_module("tensorflow"), _build(config)
    stored.optimizer.build(stored.trainable_variables)
    objects = tf.train.Checkpoint(model=stored, optimizer=stored.optimizer)
    objects.read(f"{checkpoint}/ckpt").assert_existing_objects_matched()
    found, expected = ([np.asarray(v) for v in (*m.weights, *m.optimizer.variables)] for m in (stored, model))
    return max(_relative(a, b) for a, b in zip(found, expected, strict=True))


def _relative(found: Values, expected: Values) -> float:
    difference = np.max(np.abs(found - expected), initial=0.0)
    return float(difference / max(np.max(np.abs(expected), initial=0.0), 1e-30)) if difference else 0.0


def compare_replicas(
    config: JobConfig, updates: Sequence[Sequence[Rows]], exported: str, *, averaged: bool
) -> tuple[float, float]:
    """Trains a model with BatchNormalization as several workers do that sum their gradients, one after the other.

    Each normalises its own rows, and keeps moving statistics of its own.

    Args:
        updates: Each worker's rows in each update.
        averaged: The model has the mean of all statistics afterwards; else those of the first worker.

    Returns:
        The greatest difference of any weight from those of `exported`, and that of two workers' statistics.
    """
    tf, model, lake = importlib.import_module("tensorflow"), _build(config), _read(str(config.data.path))
    norm = next(layer for layer in model.layers if "BatchNormalization" in type(layer).__name__)
    moving = (norm.moving_mean, norm.moving_variance)
    trained = [v if isinstance(v, tf.Variable) else v.value for v in model.trainable_variables]
    own = [[np.array(v) for v in moving] for _ in updates[0]]
    for update in updates:
        gradients = [np.zeros(v.shape, np.float32) for v in trained]
        for rank, rows in ((rank, rows) for rank, rows in enumerate(update) if rows):
            for variable, value in zip(moving, own[rank], strict=True):
                variable.assign(value)
            x, y, _ = _batch(config.data, model, lake.take(rows))
            with tf.GradientTape() as tape:
                y_pred = model(tf.constant(x), training=True)
                loss = model.compute_loss(x=x, y=tf.constant(y), y_pred=y_pred, sample_weight=None)
            own[rank] = [np.array(v) for v in moving]
            share = len(rows) / sum(map(len, update))
            gradients = [g + share * d.numpy() for g, d in zip(gradients, tape.gradient(loss, trained), strict=True)]
        model.optimizer.apply_gradients(zip(map(tf.constant, gradients), model.trainable_variables, strict=True))
    for variable, *values in zip(moving, *own, strict=True):
        variable.assign(np.mean(values, axis=0) if averaged else values[0])
    apart = max(_difference(one, own[0]) for one in own)
    return _difference(model.get_weights(), _load(config, exported).get_weights()), apart


def fitted(config: JobConfig, updates: Sequence[Rows], exported: str) -> tuple[dict[str, float], float]:
    """Trains as `fit` does, with `class_weight`; returns the epoch in its History, and the weights' difference."""
    model, lake = _build(config), _read(str(config.data.path))
    weights = {label: config.train.class_weight.get(label, 1.0) for label in range(3)}  # tf_keras wants all of them
    total, losses = {"accuracy": 0.0}, 0.0
    for update in updates:
        x, y, _ = _batch(config.data, model, lake.take(update))
        weight = np.array([weights[int(label)] for label in y], np.float32)
        losses += _loss_and_norm(model, x, y, weight)[0] * len(update)
        logs = model.train_on_batch(x, y, class_weight=weights, return_dict=True)
        total = {name: value + float(logs[name]) * len(update) for name, value in total.items()}
    rows = sum(map(len, updates))
    difference = _difference(model.get_weights(), _load(config, exported).get_weights())
    return {"loss": losses / rows, **{name: value / rows for name, value in total.items()}}, difference


def evaluate(config: JobConfig, path: str, exported: str) -> dict[str, float]:
    """Returns the metrics of a run's model on all rows at `path`, as `model.evaluate` gives them."""
    ((found,),) = evaluate_each(config, [path], [exported])
    return found


def evaluate_each(config: JobConfig, paths: Sequence[str], models: Sequence[str]) -> list[list[dict[str, float]]]:
    """As `evaluate`, of several models of one configuration on the rows of several lakes: by lake, then by model."""
    model = _build(config)
    found: list[list[dict[str, float]]] = []
    weights = [_load(config, exported).get_weights() for exported in models]
    for lake in map(_read, paths):
        x, y, weight = _batch(config.data, model, lake)
        found.append([])
        for of_model in weights:
            model.set_weights(of_model)
            values = model.evaluate(x, y, sample_weight=weight, batch_size=lake.num_rows, verbose=0, return_dict=True)
            found[-1].append({name: float(value) for name, value in values.items()})
    return found


def accuracy(lake: str, folder: str) -> float:
    """Returns the share of the digits of a lake that the SavedModel in a folder names rightly."""
    tf, table = importlib.import_module("tensorflow"), pq.read_table(lake)
    pixels = np.stack([table.column(f"pixel_{i}").to_numpy() for i in range(64)], axis=1)
    served = tf.saved_model.load(f"{folder}/saved_model").signatures["serving_default"](pixels=tf.constant(pixels))
    (named,) = (value.numpy().argmax(axis=1) for value in served.values())
    return float((named == table.column("label").to_numpy()).mean())


def compare_models(config: JobConfig, one: str, other: str) -> float:
    """Returns the greatest absolute difference between the weights of two `model.keras`."""
    return _difference(_load(config, one).get_weights(), _load(config, other).get_weights())


def iterations(checkpoint: str) -> int:
    """Returns how many updates the optimizer of a committed checkpoint has counted, as TensorFlow alone reads it."""
    tf = importlib.import_module("tensorflow")
    reader = tf.train.load_checkpoint(f"{checkpoint}/ckpt")
    (name,) = (name for name in reader.get_variable_to_shape_map() if name.startswith("optimizer/_iterations/"))
    return int(reader.get_tensor(name))


def compare_checkpoint(config: JobConfig, checkpoint: str, folder: str) -> Export:
    """Compares a run's `model.keras` with a committed checkpoint, as TensorFlow alone reads it."""
    tf = importlib.import_module("tensorflow")
    model = _build(config)
    names, before = [getattr(w, "path", w.name) for w in model.weights], model.get_weights()
    tf.train.Checkpoint(model=model).read(f"{checkpoint}/ckpt").expect_partial()
    exported = weights_of(config, f"{folder}/model.keras")
    unmoved = [name for name, a, b in zip(names, before, exported, strict=True) if np.array_equal(a, b)]
    return Export(_difference(exported, model.get_weights()), unmoved)


def weights_of(config: JobConfig, exported: str) -> list[Values]:
    """Returns the weights of a `model.keras`."""
    return [np.asarray(w) for w in _load(config, exported).get_weights()]


def serve(config: JobConfig, folder: str) -> dict[str, Values]:
    """Returns what the SavedModel predicts for all rows, as TensorFlow alone loads it."""
    tf = importlib.import_module("tensorflow")
    inputs = {name: tf.constant(value) for name, value in _inputs(config).items()}
    served = tf.saved_model.load(f"{folder}/saved_model").signatures["serving_default"](**inputs)
    return {name: value.numpy() for name, value in served.items()}


def compare_exports(config: JobConfig, folder: str) -> tuple[dict[str, list[int]], float]:
    """Predicts with the SavedModel, as TensorFlow alone loads it, and with `model.keras`.

    Returns:
        The shape of each output of the SavedModel, and the greatest difference between the two.
    """
    tf = importlib.import_module("tensorflow")
    served = serve(config, folder)
    inputs = {name: tf.constant(value) for name, value in _inputs(config).items()}
    model = _load(config, f"{folder}/model.keras")
    predicted = model(next(iter(inputs.values())) if len(inputs) == 1 else inputs)
    many = predicted if isinstance(predicted, (list, tuple)) else [predicted]
    names = model.output_names if len(many) > 1 else list(served)
    difference = _difference([served[name] for name in names], [p.numpy() for p in many])
    return {name: list(value.shape) for name, value in served.items()}, difference


def compare_batches(
    config: JobConfig, assets: dict[str, Any], x: Mapping[str, Values | list[Values]], y: Values, folder: str
) -> tuple[float, float]:
    """Trains on all rows at once, as often as there are epochs; predicts them with the SavedModel in the folder.

    Returns:
        The greatest difference from the weights of the run, and that from its predictions.
    """
    tf = importlib.import_module("tensorflow")
    tensors = {name: _tensor(tf, value) for name, value in x.items()}
    model = _build(config, assets)
    importlib.import_module("sparktf.layers").update_rows(model)
    for _ in range(config.train.epochs):
        model.train_on_batch(tensors, tf.constant(y))
    parts = {name: t.flat_values if isinstance(t, tf.RaggedTensor) else t for name, t in tensors.items()}
    parts |= {f"{name}_row_splits": t.row_splits for name, t in tensors.items() if isinstance(t, tf.RaggedTensor)}
    served = tf.saved_model.load(f"{folder}/saved_model").signatures["serving_default"](**parts)
    predictions = [value.numpy() for value in served.values()]
    trained = _difference(weights_of(config, f"{folder}/model.keras"), model.get_weights())
    return trained, _difference(predictions, [model(tensors).numpy()])


def _tensor(tf: Any, values: Any) -> Any:
    """Returns an array as a tensor, and a list of arrays as a ragged one."""
    return tf.ragged.stack(values).with_row_splits_dtype(tf.int64) if isinstance(values, list) else tf.constant(values)


def _build(config: JobConfig, assets: dict[str, Any] | None = None) -> Any:
    module = importlib.import_module(config.model_module)
    return getattr(module, config.model_function)(config.params, assets or {})


def _load(config: JobConfig, exported: str) -> Any:
    return importlib.import_module(config.params["flavour"]).models.load_model(exported)


def _read(path: str) -> pa.Table:
    return pq.read_table(path, partitioning=None).sort_by("row")


def _inputs(config: JobConfig) -> dict[str, Values]:
    """Returns the model's inputs for all rows."""
    return _columns({name: f.columns for name, f in config.data.inputs.items()}, _read(str(config.data.path)))


def _batch(data: DataConfig, model: Any, rows: pa.Table) -> tuple[Any, Any, Any]:
    """Returns x, y and sample weights of some rows in the structures of `train_on_batch`."""
    x: Any = _columns({name: f.columns for name, f in data.inputs.items()}, rows)
    y = _columns({name: f.columns for name, f in data.targets.items()}, rows)
    x = x if len(x) > 1 else next(iter(x.values()))
    weights = data.sample_weight or {}
    weight = _columns(weights if isinstance(weights, Mapping) else dict.fromkeys(y, weights), rows)
    if len(y) == 1:
        return x, next(iter(y.values())), next(iter(weight.values()), None)
    outputs = model.output_names
    return x, [y[name] for name in outputs], [weight[name] for name in outputs] if weight else None


def _columns(features: Mapping[str, str | tuple[str, ...]], rows: pa.Table) -> dict[str, Values]:
    return {
        name: rows.column(columns).to_numpy()
        if isinstance(columns, str)
        else np.stack([rows.column(column).to_numpy() for column in columns], axis=1)
        for name, columns in features.items()
    }


def _loss_and_norm(model: Any, x: Any, y: Any, weight: Any) -> tuple[float, float]:
    """Returns the loss of a batch, and the global norm of its gradient."""
    tf = importlib.import_module("tensorflow")
    x, y = tf.nest.map_structure(tf.constant, (x, y))
    weight = tf.nest.map_structure(tf.constant, weight) if weight is not None else None
    before = model.get_weights()  # which a BatchNorm changes
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True), sample_weight=weight)
    model.set_weights(before)
    variables = [v if isinstance(v, tf.Variable) else v.value for v in model.trainable_variables]
    return float(loss), float(tf.linalg.global_norm(tape.gradient(loss, variables)))


def _difference(some: Sequence[Values], others: Sequence[Values]) -> float:
    return max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in zip(some, others, strict=True))


def epochs_to_train(histories: Sequence[Sequence[float]], settings: Sequence[Mapping[str, Any]]) -> list[int]:
    """Returns after how many epochs Keras's EarlyStopping ends each training, whose metric goes as its history says."""
    kind = importlib.import_module("keras").callbacks.EarlyStopping
    trainings = [_watched(kind, *pair) for pair in zip(histories, settings, strict=True)]
    return [
        next((epoch + 1 for epoch, model in models if model.stop_training), len(history))
        for models, history in zip(trainings, histories, strict=True)
    ]


def learning_rates(histories: Sequence[Sequence[float]], settings: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Returns the learning rate after each epoch, as Keras's ReduceLROnPlateau sets it; at first it is 1."""
    kind = importlib.import_module("keras").callbacks.ReduceLROnPlateau
    trainings = (_watched(kind, *pair) for pair in zip(histories, settings, strict=True))
    return [[model.learning_rate for _, model in models] for models in trainings]


class _Watched:
    """As much of a model, and of its optimizer, as a callback asks for that looks at a metric."""

    metrics: Sequence[Any] = ()
    stop_training = False
    learning_rate = 1.0

    @property
    def optimizer(self) -> _Watched:
        return self


def _watched(kind: Any, history: Sequence[float], settings: Mapping[str, Any]) -> Iterator[tuple[int, _Watched]]:
    """Yields each epoch of a training, and its model when a callback has seen the metric."""
    model, callback = _Watched(), kind(monitor="val_loss", **settings)
    callback.set_model(model)
    callback.on_train_begin()
    for epoch, value in enumerate(history):
        callback.on_epoch_end(epoch, {"val_loss": value})
        yield epoch, model


def weights_by_layer(exported: str, *, unsafe: bool = False) -> dict[str, list[Values]]:
    """Returns the weights of each layer of an exported model that has any, by its name; of tables in shards, whole.

    Args:
        exported: Its folder.
        unsafe: It has a `Lambda`.
    """
    model = _loaded(exported, unsafe=unsafe)
    found = {layer.name: [np.asarray(w) for w in layer.get_weights()] for layer in model.layers if layer.weights}
    for layer in model.layers:
        if hasattr(layer, "shards"):
            table = np.zeros((layer.input_dim, layer.output_dim), np.float32)
            for shard, values in enumerate(found[layer.name]):
                table[shard :: layer.shards] = values
            found[layer.name] = [table]
    return found


def updates_counted(exported: str) -> int:
    """Returns how many updates the optimizer of an exported model has counted."""
    return int(np.asarray(_loaded(exported).optimizer.iterations))


def _loaded(exported: str, *, unsafe: bool = False) -> Any:
    """Returns an exported model, by the Keras that has saved it."""
    with zipfile.ZipFile(f"{exported}/model.keras") as archive:
        version = json.loads(archive.read("metadata.json"))["keras_version"]
    flavour = "tf_keras" if version.startswith("2.") else "keras"
    importlib.import_module(f"sparktf.layers.{flavour}")
    return importlib.import_module(flavour).models.load_model(f"{exported}/model.keras", safe_mode=not unsafe)
