"""A node's input: its share of each epoch, the account of it, and the rows that it sets aside."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypedDict

from sparktf.errors import LifecycleError, StorageError
from sparktf.feature import FeedLimits
from sparktf.feed.arrays.aside import BadRow
from sparktf.feed.arrays.columns import Columns
from sparktf.feed.arrays.memory import SpareMemory
from sparktf.feed.blocks import Parts, PieceReader, PlannedParts
from sparktf.feed.formats.row_cache import RowCache
from sparktf.feed.leased_feed import FeedMeter, LeasedFeed
from sparktf.feed.leased_parts import LeasedParts
from sparktf.feed.pipeline import NodeFeed
from sparktf.feed.receipts import Receipts
from sparktf.feed.sample import RowSample
from sparktf.results.result import NodeInput
from sparktf.rundir import trainer_name
from sparktf.sequence import Stream
from sparktf.storage.base import Storage
from sparktf.trainer.node.intake import InHand, Intake
from sparktf.trainer.node.place import Place, asked_until
from sparktf.trainer.node.position import Done, Position
from sparktf.wire.control import Action, AssignmentAnswer, AssignmentRequest, EpochDone
from sparktf.wire.data import DataAddress, StagedShare
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest
from sparktf.wire.regrouping import RegroupedError

_CACHE = "rows"
"""Folder of `data.cache: disk` in the trainer's own, which goes with it."""


class _Reading(TypedDict):
    """How files are read: see `PieceReader`."""

    sets_aside: bool
    cache: RowCache | None


