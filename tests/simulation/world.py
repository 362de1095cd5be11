"""One seed: a run, its submissions, what goes wrong, and whether what came of it is right."""

from __future__ import annotations

import gc
import json
import logging
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import greenlet
from rich.console import Console
from simulation import checks
from simulation.checks import PAUSED
from simulation.disk import Disk
from simulation.faults import Faults
from simulation.hub import EPOCH_S, THREADING, Hub, OverrunError, Process, SimCondition, SimLock, running
from simulation.limits import limited, watched
from simulation.nodes import Agent, Trainer
from simulation.publishing import Models, SimNight, is_nightly, publishing
from simulation.replays import Replays
from simulation.rows import FedRows, Rows
from simulation.site import SimSite, is_over_tensorflow
from simulation.strategies import LOCKSTEP, PARAMETER_SERVER

from sparktf.config.job import JobConfig
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.gang.gang import Gang
from sparktf.driver.lifecycle import AttemptState
from sparktf.driver.run import Run
from sparktf.errors import SparkTFError, Verdict
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory
from sparktf.topology import NodeId, Role
from sparktf.wire.control import AgentHeartbeat
from sparktf.wire.sender import TrainerKey

_SUBMISSIONS = 6
_PATIENCE = 2
"""So many more there are once nothing goes wrong any more."""

_IN_VAIN = 2
"""Attempts that the cluster ends with no checkpoint between, after which a run is given up: few seeds have more."""

_HAIR_S = 1e-6
"""More than what a sum of times may be off by."""

_LOOK_S = 0.0002
"""So long a look at one node takes its driver."""

_MANY = 6
"""Workers that read too many rows for updates of one or two to be played in no time."""

_SOME_WAIT = 0.6
"""So many submissions wait while another one owns the run."""

_SOME_EVALUATOR = 0.6
_SOME_BEST = 0.6
"""Of the seeds that evaluate so many have a node for that, and so many keep the best weights."""

_SOME_TOGETHER = 0.3
"""Of those under parameter servers, in so many workers make updates together."""

_SOME_NEED = 0.4
"""Of gangs that outlive losses so many need all of their workers, or all but one."""

_REMEMBERS = 7
"""Of so many seeds of theirs one has a leader without which the others only store what they have."""

_SELDOM_S = 4.0
"""So far apart are their checkpoints at least: a slow worker takes up to 2 s for an update."""

_UNTOLD = 2
"""Executions of a lost worker that may have trained rows of which nobody was told."""

_WAITS_S = 4.0
"""So long an agent may have nothing to do while a place is vacant."""

_KEEP = 11
"""Of so many seeds whose rows are leased one has workers that keep them."""

_COLLECTED = 10
"""Of so many seeds one begins with a clean memory."""

_PAUSE_S = 22.0
"""A driver stands still for no longer: beyond `timeouts.heartbeat`, and less than `timeouts.driver_lost`."""

_QUIET_S = 60.0
_BOUND_S = 400.0
"""So long after its last fault a run may take, with all attempts and submissions that it needs."""


