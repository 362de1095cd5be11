"""Lengths of time, as people write and read them."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from sparktf.config.duration import Duration, duration_text, seconds_of
from sparktf.errors import ConfigError

ADAPTER: TypeAdapter[float] = TypeAdapter(Duration)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("90s", 90), ("30m", 1800), ("2h", 7200), ("7d", 604_800), ("1.5 h", 5400), (" 1d ", 86_400), (0, 0), (2.5, 2.5)],
)
def test_a_length_is_a_number_of_a_unit_or_of_seconds(given: object, seconds: float) -> None:
    assert ADAPTER.validate_python(given) == seconds


@pytest.mark.parametrize("given", ["", "2", "h", "2 hours", "-1h", "1h30m", "infd", -1, float("inf"), float("nan"), []])
def test_anything_else_is_none(given: object) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(given)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.5, "0.5 s"), (90, "90 s"), (60, "1 min"), (5400, "90 min"), (7200, "2 h"), (604_800, "7 d")],
)
def test_it_is_said_in_the_largest_unit_that_it_is_a_number_of(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words


def test_an_option_is_refused_by_its_name() -> None:
    assert seconds_of("--every", "7d") == 604_800
    with pytest.raises(ConfigError, match="--every: 'week' is no length of time: write 90s, 30m, 2h or 7d"):
        seconds_of("--every", "week")
