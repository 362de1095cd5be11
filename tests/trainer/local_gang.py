"""A gang on this machine without Spark: real control server, agents and trainers, each in a process of its own."""

from __future__ import annotations

import itertools
import multiprocessing
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import psutil
from integration.processes import command_of
from rich.console import Console
from trainer.local_agent import run_agent

from sparktf.clock import Clock, SystemClock
from sparktf.config.job import JobConfig
from sparktf.driver.attempt.feeding import Feeders
from sparktf.driver.code.module import parameter_count, search_path
from sparktf.driver.gang.control_server import HERE, serve
from sparktf.driver.gang.gang import Gang
from sparktf.driver.gang.roster import AgentRecord, ExecutorFacts
from sparktf.driver.gang.site import AgentJob, Handler, Put, Server, Voice
from sparktf.driver.hooks import Hooks
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.planner import plan_source
from sparktf.driver.plan.stored_plan import load_plan
from sparktf.driver.run import Run
from sparktf.errors import NodeLostError
from sparktf.executor.agent import AgentSettings
from sparktf.executor.feeder import FeederSettings
from sparktf.feature import FeedLimits
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.pipeline import NodeFeed
from sparktf.hadoop import HadoopConf
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory
from sparktf.sequence import Cursor, PartitionValue, Stream, batch_shares, remaining
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems, open_storage
from sparktf.wire.control import Action

# Not threads: PR_SET_PDEATHSIG, which ends a trainer with its agent, follows the thread that started it. Not forks of
# this process: they would copy the locks of the control server's threads.
PROCESSES = multiprocessing.get_context("forkserver")
# Named as it is found from the repository's root: what pytest adds to the path, a fork server sees since Python 3.14.
PROCESSES.set_forkserver_preload(["tests.trainer.preloaded"])


def keep_files_in(folder: str) -> None:
    """Has temporary files made in a folder: AutoGraph leaves some behind where no exit handler runs, as in a pool."""
    tempfile.tempdir = folder


class LocalGang:
    """`nodes` agents, whatever the configuration of the first run asks for; later runs use as many as they need.

    Attributes:
        assets: What "prepare" gives the next runs.
        output: All that the driver has printed.
    """

    def __init__(self, config: JobConfig, nodes: int, site: LocalSite | None = None) -> None:
        self.output = StringIO()
        self._site = site or LocalSite(nodes)
        self._gang = Gang(config, self._site, Console(file=self.output, width=160))

    @property
    def assets(self) -> dict[str, Any]:
        return self._site.assets

    @assets.setter
    def assets(self, assets: dict[str, Any]) -> None:
        self._site.assets = assets

    @property
    def gang(self) -> Gang:
        """The product's own."""
        return self._gang

    @property
    def clock(self) -> Clock:
        return self._site.clock

    @property
    def agents(self) -> LocalAgents | None:
        """The agents' processes, once they are started."""
        return self._site.agents

    def train(self, config: JobConfig, hooks: Hooks | None = None, run_id: str = "run") -> RunResult:
        """Runs one training from preflight to result.json; raises what `Run.execute` does."""
        said = self.output.tell()
        try:
            return Run(self._gang, config, run_id, hooks).execute()
        except Exception as error:
            self.output.seek(said)
            error.add_note(self.output.read())
            raise

    def close(self) -> None:
        """Ends the gang, by force where asking does not help.

        Raises:
            RuntimeError: a process or a folder had to be removed by force.
        """
        self._gang.close()
        self._site.check_nothing_left()


class LocalSite:
    """This machine, as a gang's site."""

    place = "this machine"
    one_machine = True
    duplicates_wait = False
    application = Application("")

    def __init__(self, nodes: int, *, imports: bool = False) -> None:
        """Makes a site.

        Args:
            imports: Each agent's nursery imports TensorFlow by itself, which takes it seconds.
        """
        self.clock = SystemClock()
        self.file_systems = FileSystems(HadoopConf.from_environment())
        self.assets: dict[str, Any] = {}
        self._nodes = nodes
        self._imports = imports
        self.agents: LocalAgents | None = None

    def is_loop(self, config: JobConfig) -> bool | None:
        count = parameter_count(config.modules["model"], config.function_of("model"), search_path(None))
        return None if count is None else count == 1

    def preflight(self, config: JobConfig, voice: Voice) -> None:
        """See `Site`. Every machine can carry this."""

    def plan(self, config: JobConfig, voice: Voice) -> Plan:
        """See `Site`."""
        return plan_source(config, self.file_systems.open, _no_filter)

    def prepare(self, config: JobConfig, plan: Plan, storage: Storage, path: str, put: Put) -> dict[str, Any]:
        """See `Site`."""
        return self.assets

    def ship_code(self, config: JobConfig) -> None:
        """See `Site`. The agents' processes have the `sys.path` of this one."""

    def check_plan(self, config: JobConfig, plan: Plan) -> None:
        """See `Site`. Nothing is fed."""

    def serve(self, config: JobConfig, handlers: Mapping[Action, Handler]) -> Server:
        """See `Site`."""
        return serve(config.security, config.cluster.control_port, handlers, HERE, one_machine=True)

    def start_agents(self, config: JobConfig, plan: Plan, settings: AgentSettings, voice: Voice) -> AgentJob:
        """See `Site`."""
        self.agents = LocalAgents(self._nodes, settings, imports=self._imports)
        return self.agents

    def feed(self, config: JobConfig, plan: Plan, settings: FeederSettings, on_end: Callable[[], None]) -> Feeders:
        """See `Site`."""
        raise NotImplementedError(f"this machine feeds no {settings.stream}")

    def let_go(self, agents: Sequence[AgentRecord]) -> None:
        """See `Site`."""

    def facts(self, agents: Sequence[AgentRecord]) -> list[ExecutorFacts]:
        """See `Site`."""
        return [ExecutorFacts() for _ in agents]

    def check_nothing_left(self) -> None:
        """Raises `RuntimeError` if the agents' end left a process or a folder behind."""
        if self.agents is not None:
            self.agents.check_nothing_left()


