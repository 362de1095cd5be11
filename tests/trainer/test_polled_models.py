"""A reader of published models, while the processes that publish are killed for real."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from pathlib import Path

from lakes import plan_lake, write_lake
from pretend import WatchedStorage
from published import Lab

from sparktf.errors import TornCheckpointError
from sparktf.published.serving import ModelManifest
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.checkpoints import read_manifest

EACH = 3
"""Of so many calls of a storage, one is not made; `simulation/test_serving.py` stops processes before each of them."""


class SigKill:
    """Kills its process for real, before a call of its storage, or of the system within one."""

    def __init__(self, at: int) -> None:
        self._left = at

    def __call__(self, *_: object) -> None:
        self._left -= 1
        if self._left == -1:
            os.kill(os.getpid(), signal.SIGKILL)


def night_that_is_killed(lab: Lab, run_id: str, at: int) -> bool:
    """Publishes and prunes in a process of its own; returns whether that was killed."""
    lab.run(run_id)
    process = os.fork()
    if process:
        return os.WIFSIGNALED(os.waitpid(process, 0)[1])
    kill, replace = SigKill(at), os.replace
    os.fsync = kill  # type: ignore[assignment]
    os.replace = lambda *names: (kill(), replace(*names))  # type: ignore[assignment, func-returns-value]
    lab.night(run_id, WatchedStorage(kill))
    os._exit(0)


def nights_that_are_killed(root: Path, lake: Path) -> None:
    """Publishes run after run, each killed before a later call, and submitted again; says how many were killed."""
    os.fsync = lambda fd: None
    lab, number = Lab(root, plan_lake(lake)), 0
    while night_that_is_killed(lab, f"r{number:03d}", EACH * number):
        lab.night(f"r{number:03d}", LocalStorage())
        number += 1
        assert number < 300, "it makes calls without end"
        for left in lab.left_over():  # as a run of the next day does
            shutil.rmtree(Path(lab.serving.path, left))
    (root / "killed").write_text(str(number), encoding="utf-8")


def polled(lab: Lab) -> int:
    """Returns the version that a reader finds which knows of no writer: it looks again where the one is gone."""
    while True:
        number = lab.serving.current()
        assert number is not None
        try:
            read_manifest(LocalStorage(), f"{lab.serving.path}/{number}", ModelManifest)
            highest = lab.in_sight()[-1]
            read_manifest(LocalStorage(), f"{lab.serving.path}/{highest}", ModelManifest)
        except TornCheckpointError:
            if lab.serving.current() == number:
                raise
        else:
            return number


def test_a_reader_polls_while_publishing_processes_are_killed_for_real(tmp_path: Path) -> None:
    root, lake = tmp_path / "runs", write_lake(tmp_path / "lake", [20])
    lab = Lab(root, plan_lake(lake))
    lab.publish("first")
    seen = [polled(lab)]
    publisher = multiprocessing.get_context("spawn").Process(target=nights_that_are_killed, args=(root, lake))
    publisher.start()
    while publisher.is_alive():
        seen.append(polled(lab))
    assert publisher.exitcode == 0
    killed = int((root / "killed").read_text(encoding="utf-8"))
    assert killed >= 50 // EACH
    assert seen == sorted(seen)
    assert polled(lab) == killed + 2, "each was published once, and one was not killed"
    assert len(set(seen)) > killed / 4
