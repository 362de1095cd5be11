"""The process that forks trainers: what happens when it, its trainers or its agent end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from integration.processes import wait_for
from trainer import lake
from trainer.local_gang import LocalAgents, LocalGang, LocalSite

from sparktf.config.job import JobConfig
from sparktf.errors import NodeLostError, SparkTFError

TRAINER, NURSERY = "sparktf.trainer", "sparktf.trainer.nursery"


class Training:
    """A run of one node, on a thread, that would not end.

    Attributes:
        error: What it ended with.
    """

    def __init__(self, config: JobConfig) -> None:
        self.error: SparkTFError | None = None
        self.gang = LocalGang(config, 1, LocalSite(1, imports=True))
        self.thread = threading.Thread(target=self._run, args=(config,))
        self.thread.start()

    def agent(self) -> psutil.Process:
        """Returns the agent's process, once there is one."""
        return psutil.Process(wait_for("an agent", lambda: self.agents().pids(), within_s=60)[0])

    def agents(self) -> LocalAgents:
        """Returns the agents, once they are started."""
        agents = wait_for("the agents", lambda: self.gang.agents, within_s=60)
        assert agents is not None
        return agents

    def child(self, module: str, but: int = 0) -> psutil.Process:
        """Returns the agent's child that runs a module, once there is one."""
        return wait_for(f"a process of {module}", partial(self._children, module, but), within_s=120)[0]

    def _children(self, module: str, but: int) -> list[psutil.Process]:
        return [child for child in self.agent().children() if child.pid != but and module in _command(child)]

    def log(self, attempt: int) -> str:
        """Returns what a trainer has said that still runs, or whose agent is gone."""
        (path,) = self.agents().folder.rglob(f"{attempt:03d}-worker-0.log")
        return path.read_text()

    def _run(self, config: JobConfig) -> None:
        try:
            self.gang.train(config)
        except SparkTFError as error:
            self.error = error


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    lake.write(tmp_path / "lake", [200])
    training = Training(
        lake.job(
            tmp_path,
            "everything",
            data=lake.EVERYTHING,
            params={"rows": 200, "flavour": "keras"},
            train={"batch_size": 64, "epochs": 1_000_000, "max_attempts": 3},
            timeouts={"reserve": 60, "start": 240, "stop": 2, "driver_lost": 20, "heartbeat": 8, "replace": 1},
            cluster={"nursery": "on"},
        )
    )
    yield training
    with suppress(psutil.NoSuchProcess):
        training.agent().kill()
    training.thread.join(60)
    with suppress(RuntimeError):  # what a killed agent leaves, Spark would remove
        training.gang.close()
    assert isinstance(training.error, NodeLostError)


def test_after_a_killed_trainer_the_next_is_forked_again_and_all_end_with_a_killed_agent(training: Training) -> None:
    nursery, first = training.child(NURSERY), training.child(TRAINER)
    first.kill()
    second = training.child(TRAINER, but=first.pid)
    assert "nursery" not in training.log(2)
    os.kill(training.agent().pid, signal.SIGKILL)
    assert not psutil.wait_procs([nursery, second], timeout=10)[1]


def test_without_its_nursery_a_trainer_lives_on_and_the_next_starts_from_nothing_and_says_so(
    training: Training,
) -> None:
    first, nursery = training.child(TRAINER), training.child(NURSERY)
    nursery.kill()
    wait_for("its end", lambda: nursery.status() == psutil.STATUS_ZOMBIE, within_s=10)
    assert first.is_running()
    first.kill()
    training.child(TRAINER, but=first.pid)
    wait_for("the reason", lambda: "nursery cannot fork it: it died, exit code -9" in training.log(2), within_s=30)


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []
