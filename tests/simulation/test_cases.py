"""Old defects as named cases: with the mend of one taken out, a seed notices; with it, the same seed is right."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from simulation.cases import CASES, Case
from simulation.mutants import without
from simulation.world import World


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The driver's log tells of each call that is refused."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.guard)
def test_the_simulator_finds_it(case: Case) -> None:
    with without(case.guard) as mutant:
        found = World(case.seed, strategy=mutant.strategy, kinds=case.kinds).play()
        assert any(case.said in violation for violation in found.violations)
    assert World(case.seed, strategy=mutant.strategy, kinds=case.kinds).play().violations == []
