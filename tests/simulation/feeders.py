"""Rows that Spark feeds: simulated feeders and data channels; what both ends do with a call is the product's own."""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from pyarrow import flight
from simulation.hub import Process, SimCondition, Waiter
from simulation.leasing import LeasedRows, fed
from simulation.nodes import Trainer, patiently
from simulation.rows import BLOCK_ROWS, FedRows, Ids

from sparktf.errors import LifecycleError, NodeLostError, SparkTFError
from sparktf.executor.feeder import FeederSettings
from sparktf.feed.blocks import BlockPart
from sparktf.feed.channel import server
from sparktf.feed.channel.client import DataClient
from sparktf.feed.channel.staged_parts import StagedParts
from sparktf.feed.channel.staged_rows import Budget
from sparktf.feed.channel.staging import Staging
from sparktf.feed.leased_feed import LeasedFeed
from sparktf.feed.receipts import Receipts
from sparktf.knobs import KNOBS
from sparktf.sequence import Interval
from sparktf.trainer.node.inputs import Input
from sparktf.trainer.node.intake import Intake
from sparktf.wire.control import Action
from sparktf.wire.data import DataAddress, Lease, LeaseRequest, Offer, Span

if TYPE_CHECKING:
    from simulation.roles import Worker
    from simulation.site import SimSite

_BATCH_ROWS = 5
_SPAN = ("attempt", "stream", "epoch", "turn", "generation")
_TRIES = 4
"""Spark's own: a task that has failed so often fails its job."""

_NEVER_S = 1e9


class Server:
    """The data server of a trainer: the product's answers, without its sockets."""

    def __init__(self, process: Process, attempt: int, stagings: Any, sealed: Callable[[Span, int], None]) -> None:
        self.process = process
        self._attempt, self._stagings, self._sealed, self._wire = attempt, stagings, sealed, "tcp"
        self._me = cast(Any, self)  # the product's own methods ask for nothing that is not here
        self._span = partial(server.SplitServer._span, self._me)
        self._answered = partial(server.SplitServer._answered, self._me)

    def action(self, action: Any) -> list[Any]:
        """Answers `admit`."""
        return list(server.SplitServer.do_action(self._me, None, action))

    def put(self, descriptor: Any, stream: Stream) -> None:
        """Takes a split."""
        server.SplitServer.do_put(self._me, None, descriptor, stream, SimpleNamespace(write=lambda said: None))

    def get(self, ticket: Any) -> Any:
        """Gives rows away."""
        return server.SplitServer.do_get(self._me, None, ticket)


class SimIntake(Intake):
    """What a trainer does with rows that Spark feeds, where servers are simulated."""

    def __init__(self, site: SimSite, trainer: Trainer) -> None:
        spec, process = trainer.spec, trainer.process
        chance = random.Random(f"{site.world.seed} {process} room")
        room = chance.choice((40, 200, 1 << 30)) if spec.config.data.rebalance else sys.maxsize
        self._site, self._trainer = site, trainer
        self._numbers = itertools.count(1)
        self._place: Any = SimpleNamespace(spec=spec, send=trainer._send, ask=self._ask, generation=lambda: 1)
        folder, budget = Path("/nonexistent"), Budget(1 << 30)
        self._stagings = {
            stream: Staging(spec.feed, stream, block_rows=BLOCK_ROWS, budget=budget, room=room, folder=folder)
            for stream in spec.staged
        }
        for staging in self._stagings.values():
            staging._changed = SimCondition(process, 0.0)
        self.server = Server(process, spec.attempt, self._stagings, self._sealed)
        self.address = DataAddress(host=trainer.agent.host, socket="", location=process.name)
        site.servers[process.name] = self.server

    def feed(self, worker: Worker, epoch: int, receipts: Receipts) -> LeasedFeed:
        """Returns what a worker takes of an epoch, as `Input` does."""
        source: Any = SimpleNamespace(_place=self._place)
        source._read = lambda stream, epoch, parts: LeasedRows(worker, parts)
        source._ask_for_share = partial(Input._ask_for_share, source)
        source._ask_for_staged = partial(Input._ask_for_staged, source)
        return Input._fed(source, self, epoch, receipts)

    def _ask(self, action: Action, request: Any, kind: object) -> Any:
        return self._trainer._call(action, request)

    def _take(self, peer: DataAddress, span: Span) -> bool:
        try:
            node = data_client(self._site, self._trainer.process, peer)
            return node.fetch_block(span, self._stagings[span.stream])
        except flight.FlightError:
            return False


