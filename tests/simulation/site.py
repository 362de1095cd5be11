"""A driver's site: its agents, the way to its control server, and its view of the storage, all simulated."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt
from simulation.disk import Disk, SimStorage, Way
from simulation.evaluator import Evaluator
from simulation.faults import Faults
from simulation.feeders import FedShare, SimFeeders, SimIntake
from simulation.feeders import Server as DataServer
from simulation.hub import Hub, Process, SimClock, Waiter
from simulation.nodes import Agent, Collective, GoneError, Ids, Share, Trainer
from simulation.replays import Lessee, Replays
from simulation.roles import Coordinator, Member, Worker
from simulation.roles import Server as ParameterServer
from simulation.rows import FedRows, Rows
from simulation.servers import Parameters
from simulation.survivors import Meetings, Survivor
from simulation.together import Together

from sparktf.config.job import JobConfig
from sparktf.driver.attempt.feeding import Feeders
from sparktf.driver.gang import roster
from sparktf.driver.gang.site import AgentJob, Handler, Put, Server, Voice
from sparktf.driver.plan.plan import Plan
from sparktf.errors import (
    ControlError,
    DriverLostError,
    LifecycleError,
    RefusedError,
    SparkTFError,
    StorageError,
    StorageQuotaError,
    StorageUnavailableError,
)
from sparktf.executor.agent import AgentSettings
from sparktf.executor.feeder import FeederSettings
from sparktf.feed.leased_feed import LeasedFeed
from sparktf.feed.receipts import Receipts
from sparktf.message import Message
from sparktf.results.result import Application
from sparktf.rundir import RunDirectory
from sparktf.sequence import Assignment, Stream
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.topology import NodeId, Role
from sparktf.wire.control import Action, AgentHeartbeat, Order, Orders, Ready, TrainerExited
from sparktf.wire.data import DataAddress
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest
from sparktf.wire.security import ControlAccess
from sparktf.wire.sender import NodeMessage
from sparktf.wire.trainer_spec import Training

_WRITES = ("write", "upload", "make", "probe")
_DEADLINE_S = 20.0
_LONG_S = 15.0
_OF_MODEL = 30.0
"""A driver that publishes a model is so much likelier to be killed or frozen: it does so once, and commits often."""


class Models(Protocol):
    """The published models of a seed."""

    def is_of(self, path: str) -> bool:
        """Whether what is at a path, or the two of a rename, is one of them, on its way, or the run's row."""

    def changed(self, process: Process) -> None:
        """Told of every change of them."""


class World(Protocol):
    """What all drivers of a seed share."""

    seed: int
    hub: Hub
    faults: Faults
    disk: Disk
    rows: Rows | FedRows
    config: JobConfig
    hosts: tuple[str, ...]
    replays: Replays
    rundir: RunDirectory

    @property
    def models(self) -> Models | None:
        """Those of a run that publishes."""

    def submit_beside(self) -> None:
        """Has the run be submitted again while it runs."""

    def disk_is_full(self) -> bool:
        """Whether nothing can be written now."""

    def changed(self, process: Process, *paths: str) -> None:
        """Told of every change of the storage, and of both paths of a rename."""

    def violate(self, what: str) -> None:
        """Told of what is wrong."""

    def hit(self, process: Process, what: str, *, lasts: bool = False) -> None:
        """Told of whatever happens to a process."""

    def went_home(self, site: SimSite, agent: Agent) -> None:
        """Told of every agent that ended as a success."""

    def stopped(self, site: SimSite, beat: AgentHeartbeat) -> None:
        """Told of every agent that was ordered to stop the trainer that it runs."""

    def waits(self, site: SimSite, beat: AgentHeartbeat, *, is_free: bool) -> None:
        """Told of every agent whether it has nothing to do."""

    def missed(self, site: SimSite, trainer: Trainer, what: str) -> None:
        """Told of a trainer that does not find what it was told to read."""


def is_over_tensorflow(seed: int) -> bool:
    """Whether the gangs of a seed are those of TensorFlow's collectives, which outlive no loss."""
    return random.Random(f"{seed} collectives").random() >= 0.5


