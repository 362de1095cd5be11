"""The client of the data channel: feeders put splits, and nodes that have run dry fetch rows from others."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyarrow import flight

from sparktf.errors import NodeLostError
from sparktf.feed.channel.server import ADMIT, GIVEN, GO, short
from sparktf.feed.channel.staged_rows import StagedRows
from sparktf.feed.channel.staging import Staging
from sparktf.wire.data import DataAddress, Given, Span, SplitEnd
from sparktf.wire.flight import call_options, client_options
from sparktf.wire.security import ControlAccess, TlsMaterial


class Sent(NamedTuple):
    """The rows and bytes that a feeder has sent of a split, over "unix" or "tcp"; "" if the node had it already."""

    rows: int
    nbytes: int
    wire: str


class DataClient:
    """Calls one node."""

    def __init__(self, client: flight.FlightClient, wire: str, secret: str) -> None:
        self.wire = wire
        self._client = client
        self._options = call_options(secret)

    def put(self, span: Span, batches: Iterator[pa.RecordBatch]) -> Sent:
        """Waits until there is room and sends a split, unless the node has it already: then nothing is computed.

        Raises:
            pyarrow.flight.FlightError: the node refuses it, or is gone.
        """
        return self.send(span, batches) if self.admit(span) else Sent(0, 0, "")

    def admit(self, span: Span) -> bool:
        """Waits until there is room for a split; returns whether the node wants it; raises what `put` does."""
        header = span.model_dump_json().encode()
        (answer,) = self._client.do_action(flight.Action(ADMIT, header), self._options)
        return bool(answer.body.to_pybytes() == GO)

    def send(self, span: Span, batches: Iterator[pa.RecordBatch]) -> Sent:
        """Sends a split that is wanted; raises what `put` does."""
        header = span.model_dump_json().encode()
        first = next(batches, None)
        schema = pa.schema([]) if first is None else first.schema
        writer, reader = self._client.do_put(flight.FlightDescriptor.for_command(header), schema, self._options)
        rows = nbytes = 0
        with writer:
            for batch in itertools.chain([] if first is None else [first], batches):
                writer.write_batch(batch)
                rows += batch.num_rows
                nbytes += batch.nbytes
            writer.write_metadata(SplitEnd(rows=rows).model_dump_json().encode())
            writer.done_writing()
            reader.read()
        return Sent(rows, nbytes, self.wire)

    def fetch_block(self, span: Span, staging: Staging) -> bool:
        """Fetches waiting rows of the node into a staging; returns whether there were any.

        Raises:
            pyarrow.flight.FlightError: the node refuses it, or is gone.
        """
        reader = self._client.do_get(flight.Ticket(span.model_dump_json().encode()), self._options)
        told = (reader.schema.metadata or {}).get(GIVEN)
        if told is None:
            return False
        given = Given.model_validate_json(told)
        rows: StagedRows = staging.new_rows()
        for chunk in reader:
            rows.append(chunk.data.replace_schema_metadata(None))
        at = (span.epoch, span.generation)
        staging.accept(given.split, given.first_row, given.start, given.stop, rows, at)
        return True


@contextmanager
def data_client(address: DataAddress, access: ControlAccess) -> Iterator[DataClient]:
    """Connects to a node: over its unix socket if it can be reached, else over TCP.

    Raises:
        NodeLostError: see `connected`.
    """
    with connected(address, access.tls) as (client, wire):
        yield DataClient(client, wire, access.secret)


@contextmanager
def connected(address: DataAddress, tls: TlsMaterial | None) -> Iterator[tuple[flight.FlightClient, str]]:
    """Connects to a node; returns the connection, and "unix" or "tcp".

    Raises:
        NodeLostError: its socket is gone, and it has no port.
    """
    folder = _folder_of(address)
    if folder is None:
        if not address.location:
            raise NodeLostError(f"the node at {address.socket} is gone")
        with flight.FlightClient(address.location, **client_options(tls)) as client:
            yield client, "tcp"
        return
    try:
        with flight.FlightClient(flight.Location.for_grpc_unix(short(folder))) as client:
            yield client, "unix"
    finally:
        os.close(folder)


def _folder_of(address: DataAddress) -> int | None:
    """Opens the folder of the node's socket; None if it is on another host or belongs to another user."""
    path = Path(address.socket)
    if address.host != socket.gethostname() or not os.access(path, os.W_OK):
        return None
    try:
        return os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    except OSError:  # it has just gone
        return None
