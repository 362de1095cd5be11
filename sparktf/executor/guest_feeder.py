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

from sparktf.errors import BadValueError, ModelError, NodeLostError, SparkTFError
from sparktf.executor.guest_watch import GuestWatch
from sparktf.executor.identity import executor_identity
from sparktf.feed.channel.any_rows import UnfitRowsError, batch_to_rows, rows_to_batch
from sparktf.feed.channel.client import connected
from sparktf.feed.channel.guest_feed import ANSWER, PUT, WRAPPED, unwrapped, wrapped
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import Action
from sparktf.wire.data import SplitEnd
from sparktf.wire.flight import call_options
from sparktf.wire.guest import Deal, DealRequest, GuestCall, GuestPlace
from sparktf.wire.security import ControlAccess

_CHUNK_ROWS = 2048


@dataclass(frozen=True, slots=True)
class GuestFeedSettings:
    """The feeder's settings in the task's closure."""

    access: ControlAccess
    places: tuple[GuestPlace, ...]  # Addresses of the nodes that take rows
    deals: bool  # Whether all of them get equally many rows; else only nodes of the task's executor get its rows
    driver_lost_s: float
    feed_timeout_s: float  # For a function to take rows, or give results
    cause_s: float  # For the driver to learn why a node is gone


def feed_guests(split: int, rows: Iterable[Any], settings: GuestFeedSettings) -> None:
    """Feeds a partition, and returns when its rows were taken.

    Raises:
        BadValueError: no column can hold some rows.
        ModelError: the function failed, or is late.
        NodeLostError: a node is gone.
    """
    batches = _batches(split, rows)
    first = next(batches, None)
    if first is None:
        return
    try:
        if settings.deals:
            _deal(split, itertools.chain([first], batches), settings)
        else:
            _send_all(split, itertools.chain([first], batches), _nearest(split, settings.places), settings)
    except (flight.FlightError, NodeLostError) as error:
        raise _explained(f"partition {split}: a node did not take all rows", error, settings) from error


def answer_guests(split: int, rows: Iterable[Any], settings: GuestFeedSettings) -> Iterator[Any]:
    """Feeds a partition to one node, and yields the result of each row; raises what `feed_guests` does."""
    batches = _batches(split, rows)
    first = next(batches, None)
    if first is None:
        return
    place = _nearest(split, settings.places)
    try:
        with ExitStack() as stack:
            client, _ = stack.enter_context(connected(place.data, settings.access.tls))
            writer, reader = client.do_exchange(_call(ANSWER, split, settings), call_options(settings.access.secret))
            pool = stack.enter_context(ThreadPoolExecutor(1, "answers"))
            stack.callback(reader.cancel)  # if the caller stops early: then nothing waits for room any more
            stack.enter_context(GuestWatch(settings.access, settings.driver_lost_s).during(reader.cancel))
            sent = pool.submit(_send, writer, itertools.chain([first], batches))
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


def _send(writer: flight.FlightStreamWriter, batches: Iterable[pa.RecordBatch]) -> None:
    """Sends all rows of a partition, then their number. If the call breaks off, its reader gets the error."""
    rows = 0
    with suppress(flight.FlightError):
        try:
            writer.begin(WRAPPED)
            for batch in batches:
                writer.write_batch(wrapped(batch))
                rows += batch.num_rows
            writer.write_metadata(SplitEnd(rows=rows).model_dump_json().encode())
        finally:
            writer.done_writing()


def _batches(split: int, rows: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    iterator, before = iter(rows), 0
    while chunk := list(itertools.islice(iterator, _CHUNK_ROWS)):
        try:
            yield rows_to_batch(chunk)
        except UnfitRowsError as error:
            last = before + len(chunk)
            raise BadValueError(f"partition {split} of the RDD, rows {before} to {last}: {error}") from error
        before += len(chunk)


def _deal(split: int, batches: Iterable[pa.RecordBatch], settings: GuestFeedSettings) -> None:
    """Sends equally many rows to each node, over all partitions."""
    driver = ControlClient(settings.access)
    with ExitStack() as stack:
        writers = [_Writer(stack, split, place, settings) for place in settings.places]
        for batch in batches:
            request = DealRequest(rows=batch.num_rows)
            deal = driver.call_patiently(Action.DEAL, request, Deal, patience_s=settings.driver_lost_s)
            if deal.is_over:
                break
            start = 0
            for i in range(len(writers)):
                count = batch.num_rows // len(writers) + (i < batch.num_rows % len(writers))
                if count:
                    writers[(deal.first + i) % len(writers)].write(batch.slice(start, count))
                start += count
        for writer in writers:
            writer.end()
        for writer in writers:
            writer.wait()


def _send_all(split: int, batches: Iterable[pa.RecordBatch], place: GuestPlace, settings: GuestFeedSettings) -> None:
    with ExitStack() as stack:
        writer = _Writer(stack, split, place, settings)
        for batch in batches:
            writer.write(batch)
        writer.end()
        writer.wait()


class _Writer:
    """A call that sends rows to one node."""

    def __init__(self, stack: ExitStack, split: int, place: GuestPlace, settings: GuestFeedSettings) -> None:
        client, _ = stack.enter_context(connected(place.data, settings.access.tls))
        call, options = _call(PUT, split, settings), call_options(settings.access.secret)
        self._writer, self._reader = client.do_put(call, WRAPPED, options)
        stack.callback(self._writer.close)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(wrapped(batch))

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
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line.partition(" gRPC client debug context:")[0][:300]
