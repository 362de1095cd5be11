"""Keras models and optimizers among trackable objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

from sparktf.layers.model_tables import large_embeddings
from sparktf.wire.control import Flavour


def flavour_of(trackables: Iterable[Any]) -> Flavour:
    """Returns the Keras flavour of some objects; "none" if they have none."""
    packages = {cls.__module__.partition(".")[0] for t in trackables for cls in type(t).__mro__}
    return "keras" if "keras" in packages else "tf_keras" if "tf_keras" in packages else "none"


def weights_of(trackables: Iterable[Any]) -> int:
    """Returns the number of weights of the first model among some objects; 0 without one."""
    model = next(models_in(trackables), None)
    return int(model.count_params()) if model is not None else 0


def models_in(trackables: Iterable[Any]) -> Iterator[Any]:
    """Yields the Keras models, of either flavour."""
    return (t for t in trackables if hasattr(t, "count_params"))


def optimizers_in(trackables: Iterable[Any]) -> Iterator[Any]:
    """Yields the optimizers of Keras 3, including those of compiled models."""
    found = (one for t in trackables for one in (t, getattr(t, "optimizer", None)))
    return (one for one in found if hasattr(one, "_iterations") and flavour_of([one]) == "keras")


def count_atomically(trackables: Iterable[Any]) -> None:
    """Makes the optimizers among some objects count concurrent updates correctly.

    Keras 3 reads `iterations` and assigns one more, so that two concurrent updates may count once. Schedules and Adam's
    bias correction depend on the count.
    """
    for optimizer in optimizers_in(trackables):
        optimizer._iterations.assign_add = _adding_to(optimizer._iterations)


def tensorflow_variable(variable: Any) -> Any:
    """Returns the tf.Variable behind a Keras 3 variable; tf_keras's are tf.Variables themselves."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def value_of(variable: Any) -> Any:
    """Returns the value of a variable of either flavour, distributed or not, as an array."""
    return tf.convert_to_tensor(tensorflow_variable(variable)).numpy()


def _adding_to(iterations: Any) -> Callable[[Any], Any]:
    def add(n: Any) -> Any:
        with tf.device(iterations.value.device):  # on the variable's device, to save a transfer in each update
            return iterations.value.assign_add(tf.cast(n, iterations.value.dtype))

    return add


def on_large_tables(model: Any) -> list[str]:
    """Returns a warning for each large Keras Embedding of a model on parameter servers."""
    home = "sparktf.layers.tf_keras" if flavour_of([model]) == "tf_keras" else "sparktf.layers"
    return [
        f"model: Embedding '{name}' is a table of {nbytes / (1 << 20):.1f} MiB on one parameter server, and updates "
        f"may go through all of it: {home}.ShardedEmbedding touches only the rows in use"
        for name, nbytes in large_embeddings(model).items()
    ]
