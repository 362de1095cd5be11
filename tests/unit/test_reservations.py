"""What stands in place of TensorFlowOnSpark's reservation server: its nodes find each other over the control server."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sparktf.driver.gang.control_server import HERE, ControlServer
from sparktf.driver.gang.site import Handler
from sparktf.driver.spark.reservations import Reservations, ReservationServer
from sparktf.errors import NodeLostError, RefusedError, ReservationError
from sparktf.executor.reservation import ReservationClient
from sparktf.wire.certificates import new_tls_material
from sparktf.wire.control import Action
from sparktf.wire.reserving import ReserveRequest
from sparktf.wire.security import new_secret


def node(number: int, **changed: Any) -> dict[str, Any]:
    """Returns what a node of the package's registers."""
    of_worker = {"job_name": "worker", "task_index": number, "addr": "/tmp/pymp-1/listener-2"}
    known = {"executor_id": number, "host": "h", "port": 4000 + number, "tb_pid": 0, "tb_port": 0}
    return {**known, **of_worker, "authkey": bytes(range(16)), **changed}


class Driver:
    """The driver's side, for two nodes."""

    def __init__(self) -> None:
        self.reservations = Reservations(2)
        handlers = {Action.RESERVE: Handler(ReserveRequest, self.reservations.reserve)}
        material = new_tls_material(datetime.datetime.now(datetime.UTC))
        self.control = ControlServer(HERE, 0, new_secret(), material, handlers)
        self.server = ReservationServer(self.reservations, self.control.access())


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.control.shutdown()


def come(driver: Driver, known: dict[str, Any]) -> list[dict[str, Any]]:
    """Does what the package does on a node; returns whom it finds."""
    client = ReservationClient(driver.server.start())
    assert all(found["executor_id"] != known["executor_id"] for found in client.get_reservations())
    assert client.register(known) == "OK"
    found = client.await_reservations()
    client.close()
    return found


def test_nodes_find_each_other_and_the_driver_finds_them_as_they_are(driver: Driver) -> None:
    sent = [node(0), node(1, addr=("10.0.0.7", 5000), job_name="ps")]
    with ThreadPoolExecutor() as pool:
        told = pool.submit(driver.server.await_reservations, None, {}, 60)
        found = list(pool.map(come, [driver, driver], sent))
    for nodes in (*found, told.result()):
        assert sorted(nodes, key=lambda known: int(known["executor_id"])) == sent


def test_a_node_that_is_started_again_takes_its_own_place(driver: Driver) -> None:
    client = ReservationClient(driver.server.start())
    client.register(node(0, host="lost"))
    client.register(node(0, host="new"))
    assert [known["host"] for known in client.get_reservations()] == ["new"]


def test_nobody_takes_a_place_that_there_is_not(driver: Driver) -> None:
    client = ReservationClient(driver.server.start())
    for number in (-1, 2):
        with pytest.raises(RefusedError, match=f"there is no node {number}"):
            client.register(node(number))
    assert client.get_reservations() == []


def test_who_has_no_secret_reserves_nothing(driver: Driver) -> None:
    stranger = ReservationClient(driver.server.start().model_copy(update={"secret": "guessed"}))
    with pytest.raises(RefusedError, match="wrong or missing secret"):
        stranger.register(node(0))
    assert driver.reservations.reserve(ReserveRequest()).nodes == ()


def test_the_wait_for_nodes_ends_with_its_time(driver: Driver) -> None:
    ReservationClient(driver.server.start()).register(node(1))
    with pytest.raises(ReservationError, match="1 of 2 nodes came within 0 s"):
        driver.server.await_reservations(None, {}, 0)


def test_the_wait_for_nodes_ends_with_their_job_and_leaves_the_application_alone(driver: Driver) -> None:
    with pytest.raises(NodeLostError, match="no slots"):
        driver.server.await_reservations(None, {"error": "no slots\nat x.scala"}, 60)


def test_the_keys_of_the_nodes_stand_in_no_text(driver: Driver) -> None:
    ReservationClient(driver.server.start()).register(node(0))
    assert bytes(range(16)).hex() not in repr(driver.reservations.reserve(ReserveRequest()))
