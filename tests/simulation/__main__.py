"""`make simulate`: plays seeds, and shows of each that fails what was wrong, why, and how to see it again."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Sequence

from simulation.mutants import print_table
from simulation.shrink import shrunk
from simulation.strategies import LOCKSTEP, PARAMETER_SERVER
from simulation.world import Verdicts, play, settle

_SHOWN = 5

_ENOUGH = 20
"""So many seeds that are wrong say all that there is to say: each of them may have been ended by its limits alone."""


def main(arguments: Sequence[str]) -> int:
    """Plays what is asked for; returns how many seeds failed."""
    options = _parser().parse_args(arguments)
    if options.mutants:
        return print_table(options.seeds, options.first, options.strategy, options.processes)
    if options.seed is not None:
        settle()
        found = play((options.seed, options.nodes, options.strategy or LOCKSTEP))
        print(found.schedule or "  nothing goes wrong")
        print(
            f"seed {found.seed}, {found.nodes} nodes, {_sort(found)}: {', '.join(sorted(found.kinds)) or 'no faults'}"
        )
        print(f"{found.end}; {found.seconds:.0f} simulated seconds")
        _show(found, options.nodes)
        return bool(found.violations)
    began_s, ends, bad = time.monotonic(), Counter[str](), []
    jobs = [(seed, options.nodes, strategy) for strategy, seed in _chosen(options)]
    with multiprocessing.get_context("spawn").Pool(options.processes, settle) as pool:
        for found in pool.imap(play, jobs, chunksize=5):
            ends[found.end.partition(" ")[0]] += 1
            if found.violations:
                bad.append(found)
                print(f"seed {_name(found)}: {found.violations[0]}", flush=True)
                if len(bad) == _ENOUGH:
                    print(f"{_ENOUGH} seeds are wrong: others are not played", flush=True)
                    break
    for found in bad[:_SHOWN]:
        _show(found, options.nodes)
    told = ", ".join(f"{count} {end.lower()}" for end, count in ends.most_common())
    print(f"{ends.total()} seeds in {time.monotonic() - began_s:.0f} s: {told}; {len(bad)} wrong")
    return len(bad)


def _show(found: Verdicts, nodes: int | None) -> None:
    if not found.violations:
        return
    small = shrunk(found, nodes)
    again = f"make simulate SEED={_name(found)}" + ("" if nodes is None else f" NODES={nodes}")
    print(f"\nseed {found.seed} ({found.nodes} nodes, {_sort(found)}) is wrong; to see it again:  {again}")
    print("of what goes wrong in it, this is enough:")
    print(small.schedule or "  nothing")
    for violation in small.violations:
        print(f"  * {violation}")


def _chosen(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Returns the strategy and number of each seed: where no strategy is said, every fifth has parameter servers."""
    of_servers = options.seeds // 5 if options.strategy is None else options.seeds
    count = {LOCKSTEP: options.seeds - of_servers, PARAMETER_SERVER: of_servers}
    wanted = count if options.strategy is None else {options.strategy: options.seeds}
    return [(strategy, options.first + i) for strategy, seeds in wanted.items() for i in range(seeds)]


def _name(found: Verdicts) -> str:
    return f"{found.seed}" if found.strategy == LOCKSTEP else f"{found.seed} STRATEGY={found.strategy}"


def _sort(found: Verdicts) -> str:
    return "liveness" if found.liveness else "safety"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one, with its schedule")
    parser.add_argument("--nodes", type=int, help="instead of what the seed draws")
    parser.add_argument("--strategy", choices=(LOCKSTEP, PARAMETER_SERVER), help="of all seeds")
    parser.add_argument("--processes", type=int, default=2, help="that play at once")
    parser.add_argument("--mutants", action="store_true", help="take guards out, and see which seeds notice")
    return parser


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
