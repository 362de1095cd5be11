"""Models by what is wrong with them, and how a trainer refuses them; for the process `elsewhere`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from specs import trainer_spec
from trainer.lake import CLASSES, NUMBERS_TO_LABEL, job

from sparktf.config.job import JobConfig
from sparktf.errors import SparkTFError
from sparktf.feature import Feature, FeedSpec, Kind
from sparktf.sequence import Stream

Build = Callable[[Any], Any]

LOSS = "sparse_categorical_crossentropy"
NUMBERS = Feature(kind=Kind.INPUT, name="numbers", columns=("a", "b", "c", "d"), dtype="float32", shape=(4,))
LABEL = Feature(kind=Kind.TARGET, name="label", columns=("label",), dtype="int64")


def answers(config: JobConfig, what: str) -> set[tuple[str, int, str]]:
    """Returns type, verdict and message of the error that building the named model ends with; also of its own error.

    Once for a synchronous worker, once for a coordinator: the same, or there are two.
    """
    return {_answer(config, what, _synchronous), _answer(config, what, _asynchronous)}


def _synchronous(build: Callable[..., Any], config: JobConfig, spec: FeedSpec) -> None:
    tf = importlib.import_module("tensorflow")
    model = importlib.import_module("sparktf.trainer.model.model").UserModel(build, config, {}, spec)
    step = importlib.import_module("sparktf.trainer.sync.step")
    step.UpdateFunction(tf.distribute.get_strategy(), model, total=None, max_rows=8)
    evaluate = importlib.import_module("sparktf.trainer.model.evaluate")
    evaluate.Evaluator(model, importlib.import_module("sparktf.trainer.model.exchange").ALONE, 8).warm_up()


def _asynchronous(build: Callable[..., Any], config: JobConfig, spec: FeedSpec) -> None:
    tf = importlib.import_module("tensorflow")
    model = importlib.import_module("sparktf.trainer.model.model").UserModel(build, config, {}, spec, unseen=True)
    closure = importlib.import_module("sparktf.trainer.parameter_server.update.closure")
    closure.Closure(tf.distribute.get_strategy(), model, batch_size=8)


def _answer(config: JobConfig, what: str, construct: Callable[..., None]) -> tuple[str, int, str]:
    keras = importlib.import_module(config.params["flavour"])
    try:
        spec = FeedSpec(features=FEEDS.get(what, (NUMBERS, LABEL)))
        construct(lambda *_: MODELS[what](keras), config, spec)
    except SparkTFError as error:
        return type(error).__name__, int(error.verdict), str(error)
    except ValueError as error:
        return type(error).__name__, 1, " ".join([str(error), *error.__notes__])
    return "", 0, "accepted"


def of_evaluator(config: JobConfig, rows: int) -> str:
    """Returns why an evaluator evaluates nothing of a run with so many rows for validation."""
    evaluator = importlib.import_module("sparktf.trainer.evaluator")
    try:
        evaluator.evaluate(SimpleNamespace(spec=trainer_spec(config=config, rows={Stream.VALIDATION: rows})))
    except SparkTFError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def functional(
    keras: Any,
    *,
    loss: Any = LOSS,
    optimizer: Any = "sgd",
    between: Any = None,
    width: int = CLASSES,
    activation: str = "softmax",
) -> Any:
    """Returns a compiled model that is accepted as it is."""
    numbers = keras.Input((4,), name="numbers")
    hidden = between(numbers) if between is not None else numbers
    model = keras.Model(numbers, keras.layers.Dense(width, activation, name="label")(hidden))
    model.compile(optimizer=optimizer, loss=loss)
    return model


def takes(*shape: int, dtype: str = "float32", loss: Any = LOSS) -> Build:
    """Returns a function that builds a model of one input of that shape and dtype."""

    def build(keras: Any) -> Any:
        numbers = keras.Input(shape, name="numbers", dtype=dtype)
        hashed = keras.layers.Hashing(9)(numbers) if dtype == "string" else numbers
        flat = keras.layers.Reshape((-1,))(hashed)
        model = keras.Model(numbers, keras.layers.Dense(CLASSES, "softmax", name="label")(flat))
        model.compile(optimizer="sgd", loss=loss)
        return model

    return build


def _fed(columns: str, dtype: str, *shape: int) -> tuple[Feature, ...]:
    names = tuple(columns.split(","))
    return Feature(kind=Kind.INPUT, name="numbers", columns=names, dtype=dtype, shape=shape), LABEL


def _subclassed(keras: Any) -> Any:
    class Subclassed(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.label = keras.layers.Dense(CLASSES, "softmax")

        def call(self, x: Any) -> Any:
            if x.shape[1] != 7:
                raise ValueError("seven are wanted")
            return self.label(x)

    model = Subclassed()
    model.compile(optimizer="sgd", loss=LOSS)
    return model


def own_train_step(keras: Any) -> Any:
    """Returns a model with an overridden `train_step`."""

    class Own(keras.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    numbers = keras.Input((4,), name="numbers")
    model = Own(numbers, keras.layers.Dense(CLASSES, "softmax")(numbers))
    model.compile(optimizer="sgd", loss=LOSS)
    return model


def _uncompiled(keras: Any) -> Any:
    return keras.Sequential([keras.layers.Dense(CLASSES)])


def _without_loss(keras: Any) -> Any:
    model = _uncompiled(keras)
    model.compile(optimizer="sgd")
    return model


def _summed(keras: Any) -> Any:
    return functional(keras, loss=keras.losses.SparseCategoricalCrossentropy(reduction="sum"))


def _adds_loss(keras: Any) -> Any:
    class Adds(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            self.add_loss(importlib.import_module("tensorflow").reduce_sum(x))
            return x

    return functional(keras, between=Adds(name="adds"))


def _two_inputs(keras: Any) -> Any:
    numbers, age = keras.Input((4,), name="numbers"), keras.Input((1,), name="age")
    model = keras.Model([numbers, age], keras.layers.Dense(CLASSES)(keras.layers.Concatenate()([numbers, age])))
    model.compile(optimizer="sgd", loss=LOSS)
    return model


def _scaled(keras: Any) -> Any:
    scaled = getattr(keras.mixed_precision, "LossScaleOptimizer", None) or keras.optimizers.LossScaleOptimizer
    return functional(keras, optimizer=scaled(keras.optimizers.SGD()))


def _overwriting(keras: Any) -> Any:
    return functional(keras, optimizer=keras.optimizers.SGD(use_ema=True, ema_overwrite_frequency=3))


def _own_fit(keras: Any) -> Any:
    class Fits(keras.Model):  # type: ignore[misc]
        def fit(self, *args: Any, **options: Any) -> Any:
            return super().fit(*args, **options)

    numbers = keras.Input((4,), name="numbers")
    model = Fits(numbers, keras.layers.Dense(CLASSES, "softmax")(numbers))
    model.compile(optimizer="sgd", loss=LOSS)
    return model


def _own_end(keras: Any) -> Any:
    class Ends(keras.optimizers.SGD):  # type: ignore[misc]
        def finalize_variable_values(self, var_list: Any) -> None:
            super().finalize_variable_values(var_list)

    return functional(keras, optimizer=Ends())


def _frozen_too_late(keras: Any) -> Any:
    model = functional(keras, between=keras.layers.Dense(4, name="dense"))
    model.get_layer("dense").trainable = False
    return model


def _frozen(keras: Any) -> Any:
    model = functional(keras)
    model.trainable = False
    model.compile(optimizer="sgd", loss=LOSS)
    return model


def _float16(keras: Any) -> Any:
    before = keras.mixed_precision.global_policy() if keras.__name__ == "tf_keras" else keras.config.dtype_policy()
    try:
        keras.mixed_precision.set_global_policy("mixed_float16")
        return functional(keras)
    finally:
        keras.mixed_precision.set_global_policy(before)


def _synchronised(keras: Any) -> Any:
    return functional(keras, between=keras.layers.BatchNormalization(synchronized=True, name="norm"))


def _regularised_activity(keras: Any) -> Any:
    return functional(keras, between=keras.layers.Dense(4, activity_regularizer="l2", name="dense"))


def _one_number(keras: Any) -> Any:
    def mean_of_all(y_true: Any, y_pred: Any) -> Any:
        tf = importlib.import_module("tensorflow")
        return tf.reduce_mean(tf.square(y_pred - tf.cast(tf.reshape(y_true, (-1, 1)), tf.float32)))

    return functional(keras, loss=mean_of_all)


def _masked(keras: Any) -> Any:
    layers = keras.layers
    numbers = keras.Input((4,), name="numbers")
    steps = layers.Masking()(layers.Reshape((4, 1))(numbers))
    model = keras.Model(numbers, layers.SimpleRNN(2, return_sequences=True, name="label")(steps))
    model.compile(optimizer="sgd", loss="mse")
    return model


def _nested(keras: Any) -> Any:
    inner = keras.Sequential(
        [keras.layers.Dense(4), keras.layers.BatchNormalization(synchronized=True, name="deep")], name="inner"
    )
    return functional(keras, between=inner)


def _of_text(call: Callable[[Any, Any], Any]) -> Build:
    """Returns a function that builds a model of what a layer makes of a text: `call(keras, text)`, rows of numbers."""

    def build(keras: Any) -> Any:
        class Reads(keras.layers.Layer):  # type: ignore[misc]
            def call(self, text: Any) -> Any:
                return call(importlib.import_module("tensorflow"), text)

            def compute_output_spec(self, text: Any) -> Any:  # Keras 3
                return keras.KerasTensor((text.shape[0], 4), "float32")

        text = keras.Input((), name="numbers", dtype="string")
        model = keras.Model(text, keras.layers.Dense(CLASSES, "softmax", name="label")(Reads()(text)))
        model.compile(optimizer="sgd", loss=LOSS)
        return model

    return build


def _image(tf: Any, text: Any) -> Any:
    def decoded(png: Any) -> Any:
        return tf.ensure_shape(tf.io.decode_png(png, channels=1), (2, 2, 1))

    pixels = tf.map_fn(decoded, text, fn_output_signature=tf.TensorSpec((2, 2, 1), tf.uint8))
    return tf.reshape(tf.cast(pixels, tf.float32), (-1, 4))


def _csv(tf: Any, text: Any) -> Any:
    return tf.stack(tf.io.decode_csv(text, [[0.0]] * 4), axis=1)


def _known_words_alone(keras: Any) -> Any:
    class Looks(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.look = keras.layers.StringLookup(num_oov_indices=0, vocabulary=["red", "blue"])
            self.table, self.label = keras.layers.Embedding(2, 3), keras.layers.Dense(CLASSES, "softmax")

        def call(self, colour: Any) -> Any:
            return self.label(self.table(self.look(colour)))

    model = Looks()
    model.compile(optimizer="sgd", loss=LOSS)
    return model


def _feature_space(keras: Any) -> Any:
    tf = importlib.import_module("tensorflow")
    kinds = keras.utils.FeatureSpace
    space = kinds(
        features={"colour": kinds.string_categorical(num_oov_indices=0), "age": kinds.float_normalized()},
        output_mode="concat",
    )
    space.adapt(tf.data.Dataset.from_tensor_slices({"colour": ["red", "blue"], "age": [1.0, 3.0]}).batch(2))
    encoded = space.get_encoded_features()
    model = keras.Model(space.get_inputs(), keras.layers.Dense(CLASSES, "softmax", name="label")(encoded))
    model.compile(optimizer="sgd", loss=LOSS)
    return model


def _table(kind: str, **options: Any) -> Build:
    """Returns a function that builds a model with a ShardedEmbedding, and an optimizer with some options."""

    def build(keras: Any) -> Any:
        layers = importlib.import_module(f"sparktf.layers.{keras.__name__}")
        optimizer = getattr(keras.optimizers, kind)(**options)
        if kind == "AdamW":
            optimizer.exclude_from_weight_decay(var_names=["shard_"])

        def between(numbers: Any) -> Any:
            return keras.layers.Flatten()(layers.ShardedEmbedding(9, 2, shards=2, name="of_numbers")(numbers))

        return functional(keras, between=between, optimizer=optimizer)

    return build


MODELS: dict[str, Build] = {
    "accepted": functional,
    "own train_step": own_train_step,
    "summed loss": _summed,
    "synchronised BatchNorm": _synchronised,
    "synchronised BatchNorm, nested": _nested,
    "activity_regularizer": _regularised_activity,
    "add_loss": _adds_loss,
    "not compiled": _uncompiled,
    "no loss": _without_loss,
    "not a model": lambda keras: keras.layers.Dense(1),
    "nothing": lambda keras: None,
    "unfed input": _two_inputs,
    "input too many": functional,
    "text into numbers": takes(4),
    "numbers into text": takes(dtype="string"),
    "three into four": takes(4),
    "one into four": takes(4),
    "a flat image": takes(2, 2, 1),
    "a text target": takes(4),
    "an image without channels": takes(2, 2, 1),
    "whole numbers into floats": takes(4),
    "one value as a vector": takes(1),
    "a vector as one value": takes(),
    "texts": takes(4, dtype="string"),
    "a call that fails": _subclassed,
    "LossScaleOptimizer": _scaled,
    "mixed_float16": _float16,
    "averages that overwrite": _overwriting,
    "own fit": _own_fit,
    "an optimizer with an end of its own": _own_end,
    "frozen after compile": _frozen_too_late,
    "nothing to train": _frozen,
    "MultiOptimizer": lambda keras: functional(
        keras, optimizer=keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(keras.optimizers.SGD()))
    ),
    "loss of one number": _one_number,
    "Dice": lambda keras: functional(keras, loss=keras.losses.Dice(), width=1, activation="sigmoid"),
    "Circle": lambda keras: functional(keras, loss=keras.losses.Circle()),
    "masked loss": _masked,
    "rows for RMSprop": _table("RMSprop"),
    "rows clipped by shard": _table("SGD", clipnorm=1.0),
    "rows that decay": _table("Adam", weight_decay=0.01),
    "rows averaged": _table("Adagrad", use_ema=True),
    "rows that alone do not decay": _table("AdamW"),
    "known words alone": _known_words_alone,
    "a FeatureSpace": _feature_space,
    "images": _of_text(_image),
    "lines of CSV": _of_text(_csv),
}

FEEDS: dict[str, tuple[Feature, ...]] = {
    "input too many": (NUMBERS, Feature(kind=Kind.INPUT, name="age", columns=("age",), dtype="int64"), LABEL),
    "text into numbers": _fed("colour", "string"),
    "numbers into text": _fed("item", "int64"),
    "three into four": _fed("a,b,c", "float32", 3),
    "one into four": _fed("age", "int64"),
    "a flat image": _fed("pixels", "float32", 4),
    "a text target": (NUMBERS, Feature(kind=Kind.TARGET, name="label", columns=("colour",), dtype="string")),
    "an image without channels": _fed("pixels", "float32", 2, 2),
    "whole numbers into floats": _fed("a,b,c,d", "int64", 4),
    "one value as a vector": _fed("age", "bool"),
    "a vector as one value": _fed("ages", "uint8", 1),
    "texts": _fed("words", "string", 4),
    "known words alone": _fed("colour", "string"),
    "a FeatureSpace": (
        Feature(kind=Kind.INPUT, name="colour", columns=("colour",), dtype="string"),
        Feature(kind=Kind.INPUT, name="age", columns=("age",), dtype="float32"),
        LABEL,
    ),
    "images": _fed("png", "string"),
    "lines of CSV": _fed("line", "string"),
}
"""What models are fed with; by default four numbers, and a label."""


def at_the_door(flavour: str, folder: str) -> list[str]:
    """Returns why what is no function is refused where one is to be: a compiled model, its class, an estimator's."""
    keras = importlib.import_module(flavour)
    name_functions = importlib.import_module("sparktf.driver.code.function_module").name_functions
    estimator = importlib.import_module("sparktf.ml").KerasEstimator
    model = functional(keras)
    asked: list[Callable[[], Any]] = [
        lambda: name_functions({"model": model}, Path(folder)),
        lambda: name_functions({"build": keras.Model}, Path(folder)),
        lambda: estimator(model=model),
    ]
    return [_refusal(ask) for ask in asked]