class SimGang(Gang):
    """A gang that remembers which attempts were cut off: they ended before anything was decided of them."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.cut_off: set[int] = set()

    def end_attempt(self, attempt: Attempt, limit_s: float) -> bool:
        """See `Gang`."""
        if attempt.state is AttemptState.RUNNING:
            self.cut_off.add(attempt.number)
        return super().end_attempt(attempt, limit_s)


@dataclass
class Submission:
    """One driver of the run.

    Attributes:
        waits: While another one owns the run; else it ends then.
        result: What it told, if it came to an end.
        error: What it ended with; "" for a run that is done.
    """

    number: int
    process: Process
    site: SimSite
    gang: SimGang
    begun_s: float
    waits: bool
    result: RunResult | None = None
    error: str = ""
    over: bool = False
    ended_s: float = 0.0


class Hit(NamedTuple):
    """Something that happened to a process.

    Attributes:
        lasts: It was gone for long, or for good.
    """

    time_s: float
    what: str
    lasts: bool


@dataclass
class Verdicts:
    """What came of a seed."""

    seed: int
    strategy: str
    nodes: int
    liveness: bool
    kinds: frozenset[str]
    violations: list[str] = field(default_factory=list)
    schedule: str = ""
    faults: tuple[str, ...] = ()
    end: str = ""
    seconds: float = 0.0


class World:
    """See `site.World`."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int | None = None,
        strategy: str = LOCKSTEP,
        kinds: frozenset[str] | None = None,
        dropped: frozenset[str] = frozenset(),
    ) -> None:
        self.seed = seed
        self.liveness = seed % 2 == 1
        self.hub = Hub()
        chance = random.Random(f"{seed} world")
        count = nodes or (chance.randint(2, 16) if chance.random() < 0.4 else chance.randint(2, 5))
        until_s = chance.uniform(15.0, 60.0) if self.liveness else 1e9
        self.strategy = strategy
        is_async = strategy == PARAMETER_SERVER
        self.is_fed = seed % 8 in ((2, 5, 7) if is_async else (2, 5))
        self.config = _with_servers(chance, _config(chance, count)) if is_async else _config(chance, count)
        self.hosts = tuple(f"h{i}" for i in range(self.config.cluster.nodes + 1))
        call_rows = self.config.steps_per_call * self.config.train.batch_size
        self.replays = Replays(_UNTOLD * call_rows if self.is_fed else None)
        self.rows: Rows | FedRows
        if self.is_fed:
            cache = chance.choice(("auto", "off"))
            data = self.config.data.model_copy(update={"cache": cache})
            self.config = self.config.model_copy(update={"data": data})
            self.rows = FedRows(self.config, chance.randint(1, 2 * count + 6), seed)
        else:
            groups, more = chance.randint(count, 4 * count + 8), _more_rows(chance) if is_async else {}
            self.config = _keeping(seed, _aggregated(seed, self.config)) if is_async else self.config
            more["validation"], self.config = _evaluated(seed, self.config, more.get("validation"))
            self.rows = Rows(self.config, groups, self.hosts, seed, **more)
        self.config = self.config if is_async else _remembering(seed, _needing(seed, self.config))
        nightly = not is_async and is_nightly(seed)
        self.config = publishing(seed, self.config) if nightly else self.config
        self.nodes = self.config.cluster.nodes
        self.faults = Faults(
            self.hub,
            seed,
            until_s=until_s,
            is_fed=self.is_fed,
            is_async=is_async,
            is_evaluated=self.config.cluster.evaluator,
            is_nightly=nightly,
            is_needing=self.config.train.min_workers > 1,
            kinds=kinds,
            dropped=dropped,
        )
        self.disk = Disk(lambda: EPOCH_S + self.hub.now)
        self.rundir = RunDirectory(self.config.output.path, self.config.name, "r")
        self.models = Models(self) if nightly else None
        self.submissions: list[Submission] = []
        self.violations: list[str] = []
        self.hits: dict[str, list[Hit]] = defaultdict(list)
        self.writers: list[int] = []
        self.done_by = 0
        self._waits_s: dict[str, float] = {}
        self.commits: dict[int, list[checks.Commit]] = defaultdict(list)
        full = self.faults.strike("disk-full", "the disk is full")
        self._full_s = (full.uniform(3.0, 25.0), full.choice((5.0, 30.0, 1e9))) if full else (1e9, 0.0)
        self._chance = chance

    # ---- told by sites ----

    def disk_is_full(self) -> bool:
        """See `site.World`."""
        begun_s, for_s = self._full_s
        return begun_s <= self.hub.now < min(begun_s + for_s, self.faults.until_s)

    @property
    def is_refused(self) -> bool:
        """Whether more rows fail a check than may be set aside."""
        return int(self.rows.bad.sum()) > self.config.data.max_bad_rows

    @property
    def surplus_steps(self) -> int:
        """See `Parameters`: of all attempts."""
        sites = [submission.site for submission in self.submissions]
        return sum(parameters.surplus_steps for site in sites for parameters in site.all_parameters)

    @property
    def disk_was_full(self) -> bool:
        """Whether nothing could be written for some time."""
        return self._full_s[1] > 0.0

    def hit(self, process: Process, what: str, *, lasts: bool = False) -> None:
        """See `site.World`."""
        self.hits[process.name].append(Hit(self.hub.now, what, lasts))

    def went_home(self, site: SimSite, agent: Agent) -> None:
        """See `site.World`."""
        if not site.closed and not site.driver.dead and site.homes > site.spares:
            self.violate(f"agent {agent.process} went home as a success, and nobody takes its place")

    def stopped(self, site: SimSite, beat: AgentHeartbeat) -> None:
        """See `site.World`. No fault of a node excuses it while the attempt runs: that ends first."""
        if beat.trainer is not None and self._goes_on(site, beat.trainer):
            self.violate(f"agent {beat.agent} had to stop its trainer of attempt {beat.trainer.attempt}, which goes on")

    def waits(self, site: SimSite, beat: AgentHeartbeat, *, is_free: bool) -> None:
        """See `site.World`."""
        attempt = next(s.gang.attempt for s in self.submissions if s.site is site)
        vacant = attempt.vacant() if attempt is not None and is_free else ()
        if attempt is None or all(_is_hopeless(attempt, one.node) for one in vacant):
            self._waits_s.pop(beat.agent, None)
            return
        since_s = self._waits_s.setdefault(beat.agent, self.hub.now)
        if self.hub.now - since_s > _WAITS_S and site.driver.name not in self.hits:
            self.violate(f"agent {beat.agent} waits for {_WAITS_S:g} s, and nobody is where {vacant[0].node} was")

    def missed(self, site: SimSite, trainer: Trainer, what: str) -> None:
        """See `site.World`."""
        if self._goes_on(site, trainer.spec.trainer) and site.driver.name == f"driver-{self.writers[-1]}":
            self.violate(f"{trainer.process} was told to read what has been removed: {what}")

    def _goes_on(self, site: SimSite, trainer: TrainerKey) -> bool:
        """Whether a trainer's attempt is under way, and its driver has not lost it."""
        attempt = next(s.gang.attempt for s in self.submissions if s.site is site)
        if attempt is None or attempt.number != trainer.attempt or attempt.state is not AttemptState.RUNNING:
            return False
        now = attempt.trainers[trainer.node]
        return now.incarnation == trainer.incarnation and not attempt.losses.has(now)

    def changed(self, process: Process, *paths: str) -> None:
        """See `site.World`."""
        seen = [path for path in paths if checks.is_guarded(self.rundir, path)]
        if not seen:
            return
        number = int(process.name.partition(":")[0].removeprefix("driver-"))
        if self.done_by not in (0, number):
            self.violate(f"{process} changed {seen[-1]} of a run that driver-{self.done_by} had done")
        if not self.writers or self.writers[-1] != number:
            if number in self.writers:
                self.violate(f"{process} changed {seen[-1]} after driver-{self.writers[-1]} had taken the run over")
            self.writers.append(number)
        target = paths[-1]
        if len(paths) == 2 and target == seen[-1]:
            for found in checks.published(self, target):
                self.violate(f"{process} committed {target}: {found}")
            if checks.is_done(self, target):
                self.done_by = number

    def violate(self, what: str) -> None:
        """Notes that something is wrong."""
        if what not in self.violations:
            self.violations.append(what)

    # ---- the seed ----

    def play(self) -> Verdicts:
        """Lets everything happen, then looks at what came of it."""
        with _in_simulation(self):
            try:
                with limited(self.hub, self.nodes), watched(self.hub):
                    self._live()
            except OverrunError as error:
                self.violate(str(error))
            end = self._end()
            for process in self._processes():
                process.kill()
        self.violations += self.hub.crashes
        return Verdicts(
            self.seed,
            self.strategy,
            self.nodes,
            self.liveness,
            self.faults.kinds,
            self.violations,
            self.faults.describe(),
            tuple(s.name for s in self.faults.schedule),
            end,
            self.hub.now,
        )

    def _live(self) -> None:
        self.submit()
        if self.models is not None:
            self.models.begin()
        over = self.hub.run(self._is_over, self._limit_s())
        if not over and self.liveness:
            self.violate(f"the run has not ended {self.hub.now - self.faults.until_s:.0f} s after the last fault")
        if over:
            self.hub.run(self._is_quiet, self.hub.now + _QUIET_S)
            for found in checks.held(self):
                self.violate(found)
        for found in (*checks.ends(self), *(self.models.ends() if self.models else ())):
            self.violate(found)

    def submit(self) -> None:
        """Submits the run, again."""
        self._rot()
        number = len(self.submissions) + 1
        chance = random.Random(f"{self.seed} submission {number}")
        skew_s = chance.uniform(-3.0, 3.0) if "clocks-differ" in self.faults.kinds else 0.0
        process = Process(self.hub, f"driver-{number}", self.seed, skew_s=skew_s)
        site = SimSite(self, process, Application(f"app-{number}"))
        gang = SimGang(self.config, site, _Silent())
        gang.roster.changed = SimCondition(process, _LOOK_S * self.nodes)
        waits = random.Random(f"{self.seed} submission {number} waits").random() < _SOME_WAIT
        submission = Submission(number, process, site, gang, self.hub.now, waits)
        self.submissions.append(submission)
        process.on_end.append(partial(self._ended, submission))
        process.spawn(lambda: self._drive(submission))
        self._pause(process)
        if (twice := self.faults.strike("driver-twice", "submitted again while it runs")) is not None:
            self.hub.at(twice.uniform(0.0, 25.0), self.submit_beside)

    def _pause(self, driver: Process) -> None:
        """Has a driver stand still now and then, perhaps: for less long than its nodes wait for it."""
        if (chance := self.faults.strike("driver-pauses", f"{driver} stands still")) is None:
            return
        at_s = 0.0
        for _ in range(chance.randint(1, 4)):
            at_s += chance.uniform(1.0, 20.0)
            for_s = chance.uniform(3.0, _PAUSE_S)
            self.hub.at(at_s, partial(self._stand_still, driver, for_s))
            at_s += for_s

    def _stand_still(self, driver: Process, for_s: float) -> None:
        if not driver.frozen and self.hub.now < self.faults.until_s:
            self.hit(driver, PAUSED)
            driver.freeze(for_s)

    def _rot(self) -> None:
        """Has a file of the newest checkpoint be cut short, perhaps."""
        newest = checks.newest_checkpoint(self)
        if newest and (chance := self.faults.strike("checkpoint-rots", newest)) is not None:
            path = chance.choice(self.disk.list(newest)).path
            self.disk.write(path, self.disk.read(path)[: chance.randint(0, 20)])

    def submit_beside(self) -> None:
        """See `site.World`."""
        if not self._is_over() and len(self.submissions) < _SUBMISSIONS - 1:
            self.submit()

    def _drive(self, submission: Submission) -> None:
        gang = submission.gang
        night = None if self.models is None else SimNight(submission.site)
        try:
            submission.result = Run(gang, self.config, "r", night, wait=submission.waits).execute()
        except SparkTFError as error:
            submission.error = f"{type(error).__name__}: {error}"
            submission.result = error.result
        finally:
            gang.close()
        submission.site.closed = submission.over = True
        submission.ended_s = self.hub.now
        for found in checks.told(self, submission):
            self.violate(found)
        if self.models is not None and night is not None and submission.result is not None:
            for found in self.models.told(submission.result, night):
                self.violate(f"{submission.process} {found}")

    def _ended(self, submission: Submission) -> None:
        submission.ended_s = self.hub.now
        submission.site.closed = True
        if self._is_decided() or self._living():
            return
        if self._has_submissions():
            self.hub.at(self._chance.uniform(0.5, 8.0), self._submit_if_none)
        elif self.liveness:
            self.hub.at(self.faults.until_s + _HAIR_S - self.hub.now, self._submit_if_none)

    def _submit_if_none(self) -> None:
        # Asked again: of drivers that ended one soon after the other each has had another follow.
        if self._has_submissions() and not self._living() and not self._is_over():
            self.submit()

    def _has_submissions(self) -> bool:
        """Whether one is left for now: some are kept for when nothing goes wrong any more."""
        return len(self.submissions) < _SUBMISSIONS or self.hub.now >= self.faults.until_s

    def _allowed(self) -> int:
        return _SUBMISSIONS + _PATIENCE * self.liveness

    def _living(self) -> list[Submission]:
        return [s for s in self.submissions if not s.process.dead]

    def _is_decided(self) -> bool:
        ends = [Verdict.DATA_REFUSED] if self.is_refused else [Verdict.DONE]
        if self.config.train.max_steps is not None:
            ends.append(Verdict.DONE)  # before anybody has read too many of them
        return any(s.over and s.result is not None and s.result.verdict in ends for s in self.submissions)

    def _is_over(self) -> bool:
        if self._living():
            return False
        return self._is_decided() or len(self.submissions) >= self._allowed()

    def _limit_s(self) -> float:
        return (self.faults.until_s if self.liveness else 200.0) + _BOUND_S

    def _is_quiet(self) -> bool:
        return all(process.dead for process in self._processes())

    def _processes(self) -> Iterable[Process]:
        for submission in self.submissions:
            yield submission.process
            for agent in submission.site.agents:
                yield agent.process
            for trainer in submission.site.trainers:
                yield trainer.process
            yield from submission.site.feeders
        yield from self.models.others if self.models else ()

    def _end(self) -> str:
        last = next((s for s in reversed(self.submissions) if s.result is not None), None)
        told = f"{last.result.verdict.name} {last.error[:120]}" if last and last.result else "no end"
        return f"{told} after {len(self.submissions)} submission(s), {self.hub.now:.0f} s"


