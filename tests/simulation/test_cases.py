"""Old defects as named cases: with the mend of one taken out, a seed notices; with it, the same seed is right."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from simulation.mutants import without
from simulation.world import World

CASES = [
    ("[1] a model is replaced through the fence", 9, "driver-frozen driver-twice", "had taken the run over"),
    ("[6] an agent that was lost begins anew", 3, "node-freezes", "went home as a success"),
    ("[7] a silent trainer is looked for while only peers have spoken", 7, "trainer-freezes", "which was gone"),
    ("[9] what cannot be stored is not trained again", 12, "disk-full", "which could not be stored"),
    ("who changes the models first ends all other turns", 24, None, "took the place of one of"),
    ("a run has one version", 26, None, "a run has two versions"),
    ("what follows a result is recorded before it", 1, "night-killed", "the history has no row of it"),
    ("what a killed driver has left is done before its verdict is repeated", 184, "night-killed", "has no row of it"),
    ("leases of a closed incarnation return", 3, "worker-dies", "timeouts.progress"),
    ("a checkpoint waits for what is under way", 3, None, "were not trained on as its position says"),
    ("messages of older incarnations are refused", 3, None, "nobody is"),
    ("rows that were replayed in earlier attempts are counted", 49, None, "are told as replayed"),
    ("a wish for a checkpoint is there once", 26, "", "SaveNow() twice"),
    ("a worker that is lost while the gang starts is followed", 1, None, "has ended for a worker that is lost"),
    ("[10] no checkpoint after an epoch whose rows do not add up", 205, None, "rows of epoch 0 were not trained on"),
    ("a driver that stood still has heard nobody", 2, "driver-pauses", "nothing had happened to it"),
]
"""Guard, seed, the only kinds of faults that are on (None: those that the seed draws), and what is said without it."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The driver's log tells of each call that is refused."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("guard", "seed", "on", "said"), CASES, ids=[case[0] for case in CASES])
def test_the_simulator_finds_it(guard: str, seed: int, on: str | None, said: str) -> None:
    kinds = None if on is None else frozenset(on.split())
    with without(guard) as mutant:
        found = World(seed, strategy=mutant.strategy, kinds=kinds).play()
        assert any(said in violation for violation in found.violations)
    assert World(seed, strategy=mutant.strategy, kinds=kinds).play().violations == []