def _refusal(ask: Callable[[], Any]) -> str:
    try:
        ask()
    except SparkTFError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def scaled_update() -> float:
    """Returns how far one update with `loss_scale_factor` is from that of Keras's own `train_on_batch`."""
    keras, tf = importlib.import_module("keras"), importlib.import_module("tensorflow")
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(6, 4)).astype(np.float32), draw.integers(0, CLASSES, 6)
    config = job(Path(), "anything", params={"flavour": "keras"}, data=NUMBERS_TO_LABEL)

    def build(*_: Any) -> Any:
        return functional(keras, optimizer=keras.optimizers.SGD(0.5, global_clipnorm=0.1, loss_scale_factor=64.0))

    spec = FeedSpec(features=(NUMBERS, LABEL))
    model = importlib.import_module("sparktf.trainer.model.model").UserModel(build, config, {}, spec)
    reference = build()
    reference.set_weights(model.model.get_weights())
    reference.train_on_batch(x, y)
    step = importlib.import_module("sparktf.trainer.sync.step")
    update = step.UpdateFunction(tf.distribute.get_strategy(), model, total=None, max_rows=8)
    update({NUMBERS.key: tf.constant(x), LABEL.key: tf.constant(y)}, np.array([[6]], np.int32), np.array([6], np.int32))
    pairs = zip(model.model.get_weights(), reference.get_weights(), strict=True)
    return max(float(np.abs(ours - theirs).max()) for ours, theirs in pairs)


