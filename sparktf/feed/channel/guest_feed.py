"""What Spark feeds to a function of a guest's: a queue of record batches with a bound, and the server that fills it.

put       do_put       rows; the call returns when all of them were taken, or nobody wants any more
answer    do_exchange  rows and then their count; their results come back in their order, while rows still come
end       action       there are no more rows: whoever asks for some gets none
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from sparktf.feed.channel.any_rows import batch_to_rows, rows_to_batch
from sparktf.feed.channel.server import ChannelServer
from sparktf.wire.data import SplitEnd
from sparktf.wire.security import TlsMaterial

END = "end"
_ANSWER_ROWS = 1024
_MOST_ANSWERS = 64 * _ANSWER_ROWS
"""Results that wait for whoever asked for them, before the function does."""


@dataclass(slots=True)
class BroughtRows:
    """Rows that one call brings."""

    wants_answers: bool = False  # Whether each row has a result, which goes back
    left: int = 0  # How many of them nobody has taken yet; `owed` counts those that were taken and have no result yet
    owed: int = 0
    rows: int = 0  # How many have come
    has_ended: bool = False  # Whether no more come
    answers: list[Any] = field(default_factory=list)  # Results that were not sent yet
    is_gone: bool = False  # Whether nobody waits for results any more: those that come are dropped

    @property
    def is_answered(self) -> bool:
        """Whether there are no more results to come."""
        return self.has_ended and not self.left and not self.owed


class GuestQueue:
    """Rows that wait for the function; thread-safe.

    Attributes:
        is_over: Whether the end has come, and all before it was taken.
    """

    def __init__(self, most_nbytes: int) -> None:
        """Takes so many bytes before whoever brings more waits."""
        self._most_nbytes = most_nbytes
        self._changed = threading.Condition()
        self._waiting: deque[tuple[pa.RecordBatch | None, BroughtRows]] = deque()
        self._nbytes = 0
        self._rows: list[Any] = []
        self._at = 0
        self._stream: BroughtRows | None = None
        self._answering: deque[BroughtRows] = deque()
        self._turn = threading.Lock()
        self._turns = 0
        self._ended = self._terminated = False
        self.is_over = False

    # ---- the function's side ----

    def take(self, count: int) -> list[Any]:
        """Returns so many rows; fewer at the end, and of a stream that wants answers at its end. Waits for them."""
        found: list[Any] = []
        while len(found) < count:
            if self._at == len(self._rows) and not self._next(stop=bool(found)):
                break
            part = self._rows[self._at : self._at + count - len(found)]
            self._at += len(part)
            found = part if not found else found + part
            self._taken(len(part))
        return found

    def _next(self, *, stop: bool) -> bool:
        """Makes the next batch the one whose rows are handed out; returns whether there is one.

        Args:
            stop: At the end of a stream that wants answers, go no further.
        """
        while True:
            with self._changed:
                while not self._waiting and not self._ended and not self._terminated:
                    self._changed.wait()
                if not self._waiting or self._terminated:
                    self.is_over = True
                    return False
                batch, stream = self._waiting.popleft()
                if batch is not None:
                    self._nbytes -= batch.nbytes
                self._changed.notify_all()
            if batch is None:  # the end of a stream
                if stop and stream.wants_answers:
                    return False
                continue
            self._rows, self._at, self._stream = batch_to_rows(batch), 0, stream
            return True

    def _taken(self, count: int) -> None:
        with self._changed:
            if self._stream is not None:
                self._stream.left -= count
                self._stream.owed += count if self._stream.wants_answers else 0
                if not self._stream.left:
                    self._changed.notify_all()

    def answer(self, results: list[Any]) -> None:
        """Takes the results of rows that were handed out, in their order; waits while too many were not sent yet.

        Raises:
            ValueError: there are more results than rows that want one.
        """
        with self._changed:
            left = list(results)
            while left:
                stream = next((stream for stream in self._answering if stream.owed), None)
                if stream is None:
                    raise ValueError(f"{len(left)} results more than rows")
                while len(stream.answers) >= _MOST_ANSWERS and not self._may_hoard(stream):
                    self._changed.wait()
                part = left[: stream.owed]
                stream.owed -= len(part)
                stream.answers += [] if stream.is_gone else part
                left = left[len(part) :]
                self._changed.notify_all()

    def _may_hoard(self, stream: BroughtRows) -> bool:
        """Whether results are taken however many are kept.

        Whoever waits for its turn may be what keeps them from being read: Spark zips the results of two partitions.
        """
        return stream.is_gone or self._terminated or self._turns > 1

    def terminate(self) -> None:
        """Wants no rows any more: what waits, and what comes, is dropped."""
        with self._changed:
            self._terminated = True
            for batch, stream in self._waiting:
                stream.left -= 0 if batch is None else batch.num_rows
            self._waiting.clear()
            self._nbytes = 0
            self._changed.notify_all()

    # ---- the server's side ----

    def put(self, batch: pa.RecordBatch | None, stream: BroughtRows) -> None:
        """Adds rows, or the end of a stream; waits while there is no room."""
        nbytes = 0 if batch is None else batch.nbytes
        with self._changed:
            stream.rows += 0 if batch is None else batch.num_rows
            while self._nbytes and self._nbytes + nbytes > self._most_nbytes and not self._terminated:
                self._changed.wait()
            if self._terminated:
                return
            if batch is not None:
                stream.left += batch.num_rows
                self._nbytes += nbytes
            self._waiting.append((batch, stream))
            self._changed.notify_all()

    @contextmanager
    def answered(self, stream: BroughtRows) -> Iterator[None]:
        """Has a stream's rows come while the context lasts, one stream after another; they have results."""
        with self._changed:
            self._turns += 1
            self._changed.notify_all()
        try:
            with self._turn:  # rows of two partitions would otherwise be mixed
                with self._changed:
                    self._answering = deque(one for one in self._answering if not one.is_answered)
                    self._answering.append(stream)
                try:
                    yield
                finally:
                    self.put(None, stream)
        finally:
            with self._changed:
                self._turns -= 1
                stream.has_ended = True
                self._changed.notify_all()

    def wait_taken(self, stream: BroughtRows) -> None:
        """Waits until all rows of a stream were taken, or nobody wants any more."""
        with self._changed:
            while stream.left and not self._terminated:
                self._changed.wait()

    def wait_answers(self, stream: BroughtRows) -> list[Any]:
        """Returns results of a stream that were not returned yet, once there are some; none if no more are to come."""
        with self._changed:
            while not stream.answers and not (stream.is_answered or stream.is_gone or self._terminated):
                self._changed.wait()
            found, stream.answers = stream.answers, []
            self._changed.notify_all()
            return found

    def forget(self, stream: BroughtRows) -> None:
        """Nobody waits for the results of a stream any more."""
        with self._changed:
            stream.is_gone, stream.answers = True, []
            self._changed.notify_all()

    def end(self) -> None:
        """There are no more rows."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class GuestServer(ChannelServer):
    """Takes rows for a function of a guest's."""

    def __init__(
        self, host: str, port: int | None, folder: Path, secret: str, tls: TlsMaterial | None, queue: GuestQueue
    ) -> None:
        """Starts to listen; see `ChannelServer`. Raises what that does."""
        super().__init__(host, port, folder, secret, tls, lambda where, options, wire: _Server(where, options, queue))


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, location: Any, options: dict[str, Any], queue: GuestQueue) -> None:
        super().__init__(location, **options)
        self._queue = queue

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        """Ends the feed."""
        if action.type != END:
            raise flight.FlightUnauthorizedError(f"unknown action {action.type[:80]!r}")
        self._queue.end()
        yield flight.Result(b"")

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Takes rows, and returns when they were taken."""
        stream = BroughtRows()
        for chunk in reader:
            if chunk.data is not None and chunk.data.num_rows:
                self._queue.put(unwrapped(chunk.data), stream)
        self._queue.wait_taken(stream)
        writer.write(b"taken")

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Takes rows, and gives their results back in the same order, while rows still come."""
        stream, sent = BroughtRows(wants_answers=True), 0
        writer.begin(WRAPPED)
        with ThreadPoolExecutor(1, "answered") as pool:
            told = pool.submit(self._brought, reader, stream)
            try:
                while results := self._queue.wait_answers(stream):
                    for start in range(0, len(results), _ANSWER_ROWS):
                        writer.write_batch(wrapped(rows_to_batch(results[start : start + _ANSWER_ROWS])))
                    sent += len(results)
            finally:
                self._queue.forget(stream)
        if told.result() != stream.rows:
            raise flight.FlightServerError(f"{stream.rows} rows came, and then no count of them")
        if sent < stream.rows:
            raise flight.FlightServerError(f"{sent} results for {stream.rows} rows: the function wants no more")

    def _brought(self, reader: flight.MetadataRecordBatchReader, stream: BroughtRows) -> int | None:
        """Takes the rows of a stream in its turn; returns how many were sent, None if that was not said."""
        told = None
        try:
            with self._queue.answered(stream):
                for chunk in reader:
                    if chunk.data is not None and chunk.data.num_rows:
                        self._queue.put(unwrapped(chunk.data), stream)
                    if chunk.app_metadata is not None:
                        told = SplitEnd.model_validate_json(chunk.app_metadata.to_pybytes()).rows
        finally:
            if told is None:
                self._queue.forget(stream)
        return told


WRAPPED = pa.schema({"batch": pa.large_binary()})
"""Batches whose schemas may differ, each in a row of its own: a call of Flight has one schema."""


def wrapped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch within one of `WRAPPED`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.large_binary())], schema=WRAPPED)


def unwrapped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch within a wrapped one."""
    (content,) = batch.column(0)
    return pa.ipc.open_stream(content.as_buffer()).read_next_batch()
