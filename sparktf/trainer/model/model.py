"""The user's model: loads and checks it, and hides the differences of Keras 3 and tf_keras."""

from __future__ import annotations

import importlib
import inspect
import platform
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

from sparktf.config.job import JobConfig
from sparktf.errors import ModelContractError
from sparktf.feature import FeedSpec
from sparktf.layers.model_tables import Tables
from sparktf.layers.row_updates import update_rows
from sparktf.trainer.model.averages import begin_averages, build_averages, keeps_averages
from sparktf.trainer.model.contract import check_classes, check_inputs, check_targets, naming_tensors
from sparktf.trainer.model.exact import check_compiled, check_exact
from sparktf.trainer.model.tensors import Layout, Tensors, example
from sparktf.trainer.model.tracing import build_layers, recording, traced_in_scope
from sparktf.trainer.model.trackables import tensorflow_variable
from sparktf.wire.control import Flavour


def load_function(config: JobConfig) -> Callable[..., Any]:
    """Imports the model function.

    Raises:
        ModelContractError: the module or the function does not exist.
    """
    return load_named(config, "model")


def load_named(config: JobConfig, key: str) -> Callable[..., Any]:
    """Imports the function that a key of the configuration names.

    Raises:
        ModelContractError: the module or the function does not exist.
    """
    name, function_name = config.modules[key], config.function_of(key)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is None or not (name + ".").startswith(e.name + "."):
            raise  # the module exists, but not one that it imports: the user's own error
        raise ModelContractError(f"{key}: module '{name}' is not found") from e
    function: Callable[..., Any] | None = getattr(module, function_name, None)
    if not callable(function):
        names = sorted(n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__)
        raise ModelContractError(
            f"{key}: module '{name}' has no function '{function_name}' (it has: {', '.join(names) or 'none'})"
        )
    return function


def is_low_level(function: Callable[..., Any]) -> bool:
    """Whether the function is a `train(node)` rather than a `build(params, assets)`: it takes one argument, not two."""
    return len(inspect.signature(function).parameters) == 1


def versions(flavour: Flavour) -> dict[str, str]:
    """Returns the versions of Python, TensorFlow and Keras, on which a checkpoint depends."""
    found = {"python": platform.python_version(), "tensorflow": tf.__version__}
    if flavour in ("keras", "tf_keras"):
        found[flavour] = importlib.import_module(flavour).__version__
    return found


def seed_everything(seed: int) -> None:
    """Seeds Python, NumPy, TensorFlow and the Keras flavour in use: every build starts from the same weights."""
    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)
    for flavour in ("keras", "tf_keras"):
        if flavour in sys.modules:
            sys.modules[flavour].utils.set_random_seed(seed)


