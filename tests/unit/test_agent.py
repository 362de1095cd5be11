"""An agent and its driver: a real control server and roster, and an agent without trainers on a thread."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest
from specs import trainer_spec

from sparktf.driver.gang.control_server import HERE, ControlServer
from sparktf.driver.gang.roster import AgentRecord, Roster
from sparktf.driver.gang.site import Handler
from sparktf.errors import DriverLostError, SparkTFError
from sparktf.executor.agent import Agent, AgentSettings
from sparktf.executor.trainer_process import TrainerProcess
from sparktf.knobs import KNOBS
from sparktf.wire.control import Ack, Action, AgentHeartbeat, Order, Orders, Registered, Registration, TrainerExited
from sparktf.wire.security import ControlAccess, new_secret
from sparktf.wire.trainer_spec import THREADS

SILENCE_S = 15.0


class Clock:
    """The driver's clock, which stands still."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Driver:
    """A control server with a roster behind it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.roster = Roster(self.clock, SILENCE_S)
        self.exited: list[TrainerExited] = []
        self.server = ControlServer(
            HERE,
            0,
            new_secret(),
            None,
            {
                Action.REGISTER: Handler(Registration, self.roster.register),
                Action.AGENT_HEARTBEAT: Handler(AgentHeartbeat, self.roster.heartbeat),
                Action.TRAINER_EXITED: Handler(TrainerExited, self._trainer_exited),
            },
        )

    def wait_for_agent(self, but: str = "") -> str:
        """Returns the id of the agent that is there, once there is one."""
        deadline_s = time.monotonic() + 30
        while time.monotonic() < deadline_s:
            if found := [agent.id for agent in self.roster.here() if agent.id != but]:
                return found[0]
            with self.roster.changed:
                self.roster.changed.wait(0.1)
        raise AssertionError("no agent has registered")

    def processors(self) -> int:
        """Returns those that the agent's trainer may use."""
        (agent,) = self.roster.here()
        return agent.registration.processors

    def wait_until_free(self) -> AgentRecord:
        """Returns the agent, once it could run a trainer."""
        deadline_s = time.monotonic() + 30
        while time.monotonic() < deadline_s:
            if found := [agent for agent in self.roster.here() if agent.is_free]:
                return found[0]
            with self.roster.changed:
                self.roster.changed.wait(0.1)
        raise AssertionError("no agent is free")

    def _trainer_exited(self, message: TrainerExited) -> Ack:
        self.exited.append(message)
        return self.roster.trainer_exited(message)

    def give_up_agents(self) -> None:
        """Does what follows from silence."""
        self.clock.now_s += SILENCE_S + 1
        self.roster.sweep()


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.server.shutdown()


class Hours:
    """An agent's `time`, in which it sleeps without waiting."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Running:
    """An agent on a thread.

    Attributes:
        error: What it raised.
    """

    def __init__(self, access: ControlAccess, base: Path, *, driver_lost_s: float = 60.0, module: str = "json") -> None:
        settings = AgentSettings(access, "127.0.0.1", "0", module, 0.2, driver_lost_s, "off")
        self.error: SparkTFError | None = None
        self._agent = Agent(0, settings, base)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Waits until it has gone home."""
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._agent.run()
        except SparkTFError as e:
            self.error = e


