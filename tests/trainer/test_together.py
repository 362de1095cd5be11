"""Small variables cross together in an update, and it is the same update."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trainer.local_gang import PROCESSES, keep_files_in

SHAPES = ((3, 4), (), (5, 4), (5, 4), (2,), (40_000,))
"""Of a matrix, a scalar that is used in each case otherwise, a table of which rows are used, one that is read whole as
well, an unused variable, and a large one."""


def gradients() -> tuple[list[int], list[tuple[str, list[float] | None]], list[tuple[str, list[float] | None]]]:
    """Returns which variables cross together, and each gradient, with its kind, as they do and as they do not."""
    tf = importlib.import_module("tensorflow")
    packed = importlib.import_module("sparktf.trainer.parameter_server.update.packed_variables")
    variables = [tf.Variable(tf.random.stateless_uniform(shape, [seed, 1])) for seed, shape in enumerate(SHAPES)]
    rows_of_x, ids = tf.random.stateless_uniform((2, 3), [9, 9]), tf.constant([4, 1, 4])

    @tf.function  # type: ignore[untyped-decorator]
    def product(x: Any) -> Any:  # as some layers have it: it is traced once, for all who call it
        return tf.matmul(x, variables[0])

    def loss(positive: Any, x: Any = rows_of_x) -> Any:
        matrix, scalar, table, both, _, large = variables
        used = tf.cond(positive > 0, lambda: scalar * 3.0, lambda: scalar * scalar)
        rows = tf.gather(table, ids) * tf.gather(both, ids)
        return (
            tf.reduce_sum(tf.matmul(x, matrix) * product(x)) * used
            + tf.reduce_sum(rows)
            + tf.norm(both)
            + tf.norm(large)
        )

    def as_is(positive: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            value = loss(positive)
        found: list[Any] = tape.gradient(value, variables)
        return found

    def crossing(positive: Any) -> list[Any]:
        small = packed.PackedVariables(variables, places)
        with small.in_use(), tf.GradientTape() as tape:
            tape.watch(small.values)
            value = loss(positive)
        found = tape.gradient(value, [*variables, *small.values])
        merged = small.gradients(found[: len(variables)], found[len(variables) :])
        return list(small.sent(merged))

    places: list[int] = []

    def kinds(found: list[Any]) -> list[tuple[str, list[float] | None]]:
        dense = [None if each is None else tf.reshape(tf.convert_to_tensor(each), [-1]) for each in found]
        values = [None if each is None else each.numpy().tolist() for each in dense]
        return [(type(each).__name__, value) for each, value in zip(found, values, strict=True)]

    recording = importlib.import_module("sparktf.trainer.model.model").recording
    with recording(), tf.GradientTape() as tape:
        value = loss(tf.constant(1.0), rows_of_x[:1])  # other rows: what is traced for them is for them alone
        places += packed.small(variables, tape.gradient(value, variables))
    argument = tf.TensorSpec((), tf.float32)
    crossings = [tf.function(crossing, input_signature=[argument]) for _ in range(2)]
    functions = [*crossings, tf.function(as_is, input_signature=[argument])]
    found = [kinds(function(tf.constant(-2.0))) for function in functions]
    assert not any("value" in vars(variable) for variable in variables)
    assert found[0] == found[1]
    return places, found[1], found[2]


def test_the_gradients_are_those_of_variables_that_cross_one_by_one(elsewhere: ProcessPoolExecutor) -> None:
    places, crossing, as_is = elsewhere.submit(gradients).result()
    assert places == [0, 1, 3]
    assert [kind for kind, _ in crossing] == [kind for kind, _ in as_is]
    for (_, value), (_, expected) in zip(crossing, as_is, strict=True):
        assert value == expected


def counted(name: str, measured: bool) -> tuple[int, float]:
    """Returns messages and trips of an update as `make bench-async` counts them."""
    counting = importlib.import_module("_async_messages")
    messages, trips = counting.counted(name, measured=measured)
    return messages, trips


def trained(name: str, measured: bool) -> tuple[float, float]:
    """Returns how far the weights that a closure makes are from those of one process, and how far those have gone."""
    counting = importlib.import_module("_async_messages")
    tf = importlib.import_module("tensorflow")
    closure = counting.traced(name, measured=measured)
    closure.run()
    alone = counting.untraced(name)
    before = [variable.numpy() for variable in alone.trained()]
    x, y = counting.data(counting.SUBJECTS[name])
    for k in range(counting.UPDATES):
        of = slice(k * counting.BATCH, (k + 1) * counting.BATCH)
        rows = {"input:x": tf.constant(x[of]), "target:y": tf.constant(y[of])}
        _, gradients = alone.gradients(rows, tf.constant(1.0))
        alone.apply(gradients)
    after = [variable.numpy() for variable in alone.trained()]
    made = [variable.numpy() for variable in closure.model.trained()]
    return apart(made, after), apart(before, after)


def apart(these: list[Any], those: list[Any]) -> float:
    return max(float(abs(this - that).max()) for this, that in zip(these, those, strict=True))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPoolExecutor]:
    """A process whose TensorFlow has not begun: it is to have a worker and a parameter server for devices."""
    folder = str(tmp_path_factory.mktemp("fresh"))
    with ProcessPoolExecutor(1, mp_context=PROCESSES, initializer=prepare, initargs=(folder,)) as pool:
        yield pool


def prepare(folder: str) -> None:
    keep_files_in(folder)
    sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))


def test_what_is_small_crosses_in_one_message_of_an_update_in_a_closures_loop(fresh: ProcessPoolExecutor) -> None:
    """Five: the loop goes on, and its body begins; the values come; the gradients go; they are applied.

    One update's gradients bring the next one's values: where that is not measured, which tells reading from applying.
    """
    assert fresh.submit(counted, "MLP 16-64-1", measured=False).result() == (5, 1)
    assert fresh.submit(counted, "MLP 16-64-1", measured=True).result() == (5, 2)


def test_rows_cross_in_one_message_of_all_shards_of_a_server(fresh: ProcessPoolExecutor) -> None:
    """Eight: the ids go, and the rows come; the gradients go with those of what is small; and the others, as above."""
    assert fresh.submit(counted, "table of 4 shards", measured=False).result() == (8, 2)


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("name", ["MLP 16-64-1", "table of 4 shards", "table of 4 shards, tf_keras"])
def test_what_crosses_together_makes_the_updates_of_one_process(
    name: str, measured: bool, fresh: ProcessPoolExecutor
) -> None:
    apart, gone = fresh.submit(trained, name, measured=measured).result()
    assert apart <= 1e-6
    assert gone > 1e-3
