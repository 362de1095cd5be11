"""A large cluster: a million row groups on 1,000 hosts, and a driver with 1,000 nodes: `make bench-scale`.

The driver's own code runs, from the files' blocks to result.json, over mutual TLS. Agents and trainers are pretended,
in processes of their own, each with a connection as in life. What is counted is the driver's processor time,
its memory, and bytes.
"""

from __future__ import annotations

import io
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from _crowd import Crowd, PretendNode
from _report import Figure, figure, report
from rich.console import Console

from sparktf.clock import SystemClock
from sparktf.config.job import JobConfig
from sparktf.console.console import Display
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.feeding import Feeders
from sparktf.driver.attempt.restart import Why
from sparktf.driver.gang.control_server import Addresses, serve
from sparktf.driver.gang.gang import Gang
from sparktf.driver.gang.roster import AgentRecord, ExecutorFacts
from sparktf.driver.gang.site import AgentJob, Handler, Put, Server, Voice
from sparktf.driver.plan.files import RowGroups
from sparktf.driver.plan.locality import FileBlock, Hosts
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.planner import StreamRows, split_table
from sparktf.driver.run import Run
from sparktf.errors import SparkTFError
from sparktf.executor.agent import AgentSettings
from sparktf.executor.feeder import FeederSettings
from sparktf.feature import FeedSpec
from sparktf.results.result import Application
from sparktf.sequence import Keep, Stream
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.wire.control import Action
from sparktf.wire.trainer_spec import TrainerSpec

RUNS = 3
NODES, GROUPS, GROUPS_OF_FILE, REPLICATION = 1_000, 1_000_000, 10, 3
GROUP_ROWS, GROUP_NBYTES, BLOCK_ROWS = 20_000, 1 << 20, 131_072
BEATS_S = 20.0
CROWDS = 2
HALF, WHOLE = 500, 1_000
"""Steps of the checkpoints in the middle and at the end of the epoch."""

GOALS = {
    "plan": "<= 10",
    "deal": "<= 2",
    "deal, each row group a block of its own": "",
    "message of a node's share, largest": "<= 1",
    "message that starts a trainer, largest": "<= 1",
    "registration of 1,000 nodes": "<= 5",
    "beats": "<= 5",
    "roster's lock, held at most while shares are asked for": "<= 0.1",
    "peak memory": "<= 1000",
}
UNITS = {
    "message of a node's share, largest": "MB",
    "message that starts a trainer, largest": "MB",
    "beats": "% of a core",
    "beats asked of the driver": "1/s",
    "one beat": "us",
    "peak memory": "MB",
    "driver that watches 1,000 nodes, beats apart": "% of a core",
}
"""Of what is not in seconds of the driver's processor time."""


