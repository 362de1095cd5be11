"""Decides whether every worker's place in the cluster can be called: functions of the known state and of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sparktf.knobs import KNOBS
from sparktf.wire.control import WorkerPlace

_TRIED_AGAIN = 3


class Reach(NamedTuple):
    """The state of a worker's place in the cluster."""

    is_lost: bool  # TensorFlow has lost the worker
    incarnation: int  # The incarnation that TensorFlow knows
    now: WorkerPlace  # The worker that the driver names, with the address of the stand-in if one is used
    is_called: bool = False  # An execution is in progress


def reach(incarnation: int, now: WorkerPlace, error: object, answered: object, *, has_call: bool) -> Reach:
    """Returns the state of a worker's place.

    Args:
        error: The error by which TensorFlow lost the worker, until it calls the next one.
        answered: That error when the cluster definition was last sent: a successor has been brought in since.
        has_call: TensorFlow's thread has an execution for this worker. One with an error is not in progress: its
            thread waits for the lock that is held until the definition is sent.
    """
    is_lost = error is not None and error is not answered
    return Reach(is_lost, incarnation, now, is_called=has_call and error is None)


def are_there(places: Iterable[WorkerPlace]) -> bool:
    """Whether each place has a real worker with an address: TensorFlow's cluster must begin with all workers."""
    return all(place.address and not place.stand_in for place in places)


class Call(NamedTuple):
    """An execution on a worker."""

    place: WorkerPlace  # The worker that TensorFlow called
    # When that worker was first known to be lost, by the monotonic clock; None while it lives
    gone_s: float | None = None


def are_filled(seats: Sequence[Reach], waited_s: float) -> bool:
    """Returns whether every seat can be called.

    Args:
        waited_s: Seconds waited so far. After `KNOBS.reconnect_s` the driver would have reported a worker that is
            really lost: TensorFlow has only lost its connection.
    """
    return all(_is_filled(seat) or _is_back(seat, waited_s) for seat in seats)


def is_cut_off(call: Call, now_s: float, stop_s: float) -> bool:
    """Returns whether a call will never return, provided that the worker's host is unreachable.

    `stop_s` is the time to end a frozen worker, which breaks its connections.
    """
    return _is_gone_for(call, now_s, stop_s + KNOBS.reconnect_s)


def is_abandoned(call: Call, now_s: float, stop_s: float) -> bool:
    """Returns whether a call to a reachable host must be given up.

    After a network cut, TCP retransmits within as long as the cut lasted; only then the host answers with a reset.
    """
    return _is_gone_for(call, now_s, _TRIED_AGAIN * (stop_s + KNOBS.reconnect_s))


def _is_gone_for(call: Call, now_s: float, limit_s: float) -> bool:
    return call.gone_s is not None and now_s - call.gone_s >= limit_s


def _is_filled(seat: Reach) -> bool:
    if not seat.now.address:
        return False
    if seat.now.stand_in:  # a call to the previous worker must not end at the stand-in
        return seat.is_lost or not seat.is_called
    return not (seat.is_lost and seat.now.incarnation <= seat.incarnation)


def _is_back(seat: Reach, waited_s: float) -> bool:
    return bool(seat.now.address) and not seat.now.stand_in and waited_s >= KNOBS.reconnect_s
