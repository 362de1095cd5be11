"""Advice on the ratio of workers to parameter servers: a function of how their time was spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sparktf.results.usage import Usage, WorkTime

_LEAST_S = 10.0
"""Shorter trainings show more of the workers' start than of training."""
_MOST = 0.5
"""Fraction of the workers' time above which they mostly do one thing."""
_FULL = 0.75
"""Fraction of its cores above which a process is saturated."""
_CALM = 0.4
"""The highest load of parameter servers after they take over the work of others."""


def advise(
    workers: Mapping[str, Usage], servers: Mapping[str, Usage], coordinator: Usage, *, server_nbytes: int
) -> str:
    """Returns one line: the change to make, with the figure behind it; "" where nothing follows from the figures.

    Args:
        workers: By node; `servers` likewise.
        server_nbytes: Memory that a parameter server may take.
    """
    works = [usage.work for usage in workers.values() if usage.work is not None]
    work = sum(works, WorkTime())
    if not servers or not works or work.seconds / len(works) < _LEAST_S:
        return ""
    busy = {node: usage.busy for node, usage in servers.items()}
    return (
        _too_few_servers(work, busy)
        or _too_slow_coordinator(work, coordinator)
        or _too_slow_input(work)
        or _too_many_servers(work, busy, list(servers.values()), server_nbytes)
    )


def _too_few_servers(work: WorkTime, busy: Mapping[str, float]) -> str:
    at_servers = (work.reading_s + work.applying_s) / work.seconds
    busiest = max(busy, key=lambda node: busy[node])
    if at_servers < _MOST or busy[busiest] < _FULL:
        return ""
    others = [share for node, share in busy.items() if node != busiest]
    figure = f"{busiest} is busy {busy[busiest]:.0%}, and workers wait for ps {at_servers:.0%} of their time"
    if others and max(others) < busy[busiest] / 2:
        return f"{figure}, while no other ps is busy more than {max(others):.0%}: split the variables that it holds"
    return f"{figure}: use {math.ceil(1.5 * len(busy))} ps"


def _too_slow_coordinator(work: WorkTime, coordinator: Usage) -> str:
    waiting, seconds = work.waiting_s / work.seconds, coordinator.seconds
    # It is one thread of Python that sends out what workers do.
    one_core = coordinator.cpu_s / seconds if seconds else 0.0
    if waiting < _MOST or one_core < _FULL:
        return ""
    return (
        f"workers are idle {waiting:.0%} of their time, and the coordinator takes {one_core:.0%} of a core: raise "
        "train.steps_per_call, or use fewer workers"
    )


def _too_slow_input(work: WorkTime) -> str:
    rows = work.rows_s / work.seconds
    return "" if rows < _MOST else f"workers wait for rows {rows:.0%} of their time: more ps would not help"


def _too_many_servers(work: WorkTime, busy: Mapping[str, float], servers: Sequence[Usage], server_nbytes: int) -> str:
    nbytes = sum(usage.resident_nbytes for usage in servers)
    count = max(math.ceil(sum(busy.values()) / _CALM), math.ceil(nbytes / server_nbytes), 1)
    computing = work.computing_s / work.seconds
    if computing < _MOST or count >= len(busy):
        return ""
    busiest = max(busy, key=lambda node: busy[node])
    return (
        f"workers compute {computing:.0%} of their time, and {busiest} is the busiest ps with {busy[busiest]:.0%}: "
        f"use {count} ps, or more workers"
    )
