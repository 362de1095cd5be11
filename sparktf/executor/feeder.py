"""A feeder puts one split, as it is computed, into the node that has its lease. Knows nothing of Spark."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import flight

from sparktf.errors import ControlError, NodeLostError, RefusedError
from sparktf.executor.identity import executor_identity
from sparktf.feed.client import Sent, data_client
from sparktf.knobs import KNOBS
from sparktf.sequence import Stream
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import Action
from sparktf.wire.data import DataAddress, Lease, LeaseRequest, Offer, Span
from sparktf.wire.security import ControlAccess


@dataclass(frozen=True, slots=True)
class FeederSettings:
    """What the driver puts into the task's closure.

    Attributes:
        driver_lost_s: Silence of the driver, or of the node that it names, after which the feeder gives up.
        turn: See `Span`.
    """

    access: ControlAccess
    attempt: int
    stream: Stream
    epoch: int
    driver_lost_s: float
    turn: int = 0


def feed(split: int, batches: Iterator[pa.RecordBatch], settings: FeederSettings) -> Sent:
    """Puts a split into the node that has its lease; one that is lost before it takes a row is not missed.

    Raises:
        ControlError: driver or node are gone, or the attempt is over.
    """
    driver = ControlClient(settings.access)
    lost_since_s: float | None = None
    while True:
        lease = _lease(driver, split, settings)
        if lease.data is None:
            return Sent(0, 0, "")
        try:
            return _put(lease, lease.data, split, batches, settings)
        except NodeLostError:
            lost_since_s = lost_since_s or time.monotonic()
            if time.monotonic() - lost_since_s > settings.driver_lost_s:
                raise
            time.sleep(KNOBS.staged_poll_s)


def _lease(driver: ControlClient, split: int, settings: FeederSettings) -> Lease:
    """Asks until there is a node that takes the split, or nobody wants it."""
    request = LeaseRequest(span=Span(**_span(split, settings)), host=socket.gethostname(), jvm=executor_identity())
    while True:
        lease = driver.call_patiently(Action.LEASE, request, Lease, patience_s=settings.driver_lost_s)
        if lease.data is not None or lease.sealed:
            return lease
        time.sleep(KNOBS.staged_poll_s)


def _put(
    lease: Lease, data: DataAddress, split: int, batches: Iterator[pa.RecordBatch], settings: FeederSettings
) -> Sent:
    """Raises `NodeLostError` where the node cannot be reached, and nothing has been computed yet; see `feed`."""
    offer = Offer(**_span(split, settings), done=lease.done)
    try:
        with data_client(data, settings.access) as node:
            try:
                if not node.admit(offer):
                    return Sent(0, 0, "")
            except flight.FlightUnavailableError as e:
                raise NodeLostError(f"the node at {data.host} took no part of partition {split}: {e}") from e
            return node.send(offer, batches)
    except flight.FlightUnauthorizedError as e:
        raise RefusedError(f"the node at {data.host} refused partition {split}: {e}") from e
    except flight.FlightError as e:
        raise ControlError(f"the node at {data.host} took no part of partition {split}: {e}") from e


def _span(split: int, settings: FeederSettings) -> dict[str, Any]:
    return {
        "attempt": settings.attempt,
        "stream": settings.stream,
        "epoch": settings.epoch,
        "split": split,
        "turn": settings.turn,
    }
