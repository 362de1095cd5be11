"""The fresh process that loads an exported model: what becomes of it where it fails, hangs or is killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest
from integration.processes import command_of, wait_for
from trainer.conftest import OwnNursery

from sparktf.errors import ModelContractError, NodeLostError
from sparktf.process.fork_server import PLACE
from sparktf.trainer.model.predictions import About, Predictions, tolerance
from sparktf.trainer.node.fresh import check_loads

EXACT = tolerance(["float32", "int64"])
ONES = np.ones((4, 2), np.float32)


@pytest.fixture(params=["started", "forked"])
def parent(request: pytest.FixtureRequest, nursery: OwnNursery, monkeypatch: pytest.MonkeyPatch) -> int:
    """Whose child the process is: of whoever starts it, or of the nursery."""
    if request.param == "started":
        return os.getpid()
    monkeypatch.setenv(PLACE, nursery.place)
    return nursery.process.pid


def reloading(parent: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(parent).children() if "sparktf.trainer.reloaded" in command_of(child)]


def test_a_process_that_takes_too_long_is_ended(tmp_path: Path, parent: int) -> None:
    os.mkfifo(tmp_path / "predictions.npz")  # which nobody writes to
    with pytest.raises(NodeLostError, match=r"within 0\.01 s: raise timeouts\.upload"):
        check_loads(tmp_path, tmp_path, limit_s=0.01, refused=())
    assert not reloading(parent)


@pytest.mark.usefixtures("parent")
def test_what_a_process_has_said_last_is_told_where_it_fails(tmp_path: Path) -> None:
    with pytest.raises(ModelContractError, match=r"ended with exit code 1: FileNotFoundError: .*predictions\.npz"):
        check_loads(tmp_path, tmp_path, limit_s=60, refused=())


def test_modules_that_readers_have_are_installed_ones(tmp_path: Path) -> None:
    about = About("keras", {"x": False}, (), ("y",), EXACT)
    Predictions(about, {"x": ONES}, {"y": ONES}).write(tmp_path)
    for module, refused in (("no_such_module", ()), ("wave", ("wave",))):
        with pytest.raises(ModelContractError, match=rf"publish\.imports: {module} cannot be imported: ModuleNotFound"):
            check_loads(tmp_path, tmp_path, limit_s=60, refused=refused, imports=(module,))


def being_read(path: Path) -> int | None:
    """Returns the writing end of a pipe once somebody reads there."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        assert error.errno == errno.ENXIO
        return None


def test_a_process_that_is_killed_lacks_memory(tmp_path: Path, parent: int) -> None:
    pipe = tmp_path / "predictions.npz"
    os.mkfifo(pipe)

    def kill() -> None:
        writes = wait_for("a reader", lambda: being_read(pipe), within_s=30)
        reloading(parent)[0].kill()
        os.close(writes or 0)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(MemoryError, match="was killed"):
        check_loads(tmp_path, tmp_path, limit_s=60, refused=())
    thread.join()


def test_a_process_ends_with_the_trainer_that_has_started_it(tmp_path: Path, parent: int) -> None:
    pipe = tmp_path / "predictions.npz"
    os.mkfifo(pipe)
    code = (
        "import pathlib, sys; from sparktf.trainer.node.fresh import check_loads; "
        "check_loads(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[1]), limit_s=60, refused=())"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) as trainer:
        writes = wait_for("a reader", lambda: being_read(pipe), within_s=30)
        (process,) = reloading(trainer.pid if parent == os.getpid() else parent)
        trainer.kill()
    _, alive = psutil.wait_procs([process], timeout=20)
    os.close(writes or 0)
    assert not alive
