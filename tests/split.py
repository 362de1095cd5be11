"""What of a matrix `make test` runs; `make test-more` runs the rest: docs/inside/testing.md."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case", bound=tuple[Any, ...])


def only(*told: Any, of: Sequence[Any]) -> list[Any]:
    """Returns the values of a parameter, of which `make test` runs those that are told.

    Raises:
        ValueError: one is no value of the parameter, or none is told.
    """
    if not told or any(value not in of for value in told):
        raise ValueError(f"{told} are not some of {of}")
    left_out = (value if type(value) is tuple else (value,) for value in of)
    return [
        value if value in told else pytest.param(*values, marks=pytest.mark.more)
        for value, values in zip(of, left_out, strict=True)
    ]


def in_pairs(cases: Sequence[Case]) -> list[Any]:
    """Returns cases as one parameter each, of which `make test` runs those that `covering` returns."""
    few = covering(cases)
    return [pytest.param(case, marks=[] if case in few else [pytest.mark.more]) for case in cases]


def covering(cases: Sequence[Case]) -> list[Case]:
    """Returns few cases in which each pair of two factors' values is that is in any of all cases.

    Most defects of a combination are of two factors: the case that has most pairs which no case before it has is next.
    """
    missing = set().union(*map(_pairs, cases))
    chosen: list[Case] = []
    while missing:
        chosen.append(max(cases, key=lambda case: len(_pairs(case) & missing)))
        missing -= _pairs(chosen[-1])
    return chosen


def _pairs(case: tuple[Any, ...]) -> set[tuple[Any, ...]]:
    return set(itertools.combinations(enumerate(case), 2))
