"""The driver's program that `sparktf submit` ships: it trains, unless told to score or to look at the nodes."""

from __future__ import annotations

import sys

from sparktf.process.supported import start

_JOBS = {"predict": "predict", "nodes": "tell_of_nodes"}
"""First word -> job of `sparktf.main`; the options are that job's."""

if __name__ == "__main__":
    job = _JOBS.get("".join(sys.argv[1:2]))
    if job is not None:
        del sys.argv[1]
    start(job or "main")
