"""States of gangs, agents, trainers, attempts and runs as transition tables; an illegal event is an error naming it.

docs/inside/lifecycle.md is generated from these tables (`python -m sparktf.driver.lifecycle`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

from sparktf.errors import LifecycleError


class GangState(enum.StrEnum):
    """A gang over the driver's runs, as its main thread takes it."""

    EMPTY = "empty"
    RESERVED = "reserved"
    GATHERING = "gathering"
    TRAINING = "training"
    STOPPING = "stopping"
    CLOSED = "closed"


class GangEvent(enum.StrEnum):
    """Events of a gang."""

    RESERVE = "agents wanted"
    GATHER = "attempt wanted"
    GATHERED = "enough came"
    GIVEN_UP = "given up"
    BEGIN = "attempt begins"
    END = "attempt ends"
    STOPPED = "trainers gone"
    LEFT = "trainers left"
    CLOSE = "closed"


class AgentState(enum.StrEnum):
    """An agent, as the driver sees it.

    A lost one that reports again (it was frozen, or cut off) is told to restart as another agent; a dismissed one is
    told to exit.
    """

    IDLE = "idle"
    BUSY = "busy"
    STOPPING = "stopping"
    LOST = "lost"
    DISMISSED = "dismissed"


class AgentEvent(enum.StrEnum):
    """Events of an agent."""

    STARTED = "trainer started"
    STOP = "stop ordered"
    EXITED = "trainer exited"
    SILENT = "silent or replaced"
    DISMISS = "dismissed"


class TrainerState(enum.StrEnum):
    """A trainer of one attempt, as the driver sees it."""

    LAUNCHED = "launched"
    READY = "ready"
    TRAINING = "training"
    FINISHED = "finished"
    FAILED = "failed"
    EXITED = "exited"


class TrainerEvent(enum.StrEnum):
    """Events of a trainer."""

    READY = "ready"
    PROGRESS = "progress"
    FINISHED = "finished"
    FAIL = "fails"
    EXIT = "exits"


class AttemptState(enum.StrEnum):
    """An attempt. A failed one lasts a moment longer, for records that may explain the cause better.

    Attributes:
        DONE: All work is done: losses of trainers are no failures from now on.
        RELEASED: It is done, and trainers are told to exit.
        STOPPED: It is not done, and trainers are told to exit.
    """

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    RELEASED = "released"
    STOPPED = "stopped"


class AttemptEvent(enum.StrEnum):
    """Events of an attempt."""

    FINISHED = "its work is done"
    FAILED = "a cause is settled"
    STOP = "stop ordered"


class RunState(enum.StrEnum):
    """A run, as its driver goes through it.

    Attributes:
        REPEATED: It was decided before; nothing is held.
    """

    SUBMITTED = "submitted"
    PLANNED = "planned"
    GATHERING = "gathering"
    TRAINING = "training"
    DONE = "done"
    FAILED = "failed"
    REPEATED = "repeated"


class RunEvent(enum.StrEnum):
    """Events of a run."""

    STANDS = "its result stands"
    PLANNED = "planned"
    RESERVED = "nodes reserved"
    BEGIN = "attempt begun"
    AGAIN = "attempt failed"
    PUBLISHED = "published"
    FAIL = "fails"


GANG: Mapping[tuple[GangState, GangEvent], GangState] = {
    (GangState.EMPTY, GangEvent.RESERVE): GangState.RESERVED,
    (GangState.RESERVED, GangEvent.RESERVE): GangState.RESERVED,
    (GangState.RESERVED, GangEvent.GATHER): GangState.GATHERING,
    (GangState.GATHERING, GangEvent.GATHERED): GangState.RESERVED,
    (GangState.GATHERING, GangEvent.GIVEN_UP): GangState.RESERVED,
    (GangState.RESERVED, GangEvent.BEGIN): GangState.TRAINING,
    (GangState.TRAINING, GangEvent.END): GangState.STOPPING,
    (GangState.STOPPING, GangEvent.STOPPED): GangState.RESERVED,
    (GangState.STOPPING, GangEvent.LEFT): GangState.RESERVED,
    **{(state, GangEvent.CLOSE): GangState.CLOSED for state in GangState},
}

AGENT: Mapping[tuple[AgentState, AgentEvent], AgentState] = {
    (AgentState.IDLE, AgentEvent.STARTED): AgentState.BUSY,
    (AgentState.BUSY, AgentEvent.EXITED): AgentState.IDLE,
    (AgentState.BUSY, AgentEvent.STOP): AgentState.STOPPING,
    (AgentState.STOPPING, AgentEvent.EXITED): AgentState.IDLE,
    (AgentState.IDLE, AgentEvent.SILENT): AgentState.LOST,
    (AgentState.BUSY, AgentEvent.SILENT): AgentState.LOST,
    (AgentState.STOPPING, AgentEvent.SILENT): AgentState.LOST,
    (AgentState.IDLE, AgentEvent.DISMISS): AgentState.DISMISSED,
    (AgentState.BUSY, AgentEvent.DISMISS): AgentState.DISMISSED,
    (AgentState.STOPPING, AgentEvent.DISMISS): AgentState.DISMISSED,
    (AgentState.LOST, AgentEvent.DISMISS): AgentState.DISMISSED,
}

