"""What follows a run's result, while its driver is killed at any moment, and the run submitted again."""

from __future__ import annotations

import datetime
import json
import os
from bisect import bisect_left
from contextlib import suppress
from pathlib import Path

import pytest
from lakes import plan_lake, write_lake
from pretend import PretendDriver, WatchedStorage, pretend_config, unmeasured

from sparktf.config.job import JobConfig
from sparktf.driver.gang.site import Voice
from sparktf.driver.hooks import Put
from sparktf.errors import NotStoredError, StoragePermissionError, Verdict
from sparktf.knobs import KNOBS
from sparktf.nightly.history import read_history
from sparktf.nightly.night import Night
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.local import LocalStorage

DAY = datetime.date(2026, 11, 20)
CALLS = 128
"""More than a driver makes until its result is in its place."""


class KilledError(BaseException):
    """What a driver's storage raises from the call on at which it is killed: nothing of it goes on."""


class Killed:
    """Kills a driver instead of its n-th call from its last commit on.

    Attributes:
        calls: What it has called since.
        dead: It has come to that.
    """

    def __init__(self, n: int) -> None:
        self.calls: list[str] = []
        self.dead = False
        self._n = n

    def __call__(self, operation: str, path: str) -> None:
        if not self.dead and (self.calls or path.endswith("001-step-000000000020")):
            self.calls.append(f"{operation} {path}")
        self.dead = len(self.calls) > self._n
        if self.dead:
            raise KilledError


class CountedNight(Night):
    """Tells nobody, and draws nothing: what these steps do is looked at elsewhere, and here how often they are done.

    Attributes:
        steps: The names of the steps that a driver has begun, and come to the end of.
    """

    steps: list[str]

    def do_last(
        self, step: str, result: RunResult, config: JobConfig, rundir: RunDirectory, put: Put, voice: Voice
    ) -> None:
        """See `Hooks`."""
        if step == "history":
            super().do_last(step, result, config, rundir, put, voice)
        elif step == "report":
            put(rundir.report, b"page")
        self.steps.append(step)


class Nights:
    """Submissions of run `r`, which publishes, keeps a history and a report, and tells a command of its end.

    Attributes:
        steps: See `CountedNight`, of all drivers.
    """

    def __init__(self, folder: Path, lake: Path) -> None:
        self.root, self.lake = folder / "runs", lake
        self._plan = plan_lake(lake)
        self.rundir = RunDirectory(str(self.root), "t", "r")
        self.steps: list[str] = []

    def driver(self, app: str = "app", storage: Storage | None = None, attempt: int = 0) -> PretendDriver:
        output = {"path": str(self.root), "history": True, "report": True, "on_end": ["tell"]}
        config = pretend_config(self.lake, self.root, output=output, publish={}).for_day(DAY)
        driver = PretendDriver(Application(app, attempt), config, self._plan, storage)
        night = CountedNight(driver.site.file_systems if storage else FileSystems(), driver.site.clock, unmeasured)
        night.steps = self.steps
        driver.hooks = night
        return driver

    def kill(self, n: int) -> Killed:
        """Submits it with a driver that is killed."""
        killed = Killed(n)
        with suppress(KilledError):
            self.driver("killed", WatchedStorage(killed)).train()
        return killed

    @property
    def has_result(self) -> bool:
        return Path(self.rundir.result).exists()

    def rows(self) -> list[int]:
        """Returns the verdicts of the rows in the history."""
        return [row.verdict for row in read_history(LocalStorage(), str(self.root), ["t"])]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr("sparktf.driver.run.show_config", lambda config: "name: t")  # nobody reads what is printed
    monkeypatch.setattr("sparktf.driver.run.print_result", lambda console, result: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)
    return write_lake(tmp_path / "lake", [20])


@pytest.fixture
def nights(tmp_path: Path, lake: Path) -> Nights:
    return Nights(tmp_path, lake)


STEPS = ["history", "report", "on_end"]