class FedShare:
    """A node's share of an epoch that Spark feeds, which grows as it comes; see `nodes.Share`."""

    def __init__(self, parts: StagedParts) -> None:
        self.intervals: list[Interval] = []
        self._parts: Iterator[BlockPart] = (part for part in parts if part is not None)
        self._stop = parts.stop
        self._why: Exception | None = None
        self._ids: Ids = np.empty(0, np.int64)

    def first(self, rows: int) -> Ids:
        """Returns so many rows, or all that there will be."""
        while len(self._ids) < rows and (part := next(self._parts, None)) is not None:
            self._ids = np.concatenate([self._ids, fed(part).ids])
            self.intervals.append((part.first_row, part.first_row + part.rows))
        if len(self._ids) < rows and self._why is not None:
            raise self._why
        return self._ids[:rows]

    def stop(self, why: Exception) -> None:
        """See `NodeFeed`."""
        self._why = why
        self._stop()


# ---- the data channel ----


class Answer:
    """What a call will be answered with."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._waiter: Waiter | None = None
        self._said: list[Any] = []

    def say(self, said: Any) -> None:
        """Answers it; only the first counts."""
        self._said.append(said)
        if self._waiter is not None:
            self._waiter.wake()

    def get(self) -> Any:
        """Waits for it. Raises it, where it is an error."""
        if not self._said:
            self._waiter = Waiter(self._process)
            self._process.wait(self._waiter, _NEVER_S)
        if isinstance(self._said[0], Exception):
            raise self._said[0]
        return self._said[0]


class Stream:
    """What a feeder writes and a node reads; one that breaks off looks to the reader like one that ends."""

    def __init__(self, reader: Process) -> None:
        self._reader = reader
        self._chunks: deque[Any] = deque()
        self._waiter: Waiter | None = None
        self.is_over = False

    def push(self, chunk: Any) -> None:
        """Adds a chunk."""
        if not self.is_over:
            self._chunks.append(chunk)
            self._wake()

    def end(self) -> None:
        """Ends it, or breaks it off."""
        self.is_over = True
        self._wake()

    def __iter__(self) -> Iterator[Any]:
        while True:
            if self._chunks:
                yield self._chunks.popleft()
            elif self.is_over:
                return
            else:
                self._waiter = Waiter(self._reader)
                self._reader.wait(self._waiter, _NEVER_S)
                self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None:
            self._waiter.wake()


class Connection:
    """What `pyarrow.flight.FlightClient` is to the product's own client."""

    def __init__(self, site: SimSite, caller: Process, location: str) -> None:
        self._site, self._caller = site, caller
        self._server = site.servers[location]

    def do_action(self, action: Any, options: Any) -> list[Any]:
        """See `FlightClient`."""
        answer: list[Any] = self._call("admit", lambda: self._server.action(action)).get()
        return answer

    def do_get(self, ticket: Any, options: Any) -> Any:
        """See `FlightClient`."""
        found = self._call("get", lambda: self._server.get(ticket)).get()
        chunks = [SimpleNamespace(data=batch) for batch in found] if found.schema.metadata else []
        return _Reader(found.schema, chunks)

    def do_put(self, descriptor: Any, schema: Any, options: Any) -> tuple[_Writer, Any]:
        """See `FlightClient`."""
        stream = Stream(self._server.process)
        answer = self._call("put", lambda: self._server.put(SimpleNamespace(command=descriptor.command), stream))
        return _Writer(self._site, self._caller, self._server.process, stream), SimpleNamespace(read=answer.get)

    def _call(self, what: str, work: Callable[[], Any]) -> Answer:
        caller, node, hub = self._caller, self._server.process, self._site.hub
        caller.sleep(caller.rng.uniform(0.001, 0.02))
        if node.dead:
            raise flight.FlightUnavailableError("connection refused")
        answer = Answer(caller)
        back_s = caller.rng.uniform(0.001, 0.02)
        lost = self._site.feed_fault("channel-breaks", caller, f"answer of {node} to {what}") is not None
        if lost:
            self._site.world.hit(node, "lost")
            self._site.rows_lost |= what == "get"

        def serve() -> None:
            try:
                said = work()
            except flight.FlightError as error:
                said = error
            said = flight.FlightUnavailableError("connection reset") if lost else said
            hub.at(back_s, partial(answer.say, said))

        node.spawn(serve)
        node.on_end.append(lambda: answer.say(flight.FlightUnavailableError("connection reset")))
        return answer


