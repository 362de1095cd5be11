"""Two submissions of one run: wherever one is frozen and thawed, one of them owns it, the other changes nothing."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pretend import PretendDriver, WatchedStorage, pretend_config

from sparktf.driver.plan.plan import Plan
from sparktf.errors import (
    FencedOffError,
    PreflightError,
    SparkTFError,
    StorageError,
    StorageNotFoundError,
    Verdict,
)
from sparktf.knobs import KNOBS
from sparktf.results.result import Application
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.checkpoints import CheckpointStore, FileManifest, Manifest, read_manifest
from sparktf.storage.transactions.fence import Fence


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here, no other node fails meanwhile, and nobody reads what is printed."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr("sparktf.driver.run.show_config", lambda config: "name: t")
    monkeypatch.setattr("sparktf.driver.run.print_result", lambda console, result: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)


class Submissions:
    """Of one run, each by a driver of its own."""

    def __init__(self, root: Path, lake: Path, plan: Plan) -> None:
        self.rundir = RunDirectory(str(root), "t", "r")
        self._config = pretend_config(lake, root)
        self._plan = plan

    def driver(self, name: str, storage: Storage | None = None, attempt: int = 0) -> PretendDriver:
        return PretendDriver(Application(name, attempt), self._config, self._plan, storage)

    def seen(self) -> dict[str, bytes]:
        """Returns all that a reader sees of the run: files by path, other than who owns it."""
        found = (Path(folder, name) for folder, _, names in os.walk(self.rundir.path) for name in names)
        below = {path.relative_to(self.rundir.path): path for path in found}
        return {
            str(name): path.read_bytes()
            for name, path in below.items()
            if name.parts[0] != "owner" and not any(part.startswith(("_", ".")) for part in name.parts)
        }


def retries(driver: PretendDriver) -> None:
    driver.failures = 1


def is_refused(driver: PretendDriver) -> None:
    driver.refusal = PreflightError("there is no place")


def ended(driver: PretendDriver) -> SparkTFError | None:
    """Runs a driver to its end; returns what it ended with."""
    try:
        driver.train()
    except SparkTFError as error:
        return error
    return None


class Freezer:
    """Lets a second driver run whole before one of the first one's operations.

    Attributes:
        left: What a reader sees after that.
    """

    def __init__(self, submissions: Submissions, frozen_at: int) -> None:
        self.left: dict[str, bytes] = {}
        self._submissions = submissions
        self._calls_left = frozen_at

    def __call__(self, what: str, path: str) -> None:
        self._calls_left -= 1
        if self._calls_left == -1:
            assert ended(self._submissions.driver("new")) is None, f"before {what} {path}"
            self.left = self._submissions.seen()


@pytest.mark.parametrize("life", [retries, is_refused])
def test_frozen_before_any_operation_a_driver_changes_nothing_of_what_its_successor_has_done(
    tmp_path: Path, lake: Path, plan: Plan, life: Callable[[PretendDriver], None]
) -> None:
    """Frozen before its first operation on the storage, then before its second, and so on; its successor runs whole."""
    fenced_off = repeated = 0
    for frozen_at in range(1000):
        submissions = Submissions(tmp_path / str(frozen_at), lake, plan)
        freezer = Freezer(submissions, frozen_at)
        old = submissions.driver("old", WatchedStorage(freezer))
        life(old)
        error, left = ended(old), freezer.left
        if not left:
            break
        seen = submissions.seen()
        if error is None:  # it was done itself: its last events come after its result
            seen = {name: content for name, content in seen.items() if name in left or name[:7] != "events/"}
        assert seen == left, f"frozen before operation {frozen_at}"
        if error is None:
            repeated += 1
        elif not isinstance(error, PreflightError):
            assert isinstance(error, FencedOffError), error
            assert (error.verdict, error.result.verdict) == (Verdict.INFRASTRUCTURE, Verdict.INFRASTRUCTURE)
            fenced_off += 1
    assert repeated > 0
    assert (fenced_off > 30) == (life is not is_refused)


def test_of_two_drivers_that_freeze_in_turn_one_owns_the_run_from_model_to_result(
    tmp_path: Path, lake: Path, plan: Plan
) -> None:
    """One runs up to some operation, then the other up to one of its own, then each to its end; 25 draws."""
    draw = random.Random(20261122)
    done = 0
    for case in range(25):
        submissions = Submissions(tmp_path / str(case), lake, plan)
        turn = _Turns([draw.randrange(200), draw.randrange(200)])
        drivers = [submissions.driver(str(i), WatchedStorage(turn.before(i))) for i in range(2)]
        errors = turn.play([lambda driver=driver: ended(driver) for driver in drivers])  # type: ignore[misc]
        assert all(error is None or isinstance(error, FencedOffError) for error in errors), errors
        if all(errors):
            continue  # each has swept the other's fence: neither commits, and the run id may be submitted again
        done += 1
        seen = submissions.seen()
        (owner,) = (i for i in range(2) if seen["model/weights"] == f"model of {i}".encode())
        assert errors[owner] is None
        assert f'"application": "{owner}"'.encode() in seen["result.json"]
        read_manifest(LocalStorage(), submissions.rundir.model, FileManifest)
        for step in (10, 20):
            read_manifest(LocalStorage(), submissions.rundir.checkpoint(step), Manifest)
        # What the nodes of the other one have uploaded since stays in a hidden folder.
        assert {name[:5] for name in os.listdir(submissions.rundir.checkpoints)} - {"_tmp"} == {"step-"}
        assert not [name for name in os.listdir(submissions.rundir.path) if name.startswith("_")]
    assert done > 20


class _Turns:
    """Two threads of which one at a time runs: the first until its limit, the second until its own, then the first."""

    def __init__(self, limits: list[int]) -> None:
        self._left = limits
        self._go = [threading.Semaphore(0), threading.Semaphore(0)]
        self._over = [False, False]

    def before(self, i: int) -> Callable[[str, str], None]:
        def count(what: str, path: str) -> None:
            self._left[i] -= 1
            if self._left[i] == 0 and not self._over[1 - i]:
                self._go[1 - i].release()
                self._go[i].acquire()

        return count

    def play(self, calls: list[Callable[[], SparkTFError | None]]) -> list[SparkTFError | None]:
        results: list[SparkTFError | None] = [None, None]

        def run(i: int) -> None:
            self._go[i].acquire()
            results[i] = calls[i]()
            self._over[i] = True
            self._go[1 - i].release()

        threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        self._go[0].release()
        for thread in threads:
            thread.join(60)
        return results


class TestResult:
    def test_a_run_under_way_has_no_result_of_an_earlier_submission(
        self, tmp_path: Path, lake: Path, plan: Plan
    ) -> None:
        submissions = Submissions(tmp_path, lake, plan)
        first = submissions.driver("first")
        is_refused(first)
        assert ended(first) is not None
        assert "result.json" in submissions.seen()
        seen: list[bool] = []

        def before(what: str, path: str) -> None:
            if "_commit" in path and what == "checksum":
                seen.append("result.json" in submissions.seen())

        assert ended(submissions.driver("second", WatchedStorage(before))) is None
        assert seen == [False] * 3  # two checkpoints and the model

    def test_what_is_refused_before_any_attempt_leaves_its_result(self, tmp_path: Path, lake: Path, plan: Plan) -> None:
        submissions = Submissions(tmp_path, lake, plan)
        for name in ("first", "second"):
            driver = submissions.driver(name)
            is_refused(driver)
            assert isinstance(ended(driver), PreflightError)
            assert f'"application": "{name}"'.encode() in submissions.seen()["result.json"]
        assert os.listdir(submissions.rundir.path) == ["result.json"]

    def test_but_not_over_that_of_a_run_which_somebody_holds(self, tmp_path: Path, lake: Path, plan: Plan) -> None:
        submissions = Submissions(tmp_path, lake, plan)
        Fence(LocalStorage(), submissions.rundir).acquire(1)
        before = os.listdir(submissions.rundir.path)
        driver = submissions.driver("refused")
        is_refused(driver)
        assert isinstance(ended(driver), PreflightError)
        assert "the result was not written: another submission has begun the run" in driver.said.getvalue()
        assert submissions.seen() == {}
        assert os.listdir(submissions.rundir.path) == before

    def test_an_application_that_yarn_starts_again_after_it_lost_the_run_does_not_take_it_back(
        self, tmp_path: Path, lake: Path, plan: Plan
    ) -> None:
        submissions = Submissions(tmp_path, lake, plan)
        holder = Fence(LocalStorage(), submissions.rundir)
        holder.acquire(1)
        holder.put(submissions.rundir.owners, b'["old", "new"]')
        os.mkdir(submissions.rundir.terms)
        before = submissions.seen()
        assert isinstance(ended(submissions.driver("old", attempt=2)), FencedOffError)
        assert submissions.seen() == before
        assert not holder.is_gone()
        assert ended(submissions.driver("new", attempt=2)) is None  # its first attempt was killed


class TestFence:
    @pytest.fixture
    def rundir(self, tmp_path: Path) -> RunDirectory:
        return RunDirectory(str(tmp_path), "t", "r")

    def test_a_driver_that_was_fenced_off_cannot_take_the_run_back_by_a_new_attempt(self, rundir: RunDirectory) -> None:
        old, new = Fence(LocalStorage(), rundir), Fence(LocalStorage(), rundir)
        old.acquire(1)
        new.acquire(2)
        with pytest.raises(
            FencedOffError, match=r"run t/r belongs to another submission now.*again before .*result\.json exists"
        ):
            old.acquire(3)
        assert not new.is_gone()

    def test_one_that_could_not_move_the_others_away_is_none(self, rundir: RunDirectory) -> None:
        holder = Fence(LocalStorage(), rundir)
        holder.acquire(1)

        def before(what: str, path: str) -> None:
            if what == "rename":
                raise StorageError("cannot rename: connection refused")

        late = Fence(WatchedStorage(before), rundir)
        with pytest.raises(StorageError, match="connection refused"):
            late.acquire(2)
        assert late.path is None
        assert not late.claim()
        assert not holder.is_gone()

    def test_an_attempt_of_a_number_that_another_driver_has_taken_meanwhile_is_told(self, rundir: RunDirectory) -> None:
        Fence(LocalStorage(), rundir).acquire(1)
        fence = Fence(LocalStorage(), rundir)
        assert fence.acquire(1) == 1
        assert fence.acquire(2) < 2

    def test_a_new_attempt_leaves_what_its_own_event_writer_is_putting_down(self, rundir: RunDirectory) -> None:
        writing, swept = threading.Event(), threading.Event()
        failed: list[StorageError] = []

        def write() -> None:
            try:
                fence.put_beside(f"{rundir.path}/event", b"it goes on")
            except StorageError as error:
                failed.append(error)

        writer = threading.Thread(target=write)

        def before(operation: str, path: str) -> None:
            if threading.current_thread() is writer:
                if operation == "rename":  # of what it has written aside
                    writing.set()
                    assert swept.wait(30)
            elif operation == "list" and writer.ident is None and fence.path and "_commit-002" in fence.path:
                writer.start()
                assert writing.wait(30)

        fence = Fence(WatchedStorage(before), rundir)
        fence.acquire(1)
        fence.acquire(2)
        swept.set()
        writer.join()
        assert failed == []
        assert Path(rundir.path, "event").read_bytes() == b"it goes on"

    def test_what_is_put_down_while_the_fence_moves_on_is_put_down_through_the_next_one(
        self, rundir: RunDirectory
    ) -> None:
        def before(operation: str, path: str) -> None:
            if operation == "rename" and "/_put-" in path and moves:
                moves.pop()
                fence.acquire(2)

        moves = [2]
        fence = Fence(WatchedStorage(before), rundir)
        fence.acquire(1)
        fence.put_beside(f"{rundir.path}/event", b"it goes on")
        assert Path(rundir.path, "event").read_bytes() == b"it goes on"
        assert not moves
        fence.release()
        with pytest.raises(StorageNotFoundError):
            fence.put_beside(f"{rundir.path}/event", b"nobody holds the run")

    def test_what_another_driver_has_left_while_it_planned_or_put_down_is_swept(self, rundir: RunDirectory) -> None:
        for name in ("_plan-0123abcd/manifest", "_put-0123abcd/file", "_put-01234567-0123abcd/file"):
            LocalStorage().write_bytes(f"{rundir.path}/{name}", b"left")
        Fence(LocalStorage(), rundir).acquire(1)
        assert [name for name in os.listdir(rundir.path) if not name.startswith("_commit-")] == []

    def test_releasing_it_leaves_what_a_newer_attempt_has_staged(self, rundir: RunDirectory) -> None:
        old, new = CheckpointStore(LocalStorage(), rundir, 1), CheckpointStore(LocalStorage(), rundir, 1)
        old.fence.acquire(1)
        new.fence.acquire(2)
        LocalStorage().write_bytes(f"{rundir.staged(2, 'model')}/x", b"1")
        old.fence.release()
        assert os.listdir(rundir.staged(2, "model")) == ["x"]
