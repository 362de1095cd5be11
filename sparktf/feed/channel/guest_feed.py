"""The server that fills the queue of a function of another package's program with the rows that Spark feeds it.

put       do_put       rows; the call returns when all of them were taken, or no more are wanted
answer    do_exchange  rows, then their number; the results are returned in order, while rows still come
end       action       no more rows come: `take` returns none from then on

A call is named "put" or "answer", with a `GuestCall` after a space; that of "end" is its body.
"""

from __future__ import annotations

import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight
from pydantic import ValidationError

from sparktf.errors import ModelError
from sparktf.feed.channel.any_rows import UnfitRowsError, rows_to_batch, rows_together
from sparktf.feed.channel.brought_rows import BroughtRows
from sparktf.feed.channel.guest_queue import GuestQueue
from sparktf.feed.channel.server import ChannelServer
from sparktf.wire.data import SplitEnd
from sparktf.wire.guest import GuestCall
from sparktf.wire.security import TlsMaterial

END, PUT, ANSWER = "end", "put", "answer"
POOL = "answered"
"""Beginning of the names of the server's own threads."""
_ANSWER_ROWS = 1024


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
        call = _header(action.body.to_pybytes())
        self._queue.end(call.feed_timeout_s, call.after_feed_s)
        yield flight.Result(b"")

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Takes rows, and returns when the function has taken them."""
        stream = _stream(descriptor, wants_answers=False)
        with _told():
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
        stream, sent = _stream(descriptor, wants_answers=True), 0
        writer.begin(WRAPPED)
        with _told(), ThreadPoolExecutor(1, POOL) as pool:
            told = pool.submit(self._brought, reader, stream)
            try:
                while results := self._queue.wait_answers(stream):
                    for part in rows_together(results, _ANSWER_ROWS):
                        writer.write_batch(wrapped(self._encoded(part, stream, sent)))
                        sent += len(part)
            finally:
                self._queue.forget(stream)
            if told.result() != stream.rows:
                raise flight.FlightServerError(f"{stream.rows} rows came, but not their final number")
        if sent < stream.rows:
            raise _of_function(f"{self._queue.function} takes no more rows, and has given {stream.in_words}")

    def _encoded(self, results: Sequence[Any], stream: BroughtRows, sent: int) -> pa.RecordBatch:
        """Returns results as a batch. One that cannot be encoded fails the function. `sent`: the number before them."""
        try:
            return rows_to_batch(results)
        except UnfitRowsError as error:
            row = f"row {sent + error.place} of partition {stream.partition}"
            raise self._queue.fail(f"has given a result for {row} that cannot be sent back: {error}") from error

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


def _stream(descriptor: flight.FlightDescriptor, *, wants_answers: bool) -> BroughtRows:
    """Returns the rows of a call, which are to come."""
    call = _header(descriptor.command.partition(b" ")[2])
    return BroughtRows(wants_answers, call.partition, call.feed_timeout_s)


def _header(text: bytes) -> GuestCall:
    try:
        return GuestCall.model_validate_json(text or b"{}")
    except ValidationError:
        raise flight.FlightUnauthorizedError("malformed call") from None


@contextmanager
def _told() -> Iterator[None]:
    """Tells the caller of a failure of the function."""
    try:
        yield
    except ModelError as error:
        raise _of_function(str(error)) from None


def _of_function(said: str) -> flight.FlightServerError:
    """Returns an error that is the function's own; the caller finds its text, without gRPC's, as extra information."""
    return flight.FlightServerError(said, said.encode())


WRAPPED = pa.schema({"batch": pa.large_binary()})
"""Schema of a row that contains a whole batch: a call of Flight has one schema, but batches may differ."""


def wrapped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch within one of `WRAPPED`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content = sink.getvalue()
    offsets = pa.py_buffer(array.array("q", (0, content.size)))
    column = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, content])  # without a copy
    return pa.RecordBatch.from_arrays([column], schema=WRAPPED)


def unwrapped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch within a wrapped one."""
    (content,) = batch.column(0)
    return pa.ipc.open_stream(content.as_buffer()).read_next_batch()
