"""Random cases, the same ones for the same seed: `make fuzz CASES=n SEED=n`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz.recorder import RECORDER
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy

CASES = int(os.environ.get("CASES") or 90)
"""Of each property."""
SEED = int(os.environ.get("SEED") or 0)

NewFolder = Callable[[], Path]
"""Makes an empty folder; see the fixture `new_folder`."""

_SETTINGS = settings(
    deadline=None,  # on a loaded machine a case takes as long as it takes
    database=None,  # the seed says what comes, not what failed here before
    report_multiple_bugs=False,
    # A case writes files, on a machine that may have other work, and may be large: none of it says anything here.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def cases(
    strategy: SearchStrategy[Any], *, weight: float = 1.0
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns the decorator of a property: a function whose argument `case` is drawn from the strategy.

    Args:
        weight: How many cases of it there are for each one of `CASES`: more of a cheap one.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        number = max(1, round(CASES * weight))

        @functools.wraps(test)
        def recorded(*args: Any, **kwargs: Any) -> None:
            RECORDER.note(kwargs["case"])
            test(*args, **kwargs)

        made: Callable[..., None] = seed(SEED)(settings(_SETTINGS, max_examples=number)(given(case=strategy)(recorded)))
        return made

    return decorate
