"""Asynchronous training beside TensorFlow's own scripts, and what its faults and checkpoints cost: `make bench-async`.

ARGS names some of its parts, by default all: messages, steps, tables, losses, checkpoints, memory, advice, link, sizes.
Whatever is compared is measured in turn on this machine; sparktf is started as users start it, by spark-submit on
local[n], and for `link` by sparktf submit on a mini Hadoop.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _async_gang import alone, coordinate, in_cluster
from _async_memory import LARGE_ROWS, grow
from _async_runs import (
    TABLE_ROWS,
    WIDTH,
    Loss,
    Workload,
    advice,
    dense,
    lose_worker,
    run,
    server_bound,
    steps_s,
    stood_still_s,
    table,
    worker_bound,
)
from _lake import write_lake
from _report import Figure, figure, report

from sparktf.results.usage import Usage

HERE = Path(__file__).parent
RUNS = 5
UPDATES, BATCH = 4_000, 32
CALL_STEPS = 128
"""About as many as an execution of sparktf has, which is to take half a second."""
SCRIPTS = {
    "script, from_generator, one step a closure": ("from_generator", 1, 1_000, ">= 3"),
    f"script, from_generator, {CALL_STEPS} steps a closure": ("from_generator", CALL_STEPS, 30, ">= 1.4"),
    f"script, rows made up by the workers, {CALL_STEPS} steps a closure": ("made", CALL_STEPS, 30, ">= 0.9"),
}
"""Input, steps in a closure, closures, and what sparktf is to reach, times that."""
TABLES = [(flavour, optimizer) for flavour in ("keras", "tf_keras") for optimizer in ("Adagrad", "Adam")]
SHARDS = 4
"""Of a ShardedEmbedding by default: a table and its slot are twice as many variables."""


class Bench:
    """Measures in a folder of its own.

    Attributes:
        runs: How often, where not once.
    """

    def __init__(self, root: Path, runs: int) -> None:
        self.runs = runs
        self._root = root

    def steps(self) -> list[Figure]:
        """Measures steps per second of scripts and of sparktf, in turn."""
        names = [*SCRIPTS, "sparktf"]
        rates: dict[str, list[float]] = {name: [] for name in names}
        firsts: dict[str, list[float]] = {name: [] for name in names}
        load = dense(UPDATES)
        for _ in range(self.runs):
            for name, (rows, steps, closures, _) in SCRIPTS.items():
                script = ["_async_by_hand.py", self._lake(load), rows, steps, closures, BATCH]
                times = coordinate(script, self._work() / "out.json", workers=2, servers=1)
                rates[name].append(times["steps"] / (times["ended"] - times["began"]))
                firsts[name].append(times["first"] - times["started"])
            done = run(self._lake(load), self._work(), load)
            (trainer,) = done.clocked
            rates["sparktf"].append(steps_s(trainer.calls))
            firsts["sparktf"].append(trainer.calls[0].time_s - done.began_s)
        ratios = [
            figure(f"sparktf / {name}", _over(rates["sparktf"], rates[name]), unit="ratio", goal=goal)
            for name, (_, _, _, goal) in SCRIPTS.items()
        ]
        return [
            *(figure(name, rates[name], unit="steps/s") for name in names),
            *ratios,
            *(figure(f"{name}: start to first closure", firsts[name], unit="s") for name in names),
        ]

    def messages(self) -> list[Figure]:
        """Counts what an update is made of."""
        found = alone(["_async_messages.py"], self._work() / "out.json")
        return [
            figure(f"{name}: {what} an update", [count], unit="")
            for name, counts in found.items()
            for what, count in counts.items()
        ]

    def tables(self) -> list[Figure]:
        """Measures steps per second with a small and a large ShardedEmbedding."""
        figures = []
        for flavour, optimizer in TABLES:
            script = ["_async_tables.py", flavour, optimizer, self.runs]
            rates = coordinate(script, self._work() / "out.json", workers=2, servers=1)
            name = f"{flavour}, {optimizer}: table of"
            figures += [
                figure(f"{name} 40,000 x 16", rates["small"], unit="steps/s"),
                figure(
                    f"{name} 4 M x 16 / of 40,000 x 16",
                    _over(rates["large"], rates["small"]),
                    unit="ratio",
                    goal=">= 0.8",
                ),
            ]
        return figures

    def losses(self) -> list[Figure]:
        """Measures what it costs that a worker is killed."""
        load = dense(2 * UPDATES)
        found: list[Loss] = [lose_worker(self._lake(load), self._work(), load) for _ in range(self.runs)]
        again = [loss.again_s / loss.first_s for loss in found]
        killed = "worker killed to its successor's first closure"
        return [
            figure(
                "worker killed: longest gap without an update", [loss.gap_s for loss in found], unit="s", goal="<= 2"
            ),
            figure(
                "first start of the trainers to that worker's first closure", [loss.first_s for loss in found], unit="s"
            ),
            figure(killed, [loss.again_s for loss in found], unit="s"),
            figure(f"{killed} / first start to first closure", again, unit="ratio", goal="<= 1.5"),
        ]

    def checkpoints(self) -> list[Figure]:
        """Measures how long training stands still for a checkpoint of 200 MB."""
        load = table(900)
        alone_s, still_s = [], []
        for _ in range(self.runs):
            script = ["_async_by_hand.py", "save", 2 * TABLE_ROWS, WIDTH, 2 * SHARDS]
            alone_s.append(alone(script, self._work() / "out.json")["seconds"])
            (trainer,) = run(self._lake(load), self._work(), load, servers=2, every_steps=200).clocked
            still_s.append(statistics.median(stood_still_s(trainer)))
        return [
            figure("200 MB: one process's SaveV2", alone_s, unit="s"),
            figure("200 MB on 2 ps: training stands still for a checkpoint", still_s, unit="s"),
            figure(
                "200 MB on 2 ps: stand-still / one process's SaveV2",
                _over(still_s, alone_s),
                unit="ratio",
                goal="<= 1.5",
            ),
        ]

    def memory(self) -> list[Figure]:
        """Measures once what processes grow by while 1 GB is committed."""
        growth = grow(self._lake(table(600, LARGE_ROWS)), self._work())
        return [
            figure(
                "1 GB on 2 ps is committed: the coordinator grows by",
                [growth.coordinator / 2**20],
                unit="MiB",
                goal="<= 64",
            ),
            figure(
                "1 GB on 2 ps is committed: a ps beyond its shard", [growth.server / 2**20], unit="MiB", goal="<= 256"
            ),
        ]

    def advice(self) -> list[Figure]:
        """Starves parameter servers, and then workers, once each, and looks whether their run says so."""
        figures = []
        for load, servers, expected in ((server_bound(), 1, r": \d ps$"), (worker_bound(), 2, "or more workers$")):
            done = run(self._lake(load), self._work(), load, servers=servers)
            said = advice(done)
            print(said, file=sys.stderr)
            nodes = {node["node"]: Usage.model_validate(node["usage"]) for node in done.result["attempts"][-1]["nodes"]}
            name = f"{load.name}, 2 workers, {servers} ps: advised as it should be"
            figures += [
                figure(name, [float(bool(re.search(expected, said)))], unit="", goal=">= 1"),
                figure(f"{load.name}: ps 0 is busy", [nodes["ps 0"].busy], unit="ratio"),
            ]
        return figures

    def link(self) -> list[Figure]:
        """Measures once what crosses the links of a cluster's hosts, as their kernels count it."""
        nbytes = in_cluster(["_async_link.py"], self._work() / "out.json")
        coordinator = nbytes.pop("chief 0")
        return [
            figure("over the coordinator's link", [coordinator], unit="bytes/row", goal="<= 2"),
            *(figure(f"over the link of {node}", [nbytes[node]], unit="bytes/row") for node in sorted(nbytes)),
        ]

    def sizes(self) -> list[Figure]:
        """Measures once how gangs of several sizes compare."""
        figures = []
        for load in (dense(UPDATES // 2), table(600)):
            for workers in (1, 2):
                for servers in (1, 2):
                    done = run(self._lake(load), self._work(), load, workers=workers, servers=servers)
                    name = f"{load.name}: {_count(workers, 'worker')}, {servers} ps"
                    figures.append(figure(name, [steps_s(done.trainers[0])], unit="steps/s"))
        return figures

    def _lake(self, load: Workload) -> Path:
        name = f"lake of {load.schema.rows} {load.schema.name}"
        folder = self._root / name.replace(" ", "-")
        return folder if folder.exists() else write_lake(folder, load.schema)

    def _work(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._root))


PARTS: dict[str, Callable[[Bench], list[Figure]]] = {
    name: getattr(Bench, name)
    for name in ("messages", "steps", "tables", "losses", "checkpoints", "memory", "advice", "link", "sizes")
}


def _over(these: list[float], those: list[float]) -> list[float]:
    return [this / that for this, that in zip(these, those, strict=True)]


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def main(parts: list[str]) -> None:
    """Measures and reports."""
    with tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root:
        bench = Bench(Path(root), int(os.environ.get("RUNS", RUNS)))
        figures: list[Any] = []
        for part in parts or PARTS:
            figures += PARTS[part](bench)
            print(f"{part} done", file=sys.stderr, flush=True)
    report("async", figures)


if __name__ == "__main__":
    main(sys.argv[1:])