class _Reader:
    def __init__(self, schema: Any, chunks: list[Any]) -> None:
        self.schema = schema
        self._chunks = chunks

    def __iter__(self) -> Iterator[Any]:
        return iter(self._chunks)


class _Writer:
    def __init__(self, site: SimSite, caller: Process, node: Process, stream: Stream) -> None:
        self._site, self._caller, self._node, self._stream = site, caller, node, stream

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.end()

    def write_batch(self, batch: Any) -> None:
        """See `FlightStreamWriter`."""
        self._caller.sleep(self._caller.rng.uniform(0.001, 0.1))
        if self._node.dead:
            raise flight.FlightUnavailableError("connection reset")
        where = f"on the way to {self._node}"
        if self._site.feed_fault("channel-breaks", self._caller, where, weight=0.3):
            self._stream.end()
            raise flight.FlightUnavailableError("connection reset")
        if not self._site.feed_fault("rows-vanish", self._caller, where):
            self._stream.push(SimpleNamespace(data=batch, app_metadata=None))

    def write_metadata(self, content: bytes) -> None:
        """See `FlightStreamWriter`."""
        self._stream.push(SimpleNamespace(data=None, app_metadata=pa.py_buffer(content)))

    def done_writing(self) -> None:
        """See `FlightStreamWriter`."""
        self._stream.end()


def data_client(site: SimSite, caller: Process, address: DataAddress) -> DataClient:
    """Connects to a node."""
    return DataClient(Connection(site, caller, address.location), "tcp", "s")


# ---- feeders ----