def settle() -> None:
    """Begins a process that plays seeds: the circles of small things that they leave are looked for now and then."""
    logging.disable()
    gc.freeze()
    gc.disable()


def play(job: tuple[int, int | None, str], kinds: frozenset[str] | None = None) -> Verdicts:
    """Plays one seed of a strategy, with so many nodes that train, and only some kinds of faults, if that is said."""
    seed, nodes, strategy = job
    if seed % _COLLECTED == 0:
        gc.collect()
    return World(seed, nodes=nodes, strategy=strategy, kinds=kinds).play()


def _config(chance: random.Random, nodes: int) -> JobConfig:
    batch = max(nodes, chance.choice((8, 16, 32)))
    return JobConfig.model_validate(
        {
            "name": "t",
            "model": "m:build",
            "output": {"path": "/runs"},
            "data": {
                "path": "/lake",
                "inputs": {"x": "x"},
                "targets": {"y": "y"},
                "shuffle": chance.random() < 0.8,
                "rebalance": chance.random() < 0.7,
            },
            "cluster": {"workers": nodes, "min_workers": chance.choice((1, max(nodes - 1, 1), nodes))},
            "train": {
                "epochs": chance.randint(1, 3),
                "batch_size": batch,
                "seed": chance.randrange(1000),
                "max_attempts": chance.randint(1, 4),
            },
            "checkpoint": {
                "every_steps": chance.choice((2, 3, 5, 8)),
                "every_seconds": None,
                "keep": chance.randint(1, 3),
            },
            "timeouts": {
                "reserve": 20.0,
                "replace": 6.0,
                "start": 15.0,
                "heartbeat": 6.0,
                "driver_lost": 25.0,
                "progress": 15.0,
                "upload": 12.0,
                "stop": 2.0,
                "owner": 5.0,
            },
        }
    )