class UserModel:
    """A compiled Keras model of either flavour, built on the feed's shapes.

    Attributes:
        model: The user's model.
        flavour: "keras" or "tf_keras".
        layout: The layout of its batches.
        tables: Its ShardedEmbeddings, of which the optimizer updates only the rows in use.
    """

    def __init__(
        self,
        build: Callable[..., Any],
        config: JobConfig,
        assets: dict[str, Any],
        spec: FeedSpec,
        *,
        unseen: bool = False,
        trains: bool = True,
    ) -> None:
        """Calls the user's function, and checks its model.

        Args:
            unseen: Do not read the variables, which are on other nodes and may be large.
            trains: Make all slots of the optimizer, which may take twice the memory of the weights; else only averages
                of the weights, if it keeps any.

        Raises:
            ModelContractError: it is not a compiled Keras model, its inputs do not fit the feed, or it cannot be
                trained exactly.
        """
        seed_everything(config.train.seed)
        self.model = build(dict(config.params), dict(assets))
        self.flavour = _flavour(self.model, config.model)
        check_compiled(self.model, config.model, self.flavour)
        self.spec = spec
        self._classes = config.train.classes
        self._measures = trains and not unseen and self.has_metrics
        check_inputs(self.model, spec)
        check_targets(self.model, spec, self.losses())
        names = tuple(getattr(self.model, "output_names", None) or ())
        self.layout = Layout(spec, names, config.train.class_weight)
        with naming_tensors(spec), recording() if unseen else nullcontext():
            if unseen:
                self._build_variables()
            else:
                build_layers(self.model, lambda: self.layout.x(example(spec)))
                traced_in_scope(self._build_variables, self.flavour)
        if not self.model.trainable_variables:
            raise ModelContractError("model: it has no trainable weight: set trainable of a layer")
        if trains:
            self.optimizer.build(self.model.trainable_variables)
            begin_averages(self.model)
        elif self.keeps_averages:
            build_averages(self.model)
        check_exact(self.model, self.losses(), self.flavour)
        self.tables = Tables(self.model)
        update_rows(self.model)

    @classmethod
    def wrap(cls, model: Any, spec: FeedSpec) -> UserModel:
        """Wraps a built model that a low-level loop has trained, for export."""
        wrapped = cls.__new__(cls)
        wrapped.model, wrapped.spec = model, spec
        wrapped.flavour = _flavour(model, "node.export()")
        wrapped.layout = Layout(spec, tuple(getattr(model, "output_names", None) or ()))
        return wrapped

    @property
    def optimizer(self) -> Any:
        return self.model.optimizer

    @property
    def keeps_averages(self) -> bool:
        """Whether its optimizer keeps averages of the weights, which are evaluated and exported instead."""
        return keeps_averages(self.model)

    def variables(self) -> list[Any]:
        """Returns the tf.Variables of the model, without its optimizer's."""
        return [tensorflow_variable(variable) for variable in self.model.variables]

    def trained(self) -> list[Any]:
        """Returns the trainable tf.Variables, in the order of `gradients`."""
        return [tensorflow_variable(variable) for variable in self.model.trainable_variables]

    def _build_variables(self) -> None:
        """Creates every variable, also of losses and metrics, now: inside a replica it would be too late."""
        rows = example(self.spec)
        y_pred = self.model(self.layout.x(rows), training=False)
        self.layout.fit_outputs(y_pred)
        if self._classes is not None:
            check_classes(y_pred, self.spec.targets[0], self._classes)
        if self.flavour == "keras":  # without regularisers, which would read the weights
            self.model._compile_loss(self.layout.y(rows), y_pred, self.layout.sample_weight(rows))
        if self._measures and self.flavour == "keras":
            self.measure(rows, y_pred)
        # Outside of a replica tf_keras's can be made, but not be added to; and once: a function is traced twice.
        elif self._measures and not self.model.compiled_metrics.built:
            self.model.compiled_metrics.build(y_pred, self.layout.y(rows))

    def compute_loss(self, rows: Tensors, y_pred: Any, *, training: bool) -> Any:
        """Returns the total loss of the rows: mean over rows and loss weights, plus regularisers."""
        layout, weight = self.layout, self.layout.sample_weight(rows, training=training)
        return self.loss_of(layout.y(rows), y_pred, weight, x=layout.x(rows), training=training)

    def loss_of(self, y: Any, y_pred: Any, weight: Any, *, x: Any = None, training: bool = False) -> Any:
        """As `compute_loss`, given the parts of rows; Keras's own losses do not use `x`."""
        if self.flavour == "keras":
            return self.model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight, training=training)
        return self.model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight)

    def gradients(
        self, rows: Tensors, scale: Any, values: Sequence[Any] = (), *, measures: bool = False
    ) -> tuple[Any, list[Any]]:
        """Returns `scale` times the loss of the rows, and its gradients by trainable variables and by `values`.

        The gradient by an unused variable is None. Under a strategy both Keras flavours divide the loss, regularisers
        included, by the number of replicas.
        """
        with tf.GradientTape() as tape:
            tape.watch(list(values))
            y_pred = self.model(self.layout.x(rows), training=True)
            loss = tf.cast(self.compute_loss(rows, y_pred, training=True), tf.float32) * scale
            # Scaled by `loss_scale_factor`, by which `apply` divides the gradients.
            scaled = self.optimizer.scale_loss(loss) if self.flavour == "keras" else loss
        if measures:
            self.measure(rows, y_pred)
        return loss, tape.gradient(scaled, [*self.trained(), *values])

    def loss(self, rows: Tensors, *, measures: bool) -> Any:
        """Returns the loss of training rows, as `gradients` does."""
        y_pred = self.model(self.layout.x(rows), training=True)
        loss = self.compute_loss(rows, y_pred, training=True)
        if measures:
            self.measure(rows, y_pred)
        return loss

    def measure(self, rows: Tensors, y_pred: Any) -> None:
        """Adds training rows to the compiled metrics."""
        layout = self.layout
        y, weight = layout.y(rows), layout.sample_weight(rows, training=True)
        if self.flavour == "keras":
            self.model.compute_metrics(layout.x(rows), y, y_pred, weight)
        else:  # whose compute_metrics also looks at the results, which a replica must not
            self.model.compiled_metrics.update_state(y, y_pred, weight)

    @property
    def has_metrics(self) -> bool:
        """Whether the model is compiled with metrics."""
        kept = self.model._compile_metrics if self.flavour == "keras" else self.model.compiled_metrics
        return kept is not None and any(
            _is_given(getattr(kept, name, None)) for name in ("_user_metrics", "_user_weighted_metrics")
        )

    def losses(self) -> list[Any]:
        """Returns the loss objects, functions and names that the user compiled with."""
        container = self.model._compile_loss if self.flavour == "keras" else self.model.compiled_loss
        user = container._user_loss if self.flavour == "keras" else container._user_losses
        return [loss for loss in _leaves(user) if loss is not None]

    def output_losses(self) -> list[Any]:
        """Returns Keras 3's own metrics of each output's loss, which weight a batch of unknown size as one row."""
        return list(self.model._compile_loss.metrics) if self.flavour == "keras" else []

    def loss_metrics(self) -> list[Any]:
        """Returns Keras's own metrics of the losses of the outputs."""
        container = self.model._compile_loss if self.flavour == "keras" else self.model.compiled_loss
        return list(container.metrics)

    def other_metrics(self) -> list[Any]:
        """Returns the metrics that are none of losses, once they are made."""
        losses = {id(metric) for metric in self.loss_metrics()}
        return [metric for metric in self.model.metrics if id(metric) not in losses and metric.name != "loss"]

    def check_losses(self) -> None:
        """Checks what only a call shows; in a replica, once a first `compute_loss` has made Keras's loss objects.

        Raises:
            ModelContractError: a loss is not a mean over one value, or several, for each row.
        """
        rows = example(self.spec)
        y_pred = self.model(self.layout.x(rows), training=False)
        for prediction in tf.nest.flatten(y_pred):
            if getattr(prediction, "_keras_mask", None) is not None:
                raise ModelContractError(
                    "model: an output carries a mask, so that its loss is a mean over the steps that are not masked, "
                    "which cannot be weighted exactly over workers: put the mask into the sample weights"
                )
        objects = {id(loss): loss for loss in self._loss_objects() if loss is not None}.values()
        of_one_number: list[Any] = []
        for loss in objects:
            loss.call = _noting_one_number(loss, of_one_number)
        try:
            self.compute_loss(rows, y_pred, training=False)
        finally:
            for loss in objects:
                del loss.call
        for loss in of_one_number:
            raise ModelContractError(
                f"model: loss {loss.name} gives one number for a batch, which cannot be weighted exactly over workers: "
                "return one for each row"
            )

    def _loss_objects(self) -> list[Any]:
        if self.flavour == "keras":
            return [loss for _, loss, *_ in self.model._compile_loss._flat_losses]
        return list(self.model.compiled_loss._losses)

    def use_own_reduction(self) -> None:
        """Turns off the optimizer's own aggregation of gradients: ours come summed over all replicas.

        Keras 3 clips before its all-reduce, so that `global_clipnorm` would see one worker's gradient only.
        """
        if self.flavour == "keras":
            self.optimizer._all_reduce_sum_gradients = list

    def apply(self, gradients: Iterable[Any]) -> None:
        """Clips and applies summed gradients; called in a replica."""
        pairs = list(zip(gradients, self.model.trainable_variables, strict=True))
        if self.flavour == "keras":
            self.optimizer.apply_gradients(pairs)
        else:
            self.optimizer.apply_gradients([p for p in pairs if p[0] is not None], skip_gradients_aggregation=True)