class LocalAgents:
    """The agents' processes, and the folder below which they put everything.

    Attributes:
        folder: That folder.
    """

    def __init__(self, count: int, settings: AgentSettings, *, imports: bool) -> None:
        self.spares = 0
        self._imports = imports
        self.folder = Path(tempfile.mkdtemp(prefix="sparktf-gang-"))
        self._settings = settings
        self._left: list[str] = []
        self._killed: set[int] = set()
        self._tasks = itertools.count()
        self._processes = [self._start(partition) for partition in range(count)]

    def pids(self) -> list[int]:
        """Returns the agents' processes."""
        return [process.pid for process in self._processes if process.pid]

    def children(self) -> list[psutil.Process]:
        """Returns all processes that the agents' own have started, and these in turn."""
        return [child for process in self._processes for child in _below(process.pid or 0)]

    def partition_of(self, pid: int) -> int:
        """Returns whose agent has started a process."""
        return next(
            partition
            for partition, process in enumerate(self._processes)
            if any(child.pid == pid for child in _below(process.pid or 0))
        )

    def kill(self, partition: int) -> None:
        """Ends an executor, as YARN does: its agent, the trainer and their folder are gone at once."""
        process = self._processes[partition]
        for child in _below(process.pid or 0):
            child.kill()
        process.kill()
        process.join()
        self._killed.add(partition)
        shutil.rmtree(self.folder / process.name)

    def start_again(self, partition: int) -> None:
        """Has another executor in the place of one that was killed."""
        self._processes[partition] = self._start(partition)
        self._killed.remove(partition)

    def revive(self) -> None:
        """Has another executor in the place of each whose agent is gone."""
        for partition, process in enumerate(self._processes):
            if process.exitcode:
                self.kill(partition)
                self.start_again(partition)

    def _start(self, partition: int) -> ForkServerProcess:
        task = next(self._tasks)
        folder = self.folder / f"task-{task}"
        folder.mkdir()
        process = PROCESSES.Process(
            name=folder.name, target=run_agent, args=(partition, self._settings, str(folder), task, self._imports)
        )
        process.start()
        return process

    def ended(self) -> str | None:
        """See `AgentJob`."""
        return None if any(process.is_alive() for process in self._processes) else "all agents were killed"

    def restart(self) -> None:
        """See `AgentJob`. Nobody starts these agents again."""
        raise NodeLostError("all agents were killed")

    def close(self, wait_s: float) -> None:
        """See `AgentJob`."""
        for process in self._processes:
            process.join(wait_s)
        for child in [c for p in self._processes if p.pid for c in _below(p.pid)]:
            self._left.append(" ".join(command_of(child)))
            child.kill()
        for partition, process in enumerate(self._processes):
            process.kill()
            process.join()
            if process.exitcode and partition not in self._killed:
                self._left.append(f"an agent's exit code {process.exitcode}")
        self._left += [str(path) for folder in self.folder.iterdir() for path in folder.iterdir()]
        shutil.rmtree(self.folder)

    def check_nothing_left(self) -> None:
        """Raises `RuntimeError` if `close` found a process or a folder that should have been gone."""
        if self._left:
            raise RuntimeError(f"left behind: {', '.join(self._left)}")


def worker_rows(config: JobConfig, cursor: Cursor | None = None) -> list[dict[str, Any]]:
    """Returns for each worker the very rows of its share of an epoch, in order: feature key -> array [rows, *shape].

    Args:
        cursor: What is done of which epoch; by default nothing of the first.
    """
    rundir, cursor = RunDirectory(config.output.path, config.name, "run"), cursor or Cursor()
    plan = load_plan(open_storage(rundir.root), rundir.plan)
    todo = remaining(plan.rows(Stream.TRAIN), cursor.done)
    shares = plan.assignments(
        Stream.TRAIN, cursor.epoch, todo, [""] * config.cluster.nodes, rebalance=config.data.rebalance
    )
    rows: list[dict[str, Any]] = []
    spec, limit = plan.spec, config.data.max_bad_rows
    for share in shares:
        parts = PlannedParts(spec, share, open_storage, sets_aside=limit > 0)
        with NodeFeed(spec, parts, limits=FeedLimits(max_bad_rows=limit)) as feed:
            rows.append(dict(feed.next_rows(share.rows)))
    return rows


def updates_of(config: JobConfig, cursor: Cursor | None = None) -> list[list[int]]:
    """Returns the rows (of column `row`) of each update: worker by worker, each with its share until it has run dry."""
    shares = [share["input:row"].tolist() for share in worker_rows(config, cursor)]
    sizes = batch_shares(config.train.batch_size, len(shares))
    count = max(-(-len(rows) // size) for rows, size in zip(shares, sizes, strict=True))
    return [
        [row for rows, size in zip(shares, sizes, strict=True) for row in rows[k * size : (k + 1) * size]]
        for k in range(count)
    ]


def _below(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def _no_filter(
    names: Sequence[str], types: Sequence[str], rows: Sequence[tuple[PartitionValue, ...]], where: str
) -> list[bool]:
    raise NotImplementedError("a predicate over partition columns needs Spark")