class SimSite:
    """The site of one submission.

    Attributes:
        agents: All that were ever started; `trainers` and `feeders`, too.
        servers: Where trainers take what Spark feeds, by location.
        ready_s: When the driver had heard first that a node of an attempt is ready.
        rows_lost: Rows that one node gave away came to no other.
        closed: The gang was dismissed.
    """

    place = "nowhere"
    one_machine = True

    def __init__(self, world: World, driver: Process, application: Application) -> None:
        self.world = world
        self.hub, self.faults, self.driver = world.hub, world.faults, driver
        self.application = application
        self.clock = SimClock(driver)
        self.file_systems = OneStorage(self.world, driver)
        self.duplicates_wait = random.Random(f"{world.seed} duplicates").random() < 0.5
        self.agents: list[Agent] = []
        self.trainers: list[Trainer] = []
        self.closed = False
        self.feeders: list[Process] = []
        self.servers: dict[str, DataServer] = {}
        self.rows_lost = False
        self._intakes: dict[Trainer, SimIntake] = {}
        self._handlers: Mapping[Action, Handler] = {}
        self._collectives: dict[int, Collective] = {}
        self._uploaders: dict[str, Process] = {}
        self._meetings: dict[int, Meetings] = {}
        self._members: dict[str, Member] = {}
        self._parameters: dict[int, Parameters] = {}
        self._together: dict[int, Together | None] = {}
        self._said: defaultdict[Process, dict[Action, Message]] = defaultdict(dict)
        self.replays = world.replays
        self._started = 0
        self.ready_s: dict[tuple[int, NodeId], float] = {}
        self.spares = self.homes = 0
        self._preempted: set[str] = set()

    # ---- what the gang asks for ----

    def is_loop(self, config: JobConfig) -> bool | None:
        """See `Site`: half of the seeds train over TensorFlow's collectives, whose peers give each other up."""
        return is_over_tensorflow(self.world.seed)

    def preflight(self, config: JobConfig, voice: Voice) -> None:
        """See `Site`."""

    def plan(self, config: JobConfig, voice: Voice) -> Plan:
        """See `Site`."""
        return self.world.rows.plan

    def prepare(self, config: JobConfig, plan: Plan, storage: Storage, path: str, put: Put) -> dict[str, Any]:
        """See `Site`."""
        return {}

    def ship_code(self, config: JobConfig) -> None:
        """See `Site`."""

    def check_plan(self, config: JobConfig, plan: Plan) -> None:
        """See `Site`."""

    def serve(self, config: JobConfig, handlers: Mapping[Action, Handler]) -> Server:
        """See `Site`."""
        self._handlers = handlers
        return self

    def start_agents(self, config: JobConfig, plan: Plan, settings: AgentSettings, voice: Voice) -> AgentJob:
        """See `Site`."""
        job = _Agents()
        chance = random.Random(f"{self.world.seed} {self.driver} spares")
        job.spares = self.spares = chance.choice((0, 0, 1))
        for partition in range(config.cluster.nodes + job.spares):
            within_s = 3.0 if partition < config.cluster.nodes else chance.choice((3.0, 40.0))
            self._start_later(partition, chance.uniform(0.1, within_s))
        return job

    def feed(self, config: JobConfig, plan: Plan, settings: FeederSettings, on_end: Callable[[], None]) -> Feeders:
        """See `Site`."""
        return SimFeeders(self, settings, on_end)

    def feed_fault(self, kind: str, feeder: Process, what: str, *, weight: float = 1.0) -> random.Random | None:
        """Returns chance for the details of what goes wrong with a feeder, None if nothing does."""
        strike = self.faults.strike(kind, f"{feeder} {what}", weight=weight)
        if kind == "feeder-late" and strike is not None:
            self.world.hit(feeder, "late")
        return strike

    def let_go(self, agents: Sequence[roster.AgentRecord]) -> None:
        """See `Site`."""

    def facts(self, agents: Sequence[roster.AgentRecord]) -> list[roster.ExecutorFacts]:
        """See `Site`."""
        preempted = roster.ExecutorFacts(removed="Container container_1 was preempted.", taken_back=True)
        return [preempted if agent.id in self._preempted else roster.ExecutorFacts() for agent in agents]

    # ---- the server ----

    def access(self) -> ControlAccess:
        """See `Server`."""
        return ControlAccess(location="simulated", secret="s")

    def withdraw(self) -> None:
        """See `Server`."""
        self._handlers = {}

    def shutdown(self) -> None:
        """See `Server`."""

    # ---- agents ----

    def _start_later(self, partition: int, after_s: float) -> None:
        self.hub.at(after_s, lambda: self.driver.when_awake(partial(self._start, partition)))

    def _start(self, partition: int) -> None:
        if self.closed:
            return
        self._started += 1
        hosts = self.world.hosts
        chance = random.Random(f"{self.world.seed} {self.driver} {partition} {self._started}")
        skew_s = chance.uniform(-3.0, 3.0) if "clocks-differ" in self.faults.kinds else 0.0
        host = hosts[partition % len(hosts)] if self._started <= len(hosts) else chance.choice(hosts)
        agent = Agent(self, partition, host, self._started, self.world.seed, skew_s=skew_s)
        self.agents.append(agent)
        agent.process.on_end.append(partial(self._echo, agent.process))
        self._perhaps(agent.process, "node-dies", agent.die)
        self._perhaps(agent.process, "node-freezes", agent.freeze)
        self._perhaps(agent.process, "node-preempted", partial(self._preempt, agent))

    def _preempt(self, agent: Agent) -> None:
        self._preempted.add(agent.id)
        agent.die()

    def trainer(self, agent: Agent, spec: Training) -> Trainer:
        """Starts a trainer of the node's role."""
        lives: dict[Role, Callable[[Any, Agent, Training], Trainer]] = {
            Role.CHIEF: Coordinator,
            Role.PS: ParameterServer,
            Role.WORKER: Worker if spec.cluster.ps else Survivor if spec.outlives_losses else Trainer,
            Role.EVALUATOR: Evaluator,
        }
        return lives[spec.node.role](self, agent, spec)

    def began(self, trainer: Trainer) -> None:
        """Told of each trainer that is started."""
        self.trainers.append(trainer)
        self._perhaps(trainer.process, "trainer-dies", lambda: trainer.exit(-9))
        self._perhaps(trainer.process, "trainer-freezes", trainer.freeze)
        if trainer.spec.collectives == "sparktf":
            self._perhaps(trainer.process, "link-cut", lambda: self._cut(trainer))
        if trainer.spec.incarnation:
            self._perhaps(trainer.process, "successor-dies", lambda: trainer.exit(-9), within_s=6.0)
        trainer.process.on_end.append(partial(self._echo, trainer.process))

    def _cut(self, trainer: Trainer) -> None:
        links = self.meetings(trainer.spec) if trainer.spec.outlives_losses else self.collective(trainer.spec)
        for end in links.cut(trainer):
            self.world.hit(end.process, "link-cut")

    def _echo(self, process: Process) -> None:
        """Has what somebody who is gone has said last of each kind come again, when others may have his place."""
        for action, message in self._said.pop(process, {}).items():
            if chance := self.faults.strike("voice-of-the-dead", f"{process} {action}"):
                after_s = chance.choice((0.5, 2.0, 5.0, 12.0))
                self.hub.at(after_s, partial(self._deliver, Waiter(process), action, message, 0.01))

    def _perhaps(self, process: Process, kind: str, act: Callable[..., None], within_s: float = 25.0) -> None:
        weight = 1.0 if kind.startswith("successor") else 2.0 / self.world.config.cluster.nodes
        if (chance := self.faults.strike(kind, f"{process}", weight=weight)) is None:
            return
        after_s = chance.uniform(0.0, within_s)
        args = () if kind.endswith(("dies", "cut", "preempted")) else (chance.choice((1.0, 4.0, 9.0, 15.0, 40.0)),)
        note = f"{process} {kind.partition('-')[2]} in {after_s:.1f} s" + (f" for {args[0]:g} s" if args else "")
        self.faults.schedule[-1] = self.faults.schedule[-1]._replace(what=note)

        def happen() -> None:
            if not process.dead and self.hub.now < self.faults.until_s:
                self.world.hit(
                    process, kind, lasts=args[0] >= _LONG_S if args else kind.endswith(("dies", "preempted"))
                )
                act(*args)

        self.hub.at(after_s, happen)

    def ended(self, agent: Agent, *, home: bool) -> None:
        """Has an agent started again that did not go home."""
        if home:
            self.homes += 1
            self.world.went_home(self, agent)
        elif not self.closed and not self.driver.dead:
            after_s = agent.process.rng.uniform(0.3, 3.0)
            if chance := self.faults.strike("agent-away", f"{agent.process} is followed late"):
                after_s = min(chance.choice((8.0, 15.0, 30.0, 60.0)), self.faults.until_s - self.hub.now + after_s)
            self._start_later(agent.partition, after_s)

    # ---- the way of messages ----

    def call(self, caller: Process, action: Action, message: Message, timeout_s: float) -> Any:
        """Returns the driver's answer, as `ControlClient.call` does.

        Raises:
            GoneError: the driver's process is gone.
            DriverLostError: no answer came in time.
            RefusedError: the driver refused it.
            ControlError: the driver failed.
        """
        waiter, faults, rng = Waiter(caller), self.faults, caller.rng
        what = f"{caller} {action}"
        ways = [rng.uniform(0.001, 0.02)]
        if chance := faults.strike("message-late", what):
            ways[0] += chance.choice((0.5, 3.0, 8.0, 20.0))
            self.world.hit(caller, "late")
        if chance := faults.strike("message-twice", what):
            ways.append(chance.choice((0.01, 1.0, 5.0, 12.0)))
        if faults.strike("message-lost", what):
            self.world.hit(caller, "lost")
            ways.clear()
        if "voice-of-the-dead" in faults.kinds:
            self._said[caller][action] = message
            if isinstance(message, TrainerExited) and (chance := faults.strike("voice-of-the-dead", what)):
                ways.append(chance.choice((2.0, 5.0, 12.0)))
        for way_s in ways:
            self.hub.at(way_s, partial(self._deliver, waiter, action, message, rng.uniform(0.001, 0.02)))
        if isinstance(message, NodeMessage):
            self._strike_caller(caller, what)
        if not caller.wait(waiter, timeout_s):
            raise DriverLostError(f"no answer to {action}")
        if isinstance(waiter.answer, Exception):
            raise waiter.answer
        return waiter.answer

    def _strike_caller(self, caller: Process, what: str) -> None:
        """Has a trainer die or stand still around the moment at which what it says arrives."""
        for kind in ("caller-dies", "caller-freezes"):
            if (chance := self.faults.strike(kind, what)) is None:
                continue
            trainer = next((t for t in reversed(self.trainers) if t.process is caller), None)
            if trainer is None:
                continue  # its agent speaks of it
            for_s = chance.choice((4.0, 9.0, 15.0, 40.0))
            dies = kind.endswith("dies")
            self.world.hit(caller, kind, lasts=dies or for_s >= _LONG_S)
            act = partial(trainer.exit, -9) if dies else partial(trainer.freeze, for_s)
            self.hub.at(chance.uniform(0.0, 0.04), act)

    def _deliver(self, waiter: Waiter, action: Action, message: Message, back_s: float) -> None:
        if self.driver.dead or not self._handlers:
            self.hub.at(back_s, partial(waiter.wake, GoneError("connection refused")))
        elif self.driver.frozen:
            self.driver.when_awake(partial(self._deliver, waiter, action, message, back_s))
        else:
            answer = self._answer(action, message)
            if chance := self.faults.strike("answer-late", f"to {waiter.process} {action}"):
                back_s += chance.choice((0.5, 2.0, 5.0))
                self.world.hit(waiter.process, "late")
            if self.faults.strike("message-lost", f"answer to {waiter.process} {action}"):
                self.world.hit(waiter.process, "lost")
            else:
                self.hub.at(back_s, partial(waiter.wake, answer))

    def _answer(self, action: Action, message: Message) -> Message | Exception:
        try:
            answer = self._handlers[action].answer(message)
            if isinstance(message, Ready):
                self.ready_s.setdefault((message.attempt, message.node), self.hub.now)
            if isinstance(message, AgentHeartbeat) and isinstance(answer, Orders) and answer.order is Order.STOP:
                self.world.stopped(self, message)
            if isinstance(message, AgentHeartbeat) and isinstance(answer, Orders):
                self.world.waits(self, message, is_free=answer.order is Order.WAIT and message.trainer is None)
            if isinstance(message, BlockLeaseRequest) and isinstance(answer, BlockLease):
                lessee = self.lessee(message.attempt, message.node, message.incarnation)
                self.world.replays.leased(lessee, message.epoch, message.number, answer.pieces)
            return answer
        except RefusedError as error:
            return error
        except LifecycleError as error:
            self.hub.crashes.append(f"{action} of {self.driver}: {error}")
            return ControlError(str(error))
        except SparkTFError as error:
            return ControlError(str(error))
        except Exception as error:  # noqa: BLE001  as a server does: the next message is answered all the same
            self.hub.crashes.append(f"{action} of {self.driver}: {type(error).__name__}: {error}")
            return ControlError(str(error))

    # ---- what nodes share ----

    def storage(self, process: Process) -> Storage:
        """Returns a node's view of the storage."""
        return SimStorage(self.world.disk, way_of(self.world, process))

    def collective(self, spec: Training) -> Collective:
        """Returns that of an attempt's trainers."""
        found = self._collectives.get(spec.attempt)
        if found is None:
            found = self._collectives[spec.attempt] = Collective(self.hub, len(spec.cluster.worker), self.empty())
            found.sized(spec.config.train.batch_size)
        return found

    def meetings(self, spec: Training) -> Meetings:
        """See `GangLine`."""
        return self._meetings.setdefault(spec.attempt, Meetings(self.hub))

    def listen(self, trainer: Trainer) -> DataAddress:
        """Returns where feeders find a trainer from now on."""
        intake = self._intakes[trainer] = SimIntake(self, trainer)
        return intake.address

    def share(self, trainer: Trainer, answer: Any, epoch: int) -> Share:
        """Returns what a trainer was given."""
        if answer.staged is not None:
            return FedShare(self._intakes[trainer].open(Stream.TRAIN, epoch, answer.staged))
        if not isinstance(self.world.rows, Rows):
            raise LifecycleError("Spark feeds these rows")
        return PlannedShare(self.world.rows.of(answer.assignment, epoch), answer.assignment.intervals)

    def empty(self) -> npt.NDArray[np.uint8]:
        """Returns the weights of a model that has seen no row."""
        return np.zeros((self.world.config.train.epochs, self.world.rows.count), np.uint8)

    def hit(self, process: Process, what: str, *, lasts: bool = False) -> None:
        """See `World`."""
        self.world.hit(process, what, lasts=lasts)

    # ---- what nodes of roles share ----

    def listen_at(self, address: str, trainer: Member) -> None:
        """See `AsyncLine`."""
        self._members[address] = trainer

    def listens(self, address: str) -> bool:
        """See `AsyncLine`."""
        return address in self._members and not self._members[address].process.dead

    def worker_at(self, address: str) -> Worker:
        """See `AsyncLine`."""
        return cast("Worker", self._members[address])

    def member_at(self, address: str) -> Member | None:
        """See `AsyncLine`."""
        return self._members.get(address)

    def read(self, assignment: Assignment, epoch: int) -> tuple[Ids, Ids]:
        """See `AsyncLine`."""
        rows = cast("Rows", self.world.rows)
        ids = rows.of(assignment, epoch)
        return ids, np.flatnonzero(~rows.bad[ids])

    @property
    def all_parameters(self) -> Collection[Parameters]:
        """Those of all attempts."""
        return self._parameters.values()

    def parameters(self, attempt: int) -> Parameters:
        """See `AsyncLine`."""
        return self._parameters[attempt]

    def together(self, attempt: int) -> Together | None:
        """See `AsyncLine`."""
        return self._together[attempt]

    def hold(self, attempt: int, parameters: Parameters, together: Together | None) -> None:
        """See `AsyncLine`."""
        self._parameters[attempt], self._together[attempt] = parameters, together

    def lessee(self, attempt: int, node: NodeId, incarnation: int) -> Lessee:
        """See `AsyncLine`."""
        return Lessee(self.driver.name, attempt, node, incarnation)

    def violate(self, what: str) -> None:
        """See `AsyncLine`."""
        self.world.violate(what)

    def stores(self, trainer: Trainer, path: str) -> None:
        """See `Line`."""
        before = self._uploaders.setdefault(path, trainer.process)
        if before is not trainer.process:
            self.violate(f"{trainer.process} stores {path}, as {before} has done")

    def fed(self, worker: Worker, epoch: int, receipts: Receipts) -> LeasedFeed:
        """See `AsyncLine`."""
        return self._intakes[worker].feed(worker, epoch, receipts)

    def missed(self, trainer: Member, what: str) -> None:
        """See `AsyncLine`."""
        self.world.missed(self, trainer, what)


