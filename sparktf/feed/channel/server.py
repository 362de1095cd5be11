"""The data channel of a node: Arrow Flight over a unix socket for its own host, and over TCP for other hosts.

admit    action   a feeder asks, before it computes anything, whether its split is wanted; waits while there is no room
do_put   stream   the rows of a split; they count once the feeder has sent their number, and the driver knows them
do_get   stream   a node that has run dry fetches rows that wait here
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight
from pydantic import ValidationError

from sparktf.errors import RefusedError, SparkTFError
from sparktf.feed.channel.staging import Staging
from sparktf.sequence import Stream
from sparktf.wire.data import DataAddress, Given, Offer, Span, SplitEnd
from sparktf.wire.flight import server_options
from sparktf.wire.security import TlsMaterial

ADMIT = "admit"
GO, SKIP = b"go", b"skip"
GIVEN = b"sparktf.given"

_SOCKET = "data"


class ChannelServer:
    """A node's two servers, over a unix socket for its own host and over TCP for others, at `address`."""

    def __init__(
        self,
        host: str,
        port: int | None,
        folder: Path,
        secret: str,
        tls: TlsMaterial | None,
        start: Callable[[Any, dict[str, Any], str], Any],
    ) -> None:
        """Starts to listen.

        Args:
            host: Name or address of this host for other nodes.
            port: TCP port, 0 for a free one; None if there are no other hosts.
            folder: This process's own folder, for the socket.
            start: Starts a server, given a location, Arrow Flight's options, and "unix" or "tcp".

        Raises:
            OSError: the port is taken.
        """
        location = ""
        if port is not None:
            try:
                self._remote = start(location_of("0.0.0.0", port, tls), server_options(secret, tls), "tcp")
            except pa.ArrowException as e:
                raise OSError(f"port {port} is not available: {e}") from e
            location = location_of(host, self._remote.port, tls)
        self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        self._local = start(flight.Location.for_grpc_unix(short(self._folder)), server_options(secret, None), "unix")
        self.address = DataAddress(host=socket.gethostname(), socket=str(folder / _SOCKET), location=location)


def location_of(host: str, port: int, tls: TlsMaterial | None) -> str:
    """Returns Arrow Flight's URL of a TCP address."""
    return f"{'grpc' if tls is None else 'grpc+tls'}://{host}:{port}"


def short(folder: int) -> str:
    """Returns the socket's path through an open folder: a unix socket's path is limited to 107 bytes."""
    return f"/proc/self/fd/{folder}/{_SOCKET}"


class SplitServer(flight.FlightServerBase):  # type: ignore[misc]
    """Takes the splits of a run's streams, and gives waiting rows to nodes that have run dry."""

    def __init__(
        self,
        attempt: int,
        stagings: Mapping[Stream, Staging],
        sealed: Callable[[Span, int], None],
        location: Any,
        options: dict[str, Any],
        wire: str,
    ) -> None:
        """Starts to listen; the last three arguments are those of `ChannelServer`'s `start`.

        `sealed` is called with each whole split and its rows, before its feeder is answered.
        """
        super().__init__(location, **options)
        self._wire = wire
        self._attempt = attempt
        self._stagings = stagings
        self._sealed = sealed

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        """Answers `admit` with GO or SKIP."""
        if action.type != ADMIT:
            raise flight.FlightUnauthorizedError(f"unknown action {action.type[:80]!r}")
        span = self._span(action.body.to_pybytes())
        staging = self._stagings[span.stream]
        held = self._answered(lambda: staging.admit(span.epoch, span.split, span.turn, span.generation))
        if held is None:
            yield flight.Result(GO)
            return
        # The feeder that brought it may have died before the driver knew.
        self._answered(lambda: self._sealed(span, held))
        self._answered(
            lambda: staging.queue_again(span.epoch, span.split, span.turn, span.done, generation=span.generation)
        )
        yield flight.Result(SKIP)

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Takes a split. A broken stream looks like one that ends, so the feeder sends the row count at the end."""
        span = self._span(descriptor.command)
        staging = self._stagings[span.stream]
        rows, end, generation = staging.new_rows(), None, span.generation
        try:
            for chunk in reader:
                if chunk.data is not None:
                    rows.append(chunk.data)
                if chunk.app_metadata is not None:
                    end = SplitEnd.model_validate_json(chunk.app_metadata.to_pybytes())
            if end is None or end.rows != rows.rows:
                raise flight.FlightServerError(
                    f"{rows.rows} rows of the split came, expected {end.rows if end else 'an end of the split'}"
                )
            held = self._answered(lambda: staging.end(span.epoch, span.split, rows, generation=generation))
            # Before a row of it can be trained: the driver never hears of a split that it does not know. Also for a
            # split that another feeder brought first: Spark may be done once this one is, and the driver must know.
            self._answered(lambda: self._sealed(span, held))
        except BaseException:
            rows.release()
            raise
        done = span.done if span.turn else None
        seal = partial(staging.seal, span.epoch, span.split, rows, self._wire)
        self._answered(lambda: seal(turn=span.turn, generation=generation, done=done))
        writer.write(b"sealed")

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Gives rows away: their block, and in the schema's metadata which rows of it; an empty stream if none wait."""
        span = self._span(ticket.ticket)
        found = self._answered(lambda: self._stagings[span.stream].give(span.epoch, span.generation))
        if found is None:
            return flight.RecordBatchStream(pa.Table.from_batches([], pa.schema([])))
        queued, batches = found
        given = Given(split=queued.split, first_row=queued.first_row, start=queued.start, stop=queued.stop)
        schema = batches[0].schema.with_metadata({GIVEN: given.model_dump_json()})
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(schema, batches))

    def _span(self, body: bytes) -> Offer:
        try:
            span = Offer.model_validate_json(body)
        except ValidationError:
            raise flight.FlightUnauthorizedError("malformed call") from None
        if span.attempt != self._attempt or span.stream not in self._stagings:
            raise flight.FlightUnauthorizedError(f"attempt {span.attempt} is over")
        return span

    def _answered(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except RefusedError as e:
            raise flight.FlightUnauthorizedError(str(e)) from None
        except (SparkTFError, OSError) as e:
            raise flight.FlightServerError(str(e)) from None
