"""Rows that Spark feeds to a function of another package's program: a bounded queue, and the server that fills it.

put       do_put       rows; the call returns when all of them were taken, or no more are wanted
answer    do_exchange  rows, then their number; the results are returned in order, while rows still come
end       action       no more rows come: `take` returns none from then on
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

from sparktf.feed.channel.any_rows import batch_to_rows, rows_to_batch, rows_together
from sparktf.feed.channel.server import ChannelServer
from sparktf.wire.data import SplitEnd
from sparktf.wire.security import TlsMaterial

END = "end"
_ANSWER_ROWS = 1024
_MOST_ANSWERS = 64 * _ANSWER_ROWS
"""Upper bound of unsent results: beyond it the function waits."""


@dataclass(slots=True)
class BroughtRows:
    """Rows that one call brings."""

    wants_answers: bool = False  # Whether each row has a result, which is sent back
    left: int = 0  # Number of rows that are not taken yet; `owed` counts taken rows without a result
    owed: int = 0
    rows: int = 0  # Number of rows so far
    has_ended: bool = False  # Whether no more rows come
    answers: list[Any] = field(default_factory=list)  # Results to be sent
    is_gone: bool = False  # Whether the caller has gone: further results are dropped

    @property
    def is_answered(self) -> bool:
        """Whether all results are given."""
        return self.has_ended and not self.left and not self.owed


class GuestQueue:
    """Rows that wait for the function; thread-safe.

    Attributes:
        is_over: Whether the end has come, and all rows before it were taken.
    """

    def __init__(self, most_nbytes: int) -> None:
        """Makes an empty queue; `put` waits while it holds more than `most_nbytes`."""
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
        """Waits for `count` rows and returns them; fewer at the end, also at that of a stream that wants answers."""
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
        """Makes the next batch the current one; returns whether there is one.

        With `stop` it does not go beyond the end of a stream that wants answers.
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
        """Takes the results of rows that were handed out, in order; waits while too many are unsent.

        Raises:
            ValueError: there are more results than rows that want one.
        """
        with self._changed:
            left = list(results)
            while left:
                stream = next((stream for stream in self._answering if stream.owed), None)
                if stream is None:
                    raise ValueError(f"there are {len(left)} more results than rows")
                while len(stream.answers) >= _MOST_ANSWERS and not self._may_hoard(stream):
                    self._changed.wait()
                part = left[: stream.owed]
                stream.owed -= len(part)
                stream.answers += [] if stream.is_gone else part
                left = left[len(part) :]
                self._changed.notify_all()

    def _may_hoard(self, stream: BroughtRows) -> bool:
        """Whether results are taken without a limit.

        Waiting callers may keep them from being read: Spark zips the results of two partitions.
        """
        return stream.is_gone or self._terminated or self._turns > 1

    def terminate(self) -> None:
        """Ends the demand for rows: waiting and later ones are dropped."""
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
        """Makes a stream with results the current one within the context; others wait for their turn."""
        with self._changed:
            self._turns += 1
            self._changed.notify_all()
        try:
            with self._turn:  # else rows of two partitions would be mixed
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
        """Waits until all rows of a stream were taken, or no more are wanted."""
        with self._changed:
            while stream.left and not self._terminated:
                self._changed.wait()

    def wait_answers(self, stream: BroughtRows) -> list[Any]:
        """Waits for results of a stream and returns those not returned yet; none if no more will come."""
        with self._changed:
            while not stream.answers and not (stream.is_answered or stream.is_gone or self._terminated):
                self._changed.wait()
            found, stream.answers = stream.answers, []
            self._changed.notify_all()
            return found

    def forget(self, stream: BroughtRows) -> None:
        """Drops all further results of a stream."""
        with self._changed:
            stream.is_gone, stream.answers = True, []
            self._changed.notify_all()

    def end(self) -> None:
        """Marks the end of all rows."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class GuestServer(ChannelServer):
    """Takes rows for a function of another package's program."""

    def __init__(
        self, host: str, port: int | None, folder: Path, secret: str, tls: TlsMaterial | None, queue: GuestQueue
    ) -> None:
        """Starts to listen; see `ChannelServer`, also for errors."""
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
        """Takes rows, and returns when the function has taken them."""
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
        """Takes rows, and returns their results in the same order, while rows still come."""
        stream, sent = BroughtRows(wants_answers=True), 0
        writer.begin(WRAPPED)
        with ThreadPoolExecutor(1, "answered") as pool:
            told = pool.submit(self._brought, reader, stream)
            try:
                while results := self._queue.wait_answers(stream):
                    for part in rows_together(results, _ANSWER_ROWS):
                        writer.write_batch(wrapped(rows_to_batch(part)))
                    sent += len(results)
            finally:
                self._queue.forget(stream)
        if told.result() != stream.rows:
            raise flight.FlightServerError(f"{stream.rows} rows came, but not their final number")
        if sent < stream.rows:
            raise flight.FlightServerError(
                f"only {sent} results came for {stream.rows} rows, and the function takes no more rows"
            )

    def _brought(self, reader: flight.MetadataRecordBatchReader, stream: BroughtRows) -> int | None:
        """Takes the rows of a stream in its turn; returns the number that was announced, None for none."""
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
"""Schema of a row that contains a whole batch: a call of Flight has one schema, but batches may differ."""


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