class PlannedShare(NamedTuple):
    """See `Share`."""

    ids: Ids
    intervals: list[tuple[int, int]]

    def first(self, rows: int) -> Ids:
        """See `Share`."""
        return self.ids[:rows]


class _Agents:
    """The agents' job, which Spark never gives up."""

    spares = 0

    def ended(self) -> str | None:
        """See `AgentJob`."""
        return None

    def restart(self) -> None:
        """See `AgentJob`."""

    def close(self, wait_s: float) -> None:
        """See `AgentJob`. Nobody waits: what is held afterwards is checked."""


class OneStorage(FileSystems):
    """Opens one process's view of the simulated storage."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__()
        self._world = world
        self._process = process

    def open(self, path: str, *, deadline_s: float | None = None) -> Storage:
        """See `FileSystems`."""
        return SimStorage(self._world.disk, way_of(self._world, self._process, deadline_s or _DEADLINE_S, driver=True))


def way_of(world: World, process: Process, deadline_s: float = _DEADLINE_S, *, driver: bool = False) -> Way:
    """Returns how the calls of one process reach the storage.

    A call takes effect before or after the time that it takes: whoever dies or freezes in between was cut off after
    its effect, or before.
    """
    faults, hub, rng = world.faults, world.hub, process.rng

    def call(what: str, path: str, apply: Callable[[], Any]) -> Any:
        where = f"{process}: {what} {path}"
        trouble = _trouble(world, process, what, where, deadline_s)
        if trouble.error is not None:
            world.hit(process, "storage")
        weight = _OF_MODEL if world.rundir.model in path else 1.0
        kind = "night" if world.models is not None and world.models.is_of(path) else "driver"
        if driver and faults.strike(f"{kind}-killed", where, weight=weight):
            hub.at(rng.uniform(0.0, trouble.takes_s), process.kill)
        if driver and (chance := faults.strike(f"{kind}-frozen", where, weight=weight)):
            for_s = chance.choice((2.0, 8.0, 25.0, 60.0))
            hub.at(rng.uniform(0.0, trouble.takes_s), partial(process.freeze, for_s))
            world.hit(process, "frozen")
            if for_s >= _LONG_S:  # who started it takes it for dead
                hub.at(chance.uniform(1.0, for_s), world.submit_beside)
        first, answer = rng.random() < 0.5, None
        try:
            if trouble.has_effect and first:
                answer = _applied(world, process, what, path, apply)
            process.sleep(trouble.takes_s)
            if trouble.has_effect and not first:
                answer = _applied(world, process, what, path, apply)
        except OSError:
            if trouble.error is None:
                raise
        if trouble.error is not None:
            raise trouble.error
        return answer

    return call


class _Trouble(NamedTuple):
    """What becomes of one call.

    Attributes:
        has_effect: Whatever the caller is told.
    """

    takes_s: float
    error: StorageError | None = None
    has_effect: bool = True


def _trouble(world: World, process: Process, what: str, where: str, deadline_s: float) -> _Trouble:
    faults, takes_s = world.faults, process.rng.uniform(0.001, 0.01)
    if what in _WRITES and world.disk_is_full():
        return _Trouble(takes_s, StorageQuotaError(f"cannot {where}: the quota is exceeded"), has_effect=False)
    if faults.strike("storage-slow", where):
        takes_s += process.rng.uniform(0.2, 4.0)
        world.hit(process, "storage")
    if chance := faults.strike("storage-hangs", where):
        takes_s = min(takes_s + chance.uniform(3.0, 40.0), deadline_s)
        has_effect = chance.random() < 0.5
        answers = has_effect and chance.random() < 0.5 and takes_s < deadline_s
        error = None if answers else StorageUnavailableError(f"cannot {where}: no answer for {takes_s:.0f} s")
        world.hit(process, "storage")
        return _Trouble(takes_s, error, has_effect)
    if faults.strike("storage-fails", where):
        return _Trouble(takes_s, StorageUnavailableError(f"cannot {where}: connection refused"), has_effect=False)
    if faults.strike("storage-loses-answers", where):
        return _Trouble(takes_s, StorageUnavailableError(f"cannot {where}: connection reset"))
    return _Trouble(takes_s)


def _applied(world: World, process: Process, what: str, path: str, apply: Callable[[], Any]) -> Any:
    answer = apply()
    if what in ("rename", "write", "delete"):
        world.changed(process, *path.split(" -> "))
    if what in ("rename", "replace", "write", "delete") and world.models is not None and world.models.is_of(path):
        world.models.changed(process)
    return answer