def _with_servers(chance: random.Random, config: JobConfig) -> JobConfig:
    """Returns a configuration of as many workers, with parameter servers."""
    workers, fewest = config.cluster.workers, config.cluster.min_workers
    return JobConfig.model_validate(
        {
            **config.model_dump(),
            "data": {
                **config.data.model_dump(),
                "rebalance": True,
                "max_bad_rows": chance.choice((0, 3, 10, 1000, 1000)),
            },
            "cluster": {
                "strategy": PARAMETER_SERVER,
                "workers": workers,
                "ps": chance.randint(1, 2),
                "min_workers": fewest,
            },
            "train": {
                **config.train.model_dump(),
                "batch_size": chance.choice((1, 2, 4) if workers < _MANY else (4, 8)),
                "steps_per_call": chance.choice((1, 2, 4, 8)),
                "max_steps": chance.choice((None, None, None, chance.randint(2, 60))),
            },
            "checkpoint": {
                **config.checkpoint.model_dump(),
                "every_steps": chance.choice((3, 7, 20, 1000)),
                "every_seconds": chance.choice((None, 1.5, 4.0)),
            },
            # Training that stands still is noticed after there was time for stand-ins.
            "timeouts": {**config.timeouts.model_dump(), "replace": 4.0, "progress": 25.0},
        }
    )