class HeldLock(threading.Condition):
    """A condition that knows for how much of its holders' processor time it was held at once, at most."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_s = 0.0
        self._since = threading.local()

    def __enter__(self) -> bool:
        entered = super().__enter__()
        if not getattr(self._since, "depth", 0):
            self._since.start_s = time.thread_time()
        self._since.depth = getattr(self._since, "depth", 0) + 1
        return entered

    def __exit__(self, *raised: Any) -> None:
        self._since.depth -= 1
        if not self._since.depth:
            self.longest_s = max(self.longest_s, time.thread_time() - self._since.start_s)
        super().__exit__(*raised)


class NoAgents:
    """The agents' job, whose agents are the crowd's."""

    spares = 0

    def ended(self) -> str | None:
        """See `AgentJob`."""

    def restart(self) -> None:
        """See `AgentJob`."""

    def close(self, wait_s: float) -> None:
        """See `AgentJob`."""


class BenchSite:
    """A network of pretended nodes.

    Attributes:
        settings: What agents are started with, once they are.
    """

    place = "bench"
    one_machine = False
    duplicates_wait = False
    application = Application("")

    def __init__(self, plan: Plan) -> None:
        self.clock = SystemClock()
        self.file_systems = FileSystems()
        self.settings: Future[AgentSettings] = Future()
        self._plan = plan

    def preflight(self, config: JobConfig, voice: Voice) -> None:
        """See `Site`."""

    def is_loop(self, config: JobConfig) -> bool | None:
        """See `Site`."""
        return False

    def plan(self, config: JobConfig, voice: Voice) -> Plan:
        """See `Site`."""
        return self._plan

    def prepare(self, config: JobConfig, plan: Plan, storage: Storage, path: str, put: Put) -> dict[str, Any]:
        """See `Site`."""
        return {}

    def ship_code(self, config: JobConfig) -> None:
        """See `Site`."""

    def check_plan(self, config: JobConfig, plan: Plan) -> None:
        """See `Site`."""

    def serve(self, config: JobConfig, handlers: Mapping[Action, Handler]) -> Server:
        """See `Site`."""
        return serve(
            config.security,
            config.cluster.control_port,
            handlers,
            Addresses("127.0.0.1", "127.0.0.1"),
            one_machine=False,
        )

    def start_agents(self, config: JobConfig, plan: Plan, settings: AgentSettings, voice: Voice) -> AgentJob:
        """See `Site`."""
        self.settings.set_result(settings)
        return NoAgents()

    def feed(self, config: JobConfig, plan: Plan, settings: FeederSettings, on_end: Callable[[], None]) -> Feeders:
        """See `Site`."""
        raise NotImplementedError

    def let_go(self, agents: Sequence[AgentRecord]) -> None:
        """See `Site`."""

    def facts(self, agents: Sequence[AgentRecord]) -> list[ExecutorFacts]:
        """See `Site`."""
        return [ExecutorFacts() for _ in agents]


class BenchGang(Gang):
    """A gang that says how far it is.

    Attributes:
        gathered_s: Processor time when all agents had come.
        begun: Whether the attempt has.
    """

    def __init__(self, config: JobConfig, plan: Plan) -> None:
        self.said = io.StringIO()
        self.bench = BenchSite(plan)
        super().__init__(config, self.bench, Console(file=self.said))
        self.lock = self.roster.changed = HeldLock()
        self.begun: Future[None] = Future()
        self.gathered_s = 0.0

    def gather(self, config: JobConfig, plan: Plan, display: Display, why: Why) -> list[AgentRecord]:
        """See `Gang`."""
        agents = super().gather(config, plan, display, why)
        self.gathered_s = time.process_time()
        return agents

    def begin(self, attempt: Attempt, specs: Sequence[tuple[str, TrainerSpec]]) -> None:
        """See `Gang`."""
        super().begin(attempt, specs)
        self.begun.set_result(None)


def located() -> tuple[tuple[str, ...], dict[str, list[FileBlock]]]:
    """Returns the paths of files of ten row groups, and each one's block on three of 1,000 hosts."""
    rng = np.random.default_rng(1)
    days, hosts = GROUPS // GROUPS_OF_FILE // 1_000, [host(i) for i in range(NODES)]
    files = tuple(
        f"hdfs://warehouse/user/hive/warehouse/clicks.db/events/date=2026-{1 + day // 28:02d}-{1 + day % 28:02d}/"
        f"part-{part:05d}-5f0c8b1e-9f5b-4a55-8a0e-2f3c58f0f1ad.c000.snappy.parquet"
        for day in range(days)
        for part in range(1_000)
    )
    nbytes = GROUPS_OF_FILE * GROUP_NBYTES
    return files, {
        file: [FileBlock(0, nbytes, tuple(hosts[i] for i in rng.choice(NODES, REPLICATION, replace=False)))]
        for file in files
    }


def host(number: int) -> str:
    """Returns the name of a host of the cluster."""
    return f"worker-{number:04d}.example.org"


def plan_of(
    config: JobConfig, files: tuple[str, ...], blocks: dict[str, list[FileBlock]], *, block_rows: int = BLOCK_ROWS
) -> Plan:
    """Plans what footers and the NameNode have told."""
    index = np.arange(GROUPS, dtype=np.int64)
    file, row_group = index // GROUPS_OF_FILE, index % GROUPS_OF_FILE
    rows, nbytes, start = np.full(GROUPS, GROUP_ROWS), np.full(GROUPS, GROUP_NBYTES), row_group * GROUP_NBYTES
    groups = RowGroups(file, row_group, rows, nbytes, start, start + GROUP_NBYTES, rows)
    hosts = Hosts(files, blocks)
    table = split_table(StreamRows(groups, Keep.ALL, np.zeros_like(rows)), block_rows, hosts, seed=3)
    stamps = np.stack([np.full(len(files), n, np.int64) for n in (nbytes[0] * 10, 1_790_000_000_000, 1 << 31)], 1)
    return Plan(
        spec=FeedSpec(features=(), fill_null={}, shuffle=True, seed=3),
        plan_hash=config.plan_hash(),
        files=files,
        partition_values=(("2026-11-20",),) * len(files),
        tables={Stream.TRAIN: table},
        hosts=hosts.names,
        stamps=stamps,
    )


def deal(plan: Plan) -> None:
    """Deals an epoch to one node on each host."""
    plan.assignments(Stream.TRAIN, 0, [(0, plan.rows(Stream.TRAIN))], [host(i) for i in range(NODES)], rebalance=True)


def bench_config(root: str) -> JobConfig:
    """Returns the configuration of the run."""
    return JobConfig.model_validate(
        {
            "name": "scale",
            "model": "m:build",
            "data": {"path": "/lake", "inputs": {"x": ["a", "b"]}, "targets": {"y": "y"}},
            "cluster": {"workers": NODES},
            "train": {"epochs": 1, "batch_size": 64 * NODES},
            # The crowd's agents beat in one phase alone; a real one's never stop.
            "timeouts": {"heartbeat": 600},
            "output": {"path": root},
        }
    )


