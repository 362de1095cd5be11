"""When the coordinator of asynchronous training may bring its workers together again."""

from __future__ import annotations

from sparktf.knobs import KNOBS
from sparktf.topology import NodeId, Role
from sparktf.trainer.parameter_server.seats import Seat, are_filled
from sparktf.wire.control import WorkerPlace


def seat(*, is_lost: bool = False, knew: int = 0, now: int = 0, address: str = "h:1") -> Seat:
    node = NodeId(role=Role.WORKER, index=0)
    return Seat(is_lost, knew, WorkerPlace(node=node, incarnation=now, address=address))


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