def test_killed_at_any_call_after_the_last_commit_a_run_has_all_that_follows_its_result_once_it_is_submitted_again(
    tmp_path: Path, lake: Path
) -> None:
    twice, before = [], 0
    for n in range(1000):
        nights = Nights(tmp_path / str(n), lake)
        killed = nights.kill(n)
        if not killed.dead:
            assert nights.steps == STEPS
            break
        before += not nights.has_result
        assert nights.driver("again").train().verdict is Verdict.DONE
        at = killed.calls[-1]
        assert (nights.rows(), Path(nights.rundir.report).exists()) == ([0], True), at
        if nights.steps != STEPS:
            twice.append((at.split()[0], nights.steps))
        done = list(nights.steps)
        nights.driver("once more").train()
        assert nights.steps == done, f"all is done and recorded, after {at}"
    assert 10 < before < n - 10, "it was killed before its result, and after"
    # The step had come to its end, and the one call that records it was not made.
    assert twice == [("replace", [*STEPS[: i + 1], *STEPS[i:]]) for i in range(3)]


def first_after_result(tmp_path: Path, lake: Path) -> Nights:
    """Returns nights whose driver was killed at the first call after the run's result was in its place."""

    def killed_at(n: int) -> Nights:
        nights = Nights(tmp_path / f"killed-{n}", lake)
        nights.kill(n)
        return nights

    first = bisect_left(range(CALLS), True, key=lambda n: killed_at(n).has_result)
    return Nights(tmp_path / f"killed-{first}", lake)


def test_what_another_submission_is_about_to_do_is_left_to_it_and_the_verdict_is_repeated(
    tmp_path: Path, lake: Path
) -> None:
    nights = first_after_result(tmp_path, lake)
    second = nights.driver("second")
    term = Path(nights.rundir.term(1), "beat")
    beats = iter(range(1000))

    def beat() -> None:
        term.write_text(f"{next(beats)} of a driver that is frozen, and thaws")

    second.site.clock.passed = beat
    assert second.train().verdict is Verdict.DONE
    assert nights.steps == []
    assert "the steps after the result are left to another submission: run t/r is owned by application killed" in (
        second.said.getvalue()
    )


def test_a_result_that_nobody_may_write_beside_is_repeated_all_the_same(tmp_path: Path, lake: Path) -> None:
    nights = first_after_result(tmp_path, lake)

    def refuse(operation: str, path: str) -> None:
        if operation in ("make", "write"):
            raise StoragePermissionError(f"cannot {operation} {path}: Permission denied")

    driver = nights.driver("reader", WatchedStorage(refuse))
    assert driver.train().verdict is Verdict.DONE
    assert "the steps after the result were not done: output.path cannot be written" in driver.said.getvalue()
    assert nights.driver("writer").train().verdict is Verdict.DONE
    assert nights.steps == STEPS


def test_yarns_second_attempt_does_what_follows_the_failure_that_it_repeats(tmp_path: Path, lake: Path) -> None:
    first: dict[int, tuple[Nights, Killed]] = {}

    def has_result(n: int) -> bool:
        nights, killed = first[n] = Nights(tmp_path / str(n), lake), Killed(n)
        driver = nights.driver("app", WatchedStorage(killed))
        driver.failures, driver.failure = 1, "NotStoredError"
        killed.calls.append("from its first call on")
        with suppress(KilledError, NotStoredError):
            driver.train()
        return nights.has_result

    nights, killed = first[bisect_left(range(CALLS), True, key=has_result)]
    assert (killed.dead, nights.steps) == (True, [])
    with pytest.raises(NotStoredError, match="lost"):
        nights.driver("app", attempt=2).train()
    assert (nights.steps, nights.rows()) == (STEPS, [4])


def test_nothing_follows_the_result_of_a_version_that_kept_no_record(nights: Nights) -> None:
    nights.driver().train()
    nights.steps.clear()
    Path(nights.rundir.last_steps).unlink()
    assert nights.driver("again").train().verdict is Verdict.DONE
    assert nights.steps == []


def test_nor_the_record_of_an_earlier_result(nights: Nights) -> None:
    nights.driver().train()
    nights.steps.clear()
    Path(nights.rundir.last_steps).write_text(
        json.dumps({"result": "of another", "steps": ["on_end"]}), encoding="utf-8"
    )
    assert nights.driver("again").train().verdict is Verdict.DONE
    assert nights.steps == []
