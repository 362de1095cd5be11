"""What the parts of the nightly service cost: `make bench-nightly`.

ARGS names some of its parts, by default all. Each is a module of its own, `_nightly_<part>.py`, whose `figures(runs)`
measures.
"""

from __future__ import annotations

import importlib
import os
import sys

from _report import Figure, report

RUNS = 5
PARTS = ("checks", "gate", "publish", "report", "plan")


def main(chosen: list[str]) -> None:
    """Measures and reports."""
    if unknown := set(chosen).difference(PARTS):
        raise SystemExit(f"no part is called {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}")
    figures: list[Figure] = []
    for part in chosen or PARTS:
        figures += importlib.import_module(f"_nightly_{part}").figures(int(os.environ.get("RUNS", RUNS)))
        print(f"{part} done", file=sys.stderr, flush=True)
    report("nightly", figures)


if __name__ == "__main__":
    main(sys.argv[1:])
