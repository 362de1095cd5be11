"""Which slots will do for feeders beside the nodes."""

from __future__ import annotations

import pytest

from sparktf.driver.spark import Slots, check_speculation
from sparktf.errors import PreflightError


def test_speculation_is_refused_where_a_second_agent_would_fit_into_a_feeders_slot() -> None:
    with pytest.raises(PreflightError, match=r"set spark\.executor\.cores=3 or more .* or spark\.speculation=false"):
        check_speculation(Slots("yarn", None, 2, one_machine=False), speculation=True)


@pytest.mark.parametrize(
    ("cores", "one_machine", "speculation"),
    [(3, False, True), (2, False, False), (2, True, True)],
    ids=["a copy does not fit", "no copies", "a copy would be on the same host, where Spark makes none"],
)
def test_else_it_is_not(cores: int, one_machine: bool, speculation: bool) -> None:
    check_speculation(Slots("yarn", None, cores, one_machine=one_machine), speculation=speculation)
