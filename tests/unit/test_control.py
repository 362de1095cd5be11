"""The control server as nodes and strangers meet it: a real Flight server on loopback."""

from __future__ import annotations

import datetime
import itertools
import logging
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil
import pytest
from pyarrow import flight

from sparktf.driver.attempt.event_count import EventCount
from sparktf.driver.gang.control_server import HERE, ControlServer, LocalControlServer
from sparktf.driver.gang.site import Handler, Later
from sparktf.errors import ControlError, DriverLostError, RefusedError, SparkTFError
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.wire.certificates import new_tls_material
from sparktf.wire.channel import ControlClient, Silence
from sparktf.wire.control import Action, AgentHeartbeat, Order, Orders
from sparktf.wire.flight import SECRET_HEADER
from sparktf.wire.security import ControlAccess, TlsMaterial, new_secret

BEAT = AgentHeartbeat(agent="a", number=1, address="h:1")


def answer(message: AgentHeartbeat) -> Message:
    if message.agent == "unwanted":
        raise RefusedError("this agent has lost its place")
    if message.agent == "unlucky":
        raise SparkTFError("something broke")
    return Orders(order=Order.WAIT)


HANDLERS = {Action.AGENT_HEARTBEAT: Handler(AgentHeartbeat, answer)}


def serve(tls: TlsMaterial | None) -> ControlServer:
    return ControlServer(HERE, 0, new_secret(), tls, HANDLERS)


def material() -> TlsMaterial:
    return new_tls_material(datetime.datetime.now(datetime.UTC))


@pytest.fixture
def plain() -> Iterator[ControlServer]:
    server = serve(None)
    yield server
    server.shutdown()


@pytest.fixture(scope="module")
def encrypted() -> Iterator[ControlServer]:
    server = serve(material())
    yield server
    server.shutdown()


def _listening() -> int:
    """Returns how many TCP ports this process listens at."""
    return sum(c.status == psutil.CONN_LISTEN for c in psutil.Process().net_connections("tcp"))


def call(access: ControlAccess, request: Message = BEAT) -> Orders:
    client = ControlClient(access)
    try:
        return client.call(Action.AGENT_HEARTBEAT, request, Orders, timeout_s=5.0)
    finally:
        client.close()


def test_a_node_with_the_secret_is_answered(plain: ControlServer) -> None:
    assert call(plain.access()).order is Order.WAIT


