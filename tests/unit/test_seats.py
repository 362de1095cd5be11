"""When the coordinator of asynchronous training may bring its workers together again."""

from __future__ import annotations

from sparktf.knobs import KNOBS
from sparktf.topology import NodeId, Role
from sparktf.trainer.parameter_server.membership import seats
from sparktf.trainer.parameter_server.membership.seats import Call, Reach, are_filled, is_abandoned, is_cut_off
from sparktf.wire.control import WorkerPlace


def seat(
    *,
    is_lost: bool = False,
    knew: int = 0,
    now: int = 0,
    address: str = "h:1",
    stand_in: bool = False,
    is_called: bool = False,
) -> Reach:
    place = WorkerPlace(node=NodeId(role=Role.WORKER, index=0), incarnation=now, address=address, stand_in=stand_in)
    return Reach(is_lost, knew, place, is_called)


def test_a_lost_worker_is_waited_for_until_its_successor_has_an_address() -> None:
    assert are_filled([seat(), seat()], 0.0)
    assert not are_filled([seat(), seat(is_lost=True)], 0.0)
    assert not are_filled([seat(), seat(is_lost=True, now=1, address="")], 0.0)
    assert are_filled([seat(), seat(is_lost=True, now=1)], 0.0)


def test_one_that_the_driver_alone_knows_to_be_lost_is_waited_for() -> None:
    assert not are_filled([seat(), seat(now=1, address="")], 0.0)
    assert not are_filled([seat(), seat(now=1, address="")], KNOBS.reconnect_s)
    assert are_filled([seat(), seat(now=1)], 0.0)


def test_one_that_only_tensorflow_has_lost_is_called_again_after_a_while() -> None:
    assert are_filled([seat(is_lost=True)], KNOBS.reconnect_s)


def test_a_stand_in_takes_a_place_once_nothing_is_under_way_there() -> None:
    assert not are_filled([seat(is_lost=True, now=1, address="", stand_in=True)], KNOBS.reconnect_s)
    assert are_filled([seat(is_lost=True, now=1, stand_in=True, is_called=True)], 0.0), "what broke off there waits"
    assert are_filled([seat(now=1, stand_in=True)], 0.0), "TensorFlow has not called there since"
    assert not are_filled([seat(now=1, stand_in=True, is_called=True)], KNOBS.reconnect_s)
    assert are_filled([seat(knew=1, now=1, stand_in=True)], 0.0), "it has the place"
    assert are_filled([seat(knew=1, now=1)], 0.0), "who comes late has the stand-in's number"


def test_what_broke_off_is_not_under_way_though_the_definition_has_been_sent_since() -> None:
    """Another worker was lost before TensorFlow's thread had the lock: both waited for ever."""
    place, error = seat(now=1, stand_in=True).now, OSError()
    again = seats.reach(0, place, error, error, has_call=True)
    assert not again.is_lost
    assert are_filled([again, seat(is_lost=True, now=1)], 0.0)
    assert seats.reach(0, place, error, None, has_call=True).is_lost
    assert not are_filled([seats.reach(0, place, None, error, has_call=True)], KNOBS.reconnect_s), "it is called there"


def test_a_call_to_a_lost_worker_is_given_up_once_that_would_have_been_ended() -> None:
    place = seat().now
    limit_s = 5 + KNOBS.reconnect_s
    assert not is_cut_off(Call(place), 1e9, 5)
    assert not is_cut_off(Call(place, gone_s=100), 100 + limit_s - 0.1, 5)
    assert is_cut_off(Call(place, gone_s=100), 100 + limit_s, 5)


def test_a_call_to_a_host_that_can_be_reached_again_has_time_to_break_off() -> None:
    place, limit_s = seat().now, 5 + KNOBS.reconnect_s
    assert not is_abandoned(Call(place), 1e9, 5)
    assert not is_abandoned(Call(place, gone_s=100), 100 + 2 * limit_s, 5), "it may have lasted until it was noticed"
    assert is_abandoned(Call(place, gone_s=100), 100 + 3 * limit_s, 5)
