"""A run followed in its run directory, as another process writes it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from pretend import PretendClock
from rich.console import Console

from sparktf.console.console import Display
from sparktf.driver.event_log import EventLog
from sparktf.errors import Verdict
from sparktf.results.events import LineSaid, RunBegun, RunEnded
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.file_systems import open_storage
from sparktf.storage.transactions.ownership import Ownership
from sparktf.submit.follow import Follower


class Followed:
    """A run directory, its events and what a follower shows of them."""

    def __init__(self, root: Path) -> None:
        self.storage = open_storage(str(root))
        self.rundir = RunDirectory(str(root), "digits", "night")
        self._said = io.StringIO()
        display = Display(Console(file=self._said, width=80), 1.0, 1)
        self.follower = Follower(self.storage, self.rundir, display)
        self._segments = 0

    def says(self, *lines: str, application: str = "", first: bool = True) -> None:
        """Writes a segment of events, the first one of an application's driver or a later one."""
        self._segments += 1
        log = EventLog(
            self.storage.write_bytes,
            self.rundir.events,
            lambda: 0.0,
            first_segment=self._segments,
            writer=application.replace("_", ""),
        )
        if first and application:
            log.emit(RunBegun(run_id="night", config="c", plan="p", application=application))
        for line in lines:
            log.emit(LineSaid(text=line))
        log.emit(RunEnded(verdict=0))
        log.flush()

    def ends(self, application: str, verdict: Verdict) -> None:
        """Writes result.json."""
        result = RunResult(run_id="night", name="digits", verdict=verdict, application=application)
        self.storage.write_bytes(self.rundir.result, json.dumps(result.model_dump(mode="json")).encode())

    def shown(self, application: str | None = None) -> list[str]:
        self.follower.poll(application)
        return self._said.getvalue().splitlines()


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path / "runs")


def test_lines_are_shown_once_and_in_order(followed: Followed) -> None:
    assert followed.shown() == []
    followed.says("planned", "waiting [0 of 2]")
    assert followed.shown() == ["planned", "waiting [0 of 2]"]
    followed.says("done")
    assert followed.shown() == followed.shown() == ["planned", "waiting [0 of 2]", "done"]


def test_what_an_earlier_submission_said_is_not_shown(followed: Followed) -> None:
    followed.says("yesterday")
    followed.follower.skip()
    followed.says("today")
    assert followed.shown() == ["today"]


def test_an_application_is_followed_alone_whoever_else_writes_there(followed: Followed) -> None:
    followed.says("the other begins", application="app_1")
    followed.follower.skip()
    followed.says("the other goes on", application="app_1", first=False)
    assert followed.shown("app_2") == []
    followed.says("mine begins", application="app_2")
    followed.says("the other ends", application="app_1", first=False)
    followed.says("mine goes on", application="app_2", first=False)
    followed.says("a third", application="app_3")
    assert followed.shown("app_2") == ["mine begins", "mine goes on"]
    assert followed.shown("app_2") == followed.shown()


def test_only_the_applications_own_result_counts_or_one_that_is_repeated(followed: Followed) -> None:
    assert followed.follower.result("app_2") is None
    followed.ends("app_1", Verdict.MODEL_FAILED)
    assert followed.follower.result("app_2") is None
    assert followed.follower.result("app_1") is not None
    followed.ends("app_1", Verdict.DONE)
    assert followed.follower.result("app_2") is not None


def test_another_applications_ownership_is_known_until_it_is_released(followed: Followed) -> None:
    owner = Ownership(
        followed.storage, followed.storage, followed.rundir, Application("app_1"), PretendClock(), limit_s=60.0
    )
    assert followed.follower.owner("app_2") is None
    owner.acquire(lambda text: None, wait=False)
    assert str(followed.follower.owner("app_2")).startswith("application app_1 of ")
    assert followed.follower.owner("app_1") is None
    owner.release()
    assert followed.follower.owner("app_2") is None
