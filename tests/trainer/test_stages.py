"""How long the stages of an update took, and how stale it was, as the update's own graph tells it."""

from __future__ import annotations

import importlib
import time
from concurrent.futures import ProcessPoolExecutor

import pytest

SLOW_S = 0.25
UPDATES = 3


def stale_updates() -> list[list[int]]:
    """Returns how stale updates of two executions are, of which all of one come between those of the other.

    And of one around which some are applied that tell nothing of themselves.
    """
    tf = importlib.import_module("tensorflow")
    stale = importlib.import_module("sparktf.trainer.parameter_server.update.stages").StaleUpdates(tf.Variable(0.0))
    slow, fast = stale.begin(), stale.begin()
    stale.note(slow, stale.read(), [])
    before = stale.read()
    for _ in range(5):
        stale.note(fast, stale.read(), [])
    stale.note(slow, before, [])
    plain = stale.begin()
    before = stale.read()
    for _ in range(3):
        stale.count([])
    stale.note(plain, before, [])
    return [sorted(stale.end(table).numpy().tolist()) for table in (slow, fast, plain)]


def test_an_update_is_as_stale_as_there_were_others_since_it_read(elsewhere: ProcessPoolExecutor) -> None:
    assert elsewhere.submit(stale_updates).result() == [[0, 5], [0] * 5, [3]]


def timed(slow: str) -> tuple[list[list[float]], float]:
    """Makes updates a stage of which is slow; returns the seconds of reading and computing, and the variable."""
    tf = importlib.import_module("tensorflow")
    stages = importlib.import_module("sparktf.trainer.parameter_server.update.stages")
    variable, unused = tf.Variable(1.0), tf.Variable(1.0)

    def slowly(value: float) -> float:
        time.sleep(SLOW_S)
        return value

    def at(stage: str, value: float) -> float:
        return tf.numpy_function(slowly, [value], tf.float32) if stage == slow else value

    @tf.function  # type: ignore[untyped-decorator]
    def update() -> list[float]:
        touched = stages.Touched([unused, variable])
        here = stages.Stages()
        gradient = at("computing", 2 * variable)
        here.end_reading(touched.reads())
        here.end_computing([gradient, None])
        variable.assign_sub(at("applying", gradient))
        assert [op.type for op in touched.writes()] == ["AssignSubVariableOp"]
        found: list[float] = here.seconds()
        return found

    return [[float(seconds) for seconds in update()] for _ in range(UPDATES)], float(variable)


@pytest.mark.parametrize("slow", ["computing", "applying"])
def test_a_stage_has_the_time_that_it_takes(slow: str, elsewhere: ProcessPoolExecutor) -> None:
    told, value = elsewhere.submit(timed, slow).result()
    assert value == (-1.0) ** UPDATES
    reading_s, computing_s = map(min, zip(*told, strict=True))  # a busy machine may stand still in any
    assert 0 <= reading_s < SLOW_S
    # Clocks are read beside what is slow, which may have begun by then.
    assert (computing_s >= SLOW_S / 2) == (slow == "computing")
