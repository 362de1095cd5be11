"""One owner of a run: whatever the storage does, and whoever is frozen, one trains and the other one says who."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from contenders import LIMIT_S, STEP_S, Contender, Nth, Way, fails, happens_twice, loses_the_answer, outcome
from greenlet import getcurrent, greenlet
from lakes import plan_lake, write_lake
from pretend import PretendDriver, SetClock, pretend_config
from simulation.disk import Disk, SimStorage

from sparktf.driver.hooks import Hooks
from sparktf.errors import (
    FencedOffError,
    OwnedError,
    StorageError,
    StorageNotFoundError,
    StorageUnavailableError,
    Verdict,
)
from sparktf.knobs import KNOBS
from sparktf.results.result import Application
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.fence import Fence
from sparktf.storage.transactions.ownership import Ownership, Seen, Step, is_lapsed, next_step, see
from sparktf.storage.transactions.terms import Owner, Term

ME = Application("me")
RUNDIR = RunDirectory("/runs", "t", "r")


def in_memory() -> Storage:
    return SimStorage(Disk(lambda: 0.0))


def owned_by(application: str, attempt: int = 0) -> Owner:
    return Owner(application=application, attempt=attempt, host="h", user="u", since="2026-11-20", nonce="n")


class TestDecision:
    def test_a_run_without_owner_or_with_one_that_has_released_it_may_be_taken(self) -> None:
        for term in (Term(), Term(3, owned_by("other"), b"7", released=True)):
            assert next_step(see(None, term, 0.0, 0.1, LIMIT_S), ME, LIMIT_S) is Step.TAKE

    def test_a_later_attempt_of_the_same_application_follows_the_earlier_one_and_no_other(self) -> None:
        seen = see(None, Term(1, owned_by("me", 1), b"7"), 0.0, 0.1, LIMIT_S)
        assert next_step(seen, Application("me", 2), LIMIT_S) is Step.TAKE
        for application in (Application("me", 1), Application("you", 2)):
            assert next_step(seen, application, LIMIT_S) is Step.LOOK_AGAIN

    def test_a_beat_that_stands_still_for_as_long_as_is_said_is_that_of_nobody(self) -> None:
        term, seen, steps = Term(1, owned_by("other"), b"7"), None, []
        for now_s in range(0, 66, 5):
            seen = see(seen, term, float(now_s), now_s + 0.5, LIMIT_S)
            steps.append(next_step(seen, ME, LIMIT_S))
        # The first look has ended after half a second, so that 60 s after it began are not yet 60 s.
        assert steps == [Step.LOOK_AGAIN] * 13 + [Step.TAKE]

    def test_one_that_moves_is_that_of_an_owner(self) -> None:
        seen = see(None, Term(1, owned_by("other"), b"7"), 0.0, 0.1, LIMIT_S)
        for term in (Term(1, owned_by("other"), b"8"), Term(2, owned_by("another"), b"7")):
            assert next_step(see(seen, term, 5.0, 5.1, LIMIT_S), ME, LIMIT_S) is Step.IS_OWNED

    def test_who_could_not_look_for_long_does_not_know_that_it_stood_still(self) -> None:
        term = Term(1, owned_by("other"), b"7")
        seen = see(None, term, 0.0, 0.1, LIMIT_S)
        for began_s, ended_s in ((100.0, 100.1), (105.0, 140.0)):  # frozen; then a storage that answers late
            for found in (term, term._replace(beat=b"8")):
                assert see(seen, found, began_s, ended_s, LIMIT_S) == Seen(found, ended_s, began_s)
            seen = see(seen, term, began_s, ended_s, LIMIT_S)
        assert next_step(seen, ME, LIMIT_S) is Step.LOOK_AGAIN

    def test_an_owner_may_count_on_its_beat_for_as_long_as_others_watch_it(self) -> None:
        assert not is_lapsed(renewed_s=100.0, now_s=159.9, limit_s=LIMIT_S)
        assert is_lapsed(renewed_s=100.0, now_s=160.0, limit_s=LIMIT_S)


class TestTwoSubmissions:
    @pytest.fixture
    def storage(self) -> Storage:
        return in_memory()

    @pytest.fixture
    def first(self, storage: Storage) -> Contender:
        first = Contender("first", storage, RUNDIR)
        first.begin()
        return first

    def test_the_second_one_is_told_who_owns_the_run(self, storage: Storage, first: Contender) -> None:
        second = Contender("second", storage, RUNDIR)
        second.beside(first)
        with pytest.raises(OwnedError, match=r"run t/r is owned by application first of \w+ on .*, since 2023-11-14T"):
            second.begin()
        assert second.clock.now_s() <= LIMIT_S / 4
        assert OwnedError.verdict is Verdict.OWNED
        first.write()

    @pytest.mark.parametrize("call", range(3))
    def test_one_whose_term_is_swept_away_while_it_makes_it_is_told_who_owns_the_run(
        self, storage: Storage, call: int
    ) -> None:
        """Who has become the owner deletes what others have begun, and HDFS ends a write whose folder is deleted."""
        first = Contender("first", storage, RUNDIR)

        def overtaken(what: str, call: Callable[[], Any]) -> Any:
            first.begin()
            raise StorageNotFoundError("File does not exist: the holder does not have any open files")

        second = Contender("second", storage, RUNDIR, Nth(call % 2, overtaken, "write" if call < 2 else "rename"))
        second.beside(first)
        with pytest.raises(OwnedError, match=r"is owned by application first of"):
            second.begin()
        first.write()

    def test_an_owner_that_is_gone_is_followed_when_its_beat_has_stood_still(
        self, storage: Storage, first: Contender
    ) -> None:
        second = Contender("second", storage, RUNDIR)
        second.begin()
        assert LIMIT_S <= second.clock.now_s() <= LIMIT_S + STEP_S
        assert second.said[0].startswith("the run is owned by application first of ")
        second.write()

    def test_one_that_has_released_the_run_is_followed_at_once(self, storage: Storage, first: Contender) -> None:
        first.end()
        second = Contender("second", storage, RUNDIR)
        second.begin()
        assert second.clock.now_s() == 0.0

    def test_so_is_yarns_first_attempt_by_its_second(self, storage: Storage) -> None:
        Contender("app", storage, RUNDIR, attempt=1).begin()
        second = Contender("app", storage, RUNDIR, attempt=2)
        second.begin()
        assert second.clock.now_s() == 0.0

    def test_who_waits_has_the_run_when_it_is_released(self, storage: Storage, first: Contender) -> None:
        second = Contender("second", storage, RUNDIR)

        def passed() -> None:
            first.clock.advance(STEP_S)
            if first.clock.now_s() == 1000.0:
                first.end()

        second.clock.passed = passed
        second.begin(wait=True)
        assert second.clock.now_s() == 1000.0
        assert len(second.said) == 1

    def test_terms_that_are_over_do_not_pile_up(self, storage: Storage, first: Contender) -> None:
        for name in ("second", "third"):
            first.end()
            first = Contender(name, storage, RUNDIR)
            first.begin()
        assert [entry.path for entry in storage.list(RUNDIR.terms)] == [RUNDIR.term(3)]

    def test_a_run_of_the_version_before_is_taken_over_and_says_so_as_that_one_did(self, storage: Storage) -> None:
        owner = (
            '{"application":"app-1","attempt":1,"host":"h","user":"u","since":"2026-11-20T02:00:11+00:00",'
            '"nonce":"0123456789abcdef","limit_s":60.0}'
        )
        for name, content in {"owner.json": owner.encode(), "beat": b"17"}.items():
            storage.write_bytes(f"{RUNDIR.terms}/000007/{name}", content)
        storage.write_bytes(f"{RUNDIR.terms}/_new-0123456789abcdef/beat", b"0")
        second = Contender("second", storage, RUNDIR)
        second.begin()
        assert second.said[0].startswith("the run is owned by application app-1 of u on h, since 2026-11-20T02:00:11")
        assert [entry.path for entry in storage.list(RUNDIR.terms)] == [f"{RUNDIR.terms}/000008"]
        second.end()
        names = [entry.path.rpartition("/")[2] for entry in storage.list(RUNDIR.term(8))]
        assert names == ["beat", "owner.json", "released"]
        assert list(json.loads(storage.read_bytes(f"{RUNDIR.term(8)}/owner.json"))) == list(json.loads(owner))

    def test_an_owner_stops_where_a_newer_term_is_there(self, storage: Storage, first: Contender) -> None:
        first.fence.check_owner()
        Contender("second", storage, RUNDIR).owner.acquire(print, wait=False)
        first.clock.sleep(LIMIT_S / 4)
        with pytest.raises(FencedOffError, match="run t/r belongs to another submission now"):
            first.fence.check_owner()
        with pytest.raises(FencedOffError):
            first.write()  # although nobody has moved its fence away
        assert not storage.exists(RUNDIR.result)


class TestAnOwnerThatCannotRenew:
    def test_commits_nothing_until_it_can_again(self) -> None:
        storage, away = in_memory(), False

        def way(what: str, call: Callable[[], Any]) -> Any:
            return fails(what, call) if away else call()

        owner = Contender("owner", storage, RUNDIR, way)
        owner.begin()
        away = True
        for _ in range(5):
            owner.clock.sleep(LIMIT_S / 4)
        with pytest.raises(StorageUnavailableError, match=r"could not be renewed for 75 s \(timeouts.owner: 60 s\)"):
            owner.write()
        away = False
        owner.write()
        assert storage.read_bytes(RUNDIR.result) == b"owner"

    def test_nor_when_it_thaws_and_another_one_has_begun_to_own_the_run(self) -> None:
        storage = in_memory()
        owner = Contender("owner", storage, RUNDIR)
        owner.begin()
        Contender("second", storage, RUNDIR).owner.acquire(print, wait=False)
        owner.clock.advance(LIMIT_S, asleep=True)
        with pytest.raises(FencedOffError):
            owner.write()

    def test_a_renewal_that_hangs_delays_no_commit(self, tmp_path: Path) -> None:
        hangs, go_on = threading.Event(), threading.Event()

        class Hanging(LocalStorage):
            def list(self, path: str) -> Any:
                if threading.current_thread().name == "owner":
                    hangs.set()
                    assert go_on.wait(10)
                return super().list(path)

        rundir, storage = RunDirectory(str(tmp_path), "t", "r"), LocalStorage()
        owner = Ownership(storage, Hanging(), rundir, ME, SetClock(), limit_s=0.001)
        owner.acquire(print, wait=False)
        assert hangs.wait(10)
        fence = Fence(storage, rundir, storage, owner)
        fence.hold()
        fence.put(rundir.result, b"me")
        go_on.set()
        owner.release()


def calls_of(life: Callable[[Contender], None]) -> int:
    """Returns how many calls of the storage a life has that nothing disturbs."""
    count = itertools.count()

    def way(what: str, call: Callable[[], Any]) -> Any:
        next(count)
        return call()

    life(Contender("alone", in_memory(), RUNDIR, way))
    return next(count)


@pytest.mark.parametrize("fault", [fails, loses_the_answer, happens_twice])
def test_whatever_becomes_of_a_call_the_next_submission_has_the_run_in_time(fault: Way) -> None:
    took_over = 0
    for n in range(calls_of(Contender.live)):
        storage = in_memory()
        first = Contender("first", storage, RUNDIR, Nth(n, fault))
        error = outcome(first.live)
        assert error is None or isinstance(error, StorageError), f"call {n}: {error!r}"
        if error is None:
            assert storage.read_bytes(RUNDIR.result) == b"first"
        second = Contender("second", storage, RUNDIR)
        second.begin()
        assert second.clock.now_s() <= LIMIT_S + STEP_S
        took_over += second.clock.now_s() > 0
        second.write()
        assert storage.read_bytes(RUNDIR.result) == b"second"
    assert took_over <= 3  # a term that was made unheard, and its release that was not made


@pytest.mark.parametrize("fault", [fails, loses_the_answer, happens_twice])
def test_whatever_becomes_of_a_call_nobody_takes_the_run_of_an_owner_at_work(fault: Way) -> None:
    for n in range(12):
        storage = in_memory()
        first = Contender("first", storage, RUNDIR)
        first.begin()
        second = Contender("second", storage, RUNDIR, Nth(n, fault))
        second.beside(first)
        error = outcome(second.begin)
        assert isinstance(error, OwnedError | StorageUnavailableError), f"call {n}: {error!r}"
        first.write()
        assert storage.read_bytes(RUNDIR.result) == b"first"


class Frozen:
    """Freezes a contender before or after a call, until another one has taken the run, and works."""

    def __init__(self, storage: Storage, *, after: bool, asleep_s: float) -> None:
        self.old: Contender | None = None
        self.successor: Contender | None = None
        self._storage = storage
        self._after = after
        self._asleep_s = asleep_s

    def __call__(self, what: str, call: Callable[[], Any]) -> Any:
        if not self._after:
            self._freeze()
        try:
            return call()
        finally:
            if self._after:
                self._freeze()

    def _freeze(self) -> None:
        assert self.old is not None
        self.successor = Contender("new", self._storage, RUNDIR)
        self.successor.begin()
        self.successor.write()
        self.old.clock.advance(self._asleep_s, asleep=True)
        self.old.beside(self.successor)


@pytest.mark.parametrize("asleep_s", [0.0, LIMIT_S], ids=["its clock stands still", "its clock goes on"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_frozen_at_any_call_an_owner_changes_nothing_of_what_its_successor_has(after: bool, asleep_s: float) -> None:
    stopped, calls = 0, calls_of(Contender.live)
    for n in range(calls):
        storage = in_memory()
        frozen = Frozen(storage, after=after, asleep_s=asleep_s)
        old = frozen.old = Contender("old", storage, RUNDIR, Nth(n, frozen))
        error = outcome(old.live)
        assert frozen.successor is not None
        assert error is None or isinstance(error, OwnedError | FencedOffError), f"call {n}: {error!r}"
        assert storage.read_bytes(RUNDIR.result) == b"new", f"call {n}"
        frozen.successor.write(" again")
        assert storage.read_bytes(RUNDIR.result) == b"new again"
        stopped += error is not None
    assert calls - stopped < 12  # those that had written all by then


def taking_turns(turns: tuple[int, ...]) -> tuple[list[Contender], list[Exception | None]]:
    """Plays two that begin at once: one makes so many calls, then the other, and so on; then each goes to its end."""
    storage, main, left = in_memory(), getcurrent(), [0, 0]

    def way(i: int) -> Way:
        def count(what: str, call: Callable[[], Any]) -> Any:
            while getcurrent() is threads[i] and not left[i]:
                main.switch()
            left[i] -= 1
            return call()

        return count

    both = [Contender(name, storage, RUNDIR, way(i)) for i, name in enumerate("ab")]
    both[0].beside(both[1])
    both[1].beside(both[0])
    threads = [greenlet(partial(outcome, one.begin)) for one in both]
    errors: list[Exception | None] = [None, None]
    for i, calls in zip(itertools.cycle((0, 1)), (*turns, 10_000, 10_000)):
        left[i] = calls
        if not threads[i].dead:
            errors[i] = threads[i].switch()
    assert all(thread.dead for thread in threads)
    return both, errors


def test_of_two_that_begin_at_once_one_owns_the_run_in_whatever_order_their_calls_come() -> None:
    calls = range(calls_of(Contender.begin) + 1)
    for turns in itertools.product(calls, repeat=3):
        both, errors = taking_turns(turns)
        (winner,) = (one for one, error in zip(both, errors, strict=True) if error is None)
        (loser,) = (one for one in both if one is not winner)
        (error,) = (error for error in errors if error is not None)
        assert isinstance(error, OwnedError | FencedOffError), f"{turns}: {error!r}"
        winner.write()
        assert outcome(loser.write) is not None, turns


class TestRun:
    """Whole drivers, on nodes that are pretended."""

    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "fsync", lambda handle: None)
        monkeypatch.setattr(KNOBS, "settle_s", 0.0)

    @pytest.fixture
    def submitted(self, tmp_path: Path) -> Callable[[str], PretendDriver]:
        lake = write_lake(tmp_path / "lake", [20])
        config, plan = pretend_config(lake, tmp_path / "runs"), plan_lake(lake)
        return lambda name: PretendDriver(Application(name), config, plan)

    def test_a_second_submission_while_the_first_one_waits_for_its_data_ends_with_7_and_writes_nothing(
        self, tmp_path: Path, submitted: Callable[[str], PretendDriver]
    ) -> None:
        first, second = submitted("first"), submitted("second")
        raised: list[Exception | None] = []

        def files() -> list[str]:
            found = (tmp_path / "runs").rglob("*")
            return sorted(
                str(path) for path in found if path.is_file() and path.name != "beat" and path.parent.name != "events"
            )

        class Waits(Hooks):
            def before_plan(self, *given: Any) -> None:
                before = files()
                raised.append(outcome(second.train))  # type: ignore[arg-type]
                assert files() == before

        second.site.clock.passed = lambda: first.site.clock.advance(STEP_S)
        first.hooks = Waits()
        assert first.train().verdict is Verdict.DONE
        (error,) = raised
        assert isinstance(error, OwnedError)
        assert error.result.verdict is Verdict.OWNED
        assert "run t/r is owned by application first of " in second.said.getvalue()

    def test_one_that_waits_repeats_the_result_of_the_first(self, submitted: Callable[[str], PretendDriver]) -> None:
        first, second = submitted("first"), submitted("second")
        second.wait = True
        main = getcurrent()
        waiting = greenlet(second.train)
        second.site.clock.passed = main.switch

        class Waits(Hooks):
            def before_plan(self, *given: Any) -> None:
                for _ in range(20):
                    first.site.clock.advance(STEP_S)
                    waiting.switch()

        first.hooks = Waits()
        result = first.train()
        assert waiting.switch() == result
        assert second.said.getvalue().count("the run is owned by application first of ") == 1
