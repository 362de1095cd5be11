"""`sparktf tensorboard` with a real TensorBoard, over what real and pretended runs have written."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from boards import board_of, event_file
from guests.conftest import Trained
from integration.processes import has_ended, wait_for
from integration.stranger import Listener, listeners

from sparktf.compat.tensorflowonspark.tf_board import PORT, Board
from sparktf.errors import ConfigError, PreflightError
from sparktf.process.ports import LOOPBACK
from sparktf.runs.board import TensorBoard

EVENTS = "events.out.tfevents.1.h.1.0"


def test_a_real_run_is_shown_and_nothing_is_left_behind(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where other tests' boards have none
    with board_of(trained.result.path) as board:
        assert board.shows(lambda: len(board.scalars("validation", "epoch_loss")) == 3)
        shown = board.scalars("validation", "epoch_loss")
        assert [step for step, _ in shown] == [7, 14, 21]
        losses = [evaluation.values["loss"] for evaluation in trained.result.validation]
        assert [value for _, value in shown] == pytest.approx(losses)
        assert "loss" in board.tags()["train"]
        below = psutil.Process(board.process.pid).children(recursive=True)
        assert len(below) >= 1
        assert list(tmp_path.glob("sparktf-tensorboard-*"))
    psutil.wait_procs(below, timeout=30)
    assert not [process for process in below if not has_ended(process)]
    assert not list(tmp_path.glob("sparktf-tensorboard-*"))


def test_all_runs_of_a_name_are_shown_and_followed(tmp_path: Path) -> None:
    first, second = tmp_path / "churn/2026-11-01", tmp_path / "churn/2026-11-02"
    (tmp_path / "churn/serving/1").mkdir(parents=True)
    file = first / "tensorboard/train" / EVENTS
    whole, more = event_file("loss", [(1, 0.5), (2, 0.25)]), event_file("loss", [(3, 0.125)])
    file.parent.mkdir(parents=True)
    file.write_bytes(whole)
    with board_of("churn", "--output", str(tmp_path), "--reload_interval", "1", stop=signal.SIGTERM) as board:
        assert board.shows(lambda: board.scalars("2026-11-01/train", "loss") == [(1, 0.5), (2, 0.25)])
        with file.open("ab") as grown:
            grown.write(more)
        later = second / "tensorboard/validation" / EVENTS
        later.parent.mkdir(parents=True)
        later.write_bytes(event_file("epoch_auc", [(7, 0.75)]))
        assert board.shows(lambda: board.scalars("2026-11-01/train", "loss") == [(1, 0.5), (2, 0.25), (3, 0.125)])
        assert board.shows(lambda: board.tags().get("2026-11-02/validation") == ["epoch_auc"])


def test_a_tensorboard_that_ends_says_why(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path, ["--no-such-flag"])
    with pytest.raises(PreflightError, match=r"TensorBoard ended with exit code 2: .*--no-such-flag"):
        board.url()
    board.stop()


SHOWING = """
import sys, threading
from sparktf.compat.tensorflowonspark.tf_board import Board
boards = []
beginning = threading.Thread(target=lambda: boards.append(Board("127.0.0.1", sys.argv[1])))
beginning.start()
beginning.join()
print(boards[0].url, flush=True)
sys.stdin.read()
"""


def test_a_board_beside_a_driver_listens_at_loopback_alone_and_dies_with_it(tmp_path: Path) -> None:
    """Also where the thread that has asked for it has ended long before."""
    driver = subprocess.Popen(
        [sys.executable, "-c", SHOWING, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert driver.stdin is not None and driver.stdout is not None
    port = int(driver.stdout.readline().rpartition(":")[2])
    (board,) = psutil.Process(driver.pid).children()

    def found() -> list[Listener]:
        return listeners([board, *board.children(recursive=True)])

    wait_for("the board listens", lambda: port in {where.port for where in found()}, within_s=120)
    assert {where.host for where in found()} == {LOOPBACK}, found()
    below = [board, *board.children(recursive=True)]
    driver.kill()
    driver.communicate()
    _, left = psutil.wait_procs(below, timeout=30)
    assert not left


def test_a_board_has_the_port_that_the_environment_says(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        port = str(taken.getsockname()[1])
        taken.listen()
        with pytest.raises(
            PreflightError, match=f"TensorBoard cannot listen at 127.0.0.1:{port}: Address already in use"
        ):
            Board(LOOPBACK, str(tmp_path), {PORT: port})
    board = Board(LOOPBACK, str(tmp_path), {PORT: port})
    board.stop()
    assert board.url == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("port", ["", "http", "-1", "65536"])
def test_a_board_has_no_port_that_is_none(port: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{PORT}: '{port}' is not a port"):
        Board(LOOPBACK, str(tmp_path), {PORT: port})
