"""A head that a few processes swap: whatever the storage does, and whoever is frozen, no two follow one edition."""

from __future__ import annotations

from collections import Counter

import pytest
from simulation.head_mutants import GUARDS
from simulation.heads import FAULTS, play
from simulation.mutants import caught


def test_of_all_that_swap_one_edition_one_succeeds_and_no_swap_that_succeeded_is_lost() -> None:
    struck, swapped = Counter[str](), 0
    for seed in range(200):
        played = play(seed)
        assert played.violations == [], f"seed {seed}"
        struck.update(played.struck)
        swapped += played.swapped
    assert swapped > 200
    assert min(struck[fault] for fault in FAULTS) > 50


@pytest.mark.parametrize("guard", GUARDS)
def test_without_a_guard_a_seed_notices(guard: str) -> None:
    assert caught((guard, 0, 200)).seed >= 0
