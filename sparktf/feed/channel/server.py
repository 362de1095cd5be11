"""The data channel of a node: Arrow Flight, over a unix socket for its own host, and over TCP where there are others.

admit    action   a feeder asks, before it computes anything, whether its split is wanted; waits while there is no room
do_put   stream   the rows of a split; they count once the feeder has said how many they were, and the driver knows
do_get   stream   a node that has run dry takes rows that wait here
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
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
    """Two servers of a node that answer alike: over a unix socket for its own host, over TCP where there are others.

    Attributes:
        address: Where feeders and other nodes find it.
    """

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
            host: This host's name or address, as other nodes reach it.
            port: Where they do, 0 for a free one; None where there is no other host.
            folder: Of this process alone, for the socket.
            start: Starts a server, of a location, Arrow Flight's options, and what calls come over: "unix" or "tcp".

        Raises:
            OSError: the port is taken.
        """
        location = ""
        if port is not None:
            try:
                self._remote = start(location_of("0.0.0.0", port, tls), server_options(secret, tls), "tcp")
            except pa.ArrowException as e:
                raise OSError(f"no server can start at port {port}: {e}") from e
            location = location_of(host, self._remote.port, tls)
        self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        self._local = start(flight.Location.for_grpc_unix(short(self._folder)), server_options(secret, None), "unix")
        self.address = DataAddress(host=socket.gethostname(), socket=str(folder / _SOCKET), location=location)


class DataServer(ChannelServer):
    """Takes the splits of a run's streams, and gives rows that wait to nodes that have run dry."""

    def __init__(
        self,
        host: str,
        port: int | None,
        folder: Path,
        secret: str,
        tls: TlsMaterial | None,
        attempt: int,
        stagings: Mapping[Stream, Staging],
        sealed: Callable[[Span, int], None],
    ) -> None:
        """Starts to listen; see `ChannelServer`.

        Args:
            sealed: Told of each whole split, and its rows, before its feeder is.

        Raises:
            OSError: the port is taken.
        """

        def start(location: Any, options: dict[str, Any], wire: str) -> _Server:
            return _Server(location, options, wire, attempt, stagings, sealed)

        super().__init__(host, port, folder, secret, tls, start)


def location_of(host: str, port: int, tls: TlsMaterial | None) -> str:
    """Returns how Arrow Flight names a TCP address."""
    return f"{'grpc' if tls is None else 'grpc+tls'}://{host}:{port}"


def short(folder: int) -> str:
    """Returns the socket's path by way of an open folder: a socket's path has 107 bytes at most, a container's more."""
    return f"/proc/self/fd/{folder}/{_SOCKET}"


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(
        self,
        location: Any,
        options: dict[str, Any],
        wire: str,
        attempt: int,
        stagings: Mapping[Stream, Staging],
        sealed: Callable[[Span, int], None],
    ) -> None:
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
        held = self._answered(lambda: staging.admit(span.epoch, span.split, span.turn))
        if held is None:
            yield flight.Result(GO)
            return
        # The feeder that brought it may have died before the driver knew.
        self._answered(lambda: self._sealed(span, held))
        if span.turn:
            self._answered(lambda: staging.queue_again(span.epoch, span.split, span.turn, span.done))
        yield flight.Result(SKIP)

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Takes a split. A stream that breaks off looks like one that ends: the feeder says how many rows there are."""
        span = self._span(descriptor.command)
        staging = self._stagings[span.stream]
        rows, end = staging.new_rows(), None
        try:
            for chunk in reader:
                if chunk.data is not None:
                    rows.append(chunk.data)
                if chunk.app_metadata is not None:
                    end = SplitEnd.model_validate_json(chunk.app_metadata.to_pybytes())
            if end is None or end.rows != rows.rows:
                raise flight.FlightServerError(f"{rows.rows} rows came, not the {end.rows if end else 'whole split'}")
            held = self._answered(lambda: staging.end(span.epoch, span.split, rows))
            # Before a row of it can be trained: what the driver hears of a split is never of one that it does not know.
            # Also of what another feeder brought first: Spark may be done once this one is, and the driver must know.
            self._answered(lambda: self._sealed(span, held))
        except BaseException:
            rows.release()
            raise
        done = span.done if span.turn else None
        self._answered(lambda: staging.seal(span.epoch, span.split, rows, self._wire, turn=span.turn, done=done))
        writer.write(b"sealed")

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Gives rows away: their block's data, and in the schema's metadata which rows of it; nothing if none wait."""
        span = self._span(ticket.ticket)
        found = self._answered(lambda: self._stagings[span.stream].give(span.epoch))
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
