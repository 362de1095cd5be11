"""Makes a failing seed small: leaves out whatever goes wrong in it and has nothing to do with the failure."""

from __future__ import annotations

import time

from simulation.world import Verdicts, World

_LIMIT_S = 30.0


def shrunk(failed: Verdicts, nodes: int | None = None) -> Verdicts:
    """Returns the same seed with as few faults as still make it fail, kinds first, then one by one."""
    until_s = time.monotonic() + _LIMIT_S
    best, dropped = failed, frozenset[str]()
    for kind in sorted(failed.kinds):
        if time.monotonic() >= until_s:
            break
        found = World(failed.seed, nodes=nodes, strategy=failed.strategy, kinds=best.kinds - {kind}).play()
        best = found if found.violations else best
    parts = 2
    while best.faults and time.monotonic() < until_s:
        size = -(-len(best.faults) // parts)
        for start in range(0, len(best.faults), size):
            less = dropped | set(best.faults[start : start + size])
            found = World(failed.seed, nodes=nodes, strategy=failed.strategy, kinds=best.kinds, dropped=less).play()
            if found.violations:
                best, dropped = found, less
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(best.faults))
    return best