class Input:
    """Opens the feeds of a node, and reports on them to the driver."""

    def __init__(self, place: Place) -> None:
        """Begins to listen if Spark feeds a stream."""
        spec, data = place.spec, place.spec.config.data
        self._place = place
        self._memory = SpareMemory(spec.feed.features)
        self._limits = FeedLimits(prefetch_bytes=data.prefetch_mib << 20, max_bad_rows=data.max_bad_rows)
        self._intake = Intake(place) if spec.staged else None
        path = place.rundir.bad_rows(trainer_name(**spec.sender))
        self._bad_rows = BadRowFile(place.storage, path, place.warn)
        self._cache = RowCache(place.work / _CACHE, data.cache_mib << 20, place.warn) if data.cache == "disk" else None
        self._feed: NodeFeed | None = None
        self._open: tuple[int, NodeFeed] | None = None  # With the generation that it is dealt to
        self._samples = {stream: RowSample(spec.feed) for stream in Stream} if spec.config.publish is not None else {}
        self._began_s = 0.0

    @property
    def address(self) -> DataAddress | None:
        """The address for feeders, if Spark feeds this node."""
        return None if self._intake is None else self._intake.address

    def open(self, stream: Stream, epoch: int) -> NodeFeed:
        """Asks the driver for this node's share of an epoch, and begins to read it.

        Raises:
            RegroupedError: a member of the gang is lost, and this one has not left its generation yet.
        """
        began_s = time.monotonic()
        generation = self._place.generation()
        feed = self._read(stream, epoch, self._parts(stream, epoch, self._ask_for_share(stream, epoch)))
        self._open = generation, feed
        if stream is Stream.TRAIN:
            self._feed, self._began_s = feed, began_s
        return feed

    def leave(self, last: int) -> None:
        """Has nobody wait for rows of a generation of the gang that is over, or of those before. From any thread."""
        if self._open is not None and self._open[0] <= last:
            self._open[1].stop(RegroupedError(f"generation {self._open[0]} of the gang is over"))

    def lease(self, epoch: int, receipts: Receipts) -> LeasedFeed:
        """Begins to read training rows that are leased from the driver, or fed by Spark; waits for none of them."""
        spec, config = self._place.spec, self._place.spec.config
        if self._intake is not None and Stream.TRAIN in spec.staged:
            return self._fed(self._intake, epoch, receipts)
        reader = PieceReader(spec.feed, Stream.TRAIN, epoch, self._place.file_systems.open, **self._reading)
        ask = partial(self._ask_for_rows, epoch)
        batch_rows = config.train.batch_size
        parts = LeasedParts(reader, ask, batch_rows)
        feed = self._read(Stream.TRAIN, epoch, parts)
        return LeasedFeed(epoch, spec.feed, feed, receipts, batch_rows=batch_rows, expect=parts.expect)

    def _fed(self, intake: Intake, epoch: int, receipts: Receipts) -> LeasedFeed:
        leased: list[LeasedFeed] = []

        def held() -> InHand:
            # Receipts are made before rows count as covered, so read them in the other order.
            in_hand = parts.rows_given - (leased[0].covered if leased else -1)
            return InHand(in_hand, receipts.made)

        spec = self._place.spec
        parts = intake.lease(epoch, partial(self._ask_for_staged, epoch), held)
        feed = self._read(Stream.TRAIN, epoch, parts)
        meter = FeedMeter(feed, partial(intake.input, Stream.TRAIN))
        batch_rows = spec.config.train.batch_size
        leased.append(LeasedFeed(epoch, spec.feed, feed, receipts, batch_rows=batch_rows, meter=meter))
        return leased[0]

    def _ask_for_share(self, stream: Stream, epoch: int) -> AssignmentAnswer:
        request = AssignmentRequest(
            **self._place.spec.sender, stream=stream, epoch=epoch, generation=self._place.generation()
        )
        ask = partial(self._place.ask, Action.ASSIGNMENT, request, AssignmentAnswer)
        answer = asked_until(ask, lambda said: not said.is_early)
        if answer.is_over:
            raise RegroupedError(f"generation {request.generation} of the gang is over")
        return answer

    def _ask_for_staged(self, epoch: int) -> StagedShare:
        answer = self._ask_for_share(Stream.TRAIN, epoch)
        if answer.staged is None:
            raise LifecycleError(f"the driver gave {self._place.spec.node} no share of the rows that Spark feeds")
        return answer.staged

    def _ask_for_rows(self, epoch: int, rows: int) -> BlockLease:
        request = BlockLeaseRequest(**self._place.spec.sender, epoch=epoch, rows=rows)
        return self._place.ask(Action.LEASE_BLOCKS, request, BlockLease)

    def sampled(self) -> Columns:
        """Returns a sample of the rows handed out, preferably of validation; none unless a model is to be published."""
        found = (self._samples[stream].columns for stream in (Stream.VALIDATION, Stream.TRAIN) if self._samples)
        return next((columns for columns in found if columns), {})

    def _read(self, stream: Stream, epoch: int, parts: Parts) -> NodeFeed:
        aside, sample = partial(self._set_aside, stream, epoch), self._samples.get(stream)
        spec = self._place.spec.feed
        return NodeFeed(spec, parts, self._memory, limits=self._limits, on_bad_rows=aside, sample=sample)

    @property
    def _reading(self) -> _Reading:
        return {"sets_aside": self._limits.max_bad_rows > 0, "cache": self._cache}

    def _parts(self, stream: Stream, epoch: int, answer: AssignmentAnswer) -> Parts:
        spec, open_storage = self._place.spec, self._place.file_systems.open
        if answer.assignment is not None:
            return PlannedParts(spec.feed, answer.assignment, open_storage, **self._reading)
        if answer.staged is None or self._intake is None:
            raise LifecycleError(f"the driver gave {spec.node} no share of the {stream} rows")
        return self._intake.open(stream, epoch, answer.staged)

    def _set_aside(self, stream: Stream, epoch: int, rows: Sequence[BadRow], *, too_many: bool) -> None:
        self._bad_rows.add(stream, epoch, rows)
        if too_many:
            self._bad_rows.flush()

    def flush(self) -> None:
        """Stores the rows set aside so far."""
        self._bad_rows.flush()

    def done(self, position: Position) -> Done:
        """Returns the part done of the epoch that a checkpoint at this position continues."""
        if position.is_complete or self._feed is None:
            return Done()
        return Done(self._feed.consumed(position.rows), self._feed.aside_within(position.rows))

    def report(self, feed: NodeFeed, position: Position) -> None:
        """Reports this node's share of an epoch that has ended."""
        self.flush()
        aside = feed.rows_aside if position.is_complete else feed.aside_within(position.rows)
        message = EpochDone(
            **self._place.spec.sender,
            epoch=position.epoch,
            step=position.step,
            rows_fed=position.rows + aside,
            rows_trained=position.rows,
            rows_aside=aside,
            complete=position.is_complete,
            input=self._input_of(feed, position.rows + aside),
        )
        self._place.send(Action.EPOCH_DONE, message)

    def _input_of(self, feed: NodeFeed, rows: int) -> NodeInput:
        """Returns the input of the epoch, after `rows` rows."""
        if self._intake is None:
            read = NodeInput(rows={"direct": rows}, nbytes=feed.nbytes, local_nbytes=feed.local_nbytes)
        else:
            read = self._intake.input(Stream.TRAIN)
        seconds = time.monotonic() - self._began_s
        return read.model_copy(update={"wait_s": feed.wait_s, "seconds": seconds})


class BadRowFile:
    """The file of the rows that a node has set aside: a JSON line for each row, or for unreadable rows in sequence."""

    def __init__(self, storage: Storage, path: str, warn: Callable[[str], None]) -> None:
        """Writes nothing yet; `warn` is called if the file cannot be stored, which does not end the run."""
        self._storage = storage
        self._path = path
        self._warn = warn
        self._lines: list[str] = []
        self._stored = 0

    def add(self, stream: Stream, epoch: int, rows: Sequence[BadRow]) -> None:
        """Keeps rows for the next `flush`, which may run in another thread."""
        for row in rows:
            fields = {"stream": stream.value, "epoch": epoch, **row._asdict()}
            self._lines.append(json.dumps(fields, ensure_ascii=False) + "\n")

    def flush(self) -> None:
        """Stores the whole file if rows were added: storages cannot append."""
        count = len(self._lines)
        if count == self._stored:
            return
        try:
            self._storage.write_bytes(self._path, "".join(self._lines[:count]).encode())
        except StorageError as e:
            self._warn(f"the rows that were set aside are not stored: {e}")
            return
        self._stored = count
