"""Whether each worker's place has somebody who can be called: functions of who is there, and of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sparktf.knobs import KNOBS
from sparktf.wire.control import WorkerPlace

_TRIED_AGAIN = 3


class Reach(NamedTuple):
    """A worker's place in the cluster.

    Attributes:
        is_lost: TensorFlow has lost who sat there.
        incarnation: Who sat there, as far as TensorFlow knows.
        now: Who has the place, as far as the driver has told; with the address of the stand-in, if that is there.
        is_called: An execution is under way there.
    """

    is_lost: bool
    incarnation: int
    now: WorkerPlace
    is_called: bool = False


def reach(incarnation: int, now: WorkerPlace, error: object, answered: object, *, has_call: bool) -> Reach:
    """Returns what is known of a worker's place.

    Args:
        incarnation: As in `Reach`, as is `now`.
        error: By which TensorFlow has lost who sat there, as long as it has not begun to call the next one.
        answered: What that was when the cluster's definition was sent last: its successor has been brought in since.
        has_call: TensorFlow's thread has an execution in its hands for this place. One with an error is not under way:
            its thread waits for the lock that is held until the definition is sent.
    """
    is_lost = error is not None and error is not answered
    return Reach(is_lost, incarnation, now, is_called=has_call and error is None)


def are_there(places: Iterable[WorkerPlace]) -> bool:
    """Whether somebody of his own is to be found in each place: TensorFlow's cluster begins with all of its workers."""
    return all(place.address and not place.stand_in for place in places)


class Call(NamedTuple):
    """An execution at a worker.

    Attributes:
        place: Of the worker that TensorFlow has called.
        gone_s: When that was first known to be lost, by the monotonic clock; None while it lives.
    """

    place: WorkerPlace
    gone_s: float | None = None


def are_filled(seats: Sequence[Reach], waited_s: float) -> bool:
    """Returns whether somebody is in each seat who can be called.

    Args:
        waited_s: How long it is waited for that. By `KNOBS.reconnect_s` the driver would have told of a worker that is
            really lost: TensorFlow has only lost its connection.
    """
    return all(_is_filled(seat) or _is_back(seat, waited_s) for seat in seats)


def is_cut_off(call: Call, now_s: float, stop_s: float) -> bool:
    """Returns whether nothing will ever come of a call, and nobody will say so, if the worker's host is out of reach.

    Args:
        stop_s: A worker that is frozen may take so long to be ended, which breaks the connection.
    """
    return _is_gone_for(call, now_s, stop_s + KNOBS.reconnect_s)


def is_abandoned(call: Call, now_s: float, stop_s: float) -> bool:
    """Returns whether nothing will come of a call to a host that can be reached, for all that is known.

    After a cut, TCP tries again within as long as the cut has lasted; then the host says that nobody is there.
    """
    return _is_gone_for(call, now_s, _TRIED_AGAIN * (stop_s + KNOBS.reconnect_s))


def _is_gone_for(call: Call, now_s: float, limit_s: float) -> bool:
    return call.gone_s is not None and now_s - call.gone_s >= limit_s


def _is_filled(seat: Reach) -> bool:
    if not seat.now.address:
        return False
    if seat.now.stand_in:  # what is under way to the worker before must not end there
        return seat.is_lost or not seat.is_called
    return not (seat.is_lost and seat.now.incarnation <= seat.incarnation)


def _is_back(seat: Reach, waited_s: float) -> bool:
    return bool(seat.now.address) and not seat.now.stand_in and waited_s >= KNOBS.reconnect_s
