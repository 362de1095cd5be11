"""Transition tables: what is allowed, what is an error, and the page that is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sparktf.driver.lifecycle import (
    AGENT,
    GANG,
    TRAINER,
    AgentEvent,
    AgentState,
    GangState,
    TrainerEvent,
    TrainerState,
    page,
    step,
)
from sparktf.errors import LifecycleError

ROOT = Path(__file__).parents[2]


def test_an_illegal_event_names_node_state_and_event() -> None:
    with pytest.raises(LifecycleError, match="worker 1 is exited: it cannot take 'finished'"):
        step(TRAINER, TrainerState.EXITED, TrainerEvent.FINISHED, "worker 1")


def reached(table: Mapping[Any, Any], first: str) -> set[str]:
    """Returns the states that can be reached."""
    found = {first}
    while more := {target for (source, _), target in table.items() if source in found} - found:
        found |= more
    return found


def test_every_state_can_be_reached() -> None:
    assert reached(GANG, GangState.EMPTY) == set(GangState)
    assert reached(AGENT, AgentState.IDLE) == set(AgentState)
    assert reached(TRAINER, TrainerState.LAUNCHED) == set(TrainerState)


def test_a_trainer_can_exit_in_every_state_but_the_last() -> None:
    living = set(TrainerState) - {TrainerState.EXITED}
    assert {state for state, event in TRAINER if event is TrainerEvent.EXIT} == living


def test_an_agent_can_be_lost_while_it_is_here() -> None:
    here = {AgentState.IDLE, AgentState.BUSY, AgentState.STOPPING}
    assert {state for state, event in AGENT if event is AgentEvent.SILENT} == here


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs/inside/lifecycle.md").read_text() == page(), "run: make docs"
