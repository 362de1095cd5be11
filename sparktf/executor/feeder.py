"""A feeder sends one split to its node while the split is computed. Independent of Spark."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import flight

from sparktf.errors import ControlError, NodeLostError, RefusedError
from sparktf.executor.identity import executor_identity
from sparktf.feed.channel.client import Sent, data_client
from sparktf.knobs import KNOBS
from sparktf.sequence import Stream
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import Action
from sparktf.wire.data import DataAddress, Lease, LeaseRequest, Offer, Span
from sparktf.wire.security import ControlAccess


@dataclass(frozen=True, slots=True)
class FeederSettings:
    """The feeder's settings in the task's closure."""

    access: ControlAccess
    attempt: int
    stream: Stream
    epoch: int
    driver_lost_s: float  # Silence of the driver, or of the assigned node, after which the feeder gives up
    turn: int = 0  # See `Span`
    generation: int = 1  # Likewise


def feed(split: int, batches: Iterator[pa.RecordBatch], settings: FeederSettings) -> Sent:
    """Sends a split to its node; asks for another node if that is lost before it has received a row.

    Raises:
        ControlError: the driver or the node is gone, or the attempt is over.
    """
    driver = ControlClient(settings.access)
    span = Span(
        attempt=settings.attempt,
        stream=settings.stream,
        epoch=settings.epoch,
        split=split,
        turn=settings.turn,
        generation=settings.generation,
    )
    lost_since_s: float | None = None
    while True:
        lease = _lease(driver, span, settings)
        if lease.data is None:
            return Sent(0, 0, "")
        try:
            return _put(Offer(**dict(span), done=lease.done), lease.data, batches, settings)
        except NodeLostError:
            lost_since_s = lost_since_s or time.monotonic()
            if time.monotonic() - lost_since_s > settings.driver_lost_s:
                raise
            time.sleep(KNOBS.staged_poll_s)


def _lease(driver: ControlClient, span: Span, settings: FeederSettings) -> Lease:
    """Asks until the split has a node, or is no longer wanted."""
    request = LeaseRequest(span=span, host=socket.gethostname(), jvm=executor_identity())
    while True:
        lease = driver.call_patiently(Action.LEASE, request, Lease, patience_s=settings.driver_lost_s)
        if lease.data is not None or lease.sealed:
            return lease
        time.sleep(KNOBS.staged_poll_s)


def _put(offer: Offer, data: DataAddress, batches: Iterator[pa.RecordBatch], settings: FeederSettings) -> Sent:
    """Sends the split; raises `NodeLostError` if the node cannot be reached, and no row has been computed yet."""
    try:
        with data_client(data, settings.access) as node:
            try:
                if not node.admit(offer):
                    return Sent(0, 0, "")
            except flight.FlightUnavailableError as e:
                raise NodeLostError(f"the node at {data.host} did not take partition {offer.split}: {e}") from e
            return node.send(offer, batches)
    except flight.FlightUnauthorizedError as e:
        raise RefusedError(f"the node at {data.host} refused partition {offer.split}: {e}") from e
    except flight.FlightError as e:
        raise ControlError(f"the node at {data.host} did not take partition {offer.split}: {e}") from e