def _is_hopeless(attempt: Attempt, node: NodeId) -> bool:
    """Whether a worker was lost again and again, so that nobody follows it."""
    return node.role is Role.WORKER and attempt.losses._loss(attempt.trainers[node]).is_hopeless


def _evaluated(seed: int, config: JobConfig, rows: int | None) -> tuple[int, JobConfig]:
    """Returns how many rows there are to evaluate, and a configuration that says who does, and what is kept."""
    chance = random.Random(f"{seed} evaluation")
    count = random.Random(f"{seed} validation").choice((0, 0, 7)) if rows is None else rows
    evaluator, best = chance.random() < _SOME_EVALUATOR, chance.random() < _SOME_BEST
    if not count:
        return 0, config
    changed = {
        "data": {**config.data.model_dump(), "validation": {"fraction": 0.1}},
        "cluster": {**config.cluster.model_dump(), "evaluator": evaluator},
        "train": {**config.train.model_dump(), "keep": "best" if best else "last"},
    }
    return count, JobConfig.model_validate({**config.model_dump(), **changed})


def _keeping(seed: int, config: JobConfig) -> JobConfig:
    """Has workers of some seeds keep rows on their disks, of which nothing lies beside any of them."""
    if seed % _KEEP:
        return config
    return config.model_copy(update={"data": config.data.model_copy(update={"cache": "disk", "locality": False})})


