"""What Spark feeds to a function of a guest's: a queue of record batches with a bound, and the server that fills it.

put       do_put       rows; the call returns when all of them were taken, or nobody wants any more
answer    do_exchange  rows, whose results come back in their order
end       action       there are no more rows: whoever asks for some gets none
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from sparktf.feed.channel.any_rows import batch_to_rows, rows_to_batch
from sparktf.feed.channel.server import ChannelServer
from sparktf.wire.security import TlsMaterial

END = "end"
_ANSWER_ROWS = 1024


@dataclass(slots=True)
class BroughtRows:
    """Rows that one call brings.

    Attributes:
        left: How many of them nobody has taken yet.
        answers: Where results are wanted: those that there are.
    """

    wants_answers: bool = False
    left: int = 0
    rows: int = 0
    answers: list[Any] = field(default_factory=list)


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
                if not self._stream.left:
                    self._changed.notify_all()

    def answer(self, results: list[Any]) -> None:
        """Takes the results of rows that were handed out, in their order.

        Raises:
            ValueError: there are more results than rows that want one.
        """
        with self._changed:
            left = list(results)
            while left:
                if not self._answering:
                    raise ValueError(f"{len(left)} results more than rows")
                stream = self._answering[0]
                room = stream.rows - len(stream.answers)
                stream.answers += left[:room]
                left = left[room:]
                if len(stream.answers) == stream.rows:
                    self._answering.popleft()
            self._changed.notify_all()

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
            while self._nbytes and self._nbytes + nbytes > self._most_nbytes and not self._terminated:
                self._changed.wait()
            if self._terminated:
                return
            if batch is not None:
                stream.left += batch.num_rows
                self._nbytes += nbytes
            self._waiting.append((batch, stream))
            self._changed.notify_all()

    def begin_answers(self, stream: BroughtRows, rows: int) -> None:
        """Says how many results a stream wants, once all of its rows have come, before they are handed out."""
        with self._changed:
            stream.rows = rows
            self._answering.append(stream)

    def wait_taken(self, stream: BroughtRows) -> None:
        """Waits until all rows of a stream were taken, or nobody wants any more."""
        with self._changed:
            while stream.left and not self._terminated:
                self._changed.wait()

    def wait_answers(self, stream: BroughtRows, since: int) -> list[Any]:
        """Returns results of a stream from one on, once there are some; none when there are no more to come."""
        with self._changed:
            while len(stream.answers) <= since < stream.rows and not self._terminated:
                self._changed.wait()
            return stream.answers[since:]

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
        self._one_answers = threading.Lock()

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
        """Takes rows, and gives their results back in the same order."""
        batches = [unwrapped(chunk.data) for chunk in reader if chunk.data is not None and chunk.data.num_rows]
        stream = BroughtRows(wants_answers=True)
        with self._one_answers:  # rows of two partitions would otherwise be mixed
            self._queue.begin_answers(stream, sum(batch.num_rows for batch in batches))
            for batch in batches:
                self._queue.put(batch, stream)
            self._queue.put(None, stream)
        sent, begun = 0, False
        while results := self._queue.wait_answers(stream, sent):
            for start in range(0, len(results), _ANSWER_ROWS):
                made = rows_to_batch(results[start : start + _ANSWER_ROWS])
                if not begun:
                    writer.begin(WRAPPED)
                    begun = True
                writer.write_batch(wrapped(made))
            sent += len(results)
        if not begun:
            writer.begin(WRAPPED)
        if sent < stream.rows:
            raise flight.FlightServerError(f"{sent} results for {stream.rows} rows: the function wants no more")


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
