"""Old runs, and which of them may be deleted by whom."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from contenders import LIMIT_S
from lakes import plan_lake, write_lake
from pretend import PretendClock, WatchedStorage
from published import NOW_S, Lab

from sparktf.driver.plan.plan import Plan
from sparktf.knobs import KNOBS
from sparktf.nightly.pruning import Pruner
from sparktf.results.result import Application
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.leftovers import LEFT_S
from sparktf.storage.transactions.ownership import Ownership
from sparktf.storage.transactions.terms import Owner


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_lake(write_lake(tmp_path_factory.mktemp("lake"), [20]))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here, and no other node fails meanwhile."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)


class Place:
    """Runs of one name, and whoever deletes old ones.

    Attributes:
        warned: What that has warned of.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.lab = Lab(folder, plan)
        self.folder = folder / "t"
        self.warned: list[str] = []
        self.now_s = NOW_S

    def directory(self, run_id: str) -> RunDirectory:
        return RunDirectory(self.lab.root, "t", run_id)

    def runs(self, *run_ids: str) -> None:
        """Leaves runs that are done, each later than the one before."""
        for run_id in run_ids:
            self.lab.run(run_id)

    def owner(self, run_id: str, application: str = "a night", storage: Storage | None = None) -> Ownership:
        """Returns what may become the owner of a run."""
        through = storage or LocalStorage()
        rundir, clock = self.directory(run_id), PretendClock()
        return Ownership(through, through, rundir, Application(application), clock, LIMIT_S)

    def killed(self, run_id: str, silent_s: float, limit_s: float = LIMIT_S) -> None:
        """Has a run be one whose driver was killed when its result was there: it has released nothing."""
        rundir = self.directory(run_id)
        shutil.rmtree(rundir.terms)
        storage = LocalStorage()
        Ownership(storage, storage, rundir, Application("killed"), PretendClock(), limit_s).acquire(print, wait=False)
        storage.make_dirs(f"{rundir.path}/_commit-001-1-0123abcd")
        beat = Path(rundir.term(1), "beat")
        now_s = beat.stat().st_mtime
        os.utime(beat, (now_s - silent_s,) * 2)

    def prune(self, keep: int, *spared: str, storage: Storage | None = None) -> tuple[str, ...]:
        through = storage or LocalStorage()

        def claim(rundir: RunDirectory) -> Ownership:
            return self.owner(rundir.run_id, storage=through)

        return Pruner(through, self.lab.root, "t", claim, self.warned.append, self.now_s).prune(keep, spared)

    def there(self) -> list[str]:
        return sorted(os.listdir(self.folder))


@pytest.fixture
def place(tmp_path: Path, plan: Plan) -> Place:
    return Place(tmp_path / "runs", plan)


def test_old_runs_go_but_none_that_is_under_way_or_that_readers_have(place: Place) -> None:
    place.runs(*"abcdef")
    place.killed("b", silent_s=LIMIT_S / 2)
    os.remove(place.directory("c").result)
    place.lab.publish("d")
    assert place.prune(1, "d") == ("e", "a")
    assert place.there() == ["b", "c", "d", "f", "serving"]
    assert place.lab.seen() == (1, "d")


def test_runs_go_whose_driver_was_killed_after_its_result_as_their_owners_silence_says(place: Place) -> None:
    place.runs(*"abcd")
    place.killed("a", silent_s=LIMIT_S + 1)
    place.killed("b", silent_s=LIMIT_S + 1, limit_s=10 * LIMIT_S)  # its owner beats more seldom
    place.killed("c", silent_s=LIMIT_S - 1)
    assert place.prune(1) == ("a",)
    assert place.there() == ["b", "c", "d"]
    assert not place.warned


def test_a_torn_record_of_an_owner_keeps_nobody_from_going_on(place: Place) -> None:
    place.runs(*"ab")
    place.killed("a", silent_s=LIMIT_S + 1)
    Path(place.directory("a").term(1), "owner.json").write_text("{", encoding="utf-8")
    assert place.prune(1) == ("a",)


def foreign_file(rundir: RunDirectory) -> None:
    Path(rundir.path, "part-0.parquet").write_bytes(b"a row of the lake")


def foreign_result(rundir: RunDirectory) -> None:
    Path(rundir.result).write_text('{"accuracy": 0.5}', encoding="utf-8")


def result_of_another(rundir: RunDirectory) -> None:
    told = json.loads(Path(rundir.result).read_bytes())
    Path(rundir.result).write_text(json.dumps(told | {"run_id": "2026-11-19"}), encoding="utf-8")


