"""A feeder puts one split, as it is computed, into the node that has its lease. Knows nothing of Spark."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import flight

from sparktf.errors import ControlError, RefusedError
from sparktf.executor.identity import executor_identity
from sparktf.feed.client import Sent, data_client
from sparktf.sequence import Stream
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import Action
from sparktf.wire.data import Lease, LeaseRequest, Span
from sparktf.wire.security import ControlAccess


@dataclass(frozen=True, slots=True)
class FeederSettings:
    """What the driver puts into the task's closure.

    Attributes:
        driver_lost_s: Silence of the driver after which the feeder gives up.
    """

    access: ControlAccess
    attempt: int
    stream: Stream
    epoch: int
    driver_lost_s: float


def feed(split: int, batches: Iterator[pa.RecordBatch], settings: FeederSettings) -> Sent:
    """Puts a split into the node that has its lease.

    Raises:
        ControlError: driver or node are gone, or the attempt is over.
    """
    span = Span(attempt=settings.attempt, stream=settings.stream, epoch=settings.epoch, split=split)
    request = LeaseRequest(span=span, host=socket.gethostname(), jvm=executor_identity())
    driver = ControlClient(settings.access)
    lease = driver.call_patiently(Action.LEASE, request, Lease, patience_s=settings.driver_lost_s)
    try:
        with data_client(lease.data, settings.access) as node:
            return node.put(span, batches)
    except flight.FlightUnauthorizedError as e:
        raise RefusedError(f"the node at {lease.data.host} refused partition {split}: {e}") from e
    except flight.FlightError as e:
        raise ControlError(f"the node at {lease.data.host} took no part of partition {split}: {e}") from e
