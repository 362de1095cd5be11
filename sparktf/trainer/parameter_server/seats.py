"""Whether each worker's place has somebody who can be called: a function of who is there, and of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparktf.knobs import KNOBS
from sparktf.wire.control import WorkerPlace


class Seat(NamedTuple):
    """A worker's place in the cluster.

    Attributes:
        is_lost: TensorFlow has lost who sat there.
        incarnation: Who sat there, as far as TensorFlow knows.
        now: Who has the place, as far as the driver has told.
    """

    is_lost: bool
    incarnation: int
    now: WorkerPlace


def are_filled(seats: Sequence[Seat], waited_s: float) -> bool:
    """Returns whether somebody is in each seat who can be called.

    Args:
        waited_s: How long it is waited for that. By `KNOBS.reconnect_s` the driver would have told of a worker that is
            really lost: TensorFlow has only lost its connection.
    """
    return all(_is_filled(seat) or (seat.now.address and waited_s >= KNOBS.reconnect_s) for seat in seats)


def _is_filled(seat: Seat) -> bool:
    return bool(seat.now.address) and not (seat.is_lost and seat.now.incarnation <= seat.incarnation)