def no_owner(rundir: RunDirectory) -> None:
    shutil.rmtree(rundir.terms)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (foreign_file, "part-0.parquet in it is not of a run"),
        (foreign_result, "cannot be read"),
        (result_of_another, "its result is of t/2026-11-19"),
        (no_owner, "it has no owner/"),
    ],
)
def test_a_folder_that_need_not_be_a_run_stays_and_is_told(
    place: Place, make: Callable[[RunDirectory], None], why: str
) -> None:
    place.runs("a", "b", "c")
    make(place.directory("a"))
    os.utime(place.directory("a").result, (NOW_S, NOW_S))
    before = sorted(place.folder.rglob("*"))
    assert place.prune(2) == ()
    assert sorted(place.folder.rglob("*")) == before
    (warning,) = place.warned
    assert why in warning
    assert f"{place.directory('a').path} stays" in warning


def test_it_is_not_counted_among_those_that_are_kept(place: Place) -> None:
    place.runs("a", "b", "c")
    foreign_file(place.directory("c"))
    assert place.prune(1) == ("a",)
    assert place.there() == ["b", "c"]


def test_what_a_refused_run_leaves_goes_too(place: Place) -> None:
    place.runs("a", "b")
    for entry in Path(place.directory("a").path).iterdir():
        if entry.name != "result.json":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    assert place.prune(1) == ("a",)


class KilledError(BaseException):
    """The process is gone."""


def test_killed_at_any_call_it_leaves_a_run_whole_or_gone_once_the_next_one_has_come(
    tmp_path: Path, plan: Plan
) -> None:
    for n in range(200):
        place = Place(tmp_path / str(n), plan)
        place.runs("a", "b")
        whole = len(list(Path(place.directory("a").path).rglob("*")))
        calls: list[str] = []

        def dies(operation: str, path: str, calls: list[str] = calls, n: int = n) -> None:
            calls.append(f"{operation} {path}")
            if len(calls) > n:
                raise KilledError

        with suppress(KilledError):
            place.prune(1, storage=WatchedStorage(dies))
        if place.directory("a").run_id in place.there():
            assert len(list(Path(place.directory("a").path).rglob("[!_]*"))) >= whole, calls[-1]
        for beat in place.folder.glob("a/owner/*/beat"):
            os.utime(beat, (1e9, 1e9))
        place.prune(1)
        assert place.there() == ["b"], calls[-1]
        if len(calls) <= n:
            break
    assert n > 15


def test_a_run_that_begins_again_while_it_is_pruned_stays(tmp_path: Path, plan: Plan) -> None:
    """Its new driver owns it before any of the calls that delete it: it is whole, or gone before it began."""
    kept = 0
    for n in range(200):
        place = Place(tmp_path / str(n), plan)
        place.runs("a")
        before = set(os.listdir(place.directory("a").path))
        owner, calls = place.owner("a", "begins again"), 0

        def begins(operation: str, path: str, place: Place = place, owner: Ownership = owner, n: int = n) -> None:
            nonlocal calls
            calls += 1
            if calls == n + 1 and os.path.exists(place.directory("a").result):
                for beat in place.folder.glob("a/owner/*/beat"):  # who deletes it was frozen for so long
                    os.utime(beat, (1e9, 1e9))
                assert owner.take_idle()

        gone = place.prune(0, storage=WatchedStorage(begins))
        if calls <= n:
            break
        if owner.number:
            assert gone == ()
            assert before <= set(os.listdir(place.directory("a").path))
            kept += 1
        else:
            assert place.there() == []
    assert 3 < kept < n


@pytest.mark.parametrize("age_s", [LEFT_S + 1, LEFT_S - 1])
def test_what_an_earlier_version_has_left_on_its_way_goes_after_a_day(place: Place, age_s: float) -> None:
    place.runs("a", "b", "c")
    os.rename(place.directory("a").path, place.folder / "_leaving-0123abcd")
    os.rename(place.directory("b").path, place.folder / "_removed-4567abcd")
    for path in (place.folder / "_leaving-0123abcd", *(place.folder / "_leaving-0123abcd").rglob("*")):
        os.utime(path, (NOW_S - age_s,) * 2)
    assert place.prune(1) == ()
    assert place.there() == (["c"] if age_s > LEFT_S else ["_leaving-0123abcd", "c"])


def test_a_folder_of_somebody_elses_that_is_called_alike_stays(place: Place) -> None:
    place.runs("a")
    for name in ("_leaving-home", "_removed-0123abcd"):
        (place.folder / name).mkdir()
        (place.folder / name / "part-0.parquet").write_bytes(b"a row")
    place.prune(1)
    assert place.there() == ["_leaving-home", "_removed-0123abcd", "a"]
    assert [text.partition(" stays")[0] for text in place.warned] == [
        f"output.keep_runs: {place.folder}/_removed-0123abcd"
    ]


def test_owners_of_other_versions_are_understood() -> None:
    told = {"application": "a", "attempt": 0, "host": "h", "user": "u", "since": "", "nonce": "n"}
    assert Owner.model_validate(told).limit_s == 0.0
    assert Owner.model_validate(told | {"what_comes_later": 1}).application == "a"
