"""Gangs that run functions, by seeds: each ends in time, with the right cause, and holds nothing afterwards."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest
from simulation.function_mutants import GUARDS, without
from simulation.functions import FunctionWorld

SEEDS = 100


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The driver's log tells of each call that is refused."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def test_whatever_happens_to_functions_they_end_in_time_with_what_failed_first() -> None:
    ends: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = FunctionWorld(seed)
        assert (seed, world.play()) == (seed, [])
        ends[world.end if isinstance(world.end, str) else type(world.end).__name__] += 1
    assert set(ends) == {"done", "NodeLostError", "ModelError", "ReservationError"}, "each end is among them"


def test_without_faults_functions_are_done() -> None:
    for seed in range(10):
        world = FunctionWorld(seed, frozenset())
        assert (world.play(), world.end) == ([], "done")


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_that_is_gone_is_missed(guard: str) -> None:
    with without(guard) as mutant:
        found = (said for seed in range(SEEDS) for said in FunctionWorld(seed, mutant.kinds).play())
        assert any(mutant.said in said for said in found)