def test_an_agent_that_was_given_up_registers_anew_as_another_and_leaves_when_dismissed(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(THREADS, raising=False)
    agent = Running(driver.server.access(), tmp_path)
    first = driver.wait_for_agent()
    assert driver.processors() == len(os.sched_getaffinity(0))
    monkeypatch.setenv(THREADS, "2")
    driver.give_up_agents()

    assert driver.wait_for_agent(but=first) != first
    assert not driver.processors(), "there are none to divide where the environment tells the threads"

    driver.roster.dismiss()
    agent.end()
    assert agent.error is None


def test_an_agent_is_reached_and_known_by_what_its_executor_says_of_itself(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_IP", "10.1.2.3")
    monkeypatch.setenv("POD_ID", "7")
    settings = AgentSettings(driver.server.access(), "", "0", "json", 0.2, 60, "off")
    threads, before = [], ""
    for number, (address_in, container_in) in enumerate((("POD_IP", "POD_ID"), ("", ""))):
        agent = Agent(number, replace(settings, address_in=address_in, container_in=container_in), tmp_path)
        threads.append(threading.Thread(target=agent.run, daemon=True))
        threads[-1].start()
        before = driver.wait_for_agent(but=before)
    named, other = sorted(driver.roster.here(), key=lambda record: record.registration.partition)
    assert (named.address.rpartition(":")[0], named.registration.container) == ("10.1.2.3", "7")
    assert (other.address.rpartition(":")[0], other.registration.container) == (socket.gethostname(), "")
    driver.roster.dismiss()
    for thread in threads:
        thread.join(30)


def test_an_agent_runs_one_trainer_of_a_node_after_the_other_in_one_attempt_and_keeps_the_log_of_each(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spawn(trainer: TrainerProcess, log: IO[bytes]) -> subprocess.Popen[bytes]:
        said = f"print('number {trainer.spec.incarnation}')"
        return subprocess.Popen([sys.executable, "-c", said], stdin=subprocess.PIPE, stdout=log)

    monkeypatch.setattr(TrainerProcess, "_spawn", spawn)
    agent = Running(driver.server.access(), tmp_path)
    addresses = set()
    for incarnation in range(3):
        free = driver.wait_until_free()
        addresses.add(free.address)
        spec = trainer_spec(incarnation=incarnation, run_root=str(tmp_path / "runs"))
        driver.roster.start([(free.id, spec)])
    driver.wait_until_free()
    driver.roster.dismiss()
    agent.end()

    assert [exited.incarnation for exited in driver.exited] == [0, 1, 2]
    assert [exited.log.rpartition("/")[2] for exited in driver.exited] == [
        "001-worker-0.log",
        "001-worker-0.1.log",
        "001-worker-0.2.log",
    ]
    assert [Path(exited.log).read_text(encoding="utf-8") for exited in driver.exited] == [
        f"number {i}\n" for i in range(3)
    ]
    assert len(addresses) == 3, "a straggler of one cannot reach the next"


def test_a_trainer_that_dies_before_it_reads_what_it_is_to_do_does_not_take_its_agent_along(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spawn(trainer: TrainerProcess, log: IO[bytes]) -> subprocess.Popen[bytes]:
        del trainer
        process = subprocess.Popen([sys.executable, "-c", "exit(7)"], stdin=subprocess.PIPE, stdout=log)
        process.wait()
        return process

    monkeypatch.setattr(TrainerProcess, "_spawn", spawn)
    agent = Running(driver.server.access(), tmp_path)
    driver.roster.start([(driver.wait_until_free().id, trainer_spec(run_root=str(tmp_path / "runs")))])
    driver.wait_until_free()
    driver.roster.dismiss()
    agent.end()
    assert agent.error is None
    assert [exited.exit_code for exited in driver.exited] == [7]


def test_an_agent_whose_run_ended_while_it_was_given_up_leaves_in_peace(driver: Driver, tmp_path: Path) -> None:
    agent = Running(driver.server.access(), tmp_path)
    driver.wait_for_agent()
    driver.give_up_agents()
    driver.roster.dismiss()

    agent.end()
    assert agent.error is None


def test_an_agent_leaves_in_peace_when_the_drivers_process_is_gone(driver: Driver, tmp_path: Path) -> None:
    agent = Running(driver.server.access(), tmp_path, driver_lost_s=0.1)
    driver.wait_for_agent()
    driver.server.shutdown()

    agent.end()
    assert agent.error is None


def test_an_agent_fails_when_the_driver_is_only_silent_so_that_spark_starts_it_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        access = ControlAccess(location=f"grpc://127.0.0.1:{mute.getsockname()[1]}", secret="s")
        agent = Running(access, tmp_path, driver_lost_s=0.1)
        agent.end()

    assert isinstance(agent.error, DriverLostError)


def test_an_agent_is_heard_when_the_driver_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hours, heard_s, wanted_s = Hours(), list[float](), [7.0, 0.3, 3_600.0]
    monkeypatch.setattr("sparktf.executor.agent.time", hours)

    def answer(message: AgentHeartbeat) -> Orders:
        heard_s.append(hours.now_s)
        ended = len(heard_s) > len(wanted_s)
        return Orders(order=Order.DISMISS) if ended else Orders(order=Order.WAIT, beat_s=wanted_s[len(heard_s) - 1])

    handlers = {
        Action.REGISTER: Handler(Registration, lambda message: Registered(accepted=True)),
        Action.AGENT_HEARTBEAT: Handler(AgentHeartbeat, answer),
    }
    server = ControlServer(HERE, 0, new_secret(), None, handlers)
    Running(server.access(), tmp_path).end()
    server.shutdown()
    for wait_s, first_s, second_s in zip(wanted_s, heard_s[:-1], heard_s[1:], strict=True):
        assert wait_s <= second_s - first_s + 1e-6 <= wait_s + 2 * KNOBS.agent_poll_s


@pytest.mark.parametrize(
    ("module", "problems"),
    [("heavy.model", ()), ("heavy.other", ("model module 'heavy.other' cannot be found: ship it with --py-files",))],
)
def test_an_agent_looks_for_the_models_module_and_imports_none_of_its_packages(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, problems: tuple[str, ...]
) -> None:
    (tmp_path / "code/heavy").mkdir(parents=True)
    (tmp_path / "code/heavy/__init__.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "code/heavy/model.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "code")

    agent = Running(driver.server.access(), tmp_path, module=module)
    driver.wait_for_agent()

    (known,) = driver.roster.here()
    assert [problem for problem in known.registration.problems if "module" in problem] == list(problems)
    driver.roster.dismiss()
    agent.end()