@pytest.mark.parametrize("secret", ["", "wrong"])
def test_a_wrong_or_missing_secret_is_refused_and_logged(
    plain: ControlServer, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(RefusedError, match="wrong or missing secret"):
        call(plain.access().model_copy(update={"secret": secret}))

    assert "without the run's secret" in caplog.text
    assert call(plain.access()).order is Order.WAIT, "the server goes on"


@pytest.mark.parametrize(
    ("name", "body"),
    [("agent-heartbeat", b"\x80\x04garbage"), ("agent-heartbeat", b'{"agent": 1}'), ("format-disk", b"{}"), ("", b"")],
)
def test_garbage_and_unknown_actions_are_refused_and_logged(
    plain: ControlServer, name: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    access = plain.access()
    client = flight.FlightClient(access.location)
    options = flight.FlightCallOptions(timeout=5.0, headers=[(SECRET_HEADER, access.secret.encode())])

    with caplog.at_level(logging.WARNING), pytest.raises(flight.FlightUnauthorizedError):
        list(client.do_action(flight.Action(name, body), options))

    client.close()
    assert "refused" in caplog.text
    assert call(access).order is Order.WAIT, "the server goes on"


def test_what_a_handler_refuses_reaches_the_caller_with_its_reason(plain: ControlServer) -> None:
    with pytest.raises(RefusedError, match="lost its place"):
        call(plain.access(), BEAT.model_copy(update={"agent": "unwanted"}))


def test_a_failing_handler_does_not_end_the_server(plain: ControlServer) -> None:
    with pytest.raises(ControlError, match="something broke"):
        call(plain.access(), BEAT.model_copy(update={"agent": "unlucky"}))
    assert call(plain.access()).order is Order.WAIT


def test_a_server_that_is_gone_is_a_lost_driver() -> None:
    server = serve(None)
    access = server.access()
    server.shutdown()

    with pytest.raises(DriverLostError, match="agent-heartbeat"):
        call(access)


@pytest.mark.parametrize("below", ["", "a-folder-with-a-long-name/" * 5], ids=["short", "longer than a socket's path"])
def test_on_one_machine_it_is_a_socket_that_only_its_user_can_reach(tmp_path: Path, below: str) -> None:
    (tmp_path / below).mkdir(parents=True, exist_ok=True)
    listening = _listening()
    server = LocalControlServer(str(tmp_path / below), new_secret(), HANDLERS)
    access = server.access()
    assert call(access).order is Order.WAIT
    with pytest.raises(RefusedError, match="wrong or missing secret"):
        call(access.model_copy(update={"secret": "wrong"}))
    assert _listening() == listening, "no port"
    (folder,) = (tmp_path / below).iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    server.withdraw()
    server.shutdown()

    assert not folder.exists()
    with pytest.raises(DriverLostError) as caught:
        call(access)
    assert lost_after(caught.value, 60.0) == KNOBS.driver_gone_s, "no node waits for a driver that has ended"


def lost_after(error: ControlError, driver_lost_s: float) -> float:
    """Returns for how many seconds calls that fail at once, ten a second, leave the driver a chance."""
    silence = Silence(driver_lost_s)
    began_s = (tenth / 10 for tenth in itertools.count())
    is_too_long = partial(silence.is_too_long, error, timeout_s=1.0)
    return next(s for s in began_s if is_too_long(began_s=s, ended_s=s)) - 0.1


def test_a_driver_that_is_silent_is_lost_after_its_time_and_one_that_answers_begins_anew() -> None:
    late, silence = DriverLostError("Deadline Exceeded"), Silence(6.0)
    assert lost_after(late, 6.0) == 6.0

    def is_lost(began_s: float) -> bool:
        return silence.is_too_long(late, began_s=began_s, ended_s=began_s + 5, timeout_s=5)

    assert [is_lost(0), is_lost(6)] == [False, False], "the last call began in time"
    silence.end()
    assert [is_lost(11), is_lost(17), is_lost(18)] == [False, False, True]


def test_a_caller_that_stood_still_takes_no_driver_for_lost() -> None:
    late, silence = DriverLostError("Deadline Exceeded"), Silence(6.0)
    stood_still = [silence.is_too_long(late, began_s=s, ended_s=s + 50, timeout_s=5) for s in (0.0, 50.0, 100.0)]
    assert stood_still == [False, False, False]
    assert not silence.is_too_long(late, began_s=150.0, ended_s=155.0, timeout_s=5)
    assert silence.is_too_long(late, began_s=157.0, ended_s=162.0, timeout_s=5)


def test_a_socket_that_a_killed_driver_left_is_a_driver_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "driver"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with pytest.raises(DriverLostError) as caught:
        call(ControlAccess(location=f"grpc+unix://{path}", secret="s"))
    assert lost_after(caught.value, 60.0) == KNOBS.driver_gone_s


def test_mutual_tls_serves_the_nodes_of_the_run(encrypted: ControlServer) -> None:
    assert call(encrypted.access()).order is Order.WAIT


def test_a_certificate_of_another_run_is_refused(encrypted: ControlServer) -> None:
    access = encrypted.access()
    assert access.tls is not None
    stranger = material().model_copy(update={"authority": access.tls.authority})

    with pytest.raises(ControlError):
        call(access.model_copy(update={"tls": stranger}))


def test_plain_text_is_refused_by_a_tls_server(encrypted: ControlServer) -> None:
    access = encrypted.access()
    plain_location = access.location.replace("grpc+tls", "grpc")

    with pytest.raises(ControlError):
        call(access.model_copy(update={"tls": None, "location": plain_location}))


def test_a_client_without_certificate_is_refused(encrypted: ControlServer) -> None:
    access = encrypted.access()
    assert access.tls is not None
    client = flight.FlightClient(
        access.location, tls_root_certs=access.tls.authority.encode(), override_hostname="sparktf-node"
    )
    with pytest.raises(flight.FlightError):
        list(client.do_action(flight.Action("agent-heartbeat", b"{}"), flight.FlightCallOptions(timeout=5.0)))
    client.close()


def test_secrets_are_in_no_text_form_of_the_access(encrypted: ControlServer) -> None:
    access = encrypted.access()
    assert access.tls is not None
    for secret in (access.secret, access.tls.key):
        assert secret not in repr(access)
        assert secret not in str(access)


class Undecided:
    """A handler whose answer is WAIT until it is decided."""

    def __init__(self) -> None:
        self.changes = EventCount()
        self.said = Order.WAIT
        self.asked = EventCount()
        later = Later(lambda said: said.order is not Order.WAIT, lambda: self.changes)
        self.server = ControlServer(
            HERE, 0, new_secret(), None, {Action.AGENT_HEARTBEAT: Handler(AgentHeartbeat, self._answer, later)}
        )

    def _answer(self, message: AgentHeartbeat) -> Message:
        del message
        self.asked.advance()
        return Orders(order=self.said)


@pytest.fixture
def undecided() -> Iterator[Undecided]:
    made = Undecided()
    yield made
    made.server.shutdown()


def test_who_asks_before_it_is_decided_is_answered_once_it_is(
    undecided: Undecided, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KNOBS, "regroup_s", 60.0)
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(call, undecided.server.access())
        assert undecided.asked.await_after(0, 30)
        undecided.said = Order.STOP
        undecided.changes.advance()
        assert told.result(30).order is Order.STOP
    assert undecided.asked.read() == 2


def test_who_asks_in_vain_is_told_so_after_a_while_to_ask_again(
    undecided: Undecided, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KNOBS, "regroup_s", 0.01)
    assert call(undecided.server.access()).order is Order.WAIT
    assert undecided.asked.read() == 1
