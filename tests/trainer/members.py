"""Members of a gang in one process, over an exchange of sockets; for the process of the fixture `elsewhere`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from exchanges import Linked, linked
from trainer import asking
from trainer.lake import CLASSES, NUMBERS, NUMBERS_TO_LABEL, job
from trainer.refused import LABEL

from sparktf.errors import SparkTFError
from sparktf.feature import Feature, FeedSpec, Kind
from sparktf.trainer.sync.exchange.linked import LinkedExchange

Values = dict[str, npt.NDArray[Any]]
LEADER = 1
JOINER = 0
MEMBERS = 3
SPEC = FeedSpec(
    features=(Feature(kind=Kind.INPUT, name="numbers", columns=NUMBERS, dtype="float32", shape=(len(NUMBERS),)), LABEL)
)


class Checked(NamedTuple):
    """What members say of their states, and hold afterwards.

    Attributes:
        said: The warning of each, or its error.
        again: What each says to the same question again, where nobody has failed.
        before: The values of each by name; `after` likewise.
    """

    said: list[str]
    again: list[str]
    before: list[Values]
    after: list[Values]


def _build(params: dict[str, Any], assets: dict[str, Any]) -> Any:
    """A model whose values are drawn by nobody's seed, with what is each member's own, and what a layer changes."""
    del assets
    keras, tf = importlib.import_module(params["flavour"]), importlib.import_module("tensorflow")
    draw = np.random.default_rng()

    class Own(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def build(self, shape: Any) -> None:
            self.raw = tf.Variable(draw.normal(size=shape[-1]), dtype=tf.float32, trainable=False)
            self.half = tf.Variable(draw.normal(size=shape[-1]), dtype=tf.bfloat16, trainable=False)
            self.seen = self.add_weight(shape=(shape[-1],), name="seen", trainable=False, initializer="zeros")

        def call(self, numbers: Any) -> Any:
            return numbers * self.raw + self.seen

    numbers = keras.Input((len(NUMBERS),), name="numbers")
    hidden = keras.layers.BatchNormalization(name="norm")(Own(name="own")(numbers))
    hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(5, "tanh", name="hidden")(hidden))
    model = keras.Model(numbers, keras.layers.Dense(CLASSES, "softmax", name="label")(hidden))
    model.compile("adam", "sparse_categorical_crossentropy")
    model.set_weights([draw.normal(size=w.shape) for w in model.get_weights()])
    return model


def _values(model: Any) -> Values:
    """Returns the values of a user's model that tests look at, by name."""
    keras, adam = model.model, model.optimizer
    own, norm, label = (keras.get_layer(name) for name in ("own", "norm", "label"))
    slots = adam._momentums
    of = {"raw": own.raw, "seen": own.seen, "mean": norm.moving_mean, "kernel": label.kernel, "slot": slots[-2]}
    of |= {"frozen": norm.moving_variance, "iterations": adam.iterations, "half": own.half}
    return {name: np.array(variable) for name, variable in of.items()}


def _add(model: Any, name: str, by: float) -> None:
    keras, adam = model.model, model.optimizer
    own, norm, label = (keras.get_layer(part) for part in ("own", "norm", "label"))
    of = {"seen": own.seen, "mean": norm.moving_mean, "kernel": label.kernel, "slot": adam._momentums[-2]}
    variable = (of | {"raw": own.raw, "iterations": adam.iterations})[name]
    values = np.array(variable)
    variable.assign(values + values.dtype.type(by))


def _models(flavour: str) -> list[Any]:
    config = job(Path(), "anything", params={"flavour": flavour}, data=NUMBERS_TO_LABEL)
    user_model = importlib.import_module("sparktf.trainer.model.model").UserModel
    models = [user_model(_build, config, {}, SPEC) for _ in range(MEMBERS)]
    for model in models:
        for slot in model.optimizer._momentums:
            slot.assign(np.random.default_rng().normal(size=slot.shape))
    return models


def begun(flavour: str) -> tuple[list[Values], list[Values]]:
    """Returns what members have before and after they take the leader's."""
    models = _models(flavour)
    before = [_values(model) for model in models]
    with linked(MEMBERS, leader=LEADER) as gang:
        _states(gang, models)
    return before, [_values(model) for model in models]


class Joining(NamedTuple):
    """The exchange of a member among those of whom one joins; see `Passing`."""

    member: LinkedExchange

    @property
    def joins(self) -> bool:
        """Whether it is that one."""
        return self.member.rank == JOINER

    def fill(self, arrays: Sequence[npt.NDArray[Any]]) -> None:
        """See `Passing`."""
        self.member.fill(arrays, {JOINER})


def joined(flavour: str) -> tuple[list[Values], list[Values]]:
    """Returns what members have before and after one of them joins the others."""
    models = _models(flavour)
    before = [_values(model) for model in models]
    member_state = importlib.import_module("sparktf.trainer.sync.state").MemberState
    with linked(MEMBERS, leader=LEADER) as gang:
        states = [member_state(member, models[member.rank]) for member in gang.members]
        gang.each(lambda member: states[member.rank].pass_on(Joining(member)))
    assert all(np.array_equal(_values(models[JOINER])[name], value) for name, value in before[JOINER].items())
    states[JOINER].take_given()
    return before, [_values(model) for model in models]


def checked(flavour: str, changes: Mapping[int, Mapping[str, float]], *, average: bool = False) -> Checked:
    """Has members compare what they hold, after some have changed theirs.

    Args:
        changes: Member -> variable -> what is added to all of its values.
        average: Average what is each member's own before.
    """
    models = _models(flavour)
    with linked(MEMBERS, leader=LEADER) as gang:
        states = _states(gang, models)
        for rank, changed in changes.items():
            for name, by in changed.items():
                _add(models[rank], name, by)
        before = [_values(model) for model in models]
        if average:
            gang.each(lambda member: states[member.rank].average())
        said = gang.each(lambda member: _said(states[member.rank]))
        again = gang.each(lambda member: _said(states[member.rank])) if "Error" not in said[0] else []
    return Checked(said, again, before, [_values(model) for model in models])


def _states(gang: Linked, models: list[Any]) -> list[Any]:
    """Returns the states of members that have taken the leader's."""
    member_state = importlib.import_module("sparktf.trainer.sync.state").MemberState
    states = [member_state(member, models[member.rank]) for member in gang.members]
    gang.each(lambda member: states[member.rank].take_leaders())
    return states


def _said(state: Any) -> str:
    try:
        return str(state.check())
    except SparkTFError as error:
        return f"{type(error).__name__}: {error}"


def refusal(flavour: str, how: str) -> str:
    """Returns why a model is refused where each worker has one replica, "" if it is not; see `asking.build`."""
    config = job(Path(), "anything", params={"flavour": flavour, "how": how}, data=NUMBERS_TO_LABEL)
    tf = importlib.import_module("tensorflow")
    one_replica = importlib.import_module("sparktf.trainer.sync.one_replica")
    gradients = importlib.import_module("sparktf.trainer.sync.gradients")
    alone = importlib.import_module("sparktf.trainer.model.exchange").ALONE
    update = importlib.import_module("sparktf.trainer.sync.step").UpdateFunction
    user_model = importlib.import_module("sparktf.trainer.model.model").UserModel
    try:
        with one_replica.refusing_questions():
            model = user_model(asking.build, config, {}, SPEC)
            update(tf.distribute.get_strategy(), model, total=gradients.ExchangeSum(alone), max_rows=8)
        one_replica.check_variables(model)
    except SparkTFError as error:
        return f"{type(error).__name__}: {error}"
    return ""
