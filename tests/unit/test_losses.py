"""What becomes of an attempt whose lost workers nobody follows."""

from __future__ import annotations

import pytest

from sparktf.driver.attempt.losses import FRUITLESS, GiveUp, Loss, StandIn, decide
from sparktf.topology import NodeId, Role

NOW_S, LIMIT_S = 100.0, 30.0
ZERO, ONE, TWO = (NodeId(role=Role.WORKER, index=i) for i in range(3))
LATE = "it was not replaced within timeouts.replace: 30 s"
NONE_LEFT = "and no worker is left"
LEFT = "and only {} of 3 workers would be left, but at least {} are needed"
FRESH, OVERDUE = Loss(80.0), Loss(69.0)
HELD = Loss(69.0, stood_in=True)
HOPELESS = Loss(99.0, fruitless=FRUITLESS)
IN_VAIN = "the last 4 processes of worker 0 trained no row: it is not restarted"


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({}, StandIn({})),
        ({ZERO: FRESH}, StandIn({})),
        ({ZERO: OVERDUE}, StandIn({ZERO: LATE})),
        ({ZERO: OVERDUE, ONE: OVERDUE}, StandIn({ZERO: LATE, ONE: LATE})),
        ({ZERO: HELD}, StandIn({})),
        ({ZERO: HELD, ONE: OVERDUE}, StandIn({ONE: LATE})),
        ({ZERO: OVERDUE, ONE: FRESH, TWO: FRESH}, StandIn({ZERO: LATE})),
        ({ZERO: FRESH, ONE: FRESH, TWO: FRESH}, StandIn({})),
        ({ZERO: OVERDUE, ONE: OVERDUE, TWO: OVERDUE}, GiveUp(ZERO, f"{LATE}, {NONE_LEFT}")),
        ({ZERO: HELD, ONE: HELD, TWO: OVERDUE}, GiveUp(TWO, f"{LATE}, {NONE_LEFT}")),
        ({ZERO: HELD, ONE: HELD, TWO: FRESH}, StandIn({})),
        ({ZERO: HELD, ONE: HELD, TWO: HELD}, GiveUp(ZERO, f"{LATE}, {NONE_LEFT}")),
        ({ZERO: HOPELESS._replace(fruitless=FRUITLESS - 1)}, StandIn({})),
        ({ZERO: HOPELESS}, StandIn({ZERO: IN_VAIN})),
        ({ZERO: HOPELESS._replace(stood_in=True), ONE: FRESH}, StandIn({})),
        ({ONE: HELD, TWO: HELD, ZERO: HOPELESS}, GiveUp(ZERO, f"{IN_VAIN}, {NONE_LEFT}")),
    ],
    ids=[
        "nobody is lost",
        "somebody may come yet",
        "nobody came",
        "nobody came for two",
        "a stand-in has the place",
        "a stand-in has one place, and nobody came for another",
        "others are waited for",
        "all are waited for",
        "nobody came for any",
        "nobody came for the last",
        "stand-ins have all places but one, which is waited for",
        "one was on its way, and was lost, too",
        "one that has trained nothing, and may yet",
        "one that trains nothing again and again",
        "one that trains nothing has a stand-in",
        "the last one trains nothing again and again",
    ],
)
def test_a_place_gets_a_stand_in_while_a_worker_is_left(losses: dict[NodeId, Loss], expected: StandIn | GiveUp) -> None:
    assert decide(losses, NOW_S, LIMIT_S, workers=3, least=1) == expected


@pytest.mark.parametrize(
    ("losses", "least", "expected"),
    [
        ({ZERO: OVERDUE}, 2, StandIn({ZERO: LATE})),
        (
            {ZERO: HELD, TWO: OVERDUE},
            2,
            GiveUp(TWO, f"{LATE}, {LEFT.format(1, 2)}"),
        ),
        ({ZERO: HELD, TWO: FRESH}, 2, StandIn({})),
        ({ONE: OVERDUE}, 3, GiveUp(ONE, f"{LATE}, {LEFT.format(2, 3)}")),
    ],
)
def test_an_attempt_goes_on_with_as_few_as_it_may_begin_with(
    losses: dict[NodeId, Loss], least: int, expected: StandIn | GiveUp
) -> None:
    assert decide(losses, NOW_S, LIMIT_S, workers=3, least=least) == expected
