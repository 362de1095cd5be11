"""Models that take over from others, without a run: for the process of the fixture `elsewhere`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from trainer import lake, zoo

Values = npt.NDArray[Any]


class State(NamedTuple):
    """An optimizer that has taken over another one's state.

    Attributes:
        carried: Whether it says so.
        rate: Its learning rate.
        ours: Layer -> its momenta and velocities; `theirs` likewise, of the other one.
    """

    carried: bool
    iterations: int
    rate: float
    ours: dict[str, list[Values]]
    theirs: dict[str, list[Values]]


def save_another(flavour: str, file: str) -> None:
    """Saves a model that has nothing in common with those of the zoo."""
    keras = importlib.import_module(flavour)
    x = keras.Input((2,))
    keras.Model(x, keras.layers.Dense(1, name="other")(x)).save(file)


def optimizer_taken_over(
    flavour: str, optimizer: str = "Adam", iterations: int = 7, named: Mapping[str, str] | None = None
) -> State:
    """Has one `zoo.carried` take over from another, which has made updates by Adam and knows other colours."""
    carry = importlib.import_module("sparktf.trainer.model.carry")
    draw = np.random.default_rng(0)
    models = []
    for colours, rate, kind in ((["red", "green", "blue"], 0.5, "Adam"), (["grey", "blue", "red"], 0.25, optimizer)):
        params = {"flavour": flavour, "shards": 2, "learning_rate": rate, "optimizer": kind}
        model = zoo.carried(params, {"colours": colours, "items": [1, 2, 3]})
        model.optimizer.build(model.trainable_variables)
        models.append(model)
    theirs, ours = models
    theirs.optimizer.iterations.assign(iterations)
    for slot in (*theirs.optimizer._momentums, *theirs.optimizer._velocities):
        slot.assign(draw.normal(size=slot.shape))
    assets = {"colours": ["grey", "blue", "red"]}
    sides = [carry.Side(model, _of_the_lake, assets) for model in (ours, theirs)]
    carried = carry.carry(*sides, named or {}, source="another", optimizer=True)
    return State(
        carried.optimizer,
        int(np.asarray(ours.optimizer.iterations)),
        float(np.asarray(ours.optimizer.learning_rate)),
        _slots(ours) if optimizer == "Adam" else {},
        _slots(theirs),
    )


def averages_taken_over(
    flavour: str, *, optimizer: bool
) -> tuple[dict[str, Values], dict[str, Values], dict[str, Values]]:
    """Has a model whose optimizer averages weights take over from another, as in `optimizer_taken_over`.

    Returns:
        Layer -> the averages of its first weight afterwards; those of the other model; the weight itself.
    """
    carry = importlib.import_module("sparktf.trainer.model.carry")
    models = []
    for colours in (["red", "green", "blue"], ["grey", "blue", "red"]):
        params = {"flavour": flavour, "shards": 2, "averages": 0.9}
        model = zoo.carried(params, {"colours": colours, "items": [1, 2, 3]})
        model.optimizer.build(model.trainable_variables)
        models.append(model)
    theirs, ours = models
    theirs.optimizer.iterations.assign(7)
    draw = np.random.default_rng(0)
    for average in theirs.optimizer._model_variables_moving_average:
        average.assign(draw.normal(size=average.shape))
    sides = [carry.Side(model, _of_the_lake, {}) for model in (ours, theirs)]
    carry.carry(*sides, {}, source="another", optimizer=optimizer)
    weights = {layer.name: np.asarray(layer.trainable_weights[0]) for layer in ours.layers if layer.trainable_weights}
    return _averages(ours), _averages(theirs), weights


def _averages(model: Any) -> dict[str, Values]:
    averages = model.optimizer._model_variables_moving_average
    places = {id(variable): place for place, variable in enumerate(model.trainable_variables)}
    return {
        layer.name: np.asarray(averages[places[id(layer.trainable_weights[0])]])
        for layer in model.layers
        if layer.trainable_weights
    }


def tables_of_a_subclassed_model(flavour: str, *lacking: str) -> dict[str, tuple[str, int, str]]:
    """Has a model that Keras sees nothing of take over from one of another vocabulary.

    Args:
        lacking: Inputs that the other one is not called with.

    Returns:
        Table -> what became of it, how many entries were kept, and why if none was.
    """
    carry = importlib.import_module("sparktf.trainer.model.carry")
    keras: Any = importlib.import_module(flavour)
    tf = importlib.import_module("tensorflow")
    tables = ("reshaped", "ragged", "joined", "numbers", "computed", "mixed")

    class Tables(keras.Model):  # type: ignore[misc]
        def __init__(self, vocabulary: list[str]) -> None:
            super().__init__()
            self.look = keras.layers.StringLookup(vocabulary=vocabulary)
            self.tables = {name: keras.layers.Embedding(6, 2, name=name) for name in tables}

        def call(self, inputs: Any, training: bool = False) -> Any:
            colour, number = inputs["colour"], inputs["number"]
            ids = self.look(colour)
            lists = self.look(tf.RaggedTensor.from_row_splits(colour, [0, 1, 2]))
            asked = {
                "reshaped": tf.expand_dims(tf.reshape(ids, (-1, 1)), 0),
                "ragged": lists.to_tensor(),
                "joined": tf.concat([ids, self.look(colour)], 0),
                "numbers": number,
                "computed": ids + 1,
                "mixed": tf.stack([ids, number]),
            }
            return tf.add_n([tf.reduce_sum(self.tables[name](found)) for name, found in asked.items()])

    def x() -> dict[str, Any]:
        return {"colour": tf.constant(["a", "b"]), "number": tf.constant([1, 2], tf.int64)}

    sides = []
    for vocabulary in (["c", "a"], ["a", "b"]):
        model = Tables(vocabulary)
        model(x())
        sides.append(carry.Side(model, x, {}))
    sides[1] = sides[1]._replace(x=lambda: {name: given for name, given in x().items() if name not in lacking})
    carried = carry.carry(*sides, {}, source="another", optimizer=False)
    return {v.name.rpartition("/")[2]: (v.how, v.kept, v.why) for v in carried.variables}


def _of_the_lake() -> dict[str, Any]:
    tf = importlib.import_module("tensorflow")
    numbers = tf.zeros((1, len(lake.NUMBERS)))
    return {"colour": tf.constant(["red"]), "item": tf.constant([1], tf.int64), "numbers": numbers}


def _slots(model: Any) -> dict[str, list[Values]]:
    places = {id(variable): place for place, variable in enumerate(model.trainable_variables)}
    families = (model.optimizer._momentums, model.optimizer._velocities)
    return {
        layer.name: [np.asarray(family[places[id(v)]]) for v in layer.trainable_weights for family in families]
        for layer in model.layers
    }
