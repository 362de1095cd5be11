"""Synchronous training beside pyspark's TorchDistributor and Ray Train: `make bench-peers`.

All train one epoch of the same rows with the same model and updates of the same size, in two workers with a core each,
by turns. TorchDistributor runs PyTorch's DDP over gloo, which reads through pyarrow; Ray Train runs it too, and Ray
Data reads. They have an environment of their own. `ARGS="torch small"` measures some of peers and models alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from _lake import write_lake
from _one_core import LARGE, SMALL, Sized, Trained, trained
from _report import Figure, figure, report

HERE = Path(__file__).parent
PYTHON = HERE.parent / ".peers" / "bin" / "python"
MODELS = {"small": SMALL, "large": LARGE}
PEERS = {"torch": "TorchDistributor", "ray": "Ray Train"}
GOALS = {("torch", "small"): ">= 2.5", ("ray", "small"): ">= 6", ("torch", "large"): ">= 1.25"}
"""Of rows per second after the first call."""

WORKERS, RUNS = 2, 3
TIMEOUT_S = 1800


def with_peer(peer: str, folder: Path, work: Path, model: Sized) -> Trained:
    """Runs a peer's script, and reads its times from what it wrote."""
    work.mkdir(parents=True)
    share = model.batch_size // WORKERS
    spec = {"here": str(HERE), "folder": str(folder), "out": str(work), "hidden": model.hidden}
    (work / "spec.json").write_text(json.dumps({**spec, "share": share, "workers": WORKERS}))
    environment = {**os.environ, "PYSPARK_PYTHON": str(PYTHON), "PYSPARK_DRIVER_PYTHON": str(PYTHON)}
    command = [PYTHON, HERE / f"_peers_{peer}.py", work / "spec.json"]
    started = time.time()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    submitted_s = time.time() - started
    if done.returncode:
        raise SystemExit(f"{PEERS[peer]} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    run = json.loads((work / "run.json").read_text())
    found = [json.loads((work / f"worker-{rank}.json").read_text()) for rank in range(WORKERS)]
    if sum(each["rows"] for each in found) < model.schema.rows * 0.98:
        raise SystemExit(f"{PEERS[peer]} trained {[each['rows'] for each in found]} of {model.schema.rows} rows")
    first, end = max(each["first"] for each in found), max(each["end"] for each in found)
    rows = sum(each["rows"] for each in found) - model.batch_size
    return Trained(
        rows_s=rows / (end - first),
        rows_cpu_s=rows / sum(each["cpu"] for each in found),
        first_s=first - run["began"],
        seconds=run["end"] - run["began"],
        submitted_s=submitted_s,
    )


def beside(name: str, peers: list[str], runs: int, root: Path) -> Iterator[Figure]:
    """Measures a model with sparktf and with peers."""
    model = MODELS[name]
    folder = write_lake(root / name, model.schema)
    found: dict[str, list[Trained]] = {who: [] for who in ("sparktf", *peers)}
    for run in range(runs):
        for who, taken in found.items():
            work = root / f"{name}-{run}-{who}"
            ours = who == "sparktf"
            taken.append(trained(folder, work, model, workers=WORKERS) if ours else with_peer(who, folder, work, model))
            print(f"{model.name}, {who}: {taken[-1]}", file=sys.stderr, flush=True)
    for who, times in found.items():
        title = f"{model.name}, {PEERS.get(who, who)}"
        yield figure(f"{title}: after the first call", [t.rows_s / 1e3 for t in times], unit="k rows/s")
        yield figure(f"{title}: start to the end of the first call", [t.first_s for t in times], unit="s")
        yield figure(f"{title}: whole run", [t.seconds for t in times], unit="s")
        yield figure(f"{title}: whole command", [t.submitted_s for t in times], unit="s")
    for peer in peers:
        pairs = list(zip(found["sparktf"], found[peer], strict=True))
        title, goal = f"{model.name}, sparktf / {PEERS[peer]}", GOALS.get((peer, name), "")
        rates = [ours.rows_s / theirs.rows_s for ours, theirs in pairs]
        yield figure(f"{title}: rows/s after the first call", rates, unit="ratio", goal=goal)
        by_cpu = [ours.rows_cpu_s / theirs.rows_cpu_s for ours, theirs in pairs]
        yield figure(f"{title}: rows by the workers' processor time", by_cpu, unit="ratio")
        speeds = [theirs.seconds / ours.seconds for ours, theirs in pairs]
        yield figure(f"{title}: speed of the whole run", speeds, unit="ratio")
        commands = [theirs.submitted_s / ours.submitted_s for ours, theirs in pairs]
        yield figure(f"{title}: speed of the whole command", commands, unit="ratio")


def main(parts: list[str]) -> None:
    """Measures and reports.

    Args:
        parts: Names of peers and models; all of those of which none is named.
    """
    unknown = set(parts) - PEERS.keys() - MODELS.keys()
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join([*PEERS, *MODELS])}")
    peers = [peer for peer in PEERS if peer in parts] or list(PEERS)
    models = [name for name in MODELS if name in parts] or list(MODELS)
    runs = int(os.environ.get("RUNS", RUNS))
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root:
        for name in models:
            figures += beside(name, peers, runs, Path(root))
    report("peers", figures)


if __name__ == "__main__":
    main(sys.argv[1:])