def unwritable(flavour: str) -> dict[str, str]:
    """Returns of models what stands against a `.keras` file; "" where nothing does."""
    keras, tf = importlib.import_module(flavour), importlib.import_module("tensorflow")
    written = importlib.import_module("sparktf.trainer.model.written")

    class Times(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self, factors: Any, **options: Any) -> None:
            super().__init__(**options)
            self.factors = tf.constant(factors)

        def call(self, x: Any) -> Any:
            return x * self.factors

    rate = importlib.import_module("trainer.zoo").constant_rate(keras)
    times = Times(np.ones(4, np.float32), name="times")
    inner = keras.Sequential([keras.Input((4,)), times], name="inner")
    by_name = {
        "sound": functional(keras),
        "a schedule": functional(keras, optimizer=keras.optimizers.SGD(rate)),
        "a layer of an array": functional(keras, between=inner),
        # As of a notebook's cell: there is no file that has its source.
        "a lambda": functional(keras, loss=eval("lambda y, y_pred: tf.reduce_mean(y_pred, -1)", {"tf": tf})),
    }
    return {name: written.unwritable(model) for name, model in by_name.items()}


def keeps_tensors(flavour: str) -> float:
    """Returns the loss of an update of a subclassed model, a layer of which keeps a tensor from when it is built.

    Keras 3 itself builds layers in a graph, where it may not be a tensor.
    """
    keras, tf = importlib.import_module(flavour), importlib.import_module("tensorflow")

    class Doubles(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def build(self, shape: Any) -> None:
            del shape
            self.factor = keras.Variable(2.0, trainable=False) if flavour == "keras" else tf.constant(2.0)

        def call(self, x: Any) -> Any:
            return x * self.factor

    class Doubled(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.doubles, self.label = Doubles(), keras.layers.Dense(CLASSES, "softmax")

        def call(self, x: Any) -> Any:
            return self.label(self.doubles(x))

    def build(*_: Any) -> Any:
        model = Doubled()
        model.compile(optimizer="sgd", loss=LOSS)
        return model

    config = job(Path(), "anything", params={"flavour": flavour}, data=NUMBERS_TO_LABEL)
    spec = FeedSpec(features=(NUMBERS, LABEL))
    model = importlib.import_module("sparktf.trainer.model.model").UserModel(build, config, {}, spec)
    step = importlib.import_module("sparktf.trainer.sync.step")
    update = step.UpdateFunction(tf.distribute.get_strategy(), model, total=None, max_rows=8)
    rows = {NUMBERS.key: tf.zeros((6, 4)), LABEL.key: tf.zeros((6,), tf.int64)}
    return float(update(rows, np.array([[6]], np.int32), np.array([6], np.int32)))