class Figures(dict[str, float]):
    """What one run gives: name -> value."""

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Keeps the processor time of this process, whatever else the machine has to do."""
        start = time.process_time()
        yield
        self[name] = time.process_time() - start


def one_run(root: str) -> Figures:
    """Plans, deals and serves once, in this process, which has done nothing else."""
    found = Figures()
    config = bench_config(root)
    files, blocks = located()
    with found.timed("plan"):
        plan = plan_of(config, files, blocks)
    del blocks
    with found.timed("deal"):
        deal(plan)
    run(config, plan, found)
    found["peak memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return found


def one_deal_of_small_blocks(root: str) -> Figures:
    """Deals as many blocks as there can be: row groups that fill one each."""
    found = Figures()
    plan = plan_of(bench_config(root), *located(), block_rows=1)
    with found.timed("deal, each row group a block of its own"):
        deal(plan)
    return found


def run(config: JobConfig, plan: Plan, found: Figures) -> None:
    """Runs the driver with its nodes, phase by phase."""
    gang = BenchGang(config, plan)
    with Crowd(NODES, CROWDS) as crowd:
        director = threading.Thread(target=direct, args=(gang, crowd, found))
        director.start()
        try:
            result = Run(gang, config, "r").execute()
        except SparkTFError as error:
            raise SystemExit(f"{gang.said.getvalue()[-4000:]}\n{str(error)[:1000]}") from None
        gang.close()
        director.join()
    if result.rows_trained != plan.rows(Stream.TRAIN):
        raise SystemExit(f"{result.rows_trained} of {plan.rows(Stream.TRAIN)} rows are accounted for")


def direct(gang: BenchGang, crowd: Crowd, found: Figures) -> None:
    """Has the nodes do what they do in life, one thing after the other."""
    crowd.meet([host(i) for i in range(NODES)], gang.bench.settings.result())
    start_s = time.process_time()
    crowd.each(PretendNode.register)
    gang.begun.result()
    found["registration of 1,000 nodes"] = gang.gathered_s - start_s
    with found.timed("start of 1,000 trainers"):
        found["message that starts a trainer, largest"] = max(crowd.each(PretendNode.take_order)) / 1e6
        crowd.each(PretendNode.ready)
    gang.lock.longest_s = 0.0
    with found.timed("shares of 1,000 nodes"):
        found["message of a node's share, largest"] = max(crowd.each(PretendNode.ask)) / 1e6
    found["roster's lock, held at most while shares are asked for"] = gang.lock.longest_s
    beats(gang, crowd, found)
    with found.timed("uploads of 1,000 nodes, in mid-epoch"):
        crowd.each(partial(PretendNode.upload, step=HALF, complete=False))
    with found.timed("end of an epoch on 1,000 nodes"):
        crowd.each(partial(PretendNode.end_epoch, step=WHOLE))
        crowd.each(partial(PretendNode.upload, step=WHOLE, complete=True))
    crowd.each(partial(PretendNode.finish, step=WHOLE))
    crowd.each(PretendNode.exit)


def beats(gang: BenchGang, crowd: Crowd, found: Figures) -> None:
    """Measures beats beside what the driver does without any."""
    crowd.beat(1.0)  # from here on at the interval that they are told
    start_s, cpu_s = time.monotonic(), time.process_time()
    time.sleep(5.0)
    idle = (time.process_time() - cpu_s) / (time.monotonic() - start_s)
    start_s, cpu_s = time.monotonic(), time.process_time()
    said = crowd.beat(BEATS_S)
    busy_s = time.process_time() - cpu_s - idle * (time.monotonic() - start_s)
    found["driver that watches 1,000 nodes, beats apart"] = idle * 100
    found["one beat"] = busy_s / said.told * 1e6
    found["beats asked of the driver"] = said.asked
    found["beats"] = busy_s / said.told * said.asked * 100


def measured(call: Callable[[str], Figures]) -> Figures:
    """Returns what a fresh process finds."""
    with (
        tempfile.TemporaryDirectory(prefix="sparktf-bench-") as root,
        ProcessPoolExecutor(1, get_context("spawn")) as process,
    ):
        return process.submit(call, str(Path(root))).result()


def main() -> None:
    """Measures and reports."""
    runs = int(os.environ.get("RUNS", RUNS))
    found: dict[str, list[float]] = {}
    for _ in range(runs):
        for name, value in (measured(one_run) | measured(one_deal_of_small_blocks)).items():
            found.setdefault(name, []).append(value)
    report("scale", [_figure(name, values) for name, values in found.items()])


def _figure(name: str, values: list[float]) -> Figure:
    return figure(name, values, unit=UNITS.get(name, "s"), goal=GOALS.get(name, ""))


if __name__ == "__main__":
    main()
