"""The process that forks trainers: what happens when it, its trainers or its agent end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from integration.processes import command_of, has_ended, wait_for
from trainer import lake
from trainer.local_gang import LocalAgents, LocalGang, LocalSite
from trainer.told import logs_in

from sparktf.config.job import JobConfig
from sparktf.errors import NodeLostError, SparkTFError
from sparktf.executor.forking import Nursery
from sparktf.executor.trainer_process import trainer_environment
from sparktf.knobs import KNOBS
from sparktf.process.fork_server import ForkedProcess
from sparktf.trainer.node.report import EXIT_STOPPED

TRAINER, NURSERY = "sparktf.trainer", "sparktf.trainer.nursery"


class Training:
    """A run of one node, on a thread, that would not end.

    Attributes:
        error: What it ended with.
    """

    def __init__(self, config: JobConfig, *, imports: bool) -> None:
        self.error: SparkTFError | None = None
        self.gang = LocalGang(config, 1, LocalSite(1, imports=imports))
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
        """Returns the process below the agent's that runs a module, once there is one."""
        return wait_for(f"a process of {module}", partial(self._children, module, but), within_s=120)[0]

    def _children(self, module: str, but: int) -> list[psutil.Process]:
        children = self.agent().children(recursive=True)
        return [child for child in children if child.pid != but and module in command_of(child)]

    def log(self, attempt: int) -> str:
        """Returns what a trainer has said that still runs, or whose agent is gone."""
        (path,) = logs_in(self.agents().folder, f"{attempt:03d}-worker-0.log")
        return path.read_text()

    def _run(self, config: JobConfig) -> None:
        try:
            self.gang.train(config)
        except SparkTFError as error:
            self.error = error


@pytest.fixture
def training(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Training]:
    """One whose nursery imports TensorFlow by itself, or is a fork: `request.param`."""
    lake.write(tmp_path / "lake", [200])
    config = lake.job(
        tmp_path,
        "everything",
        data=lake.EVERYTHING,
        params={"rows": 200, "flavour": "keras"},
        train={"batch_size": 64, "epochs": 1_000_000, "max_attempts": 3},
        timeouts={"reserve": 60, "start": 240, "stop": 2, "driver_lost": 20, "heartbeat": 8, "replace": 1},
        cluster={"nursery": "on"},
    )
    training = Training(config, imports=request.param)
    yield training
    with suppress(psutil.NoSuchProcess):
        training.agent().kill()
    training.thread.join(60)
    with suppress(RuntimeError):  # what a killed agent leaves, Spark would remove
        training.gang.close()
    assert isinstance(training.error, NodeLostError)


@pytest.mark.parametrize("training", [False], indirect=True, ids=["fork"])
def test_after_a_killed_trainer_the_next_is_forked_again_and_all_end_with_a_killed_agent(training: Training) -> None:
    (nursery,) = wait_for("a nursery", training.agent().children, within_s=60)
    (first,) = wait_for("a trainer", nursery.children, within_s=60)
    first.kill()
    (second,) = wait_for("the next", lambda: [child for child in nursery.children() if child != first], within_s=60)
    assert "nursery" not in training.log(2)
    training.agent().kill()
    wait_for("all end", lambda: has_ended(nursery) and has_ended(second), within_s=30)


@pytest.mark.parametrize("training", [True], indirect=True, ids=["by itself"])
def test_a_trainer_ends_with_its_nursery_and_the_next_is_forked_by_another_unless_that_dies_importing(
    training: Training,
) -> None:
    first, nursery = training.child(TRAINER), training.child(NURSERY)
    nursery.kill()
    other = training.child(NURSERY, but=nursery.pid)
    second = training.child(TRAINER, but=first.pid)
    assert has_ended(first)
    assert second.ppid() == other.pid
    assert "nursery" not in training.log(2)
    other.kill()
    training.child(NURSERY, but=other.pid).kill()
    training.child(TRAINER, but=second.pid)
    wait_for("the reason", lambda: "it died with exit code -9" in training.log(3), within_s=30)


class Sharing(NamedTuple):
    """An agent of an executor, as far as it has to do with the nursery."""

    nursery: Nursery
    base: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> Sharing:
        """Returns one that has come to the executor whose folder that is."""
        base = folder / name
        base.mkdir()
        return cls(Nursery(base, trainer_environment(base), (), folder), base)

    def trainer(self) -> ForkedProcess:
        """Returns a trainer that waits to be told what to train."""
        wait_for("the imports", lambda: not self.nursery.is_importing(), within_s=120)
        with (self.base / "log").open("wb") as log:
            return self.nursery.fork("sparktf.trainer", trainer_environment(self.base), log)


def test_agents_of_an_executor_share_a_nursery_and_each_is_told_of_its_own_trainers(tmp_path: Path) -> None:
    first, second = Sharing.of(tmp_path, "first"), Sharing.of(tmp_path, "second")
    assert (first.nursery.is_own, second.nursery.is_own) == (True, False)
    by_itself, killed, left, last = first.trainer(), second.trainer(), first.trainer(), second.trainer()
    nursery = psutil.Process(last.parent)
    assert {process.pid for process in nursery.children()} == {by_itself.pid, killed.pid, left.pid, last.pid}
    _end_of(by_itself)
    killed.kill()
    assert (_code_of(by_itself), _code_of(killed)) == (EXIT_STOPPED, -signal.SIGKILL)

    trainer = psutil.Process(left.pid)
    first.nursery.close()
    assert not psutil.wait_procs([trainer], timeout=30)[1], "it goes with its agent"
    assert (last.poll(), nursery.is_running()) == (None, True), "the others' go on, whoever has started the nursery"

    trainer = psutil.Process(last.pid)
    second.nursery.close()
    for rest in (killed, left, last):
        _end_of(rest)
    assert not psutil.wait_procs([trainer, nursery], timeout=30)[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_a_nursery_that_answers_late_once_forks_the_next_trainer_and_who_comes_after_it_was_killed_has_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Sharing.of(tmp_path, "first")
    before = first.trainer()
    nursery = psutil.Process(before.parent)
    nursery.suspend()
    monkeypatch.setattr(KNOBS, "nursery_answer_s", 0.3)
    with pytest.raises(OSError, match=r"it did not answer within 0\.3 s"):
        first.trainer()
    nursery.resume()
    monkeypatch.undo()
    after = first.trainer()
    assert (after.parent, before.poll()) == (nursery.pid, None)
    others = {process.pid for process in nursery.children()} - {before.pid, after.pid}
    wait_for("who was forked too late ends", lambda: not any(psutil.pid_exists(pid) for pid in others), within_s=60)
    after.kill()
    assert _code_of(after) == -signal.SIGKILL

    nursery.kill()
    assert _code_of(before) == -signal.SIGKILL
    for rest in (before, after):
        _end_of(rest)
    with pytest.raises(OSError, match="it died with exit code -9"):
        first.trainer()
    assert first.nursery.has_ended()
    first.nursery.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first"], "nobody else would remove its socket"
    second = Sharing.of(tmp_path, "second")
    assert second.nursery.is_own
    first.nursery.close()
    assert not second.nursery.has_ended()
    second.nursery.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def _code_of(trainer: ForkedProcess) -> int | None:
    """Waits for a trainer's end, and returns what its agent is told of it."""
    wait_for("its end", lambda: trainer.poll() is not None, within_s=60)
    return trainer.poll()


def _end_of(trainer: ForkedProcess) -> None:
    """Closes a trainer's standard input."""
    assert trainer.stdin is not None
    trainer.stdin.close()
