"""What ends a seed that would not end by itself: so many events, so much time of a processor, or a loop that spins."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pkgutil import resolve_name
from types import FrameType
from typing import Any
from unittest import mock

from greenlet import getcurrent
from simulation.hub import Hub, OverrunError

_EVENTS, _EVENTS_OF_A_NODE = 400_000, 20_000
"""More than twice of what the busiest of a thousand seeds takes."""

_CPU_S, _CPU_OF_A_NODE_S = 20.0, 0.5
"""Of processor time, so that a loaded machine changes nothing; several times of what the slowest takes."""

_AGAIN_S = 1.0
"""Where somebody has taken it for an error of his own, it is raised again after so long."""

DECISIONS = (
    "sparktf.trainer.parameter_server.async_loop.decide",
    "sparktf.driver.attempt.standing.decide",
    "sparktf.driver.attempt.losses.decide",
    "sparktf.driver.attempt.attempt.Attempt.outcome",
    "sparktf.driver.gang.reserved.gathered",
    "sparktf.driver.gang.reserved.stopped",
    "sparktf.storage.transactions.ownership.next_step",
)
"""The functions of (state, now) that a loop asks what to do next, where each loop has it from."""


@contextmanager
def limited(hub: Hub, nodes: int) -> Iterator[None]:
    """Raises `OverrunError` in whoever runs when a seed of so many nodes has had enough."""

    def end(number: int, frame: FrameType | None) -> None:
        raise OverrunError(f"the seed has taken {cpu_s:g} s of the processor, and is not over")

    cpu_s = _CPU_S + _CPU_OF_A_NODE_S * nodes
    hub.most_events = _EVENTS + _EVENTS_OF_A_NODE * nodes
    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, cpu_s, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def watched(hub: Hub) -> Iterator[None]:
    """Has no loop decide the same step of the same state twice while nothing happens between: it would for ever."""
    with ExitStack() as stack:
        for name in DECISIONS:
            stack.enter_context(mock.patch(name, _watched(hub, name, resolve_name(name))))
        yield


def _watched(hub: Hub, name: str, decide: Callable[..., Any]) -> Callable[..., Any]:
    last: list[Any] = []

    def decided(*state: Any, **more: Any) -> Any:
        step = decide(*state, **more)
        now = [hub.events, getcurrent(), state, more, step]
        if last == now:
            raise OverrunError(f"{name} decides {step!r} twice at {hub.now:.3f} s, and nothing has happened between")
        last[:] = now
        return step

    return decided
