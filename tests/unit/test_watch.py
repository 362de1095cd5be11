"""Whoever watches an attempt waits for no storage: what a driver does while a commit is under way, or hangs."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from lakes import plan_lake, write_lake
from pretend import PretendDriver, WatchedStorage, pretend_config

from sparktf.errors import NodeLostError, NotStoredError
from sparktf.results.result import Application

ROWS = 20
PATIENCE_S = 5.0


class Hang:
    """Hangs where the storage verifies the files of a checkpoint, until it is let go.

    Attributes:
        hangs_at: Part of the checkpoint's path.
        hung: It hangs, or did.
        given_up: Nobody has let it go.
    """

    def __init__(self, hangs_at: str) -> None:
        self.hangs_at = hangs_at
        self.hung = threading.Event()
        self.go_on = threading.Event()
        self.given_up = False

    def __call__(self, what: str, path: str) -> None:
        if what == "checksum" and self.hangs_at in path:
            self.hung.set()
            self.given_up = not self.go_on.wait(PATIENCE_S)


class Beside:
    """Gives a pretended driver real threads; time passes only once they have ended, or one hangs."""

    def __init__(self, driver: PretendDriver, hang: Hang | None = None) -> None:
        self._hang = hang
        self._changed = driver.gang.roster.changed
        self._threads: list[threading.Thread] = []
        driver.site.clock.start = self._start
        self._act, driver.site.clock.passed = driver.site.clock.passed, self._passed
        self.while_hung: Callable[[], None] = self._act

    def _start(self, name: str, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, name=name, daemon=True))
        self._threads[-1].start()

    def _passed(self) -> None:
        for thread in self._threads:
            while thread.is_alive() and not self._is_hanging:
                self._changed.wait(0.001)  # and lets go of the lock, which whoever waits holds
        if self._hang is not None and self._hang.hung.is_set():
            self.while_hung()
        else:
            self._act()

    @property
    def _is_hanging(self) -> bool:
        """Whether it hangs now: what was let go ends before more time passes."""
        return self._hang is not None and self._hang.hung.is_set() and not self._hang.go_on.is_set()


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., PretendDriver]:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    lake = write_lake(tmp_path / "lake", [ROWS])

    def driver(before: Callable[[str, str], None], **sections: Any) -> PretendDriver:
        config = pretend_config(lake, tmp_path / "runs", **sections)
        return PretendDriver(Application("app"), config, plan_lake(lake), WatchedStorage(before))

    return driver


def test_an_executor_that_is_lost_while_the_storage_hangs_in_a_commit_is_noticed_in_time(
    make: Callable[..., PretendDriver],
) -> None:
    hang = Hang("00010")
    driver = make(hang, train={"batch_size": 8, "max_attempts": 1}, timeouts={"heartbeat": 15})
    beside, clock = Beside(driver, hang), driver.site.clock
    hung_s: list[float] = []

    def executor_is_gone() -> None:
        hung_s.append(clock.now_s())
        assert driver.gang.attempt is not None
        if driver.gang.attempt.failures:
            hang.go_on.set()

    beside.while_hung = executor_is_gone
    with pytest.raises(NodeLostError, match=r"worker 0 on h lost its agent: silent for 15 s") as raised:
        driver.train()
    assert not hang.given_up, "it was noticed while the commit hung"
    noticed_s = raised.value.result.attempts[0].failures[0].time_s - clock.wall_s() + clock.now_s()
    assert noticed_s - hung_s[0] <= 1.0, "it was silent since"
    assert raised.value.result.checkpoint.endswith("step-000000000010"), "what all nodes had uploaded is committed"


def test_the_last_commits_are_waited_for_as_long_as_an_upload_may_take(make: Callable[..., PretendDriver]) -> None:
    hang = Hang("00020")
    driver = make(hang, timeouts={"upload": 60})
    beside, clock = Beside(driver, hang), driver.site.clock
    hung_s: list[float] = []
    act = beside.while_hung

    def hung() -> None:
        hung_s.append(clock.now_s())
        act()

    beside.while_hung = hung
    with pytest.raises(NotStoredError, match=r"step 20 was not committed.*timeouts\.upload: 60 s") as raised:
        driver.train()
    assert 60 <= clock.now_s() - hung_s[0] <= 62
    assert raised.value.result.checkpoint.endswith("step-000000000010")
    assert len(raised.value.result.attempts) == 1
    assert not hang.given_up
    hang.go_on.set()


def test_a_run_that_is_interrupted_while_the_last_commit_is_waited_for_lets_that_one_end(
    make: Callable[..., PretendDriver],
) -> None:
    hang = Hang("00010")
    driver = make(hang)
    driver.failures = 1
    beside = Beside(driver, hang)
    act, interrupted = beside.while_hung, threading.Event()

    def interrupt_once() -> None:
        if interrupted.is_set():
            hang.go_on.set()
        elif driver.gang.attempt is not None and driver.gang.attempt.is_stopped:
            interrupted.set()
            raise KeyboardInterrupt
        act()

    beside.while_hung = interrupt_once
    with pytest.raises(KeyboardInterrupt):
        driver.train()
    assert not hang.given_up
    assert (Path(driver.config.output.path) / "t/r/checkpoints/step-000000000010/MANIFEST.json").exists()


def frames() -> Iterator[FrameType]:
    """Yields the frames of this thread, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def test_storage_is_never_touched_under_the_lock_that_nodes_report_under_nor_by_the_thread_that_watches(
    make: Callable[..., PretendDriver],
) -> None:
    offences: list[str] = []
    seen: set[str] = set()

    def before(what: str, path: str) -> None:
        seen.add(threading.current_thread().name)
        if driver.gang.roster.changed._is_owned():  # type: ignore[attr-defined]
            offences.append(f"{what} {path} under the lock")
        if any(frame.f_code.co_name in ("_watch", "follow") for frame in frames()):
            offences.append(f"{what} {path} by whoever watches")

    driver = make(before)
    Beside(driver)
    driver.failures = 1
    assert len(driver.train().attempts) == 2
    assert offences == []
    assert "commits" in seen
