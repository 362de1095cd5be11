"""Gangs that run functions: the product's gang and discipline among simulated agents, functions, feeders and messages.

Played by `test_function_seeds.py`; beside the seeds of trainings, whose faults and strategies are others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from simulation.answering import AFTER_FEED_S, FEED_TIMEOUT_S, GOOD, HABITS, Answering, Asker, wrong
from simulation.hub import EPOCH_S, Hub, Process, SimClock, SimCondition, Waiter
from simulation.nodes import BEAT_S, DRIVER_LOST_S, HEARTBEAT_S, Agent, GoneError, patiently

from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.gang.function_gang import FunctionGang
from sparktf.driver.gang.roster import AgentRecord, ExecutorFacts
from sparktf.driver.gang.site import Handler
from sparktf.errors import (
    ControlError,
    DriverLostError,
    ErrorRecord,
    ModelError,
    RefusedError,
    SparkTFError,
    Verdict,
)
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.results.result import Application
from sparktf.storage.file_systems import FileSystems
from sparktf.wire.control import Action, Failed, Heartbeat, Progress, Ready, StopOrder
from sparktf.wire.data import DataAddress
from sparktf.wire.guest import Deal, DealRequest, GuestNode
from sparktf.wire.security import ControlAccess
from sparktf.wire.trainer_spec import Function
from sparktf.wire.uploads import Finished

TIMEOUTS = TimeoutsConfig(heartbeat=HEARTBEAT_S, driver_lost=DRIVER_LOST_S, start=30.0, stop=3.0)
KINDS = (
    "agent-missing",
    "node-dies",
    "node-freezes",
    "function-dies",
    "function-freezes",
    "function-hangs",
    "function-raises",
    "function-joins",
    "function-is-bad",
    "message-lost",
    "message-twice",
)
RESERVE_S, START_S, WORK_S = 40.0, (0.5, 4.0), (3.0, 25.0)
NOTICED_S = 2 * HEARTBEAT_S + 5.0
"""So long after the first thing that goes wrong its failure is known, settled, and told."""
RETURN_S = 60.0
"""So long after the end of the feed functions have returned."""
PARTITIONS = 6
CLOSED_S = 2 * (HEARTBEAT_S + TIMEOUTS.stop) + 10.0
_PEERS_S = (0.05, 0.5)
_ON, _MESSAGES = 0.25, 0.03
_SERVING = ("ps", "evaluator")
_JOBS = (["worker"], ["worker"] * 4, ["ps", "chief", "worker", "worker"], ["chief", "evaluator"])


class SimFunction:
    """A process that runs a function, as `guest_life` does.

    Attributes:
        has_begun: Its function has.
        returned: Its function has; `is_told`: and the driver knows.
        rows: That feeders have brought.
        answering: What it does with rows that want answers, if it does that.
        serves: It is within a server's `join()`.
    """

    def __init__(self, world: FunctionWorld, agent: Agent, spec: Function) -> None:
        self.world, self.agent, self.spec = world, agent, spec
        self.exit_code: int | None = None
        self.stop_asked_s: float | None = None
        self.has_begun = self.returned = self.is_told = self._fails = False
        self.rows = 0
        self.process = Process(world.hub, f"{agent.process.name}/{spec.guest.job}-{spec.guest.index}", world.seed)
        self.process.on_end.append(self._note_end)
        self.serves = False
        self.answering = world.habit(self) if spec.guest.is_fed and world.answers else None
        self.process.spawn(self._main)
        self.process.spawn(self._beats)

    def exit(self, code: int) -> None:
        """Ends it, with an exit code."""
        if self.exit_code is None and not self.process.dead:
            self.exit_code = code
            self.process.kill()

    def freeze(self, for_s: float) -> None:
        self.process.freeze(for_s)

    def lose_peer(self) -> None:
        """TensorFlow tells it that another node is gone."""
        if self.has_begun and not self.process.dead and not self.returned and self.spec.guest.job not in _SERVING:
            self.process.spawn(partial(self._fail, "lost its peers", peer=True))

    def _note_end(self) -> None:
        if self.exit_code is None:
            self.exit_code = -9
        self.world.function_ended(self)

    def _call(self, action: Action, message: Message) -> Any:
        return patiently(self.world.line, self.process, action, message, DRIVER_LOST_S, HEARTBEAT_S)

    def _main(self) -> None:
        sender, rng = self.spec.sender, self.process.rng
        try:
            self.process.sleep(rng.uniform(*START_S))
            address = DataAddress(host=self.agent.host, socket=self.process.name, location="")
            data = address if self.spec.guest.is_fed else None
            self._call(Action.READY, Ready(**sender, replicas=1, keras="none", versions={}, weights=0, data=data))
            self.has_begun = True
            if self.spec.guest.job in _SERVING:
                self.process.sleep(1e6)
            self.serves = self.world.joins(self)
            if self.serves:
                self.process.sleep(1e6)
            if self.answering is not None:
                self._answer(self.answering)
            else:
                self.process.sleep(rng.uniform(*WORK_S))
            while self.spec.guest.is_fed and not self.world.fed and not self.answering:
                self.process.sleep(0.2)
            if self._fails:
                self.process.sleep(1e6)
            self.returned = True
            self._call(Action.FINISHED, Finished(**sender, step=0, model=()))
            self.is_told = True
            self.process.sleep(1e6)
        except ControlError:
            self.exit(70)

    def _answer(self, answering: Answering) -> None:
        answering.queue.failed = lambda error: self._fail(str(error), peer=False)
        try:
            answering.work()
        except ModelError as error:
            self._fail(str(error), peer=False)

    def raises(self) -> None:
        """The function raises."""
        if self.has_begun and not self.returned:
            self.process.spawn(partial(self._fail, f"no luck on {self.spec.node}", peer=False))

    def _fail(self, what: str, *, peer: bool) -> None:
        if self.returned or self._fails:
            return
        self._fails = True
        kind, verdict = ("NodeLostError", Verdict.INFRASTRUCTURE) if peer else ("ModelError", Verdict.MODEL_FAILED)
        time_s, node = EPOCH_S + self.world.hub.now, str(self.spec.node)
        record = ErrorRecord(type=kind, message=what, verdict=verdict, time_s=time_s, node=node, peer=peer)
        with suppress(ControlError):
            self._call(Action.FAILED, Failed(**self.spec.sender, record=record))
        self.exit(1)

    def _beats(self) -> None:
        heard_s = self.world.hub.now
        while True:
            progress = Progress(phase="serving" if self.serves else "training")
            beat = Heartbeat(**self.spec.sender, progress=progress)
            try:
                answer = self.world.call(self.process, Action.HEARTBEAT, beat, HEARTBEAT_S)
                heard_s = self.world.hub.now
                if StopOrder() in answer.orders:
                    self.exit(0 if self.returned else 143)
            except RefusedError:
                self.exit(143)
            except ControlError as error:
                limit_s = KNOBS.driver_gone_s if isinstance(error, GoneError) else DRIVER_LOST_S
                if self.world.hub.now - heard_s > limit_s:
                    self.exit(70)
            self.process.sleep(BEAT_S)


class FunctionWorld:
    """One seed: a program, its nodes, and what goes wrong.

    Attributes:
        fed: All rows were brought.
        struck: What went wrong, and when.
        answers: Whether feeders want results: else nodes only take rows.
        hits: Node -> when the first thing happened to it that may be its loss.
        violations: What was wrong.
    """

    place, one_machine, duplicates_wait, spares = "nowhere", True, False, 0

    def __init__(self, seed: int, kinds: frozenset[str] | None = None) -> None:
        """Draws what goes wrong, unless its kinds are given."""
        chance = self._chance = random.Random(f"functions {seed}")
        self.seed, self.hub = seed, Hub()
        self.line: Any = self
        drawn = frozenset(kind for kind in KINDS if chance.random() < _ON)
        self.kinds = drawn if kinds is None else kinds
        self.jobs = chance.choice(
            (["worker"], ["worker"] * 4, ["ps", "chief", "worker", "worker"], ["chief", "evaluator"])
        )
        self.answers = seed % 2 == 1
        self.askers: list[Asker] = []
        self._habits = random.Random(f"habits {seed}")
        self.driver = Process(self.hub, "driver", seed)
        self.clock = SimClock(self.driver)
        self.application, self.file_systems = Application("app"), FileSystems()
        made: Any = self
        self.gang = FunctionGang(made, len(self.jobs), TIMEOUTS)
        self.gang.roster.changed = SimCondition(self.driver, 0.05)
        self.fed = False
        self.functions: list[SimFunction] = []
        self.agents: list[Agent] = []
        self.struck: list[tuple[float, str]] = []
        self.hits: dict[str, float] = {}
        self._noticed_s = NOTICED_S
        self.violations: list[str] = []
        self.end: SparkTFError | str | None = None
        self.told_s = self.closed_s = 0.0
        self._handlers: Mapping[Action, Handler] = {}
        self._closed = False
        self._missing = len(self.jobs) - 1 if self._strikes("agent-missing", 0.5) else -1

    # ---- the program ----

    def play(self) -> list[str]:
        """Returns what was wrong."""
        self.driver.spawn(self._program)
        if not self.hub.run(lambda: self.driver.dead, 600.0):
            return [f"the program does not end; what went wrong: {self.struck}"]
        self.hub.run(lambda: False, self.hub.now + CLOSED_S)
        self.violations += [*self.hub.crashes, *self._checks()]
        return self.violations

    def _program(self) -> None:
        try:
            agents = self.gang.reserve("program", RESERVE_S, self._serve, self._start)
            self.gang.begin("program:main", list(self._nodes(agents)), agents, "/runs")
            for split in range(PARTITIONS if self.answers else 3):
                (self._ask if self.answers else self._feeder)(split)
            self.gang.await_until(lambda: self.fed)
            for answering in (function.answering for function in self.functions):
                if answering is not None:
                    answering.queue.end(FEED_TIMEOUT_S, AFTER_FEED_S)
            self.gang.await_until(lambda: self.gang.functions.is_done, RETURN_S)
            until_s = self.clock.now_s() + 2.0
            self.gang.await_until(lambda: self.gang.functions.is_over or self.clock.now_s() >= until_s)
            self.end = "done"
        except SparkTFError as error:
            self.end = error
        finally:
            self.told_s = self.hub.now
            self.gang.close()
            self.closed_s = self.hub.now

    def _nodes(self, agents: list[AgentRecord]) -> Iterator[GuestNode]:
        cluster: dict[str, tuple[str, ...]] = {}
        for job, agent in zip(self.jobs, agents, strict=True):
            cluster[job] = (*cluster.get(job, ()), agent.address)
        for number, job in enumerate(self.jobs):
            index, is_fed = self.jobs[:number].count(job), job not in _SERVING
            common: Any = {"cluster": cluster, "default_fs": "file://", "working_dir": "/"}
            yield GuestNode(number=number, job=job, index=index, is_fed=is_fed, **common)

    def _feeder(self, split: int) -> None:
        process = Process(self.hub, f"feeder-{split}", self.seed)

        def feed() -> None:
            for _ in range(10):
                process.sleep(process.rng.uniform(0.1, 1.0))
                try:
                    request, takers = DealRequest(rows=process.rng.randint(1, 7)), self.gang.functions.places()
                    deal: Deal = patiently(self.line, process, Action.DEAL, request, DRIVER_LOST_S, HEARTBEAT_S)
                except ControlError:
                    return
                if deal.is_over:
                    break
                for i in range(request.rows):
                    taker = takers[(deal.first + i) % len(takers)].data.socket
                    next(one for one in self.functions if one.process.name == taker).rows += 1
            self._feeders_left -= 1
            self.fed = self._feeders_left == 0

        self._feeders_left = 3
        process.spawn(feed)

    def _ask(self, partition: int) -> None:
        """Has a feeder bring a partition and ask for its results."""
        asker = Asker(Process(self.hub, f"feeder-{partition}", self.seed), partition, self._habits)
        self.askers.append(asker)

        def cause() -> str:
            try:
                deal: Deal = patiently(
                    self.line, asker.process, Action.DEAL, DealRequest(rows=0), HEARTBEAT_S, HEARTBEAT_S
                )
            except ControlError:
                return "the cluster has ended"
            return "" if deal.cause is None else deal.cause.message

        def ask() -> None:
            asker.process.sleep(asker.process.rng.uniform(0.1, 5.0))
            place = self.gang.functions.places()[partition % len(self.gang.functions.places())]
            at = next(one for one in self.functions if one.process.name == place.data.socket)
            assert at.answering is not None
            asker.ask(at.answering, cause)
            self.fed = all(asker.end for asker in self.askers)

        asker.process.spawn(ask)

    def habit(self, function: SimFunction) -> Answering:
        """Draws what a function does with rows that want answers."""
        draw = self._habits
        bad = "function-is-bad" in self.kinds and draw.random() < 0.5
        habit, others = draw.choice(HABITS) if bad else GOOD, draw.random() < 0.5
        note = partial(self._is_bad, function)
        return Answering(function.process, str(function.spec.node), habit, note, others=others)

    def _is_bad(self, function: SimFunction, what: str) -> None:
        if not self.told_s:
            self.struck.append((self.hub.now, f"{what} {function.spec.node}"))
            self.hits.setdefault(str(function.spec.node), self.hub.now)
            limit_s = RETURN_S if what == "takes-nothing" else FEED_TIMEOUT_S
            self._noticed_s = max(self._noticed_s, limit_s + NOTICED_S)

    def joins(self, function: SimFunction) -> bool:
        """Draws whether a worker only serves its chief."""
        can = "chief" in self.jobs and function.spec.guest.job == "worker" and not self.answers
        return can and "function-joins" in self.kinds

    # ---- the site ----

    def facts(self, agents: Any) -> list[ExecutorFacts]:
        return [ExecutorFacts() for _ in agents]

    def _serve(self, handlers: Mapping[Action, Handler]) -> Any:
        self._handlers = handlers
        return self

    def access(self) -> ControlAccess:
        return ControlAccess(location="simulated", secret="s")

    def withdraw(self) -> None:
        self._handlers = {}

    def shutdown(self) -> None: ...

    def _start(self, settings: Any) -> Any:
        for partition in range(len(self.jobs)):
            if partition != self._missing:
                self._start_later(partition, self._chance.uniform(0.1, 5.0))
        return self

    def ended(self, *agent: Any, home: bool = False) -> str | None:
        """Of an agent: has it started again, unless it went home. Of all: they were never given up."""
        if agent and not home and not self._closed:
            self._start_later(agent[0].partition, 1.0)
        return None

    def restart(self) -> None: ...

    def close(self, wait_s: float) -> None:
        self._closed = True
        self.driver.sleep(2.0)

    def _start_later(self, partition: int, after_s: float) -> None:
        def start() -> None:
            if not self._closed:
                number = len(self.agents) + 1
                agent = Agent(self.line, partition, f"h{partition}", number, self.seed, skew_s=0.0)
                self.agents.append(agent)

        self.hub.at(after_s, start)

    def trainer(self, agent: Agent, spec: Function) -> SimFunction:
        return SimFunction(self, agent, spec)

    def began(self, function: SimFunction) -> None:
        """Draws what happens to a function that is started."""
        self.functions.append(function)
        deeds: dict[str, Any] = {
            "node-dies": function.agent.die,
            "node-freezes": partial(function.agent.freeze, 60.0),
            "function-dies": partial(function.exit, -9),
            "function-freezes": partial(function.freeze, 2.0),
            "function-hangs": partial(function.freeze, 60.0),
            "function-raises": function.raises,
        }
        for kind, deed in deeds.items():
            if self._strikes(kind, 0.3):
                self.hub.at(self._chance.uniform(0.5, 20.0), partial(self._hit, function, kind, deed))

    def _hit(self, function: SimFunction, kind: str, deed: Any) -> None:
        if function.process.dead or self.told_s or (function.returned and not function.is_told):
            return
        harmless = kind == "function-freezes" or (kind == "function-raises" and not function.has_begun)
        if not function.is_told and not harmless:
            self.struck.append((self.hub.now, f"{kind} {function.spec.node}"))
            self.hits.setdefault(str(function.spec.node), self.hub.now)
            # One that has not begun is waited for as long as all have to begin.
            self._noticed_s = max(self._noticed_s, NOTICED_S if function.has_begun else TIMEOUTS.start + NOTICED_S)
        deed()

    def function_ended(self, function: SimFunction) -> None:
        """Tells its peers, soon."""
        if function.exit_code in (-9, 1) and not function.returned:
            for other in self.functions:
                self.hub.at(self._chance.uniform(*_PEERS_S), other.lose_peer)

    def _strikes(self, kind: str, rate: float) -> bool:
        return kind in self.kinds and self._chance.random() < rate

    # ---- the way of messages ----

    def call(self, caller: Process, action: Action, message: Message, timeout_s: float) -> Any:
        """Returns the driver's answer, as `ControlClient.call` does."""
        waiter, ways = Waiter(caller), [caller.rng.uniform(0.001, 0.02)]
        if self._strikes("message-twice", _MESSAGES):
            ways.append(self._chance.choice((0.01, 1.0, 5.0)))
        if self._strikes("message-lost", _MESSAGES):
            ways.clear()
        for way_s in ways:
            self.hub.at(way_s, partial(self._deliver, waiter, action, message))
        if not caller.wait(waiter, timeout_s):
            raise DriverLostError(f"no answer to {action}")
        if isinstance(waiter.answer, Exception):
            raise waiter.answer
        return waiter.answer

    def _deliver(self, waiter: Waiter, action: Action, message: Message) -> None:
        answer: Message | Exception
        if self.driver.dead or not self._handlers:
            answer = GoneError("connection refused")
        else:
            try:
                answer = self._handlers[action].answer(message)
            except RefusedError as error:
                answer = error
            except Exception as error:  # noqa: BLE001  as a server does: the next message is answered all the same
                self.hub.crashes.append(f"{action}: {type(error).__name__}: {error}")
                answer = ControlError(str(error))
        self.hub.at(0.01, partial(waiter.wake, answer))

    # ---- what is looked at ----

    def _checks(self) -> Iterator[str]:
        yield from self._of_the_end()
        yield from self._of_time()
        for agent in self.agents:
            if not agent.process.dead and not agent.process.frozen:
                yield f"{agent.process} is held"
        for function in self.functions:
            if not function.process.dead and not function.process.frozen:
                yield f"{function.process} still runs"
        for asker in self.askers:
            if (said := wrong(asker)) is not None:
                yield said
            if not asker.end:
                yield f"partition {asker.partition} is still waited for"

    def _of_the_end(self) -> Iterator[str]:
        first_s = min(self.hits.values(), default=1e9)
        if self.end == "done":
            yield from self._of_done()
            return
        message = str(self.end)
        if "not returned within" in message:
            late = [node for node in self.hits if node in message]
            if not late:
                yield f"nothing has happened to those of whom is said: {message}"
            return
        if self._missing >= 0:
            if f"node {self._missing}" not in message.partition("missing: ")[2]:
                yield f"node {self._missing} did not come, and the end is: {message}"
            return
        cause = self.gang.cause
        if cause is None:
            yield f"no node has failed, and the end is: {message}"
        elif "message-lost" not in self.kinds and cause.node not in self.hits:
            yield f"{cause.node} is the cause, to which nothing had happened: {message}"
        elif cause.node in self.hits and self.hits[cause.node] > first_s + self._noticed_s:
            yield f"{cause.node} is the cause, which came long after the first: {message}"
        elif cause.peer and self.hits:
            yield f"the cause is what a peer has seen: {message}"

    def _of_done(self) -> Iterator[str]:
        working = [one for one in self.functions if one.spec.guest.job not in _SERVING and not one.serves]
        returned = {str(function.spec.node) for function in self.functions if function.returned}
        if len(returned) < len(working):
            yield f"done, and only {returned} have returned"
        rows = [function.rows for function in self.functions if function.spec.guest.is_fed]
        if not self.kinds and max(rows) - min(rows) > 1:
            yield f"nodes were dealt {rows} rows"
        if not self.struck and (left := [asker.end for asker in self.askers if asker.end != "done"]):
            yield f"done, and a partition has ended with: {left[0]}"
        if shown := [what for _, what in self.struck if what.startswith(("leaves", "answers", "returns"))]:
            yield f"done, and results were left out: {shown[0]}"

    def _of_time(self) -> Iterator[str]:
        first_s = min(self.hits.values(), default=self.told_s)
        if self.told_s > first_s + self._noticed_s:
            yield f"told after {self.told_s - first_s:.0f} s: {self.struck}"
        usual_s = RESERVE_S + TIMEOUTS.start + WORK_S[1] + NOTICED_S + (2 * DRIVER_LOST_S if self.kinds else 0.0)
        if self.told_s > usual_s:
            yield f"told only after {self.told_s:.0f} s: {self.struck}"
        if self.closed_s > self.told_s + CLOSED_S:
            yield f"closed {self.closed_s - self.told_s:.0f} s after its end was told"