def _aggregated(seed: int, config: JobConfig) -> JobConfig:
    """Returns a configuration in which workers make updates together, perhaps."""
    chance = random.Random(f"{seed} together")
    if chance.random() >= _SOME_TOGETHER:
        return config
    wanted = chance.randint(max(config.cluster.workers - 2, 1), config.cluster.workers)
    train, checkpoint = config.train.model_dump(), config.checkpoint.model_dump()
    train["replicas_to_aggregate"] = wanted
    if checkpoint["every_seconds"] is not None:
        # What is computed for an update is thrown away where it is not made by then: slow workers would get nowhere.
        checkpoint["every_seconds"] = max(checkpoint["every_seconds"], _SELDOM_S)
    return JobConfig.model_validate({**config.model_dump(), "train": train, "checkpoint": checkpoint})


def _remembering(seed: int, config: JobConfig) -> JobConfig:
    """Returns a configuration in which the leader alone remembers something, in some seeds."""
    if is_over_tensorflow(seed) or seed % _REMEMBERS:
        return config
    return config.model_copy(update={"train": config.train.model_copy(update={"callbacks": "m:f"})})


def _needing(seed: int, config: JobConfig) -> JobConfig:
    """Returns a configuration by which fewer workers than some train nothing, perhaps."""
    chance = random.Random(f"{seed} too few")
    if is_over_tensorflow(seed) or chance.random() >= _SOME_NEED:
        return config
    fewest = chance.randint(max(config.cluster.workers - 1, 2), config.cluster.workers)
    return config.model_copy(update={"train": config.train.model_copy(update={"min_workers": fewest})})


def _more_rows(chance: random.Random) -> dict[str, Any]:
    """Returns what part of the rows fails a check, and how many there are to evaluate."""
    return {"bad": chance.choice((0.0, 0.0, 0.02, 0.2)), "validation": chance.choice((0, 7))}


class _Silent(Console):
    """A console that nobody looks at."""

    is_terminal = False  # what a console finds out each time it is asked

    def print(self, *objects: Any, **how: Any) -> None:
        """Says nothing."""


def _sleep(seconds: float) -> None:
    running().sleep(seconds)


@contextmanager
def _in_simulation(world: World) -> Iterator[None]:
    """Has the product's modules take chance and locks from the seed, and leaves out what takes real time."""
    chance = random.Random(f"{world.seed} nonces")

    def lock() -> SimLock:
        process = next(s.process for s in world.submissions if greenlet.getcurrent() in s.process._threads)
        return SimLock(process)

    threads, now = SimpleNamespace(Lock=lock), SimpleNamespace(monotonic=lambda: world.hub.now)
    with (
        mock.patch("secrets.token_hex", lambda n: f"{chance.getrandbits(8 * n):0{2 * n}x}"),
        mock.patch("sparktf.driver.event_log.threading", threads),
        mock.patch("sparktf.feed.channel.staging.time", now),
        mock.patch("sparktf.feed.leased_feed.time", now),
        mock.patch("sparktf.feed.leased_feed.threading", THREADING),
        mock.patch("sparktf.feed.leased_parts.threading", THREADING),
        mock.patch("sparktf.trainer.node.saving.time", now),
        mock.patch("sparktf.trainer.parameter_server.async_loop.time", now),
        mock.patch("sparktf.trainer.parameter_server.telling.threading", THREADING),
        mock.patch("sparktf.trainer.parameter_server.accounts.threading", THREADING),
        mock.patch("sparktf.trainer.parameter_server.accounts.time", SimpleNamespace(sleep=_sleep)),
        mock.patch("sparktf.wire.channel.threading", THREADING),
        mock.patch("pyarrow.flight.RecordBatchStream", lambda rows: rows),
        mock.patch("sparktf.driver.run.show_config", lambda config: json.dumps({"name": config.name})),
        mock.patch("sparktf.driver.gang.reserved.installed_versions", dict),
        mock.patch("sparktf.driver.run.print_result", lambda console, result: None),
        mock.patch("sparktf.driver.attempt.restart.IN_VAIN", _IN_VAIN),
    ):
        yield