def _flavour(model: Any, name: str) -> Flavour:
    """Returns "keras" or "tf_keras", without importing the one that is not used."""
    for cls in type(model).__mro__:
        package = cls.__module__.partition(".")[0]
        if cls.__name__ == "Model" and package in ("keras", "tf_keras"):
            return "keras" if package == "keras" else "tf_keras"
    raise ModelContractError(f"model: {name} returned {type(model).__name__}, not a compiled Keras model")


def _is_given(metrics: Any) -> bool:
    return any(metric is not None for metric in _leaves(metrics))


def _noting_one_number(loss: Any, found: list[Any]) -> Callable[[Any, Any], Any]:
    """Returns the `call` of a loss, which notes whether the result is a single number for all rows, such as a mean."""
    call = loss.call

    # Raising here would not do: in a graph, tf_keras has AutoGraph call this, which makes other errors of it.
    def noting(y_true: Any, y_pred: Any) -> Any:
        values = call(y_true, y_pred)
        if values.shape.rank == 0:
            found.append(loss)
        return values

    return noting


def _leaves(structure: Any) -> Iterator[Any]:
    if isinstance(structure, dict):
        structure = list(structure.values())
    if isinstance(structure, (list, tuple)):
        for item in structure:
            yield from _leaves(item)
    else:
        yield structure