TRAINER: Mapping[tuple[TrainerState, TrainerEvent], TrainerState] = {
    (TrainerState.LAUNCHED, TrainerEvent.READY): TrainerState.READY,
    (TrainerState.READY, TrainerEvent.PROGRESS): TrainerState.TRAINING,
    (TrainerState.TRAINING, TrainerEvent.PROGRESS): TrainerState.TRAINING,
    (TrainerState.READY, TrainerEvent.FINISHED): TrainerState.FINISHED,
    (TrainerState.TRAINING, TrainerEvent.FINISHED): TrainerState.FINISHED,
    (TrainerState.LAUNCHED, TrainerEvent.FAIL): TrainerState.FAILED,
    (TrainerState.READY, TrainerEvent.FAIL): TrainerState.FAILED,
    (TrainerState.TRAINING, TrainerEvent.FAIL): TrainerState.FAILED,
    (TrainerState.FINISHED, TrainerEvent.FAIL): TrainerState.FAILED,
    (TrainerState.FAILED, TrainerEvent.FAIL): TrainerState.FAILED,
    (TrainerState.LAUNCHED, TrainerEvent.EXIT): TrainerState.EXITED,
    (TrainerState.READY, TrainerEvent.EXIT): TrainerState.EXITED,
    (TrainerState.TRAINING, TrainerEvent.EXIT): TrainerState.EXITED,
    (TrainerState.FINISHED, TrainerEvent.EXIT): TrainerState.EXITED,
    (TrainerState.FAILED, TrainerEvent.EXIT): TrainerState.EXITED,
}

ATTEMPT: Mapping[tuple[AttemptState, AttemptEvent], AttemptState] = {
    (AttemptState.RUNNING, AttemptEvent.FINISHED): AttemptState.DONE,
    (AttemptState.RUNNING, AttemptEvent.FAILED): AttemptState.FAILED,
    (AttemptState.RUNNING, AttemptEvent.STOP): AttemptState.STOPPED,
    (AttemptState.DONE, AttemptEvent.STOP): AttemptState.RELEASED,
    (AttemptState.FAILED, AttemptEvent.STOP): AttemptState.STOPPED,
    (AttemptState.RELEASED, AttemptEvent.STOP): AttemptState.RELEASED,
    (AttemptState.STOPPED, AttemptEvent.STOP): AttemptState.STOPPED,
}

RUN: Mapping[tuple[RunState, RunEvent], RunState] = {
    (RunState.SUBMITTED, RunEvent.STANDS): RunState.REPEATED,
    (RunState.SUBMITTED, RunEvent.PLANNED): RunState.PLANNED,
    (RunState.PLANNED, RunEvent.RESERVED): RunState.GATHERING,
    (RunState.GATHERING, RunEvent.BEGIN): RunState.TRAINING,
    (RunState.TRAINING, RunEvent.AGAIN): RunState.GATHERING,
    (RunState.TRAINING, RunEvent.PUBLISHED): RunState.DONE,
    (RunState.SUBMITTED, RunEvent.FAIL): RunState.FAILED,
    (RunState.PLANNED, RunEvent.FAIL): RunState.FAILED,
    (RunState.GATHERING, RunEvent.FAIL): RunState.FAILED,
    (RunState.TRAINING, RunEvent.FAIL): RunState.FAILED,
    (RunState.DONE, RunEvent.FAIL): RunState.FAILED,
}

_State = TypeVar("_State", bound=enum.StrEnum)
_Event = TypeVar("_Event", bound=enum.StrEnum)


def step(table: Mapping[tuple[_State, _Event], _State], state: _State, event: _Event, who: str) -> _State:
    """Returns the state after an event.

    Args:
        who: Name of the state's owner, for people.

    Raises:
        LifecycleError: the table has no such transition.
    """
    try:
        return table[state, event]
    except KeyError:
        raise LifecycleError(f"{who} is {state.value}: it cannot take '{event.value}'") from None


def diagram(table: Mapping[tuple[_State, _Event], _State]) -> str:
    """Returns a table as a Mermaid state diagram."""
    lines = [f"    {source.value} --> {target.value}: {event.value}" for (source, event), target in table.items()]
    return "\n".join(["stateDiagram-v2", *lines])


def page() -> str:
    """Returns docs/inside/lifecycle.md."""
    return (
        "# Lifecycle\n\nGenerated by `python -m sparktf.driver.lifecycle`. States are the driver's view; an event\n"
        "that a state does not allow is a `LifecycleError` naming whose it is, state and event. A lost agent that\n"
        "speaks again, since it was frozen or cut off, registers anew, as another agent; a dismissed one goes home.\n"
        "Once an attempt is done, the end of a trainer is no failure any more. A worker that has failed or exited\n"
        "gets a successor in the same attempt, a trainer of its own, under parameter servers and in a synchronous\n"
        "gang that outlives losses; so does an evaluator. A gang outlives its runs.\n\n"
        f"## Gang\n\n```mermaid\n{diagram(GANG)}\n```\n\n"
        f"## Agent\n\n```mermaid\n{diagram(AGENT)}\n```\n\n## Trainer\n\n```mermaid\n{diagram(TRAINER)}\n```\n\n"
        f"## Attempt\n\n```mermaid\n{diagram(ATTEMPT)}\n```\n\n## Run\n\n```mermaid\n{diagram(RUN)}\n```\n"
    )


if __name__ == "__main__":
    print(page(), end="")
