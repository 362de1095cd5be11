"""The state that all members hold alike: taken from the leader at first, and compared before it is stored.

Weights and slots need no more: all members add the same gradients to the same values. BatchNormalization's moving
statistics are each member's own, of the rows that it has trained, and are averaged before they are evaluated, stored
or exported: tf.distribute reads those of tf_keras so. Of other variables that a layer changes by itself nobody knows
what they mean: they become the leader's, as what tf.distribute would store.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from sparktf.errors import ExchangeError
from sparktf.feed.arrays.columns import Array
from sparktf.trainer.model.exchange import Exchange
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.trackables import tensorflow_variable
from sparktf.trainer.sync.exchange.linked import aligned
from sparktf.trainer.sync.exchange.transfer import bytes_of

_RANDOM = ("seed_generator", "StateVar")
"""In the names of variables of random generators, of Keras 3 and of tf_keras."""

ALIKE = 1e-4
"""Differences relative to a variable's largest value that processors of several kinds make, of which one adds in an
order that another does not."""


class Passing(Protocol):
    """An exchange by which a member that joins gets what the others have; see `GenerationsExchange`."""

    @property
    def joins(self) -> bool:
        """Whether this member waits for it."""

    def fill(self, arrays: Sequence[Array]) -> None:
        """Writes over the arrays of members that have joined those of others, which only give them."""


class MemberState:
    """The variables of one member's model and optimizer."""

    def __init__(self, exchange: Exchange, model: UserModel) -> None:
        """Looks at a model that has all of its variables."""
        self._exchange = exchange
        self._statistics = moving_statistics(model.model)
        own = {id(variable) for variable in self._statistics}
        slots = [tensorflow_variable(variable) for variable in model.optimizer.variables]
        every = {id(variable): variable for variable in (*model.variables(), *slots, *_tracked(model.model))}
        self._every = list(every.values())
        self._alike = [variable for variable in self._every if id(variable) not in own and not is_random(variable)]
        self._learned = {id(variable) for variable in (*model.trained(), *slots)}
        self._room: list[Array] = []

    def take_leaders(self) -> None:
        """Gives all members the leader's values; called on all."""
        self._assign(self._every, self._exchange.from_leader(list(_views(self._every))))

    def make_room(self) -> None:
        """Takes memory for the values of another member, for whose coming the others of a gang stand still."""
        self._room = [aligned(view.shape, view.dtype) for view in _views(self._every)]
        for values in self._room:
            values.fill(0)  # only now does the system give it

    def pass_on(self, exchange: Passing) -> None:
        """Gives a member's values to those who join, which have them after `take_given`; called on all."""
        if exchange.joins and not self._room:
            self.make_room()
        exchange.fill(self._room if exchange.joins else list(_views(self._every)))

    def take_given(self) -> None:
        """Makes the values that have come this member's own."""
        for variable, values in zip(self._every, self._room, strict=True):
            variable.assign(_uncopied(values))
        self._room = []

    def average(self) -> None:
        """Makes the moving statistics those of all members."""
        if self._statistics:
            sums = self._exchange.sum([_mean_of_replicas(variable) for variable in self._statistics])
            for variable, value in zip(self._statistics, sums, strict=True):
                variable.assign(value / self._exchange.members)

    def check(self) -> str:
        """Compares the members' weights and slots; gives all the leader's if they differ in their last bits.

        Variables that are not trained become the leader's, however they differ.

        Returns:
            A warning; "" if all bits of weights and slots are the same.

        Raises:
            ExchangeError: a member's differ by more than `ALIKE`.
        """
        sums = [zlib.crc32(bytes_of(values.reshape(-1))) for values in _views(self._alike)]
        told = np.array(self._exchange.gather(np.array([zlib.crc32(np.array(sums).tobytes())])))
        if np.all(told == told[0]):
            return ""
        ours = [variable.numpy() for variable in self._alike]
        theirs = self._exchange.from_leader(ours)
        pairs = zip(self._alike, ours, theirs, strict=True)
        most = max((_difference(a, b) for of, a, b in pairs if id(of) in self._learned), default=0.0)
        differences = np.concatenate(self._exchange.gather(np.array([most])))
        worst = int(np.argmax(differences))
        if not differences[worst] <= ALIKE:
            raise ExchangeError(
                f"the weights of worker {worst} differ from the leader's by {differences[worst]:.2g} of the largest "
                "value, which no order of adding explains: its memory may be broken, or the model's code changes "
                "weights on its own"
            )
        self._assign(self._alike, theirs)
        if not np.any(differences):
            return ""
        return (
            f"the weights of {np.count_nonzero(differences)} workers differed from the leader's in their last bits, "
            f"by up to {differences[worst]:.1g} of the largest value, and are the leader's now: the hosts have "
            "processors of several kinds"
        )

    def _assign(self, variables: Sequence[Any], leaders: Sequence[Array]) -> None:
        if not self._exchange.leads:
            for variable, value in zip(variables, leaders, strict=True):
                variable.assign(value)


def _views(variables: Iterable[Any]) -> Iterator[Array]:
    """Yields values; `variable.numpy()` would copy them: TensorFlow writes elsewhere while one has a view."""
    return (np.asarray(variable.read_value()) for variable in variables)


def _uncopied(values: Array) -> Any:
    """Returns values for an assignment, which then copies nothing: TensorFlow never writes into memory of others."""
    try:
        return tf.experimental.dlpack.from_dlpack(values.__dlpack__())
    except (BufferError, tf.errors.OpError):  # a type that NumPy does not pass on, as bfloat16, or older TensorFlows
        return values


def moving_statistics(model: Any) -> list[Any]:
    """Returns the moving means and variances of a model's BatchNormalization layers, as tf.Variables."""
    norms = [layer for layer in model._flatten_layers() if _is_batch_norm(layer)]
    found = [getattr(layer, name, None) for layer in norms for name in ("moving_mean", "moving_variance")]
    return [tensorflow_variable(variable) for variable in found if variable is not None]


def _tracked(model: Any) -> list[Any]:
    """Returns the tf.Variables of numbers that a checkpoint of the model has: Keras 3 knows none of a layer's own."""
    found = tf.train.TrackableView(model).descendants()
    return [one for one in found if isinstance(one, tf.Variable) and one.dtype not in (tf.string, tf.resource)]


def is_random(variable: Any) -> bool:
    """Whether a variable is the state of a random generator: each member draws for its own rows."""
    return any(name in variable.name for name in _RANDOM)


def _mean_of_replicas(variable: Any) -> Array:
    """Returns the mean over a node's replicas: Keras 3 would read the first one's."""
    replicas = variable.values if isinstance(variable, tf.distribute.DistributedValues) else (variable,)
    mean: Array = np.mean([one.numpy() for one in replicas], axis=0)
    return mean


def _is_batch_norm(layer: Any) -> bool:
    return any("BatchNormalization" in cls.__name__ for cls in type(layer).__mro__)


def _difference(ours: Array, theirs: Array) -> float:
    """Returns the largest difference of two arrays, relative to the largest value; infinite if one is not a number."""
    if not ours.size or not np.issubdtype(ours.dtype, np.floating):
        return 0.0 if np.array_equal(ours, theirs) else np.inf
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    if np.any(np.isnan(a) != np.isnan(b)):
        return np.inf
    most = np.nanmax(np.abs(a - b), initial=0.0)
    return float(most / max(np.nanmax(np.abs(b), initial=0.0), np.finfo(np.float32).tiny))
