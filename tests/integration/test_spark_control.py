"""The control server of a run that goes on, and those who have no business with it."""

from __future__ import annotations

import datetime
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from integration.application import Application, Outcome
from integration.rows import job
from integration.stranger import Trap, listeners, look
from integration.watch import Watch
from pyarrow import flight

from sparktf.errors import ControlError, RefusedError
from sparktf.topology import NodeId, Role
from sparktf.wire.certificates import new_tls_material
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import Ack, Action, AgentHeartbeat, Orders, Ready
from sparktf.wire.flight import SECRET_HEADER
from sparktf.wire.security import ControlAccess

HEARTBEAT = AgentHeartbeat(agent="nobody", number=1, address="127.0.0.1:1")
LATE = Ready(attempt=99, node=NodeId(role=Role.WORKER, index=0), replicas=1, keras="keras", versions={}, weights=0)
DEADLINE_S = 5.0


class Waiting(NamedTuple):
    """A run whose trainers wait.

    Attributes:
        access: What its nodes have.
        finish: Lets it go on to its end.
    """

    access: ControlAccess
    finish: Callable[[], Outcome]


def waiting_run(application: Application, rows: Path, watch: Watch, folder: Path, tls: str) -> Waiting:
    """Starts a run and waits until its trainers wait."""
    told = folder / "access.json"
    config = job(
        rows,
        application.sandbox.runs,
        "cases.insider:build",
        name=f"tls-{tls}",
        params={**watch.params(hold_at=3), "access": str(told)},
        security={"tls": tls},
    )
    watch.hold()
    application.begin(config, "r", own_gang=tls != "auto")  # the shared gang is on one machine, and asks for no TLS
    watch.held(2)

    def finish() -> Outcome:
        watch.release()
        return application.outcome()

    return Waiting(ControlAccess.model_validate_json(told.read_text()), finish)


def send(client: flight.FlightClient, action: str, body: bytes, secret: str | None) -> Any:
    """Sends an action as it is."""
    headers = [] if secret is None else [(SECRET_HEADER, secret.encode())]
    options = flight.FlightCallOptions(timeout=DEADLINE_S, headers=headers)
    return list(client.do_action(flight.Action(action, body), options))


def without_tls(access: ControlAccess) -> ControlAccess:
    return access.model_copy(update={"location": access.location.replace("grpc+tls", "grpc"), "tls": None})


def test_strangers_are_refused_and_logged_while_the_run_goes_on(
    local: Application, rows: Path, watch: Watch, tmp_path: Path
) -> None:
    run = waiting_run(local, rows, watch, tmp_path, "auto")
    known_log = local.sandbox.log.read_text()
    wrong = ControlClient(run.access.model_copy(update={"secret": "guessed"}))
    with pytest.raises(RefusedError, match="wrong or missing secret"):
        wrong.call(Action.AGENT_HEARTBEAT, HEARTBEAT, Orders)
    with flight.FlightClient(run.access.location) as client:
        with pytest.raises(flight.FlightUnauthenticatedError, match="wrong or missing secret"):
            send(client, "agent-heartbeat", HEARTBEAT.model_dump_json().encode(), None)
        with pytest.raises(flight.FlightUnauthorizedError, match="unknown action 'shut-down'"):
            send(client, "shut-down", b"{}", run.access.secret)
        with pytest.raises(flight.FlightUnauthorizedError, match="malformed ready"):
            send(client, "ready", b"\x80\x04not JSON", run.access.secret)
        with pytest.raises(flight.FlightUnauthorizedError, match="malformed ready"):
            send(client, "ready", json.dumps({"attempt": 1}).encode(), run.access.secret)
    assert run.access.location.startswith("grpc+unix://")
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(DEADLINE_S)
        stranger.connect(run.access.location.removeprefix("grpc+unix://"))
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(1 << 16))
    insider = ControlClient(run.access)
    with pytest.raises(RefusedError, match="this agent never registered here"):
        insider.call(Action.AGENT_HEARTBEAT, HEARTBEAT, Orders)
    with pytest.raises(RefusedError, match="attempt 99 is over"):
        insider.call(Action.READY, LATE, Ack)
    assert run.finish().done.attempts[0].failures == ()
    log = local.sandbox.log.read_text().removeprefix(known_log)
    assert log.count("refused a call without the run's secret") == 2
    assert "refused the unknown action 'shut-down'" in log
    assert log.count("refused a malformed ready") == 2
    assert run.access.secret not in log


def test_another_user_of_the_host_reaches_nothing_of_a_run_that_spark_feeds(
    local: Application, watch: Watch, tmp_path: Path
) -> None:
    """Of a run of one worker, whose TensorFlow starts no server: see docs/cluster/security.md for those that do."""
    config = job(
        Path(),
        local.sandbox.runs,
        "cases.watched:build",
        name="stranger",
        params=watch.params(hold_at=2),
        data={"path": None},
        cluster={"workers": 1},
    )
    trap = Trap(tmp_path / "caught")
    watch.hold()
    before = set(look(local.sandbox).read)  # what Spark has shuffled for other tests, open to all on one machine
    local.begin(config, "r", "cases.frames:partitions", sizes=[300, 200])
    (held,) = watch.held(1)
    processes = local.family.processes()
    pythons = {process.pid for process in processes if process.name() != "java"}
    found = listeners(processes)
    looked = look(local.sandbox, [(one.host, one.port) for one in found if one.kind == "tcp"], trap.says())
    watch.release()
    assert local.outcome().done.rows[0].trained == 500
    assert not trap.has_caught
    assert looked.answered, "Spark listens, if nobody else does"
    assert (looked.called, set(looked.read) - before) == ([], set())
    assert [one.kind for one in found if one.pid == held.pid] == ["unix"]
    # PySpark's own, which ask for a secret of Spark's.
    assert {(one.kind, one.host) for one in found if one.pid in pythons - {held.pid} and one.kind != "unix"} == {
        ("tcp", "127.0.0.1")
    }


def test_mutual_tls_works_end_to_end_and_keeps_strangers_out_before_they_say_a_word(
    local: Application, rows: Path, watch: Watch, tmp_path: Path
) -> None:
    run = waiting_run(local, rows, watch, tmp_path, "on")
    assert run.access.location.startswith("grpc+tls://")
    foreign = new_tls_material(datetime.datetime.now(datetime.UTC))
    with pytest.raises(ControlError):
        ControlClient(without_tls(run.access)).call(Action.AGENT_HEARTBEAT, HEARTBEAT, Orders, timeout_s=DEADLINE_S)
    with pytest.raises(ControlError):
        stranger = ControlClient(run.access.model_copy(update={"tls": foreign}))
        stranger.call(Action.AGENT_HEARTBEAT, HEARTBEAT, Orders, timeout_s=DEADLINE_S)
    with (
        flight.FlightClient(run.access.location, disable_server_verification=True) as nameless,
        pytest.raises(flight.FlightUnavailableError),
    ):
        send(nameless, "agent-heartbeat", b"{}", run.access.secret)
    with pytest.raises(RefusedError, match="this agent never registered here"):
        ControlClient(run.access).call(Action.AGENT_HEARTBEAT, HEARTBEAT, Orders, timeout_s=DEADLINE_S)
    assert run.finish().done.attempts[0].failures == ()
