"""What a run says of itself while it goes."""

from __future__ import annotations

import errno
import io
import os

import pytest
from rich.console import Console

from sparktf.console.console import Display, left_in_words
from sparktf.console.plain_console import PlainConsole
from sparktf.console.result_table import print_result
from sparktf.errors import ErrorRecord, Verdict
from sparktf.results.result import RunResult
from sparktf.sequence import Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.control import Metrics, Progress

PLANNED = 1_000


class Said:
    """What is printed where there is no terminal, a line for each heartbeat."""

    def __init__(self, planned: int = PLANNED) -> None:
        self._file = io.StringIO()
        self._display = Display(Console(file=self._file, width=120), 0.0, 5)
        self._planned = planned
        self._now_s = 0.0

    def lines(self) -> list[str]:
        return self._file.getvalue().splitlines()

    def waits(self, have: int, seconds: int) -> None:
        for left in range(seconds, 0, -1):
            self._now_s += 1.0
            self._display.waiting("waiting for nodes", have, 2, left, self._now_s)

    def heartbeat(self, epoch: int, step: int, rows: int, phase: str = "training") -> None:
        self._now_s += 1.0
        node = Progress(epoch=epoch, step=step, rows_trained=rows, phase=phase)
        self._display.training([node], self._planned, 0, 60.0, self._now_s)

    def epoch_ended(self, epoch: int, step: int) -> None:
        node = NodeId(role=Role.WORKER, index=0)
        metrics = Metrics(attempt=0, node=node, stream=Stream.TRAIN, epoch=epoch, step=step, rows=PLANNED, values={})
        self._display.metrics(metrics)

    def last(self) -> str:
        return self.lines()[-1]


def test_an_epoch_goes_on_below_its_metrics_from_where_it_is() -> None:
    said = Said()
    said.heartbeat(0, 7, 700)
    assert said.last().startswith("epoch 1/5  step 7  rows 700/1,000")
    said.epoch_ended(0, 10)
    assert said.last().startswith("epoch 1/5  step 10  train:")
    said.heartbeat(0, 10, 1_000, phase="saving")
    assert said.last().endswith("(saving)")
    said.heartbeat(1, 12, 200)
    assert said.last().startswith("epoch 2/5  step 12  rows 200/1,000")


def test_without_a_terminal_progress_is_told_at_changes_and_a_countdown_once() -> None:
    said = Said()
    said.waits(0, 300)
    said.waits(1, 30)
    assert said.lines() == ["waiting for nodes: 0 of 2, 300 s left", "waiting for nodes: 1 of 2, 30 s left"]
    for rows in range(0, PLANNED, 10):
        said.heartbeat(0, rows // 10, rows)
    told = [line.split("  ")[2] for line in said.lines()[2:]]
    assert told == [f"rows {rows}/1,000" for rows in range(0, PLANNED, 100)]
    for _ in range(60):
        said.heartbeat(0, 100, PLANNED, phase="exporting")
    assert [line.endswith("  (exporting)") for line in said.lines()[12:]] == [True]


def test_where_nobody_knows_how_long_an_epoch_is_its_rows_are_told_when_they_have_doubled() -> None:
    said = Said(planned=0)
    for rows in range(1_000):
        said.heartbeat(0, rows, rows)
    assert [line.split("  ")[2] for line in said.lines()] == [
        f"rows {rows:,}" for rows in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    ]


def test_an_attempt_that_begins_before_the_last_metrics_is_told_from_its_start() -> None:
    said = Said()
    said.epoch_ended(0, 10)
    said.heartbeat(0, 0, 0, phase="starting")
    said.heartbeat(0, 5, 500)
    assert said.last().startswith("epoch 1/5  step 5  rows 500/1,000")


def test_the_time_that_is_left_is_that_of_all_epochs_at_the_speed_of_the_last_seconds() -> None:
    said = Said()
    said.heartbeat(0, 1, 100)
    assert "left" not in said.last(), "nobody knows the speed yet"
    said.heartbeat(0, 3, 300)
    assert "200 rows/s  24 s left" in said.last()
    said.heartbeat(4, 50, 1_000, phase="saving")
    assert "left" not in said.last()


@pytest.mark.parametrize(
    ("rows", "rate", "told"),
    [(0, 10, ""), (10, 0, ""), (590, 10, "59 s left"), (900, 10, "2 min left"), (72_000, 10, "2.0 h left")],
)
def test_a_long_time_is_told_in_minutes_or_hours(rows: int, rate: float, told: str) -> None:
    assert left_in_words(rows, rate).strip() == told


def test_the_table_at_the_end_names_the_version_of_the_data() -> None:
    shown = io.StringIO()
    result = RunResult(run_id="r", name="t", verdict=Verdict.DONE, source_version=5271175311196693878)
    print_result(Console(file=shown, width=120), result)
    assert "version 5271175311196693878 of the table" in shown.getvalue()


STRANGE = "[/lake/x] has [none, 3] and [link=http://x]this[/link] :smile:"


@pytest.mark.parametrize("kind", [Console, PlainConsole])
def test_nothing_in_a_cause_is_markup(kind: type[Console]) -> None:
    shown = io.StringIO()
    cause = ErrorRecord(type="DataError", message=STRANGE, verdict=Verdict.DATA_REFUSED, time_s=0.0)
    print_result(kind(file=shown, width=120), RunResult(run_id="[/r]", name="t", verdict=cause.verdict, error=cause))
    assert STRANGE in shown.getvalue()
    assert "t / [/r]: data refused" in shown.getvalue()


def test_a_line_is_what_a_terminal_prints_and_holds_no_password() -> None:
    shown, kept = io.StringIO(), []
    display = Display(PlainConsole(file=shown, width=200), 0.0, 1, observer=lambda text, style: kept.append(text))
    display.say(f"{STRANGE} \x1b]0;owned\x07 https://me:hunter2@mlflow/")
    said = f"{STRANGE} \\x1b]0;owned\\x07 https://me:*********(redacted)@mlflow/"
    assert shown.getvalue() == f"{said}\n"
    assert kept == [said]


class FullDisk(io.StringIO):
    """What a log becomes when its disk is full."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_output_that_cannot_be_written_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    console = PlainConsole(file=FullDisk())
    Display(console, 0.0, 1).say("a line")
    print_result(console, RunResult(run_id="r", name="t", verdict=Verdict.DONE))
    assert "a line could not be shown: OSError" in caplog.text
