"""The process that scores as the tasks of its executor see it: what they do when it hangs. A real process, no model."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from integration.processes import wait_for

from sparktf.errors import NodeLostError
from sparktf.executor.scorer import Scorer, hangs
from sparktf.hadoop import HadoopConf
from sparktf.knobs import KNOBS
from sparktf.wire.scored_model import ScoredModel

WITHIN_S = 60.0


class Scoring:
    """Tasks whose model lies in a pipe: who loads it is at work for as long as the pipe is held."""

    def __init__(self, folder: Path) -> None:
        self._pipe = folder / "model" / "saved_model.pb"
        self._pipe.parent.mkdir()
        os.mkfifo(self._pipe)
        self._tasks = ThreadPoolExecutor(4)
        self._writers: list[int] = []
        self._before = psutil.Process().children()

    def task(self) -> Future[Scorer]:
        """Begins one, which waits until the model is loaded."""
        model = ScoredModel(
            folder=str(self._pipe.parent), files=(self._pipe.name,), key="k", hadoop=HadoopConf(), threads=1
        )
        return self._tasks.submit(Scorer, model)

    def process(self) -> psutil.Process:
        """Returns the process, once it loads the model."""
        wait_for("the model is read", self._is_read, within_s=WITHIN_S)
        (process,) = self._processes()
        return process

    def _is_read(self) -> bool:
        with suppress(OSError):
            self._writers.append(os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK))
            return True
        return False

    def _processes(self) -> list[psutil.Process]:
        found = [process for process in psutil.Process().children() if process not in self._before]
        return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]

    def close(self) -> None:
        """Ends whatever there is."""
        for process in self._processes():
            process.kill()
        for writer in self._writers:
            os.close(writer)
        self._tasks.shutdown()


@pytest.fixture
def scoring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scoring]:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    scoring = Scoring(tmp_path)
    yield scoring
    scoring.close()


def test_one_that_is_stopped_is_ended_and_the_next_try_has_another(
    scoring: Scoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [scoring.task(), scoring.task()]
    stopped = scoring.process()
    wait_for("both are taken in", lambda: len(stopped.net_connections("unix")) == 1 + len(tasks), within_s=WITHIN_S)
    stopped.suspend()
    monkeypatch.setattr(KNOBS, "scorer_silent_s", 1.0)
    errors = [task.exception(WITHIN_S) for task in tasks]
    assert [type(error) for error in errors] == [NodeLostError] * 2
    assert any("was silent for" in str(error) and "and was killed" in str(error) for error in errors)
    monkeypatch.setattr(KNOBS, "scorer_silent_s", WITHIN_S)
    scoring.task()
    assert scoring.process() != stopped


def test_one_that_is_at_work_is_waited_for_and_one_that_never_answers_is_ended(
    scoring: Scoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = scoring.task()
    process = scoring.process()
    monkeypatch.setattr(KNOBS, "scorer_silent_s", 4.0)
    monkeypatch.setattr(KNOBS, "scorer_answer_s", 6.0)
    error = task.exception(WITHIN_S)
    assert isinstance(error, NodeLostError)
    assert "gave no answer for" in str(error)
    assert not psutil.wait_procs([process], timeout=WITHIN_S)[1]


def test_one_that_is_dying_when_it_is_found_is_passed_over(scoring: Scoring, tmp_path: Path) -> None:
    scoring.task()
    first = scoring.process()
    (place,) = (path for path in tmp_path.glob("scorer-*") if path.is_socket())
    first.kill()
    first.wait(WITHIN_S)  # with its last thread, so that nothing of it reads the model
    place.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dying:  # connections wait there, and none is taken in
        dying.bind(str(place))
        dying.listen()
        found = scoring.task()
        wait_for("it is found", lambda: bool(select.select([dying], [], [], 0)[0]), within_s=WITHIN_S)
    assert scoring.process() != first
    assert not found.done()


@pytest.mark.parametrize(
    ("silent_s", "waited_s", "what"),
    [
        (0.0, 0.0, None),
        (KNOBS.scorer_silent_s, KNOBS.scorer_answer_s, None),
        (KNOBS.scorer_silent_s + 1, 0.0, "was silent for 61 s and was killed"),
        (0.0, KNOBS.scorer_answer_s + 1, "gave no answer for 1801 s and was killed"),
    ],
)
def test_it_hangs_where_it_is_silent_or_answers_nothing(silent_s: float, waited_s: float, what: str | None) -> None:
    assert hangs(silent_s, waited_s) == what
