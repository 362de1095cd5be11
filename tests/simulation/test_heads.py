"""A head that a few processes swap: whatever the storage does, and whoever is frozen, no two follow one edition."""

from __future__ import annotations

from collections import Counter

import pytest
from simulation.head_mutants import GUARDS, OF_OBJECTS
from simulation.heads import FAULTS, FOLDERS, OBJECT, play
from simulation.mutants import caught


@pytest.mark.parametrize(("kind", "seeds"), [(FOLDERS, 200), (OBJECT, 500)])
def test_of_all_that_swap_one_edition_one_succeeds_and_no_swap_that_succeeded_is_lost(kind: str, seeds: int) -> None:
    struck, swapped = Counter[str](), 0
    for seed in range(seeds):
        played = play(seed, kind)
        assert played.violations == [], f"seed {seed}"
        struck.update(played.struck)
        swapped += played.swapped
    assert swapped > 200
    assert min(struck[fault] for fault in FAULTS) > 50


@pytest.mark.parametrize("guard", [*GUARDS, *OF_OBJECTS])
def test_without_a_guard_a_seed_notices(guard: str) -> None:
    assert caught((guard, 0, 200)).seed >= 0