class SimFeeders:
    """The job that feeds one epoch: a task for each split, some at once, some again; see `Feeders`."""

    def __init__(self, site: SimSite, settings: FeederSettings, on_end: Callable[[], None]) -> None:
        """Starts the first of them."""
        self._site, self._settings, self._on_end = site, settings, on_end
        if not isinstance(site.world.rows, FedRows):
            raise LifecycleError("nothing is fed here")
        self._rows = site.world.rows
        self._name = f"{settings.attempt}-{settings.epoch}" + (f"-{settings.turn}" if settings.turn else "")
        self._name += f"-of-{settings.generation}" if settings.generation > 1 else ""
        self._chance = random.Random(f"{site.world.seed} {site.driver} {self._name}")
        self._waiting = deque(range(len(self._rows.splits)))
        self._failed = Counter[int]()
        self._number = 0
        self._done: set[int] = set()
        self._running: dict[Process, int] = {}
        self._well: set[Process] = set()
        self._is_sending: dict[Process, bool] = {}
        self._is_over = False
        self._splits: int | None = None
        self._error: SparkTFError | None = None
        site.driver.on_end.append(self.cancel)
        for _ in range(self._chance.choice((1, 2, 4, 100))):
            self._start_next()

    def splits(self) -> int | None:
        """See `Feeders`."""
        if self._error is not None:
            raise self._error
        return self._splits

    def cancel(self) -> None:
        """See `Feeders`. Some do not hear of it for a while."""
        self._is_over = True
        for process in self._running:
            self._site.hub.at(self._chance.choice((0.01, 0.5, 8.0)), process.kill)

    def _start_next(self) -> None:
        if self._waiting:
            self._start_later(self._waiting.popleft(), self._chance.uniform(0.01, 0.3))

    def _start_later(self, split: int, after_s: float, *, again: bool = False) -> None:
        driver = self._site.driver
        self._site.hub.at(after_s, lambda: driver.when_awake(partial(self._start, split, again=again)))

    def _start(self, split: int, *, again: bool) -> None:
        if self._is_over or (split in self._done and not again):
            return
        site, chance = self._site, self._chance
        self._number += 1
        name = f"{site.driver}:feeder-{self._name}-{split}.{self._number}"
        process = Process(site.hub, name, site.world.seed)
        site.feeders.append(process)
        self._running[process] = split
        here = [agent for agent in site.agents if not agent.process.dead]
        agent = chance.choice(here) if here and chance.random() < 0.7 else None
        host, jvm = (agent.host, agent.process.name) if agent else (chance.choice(site.world.hosts), "another")
        process.on_end.append(partial(self._ended, process))
        process.spawn(lambda: self._feed(process, split, host, jvm))
        if strike := site.feed_fault("feeder-twice", process, "is started a second time"):
            self._start_later(split, strike.choice((0.0, 0.1, 0.5, 3.0)))

    def _feed(self, process: Process, split: int, host: str, jvm: str) -> None:
        """Does what `sparktf.executor.feeder.feed` does."""
        site = self._site
        process.sleep(process.rng.uniform(0.01, 0.3))
        if strike := site.feed_fault("feeder-late", process, "is late"):
            process.sleep(strike.choice((1.0, 4.0, 12.0, 30.0)))
        self._die_perhaps(process, "before it asks")
        try:
            self._put(process, split, host, jvm)
        except (SparkTFError, flight.FlightError):
            return
        self._die_perhaps(process, "before it tells Spark")
        self._well.add(process)

    def _put(self, process: Process, split: int, host: str, jvm: str) -> None:
        settings, began_s = self._settings, self._site.hub.now
        key = {name: getattr(settings, name) for name in _SPAN} | {"split": split}
        request = LeaseRequest(span=Span(**key), host=host, jvm=jvm)
        while True:
            lease: Lease = patiently(self._site, process, Action.LEASE, request, settings.driver_lost_s, 6.0)
            if lease.sealed:
                return
            try:
                if lease.data is not None:
                    node, offer = data_client(self._site, process, lease.data), Offer(**key, done=lease.done)
                    if node.admit(offer):
                        node.send(offer, self._batches(process, split))
                    return
            except flight.FlightUnavailableError:
                if self._is_sending.pop(process, False) or self._site.hub.now - began_s > settings.driver_lost_s:
                    raise
            process.sleep(KNOBS.staged_poll_s)

    def _batches(self, process: Process, split: int) -> Iterator[pa.RecordBatch]:
        ids = self._rows.split(split)
        self._is_sending[process] = True
        for start in range(0, len(ids), _BATCH_ROWS):
            self._die_perhaps(process, f"at row {start}")
            yield pa.record_batch({"x": ids[start : start + _BATCH_ROWS]})
        self._die_perhaps(process, "before it says how many rows there are")

    def _die_perhaps(self, process: Process, when: str) -> None:
        if self._site.feed_fault("feeder-dies", process, when):
            process.kill()

    def _ended(self, process: Process) -> None:
        self._site.hub.at(0.01, lambda: self._site.driver.when_awake(partial(self._note, process)))

    def _note(self, process: Process) -> None:
        split = self._running.pop(process)
        if self._is_over:
            return
        if process not in self._well:
            if split not in self._done:
                self._failed[split] += 1
                if self._failed[split] >= _TRIES:
                    self._error = NodeLostError(f"feeding the data failed: partition {split}")
                    self._end()
                elif split not in self._running.values():
                    self._start_later(split, self._chance.uniform(0.05, 1.0))
            return
        if split in self._done:
            return
        self._done.add(split)
        for other, its in self._running.items():
            if its == split and self._chance.random() < 0.5:
                self._site.hub.at(self._chance.uniform(0.0, 0.5), other.kill)
        if strike := self._site.feed_fault("feeder-again", process, "is run again, although it was well"):
            self._start_later(split, strike.choice((0.0, 1.0, 6.0)), again=True)
        if len(self._done) == len(self._rows.splits):
            self._splits = len(self._done)
            self._end()
        else:
            self._start_next()

    def _end(self) -> None:
        if self._error is not None:
            self.cancel()
        self._on_end()
