"""Feeds rows of a Spark partition to functions of another package's program. Independent of Spark."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import flight

from sparktf.errors import ModelError, NodeLostError, SparkTFError
from sparktf.executor.guest_watch import GuestWatch
from sparktf.executor.identity import executor_identity
from sparktf.executor.row_batches import send_rows
from sparktf.feed.channel.any_rows import batch_to_rows
from sparktf.feed.channel.client import connected
from sparktf.feed.channel.guest_feed import ANSWER, PUT, WRAPPED, unwrapped, wrapped
from sparktf.told import line_of_error
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import Action
from sparktf.wire.data import SplitEnd
from sparktf.wire.flight import call_options
from sparktf.wire.guest import Deal, DealRequest, GuestCall, GuestPlace
from sparktf.wire.security import ControlAccess


@dataclass(frozen=True, slots=True)
class GuestFeedSettings:
    """The feeder's settings in the task's closure."""

    access: ControlAccess
    places: tuple[GuestPlace, ...]  # Addresses of the nodes that take rows
    deals: bool  # Whether all of them get equally many rows; else only nodes of the task's executor get its rows
    driver_lost_s: float
    feed_timeout_s: float  # For a function to take rows, or give results
    cause_s: float  # For the driver to learn why a node is gone
    function: str  # Its name

    def rows_of(self, split: int) -> str:
        """Returns the rows of a partition, for people."""
        return f"partition {split} of the RDD, which {self.function} gets"


def feed_guests(split: int, rows: Iterable[Any], settings: GuestFeedSettings) -> None:
    """Feeds a partition, and returns when its rows were taken.

    Raises:
        BadValueError: a row cannot be encoded.
        ModelError: the function failed, or is late.
        NodeLostError: a node is gone.
    """
    begun = _begun(rows)
    if begun is None:
        return
    try:
        if settings.deals:
            _deal(split, begun, settings)
        else:
            _send_all(split, begun, settings)
    except (flight.FlightError, NodeLostError) as error:
        raise _explained(f"partition {split}: a node did not take all rows", error, settings) from error


def answer_guests(split: int, rows: Iterable[Any], settings: GuestFeedSettings) -> Iterator[Any]:
    """Feeds a partition to one node, and yields the result of each row; raises what `feed_guests` does."""
    begun = _begun(rows)
    if begun is None:
        return
    place = _nearest(split, settings.places)
    try:
        with ExitStack() as stack:
            client, _ = stack.enter_context(connected(place.data, settings.access.tls))
            writer, reader = client.do_exchange(_call(ANSWER, split, settings), call_options(settings.access.secret))
            pool = stack.enter_context(ThreadPoolExecutor(1, "answers"))
            stack.callback(reader.cancel)  # if the caller stops early: then nothing waits for room any more
            stack.enter_context(GuestWatch(settings.access, settings.driver_lost_s).during(reader.cancel))
            sent = pool.submit(_send, writer, begun, settings.rows_of(split))
            try:
                for chunk in reader:
                    yield from batch_to_rows(unwrapped(chunk.data))
            except flight.FlightError:
                sent.result()  # raises the error of sending, if that ended the call
                raise
            sent.result()
    except (flight.FlightError, NodeLostError) as error:
        raise _explained(f"partition {split}: a node did not give its results", error, settings) from error


def _call(name: str, split: int, settings: GuestFeedSettings) -> flight.FlightDescriptor:
    call = GuestCall(partition=split, feed_timeout_s=settings.feed_timeout_s)
    return flight.FlightDescriptor.for_command(f"{name} {call.model_dump_json()}".encode())


def _explained(what: str, error: Exception, settings: GuestFeedSettings) -> SparkTFError:
    """Returns the reason why a node did not take rows or give results, as the node or the driver knows it."""
    if isinstance(error, flight.FlightError) and error.extra_info:
        return ModelError(error.extra_info.decode())
    said = GuestWatch(settings.access, settings.driver_lost_s).cause(settings.cause_s)
    return NodeLostError(f"{what}: {_line(error)}") if said is None else said


def _begun(rows: Iterable[Any]) -> Iterator[Any] | None:
    """Returns the rows, of which the first has come; None if there are none."""
    iterator = iter(rows)
    return next((itertools.chain([first], iterator) for first in iterator), None)


def _send(writer: flight.FlightStreamWriter, rows: Iterable[Any], told: str) -> None:
    """Sends all rows of a partition, then their number. If the call breaks off, its reader gets the error."""

    def send(batch: pa.RecordBatch) -> bool:
        writer.write_batch(wrapped(batch))
        return True

    with suppress(flight.FlightError):
        try:
            writer.begin(WRAPPED)
            sent = send_rows(rows, send, told)
            writer.write_metadata(SplitEnd(rows=sent).model_dump_json().encode())
        finally:
            writer.done_writing()


def _deal(split: int, rows: Iterable[Any], settings: GuestFeedSettings) -> None:
    """Sends equally many rows to each node, over all partitions."""
    driver = ControlClient(settings.access)
    with ExitStack() as stack:
        writers = [_Writer(stack, split, place, settings) for place in settings.places]

        def send(batch: pa.RecordBatch) -> bool:
            request = DealRequest(rows=batch.num_rows)
            deal = driver.call_patiently(Action.DEAL, request, Deal, patience_s=settings.driver_lost_s)
            start = 0
            for i in range(0 if deal.is_over else len(writers)):
                count = batch.num_rows // len(writers) + (i < batch.num_rows % len(writers))
                if count:
                    writers[(deal.first + i) % len(writers)].write(batch.slice(start, count))
                start += count
            return not deal.is_over

        send_rows(rows, send, settings.rows_of(split))
        for writer in writers:
            writer.end()
        for writer in writers:
            writer.wait()


def _send_all(split: int, rows: Iterable[Any], settings: GuestFeedSettings) -> None:
    with ExitStack() as stack:
        writer = _Writer(stack, split, _nearest(split, settings.places), settings)
        send_rows(rows, writer.write, settings.rows_of(split))
        writer.end()
        writer.wait()


class _Writer:
    """A call that sends rows to one node."""

    def __init__(self, stack: ExitStack, split: int, place: GuestPlace, settings: GuestFeedSettings) -> None:
        client, _ = stack.enter_context(connected(place.data, settings.access.tls))
        call, options = _call(PUT, split, settings), call_options(settings.access.secret)
        self._writer, self._reader = client.do_put(call, WRAPPED, options)
        stack.callback(self._writer.close)

    def write(self, batch: pa.RecordBatch) -> bool:
        self._writer.write_batch(wrapped(batch))
        return True

    def end(self) -> None:
        self._writer.done_writing()

    def wait(self) -> None:
        self._reader.read()


def _nearest(split: int, places: Sequence[GuestPlace]) -> GuestPlace:
    """Returns a node of this executor, else of this host, else any; of several, one by the partition's number."""
    host, jvm = socket.gethostname(), executor_identity()
    on_host = [place for place in places if place.host == host]
    here = [place for place in on_host if place.jvm == jvm] or on_host or list(places)
    return here[split % len(here)]


def _line(error: Exception) -> str:
    return line_of_error(error).partition(" gRPC client debug context:")[0][:300]
