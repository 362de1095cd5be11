"""Sums of sparktf's exchange by themselves: `make bench-exchange`.

First bytes and rounds by count, for gangs of several sizes, beside what theory says: on two cores their time would say
nothing. Then times, of two processes with a core each, by the ways that members are connected.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Iterator

import numpy as np
from _exchange_members import Taken, Way, counts, timed
from _report import Figure, figure, report

from sparktf.wire.certificates import new_tls_material

SMALL, LARGE = 5_000, 17_072_132
"""Bytes of gradients of the models 16-64-1, about, and 16-2048-2048-1."""

MEMBERS = (2, 3, 4, 8)
RUNS = 3
SUMS = {SMALL: 1_000, LARGE: 30}
HEADERS = 1.0001
"""Of a large sum, beside its bytes."""


def by_count() -> Iterator[Figure]:
    """Counts, with what theory says as their goals."""
    for members in MEMBERS:
        whole = int(np.log2(members))
        small, large = counts(members, SMALL), counts(members, LARGE)
        name = f"over {members} members"
        ring = 2 * (members - 1) / members
        yield figure(
            f"17 MB {name}: sent by one / size", [large.nbytes / LARGE], unit="", goal=f"<= {ring * HEADERS:.4f}"
        )
        yield figure(f"17 MB {name}: rounds", [large.rounds], unit="", goal=f"<= {2 * (members - 1)}")
        rounds = whole if members == 1 << whole else whole + 2
        yield figure(f"5 kB {name}: rounds", [small.rounds], unit="", goal=f"<= {rounds}")


def by_time(runs: int) -> Iterator[Figure]:
    """Times of two members."""
    material = new_tls_material(datetime.datetime.now(datetime.UTC))
    ways = (
        Way("unix sockets", one_host=True),
        Way("TCP", one_host=False),
        Way("TCP with TLS", one_host=False, tls=material),
    )
    found: dict[tuple[str, int], list[Taken]] = {(way.name, nbytes): [] for way in ways for nbytes in SUMS}
    for _ in range(runs):
        for (name, nbytes), taken in found.items():
            way = next(way for way in ways if way.name == name)
            taken.append(timed(way, 2, nbytes, SUMS[nbytes]))
            print(f"{name}, {nbytes} bytes: {taken[-1]}", file=sys.stderr, flush=True)
    for nbytes, size in ((SMALL, "5 kB"), (LARGE, "17 MB")):
        for way in ways:
            taken = found[way.name, nbytes]
            yield figure(f"{size} over 2 processes, {way.name}", [t.wall_ms for t in taken], unit="ms")
            yield figure(f"{size}, {way.name}: processor time of one", [t.cpu_ms for t in taken], unit="ms")
        pairs = list(zip(found["TCP with TLS", nbytes], found["TCP", nbytes], strict=True))
        yield figure(f"{size}: with TLS / without", [tls.wall_ms / tcp.wall_ms for tls, tcp in pairs], unit="ratio")
        by_cpu = [tls.cpu_ms / tcp.cpu_ms for tls, tcp in pairs]
        yield figure(f"{size}: with TLS / without, processor time", by_cpu, unit="ratio")


def main() -> None:
    """Counts, measures and reports."""
    report("exchange", [*by_count(), *by_time(int(os.environ.get("RUNS", RUNS)))])


if __name__ == "__main__":
    main()
