"""Runs and published models in a store: whoever is killed, frozen or not answered, at whichever of its requests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
from contenders import LIMIT_S, Contender, Nth, Way, at_once, fails, happens_twice, loses_the_answer, outcome
from obstore.store import MemoryStore
from watched_store import ROOT, WatchedStore

from sparktf.errors import OwnedError, SparkTFError
from sparktf.published.serving import CURRENT, ModelManifest, Serving
from sparktf.rundir import RunDirectory
from sparktf.storage.base import OpenUpload, Storage, Tag
from sparktf.storage.names.named_storage import NamedStorage
from sparktf.storage.transactions.checkpoints import MANIFEST, read_manifest
from sparktf.wire.uploads import StagedFile

RUN = RunDirectory(f"{ROOT}/runs", "t", "r")
NAMES = ("saved_model.pb", "variables/index")
MOST = 400
"""No life makes so many requests."""


class KilledError(BaseException):
    """The process is gone."""


def kills(what: str, call: Callable[[], Any]) -> Any:
    """A request before which its process dies."""
    raise KilledError


def kills_after(what: str, call: Callable[[], Any]) -> Any:
    """A request after which its process dies."""
    call()
    raise KilledError


def view(
    memory: MemoryStore,
    way: Callable[[str, Callable[[], Any]], Any] = lambda what, call: call(),
    left: list[OpenUpload] | None = None,
) -> NamedStorage:
    """Returns what one process has of a store."""
    return NamedStorage(WatchedStore(memory, way, left))


def upload_of(whose: str) -> OpenUpload:
    """Returns an upload of a trainer's that has not ended."""
    return OpenUpload(f"{RUN.staging}/001-step-000000000100/weights", whose, 0)


def test_an_owner_that_is_frozen_at_any_request_changes_nothing_of_what_its_successor_has() -> None:
    nth = 0
    while _is_frozen(nth):
        nth += 1
    assert nth > 30


def _is_frozen(nth: int) -> bool:
    """Freezes an owner at its n-th request, until another one has taken the run; returns whether it made so many."""
    memory, uploads = MemoryStore(), [upload_of("old")]
    new = Contender("new", view(memory, left=uploads), RUN)

    def freeze(what: str, call: Callable[[], Any]) -> Any:
        new.clock.advance(LIMIT_S * 3)
        new.begin()
        new.write()
        uploads.append(upload_of("new"))
        old.beside(new)
        return call()

    way = Nth(nth, freeze)
    old = Contender("old", view(memory, way, uploads), RUN)
    ended = outcome(old.live)
    assert ended is None or isinstance(ended, SparkTFError), f"at {nth}: {ended!r}"
    if way.struck:
        assert view(memory).read_bytes(RUN.result) == b"new", f"frozen at request {nth}"
        assert outcome(lambda: new.write(" again")) is None, f"frozen at request {nth}"
        assert view(memory).read_bytes(RUN.result) == b"new again", f"frozen at request {nth}"
        assert upload_of("new") in uploads, f"frozen at request {nth}"
        new.end()
    assert uploads == [], f"frozen at request {nth}"
    return way.struck


@pytest.mark.parametrize("instead", [kills, kills_after, loses_the_answer, fails, happens_twice])
def test_whatever_becomes_of_a_request_the_next_submission_owns_the_run_and_what_was_written_is_whole(
    instead: Way,
) -> None:
    for nth in range(MOST):
        memory = MemoryStore()
        way = Nth(nth, instead)
        old = Contender("old", view(memory, way), RUN)
        with suppress(KilledError):
            ended = outcome(old.live)
            assert ended is None or isinstance(ended, SparkTFError), f"at {nth}: {ended!r}"
        new, storage = Contender("new", view(memory), RUN), view(memory)
        if storage.exists(RUN.result):
            assert storage.read_bytes(RUN.result) == b"old"
        new.begin(wait=True)
        new.write()
        assert view(memory).read_bytes(RUN.result) == b"new", f"{instead} at request {nth}"
        if not way.struck:
            assert nth > 30
            return


class TestAnOwnersBeat:
    def test_is_one_request_and_tells_of_the_next_owner_by_itself(self) -> None:
        memory, requests = MemoryStore(), list[str]()

        def note(what: str, call: Callable[[], Any]) -> Any:
            requests.append(what)
            return call()

        old = Contender("old", view(memory, note), RUN)
        old.begin()
        requests.clear()
        _beats(old, 4)
        assert requests == ["swap"] * 4
        Contender("new", view(memory), RUN).begin(wait=True)
        assert not old.owner.superseded
        _beats(old, 1)
        assert old.owner.superseded

    @pytest.mark.parametrize("instead", [loses_the_answer, fails, happens_twice])
    def test_whatever_becomes_of_it_the_owner_stays_and_gives_the_next_by_one_request_again(self, instead: Way) -> None:
        memory, requests = MemoryStore(), list[str]()
        way: Way = at_once

        def note(what: str, call: Callable[[], Any]) -> Any:
            requests.append(what)
            return way(what, call)

        old = Contender("old", view(memory, note), RUN)
        old.begin()
        _beats(old, 1)
        way = Nth(0, instead, "swap")
        _beats(old, 1)
        way = at_once
        _beats(old, 1)
        requests.clear()
        _beats(old, 2)
        assert requests == ["swap"] * 2
        new = Contender("new", view(memory), RUN)
        new.beside(old)
        with pytest.raises(OwnedError):
            new.begin()
        assert not old.owner.superseded


def _beats(owner: Contender, times: int) -> None:
    """Lets time pass for as many beats."""
    for _ in range(times):
        owner.clock.sleep(LIMIT_S / 4)


@dataclass(frozen=True)
class Model:
    """A model of a run; see `Candidate`."""

    storage: Storage
    run_id: str
    date: str = "2026-11-20"

    def stage(self, folder: str) -> str:
        """See `Candidate`."""
        staged, files = f"{folder}/_staged-{self.run_id}", []
        for name in NAMES:
            content = f"{name} of {self.run_id}".encode()
            self.storage.write_bytes(f"{staged}/{name}", content)
            files.append(StagedFile(name=name, nbytes=len(content), sha256=hashlib.sha256(content).hexdigest()))
        manifest = ModelManifest(
            files=tuple(files), name="t", run_id=self.run_id, date=self.date, published="", plan_hash="", steps=1
        )
        self.storage.write_bytes(f"{staged}/{MANIFEST}", manifest.model_dump_json().encode())
        return staged


def serving_of(storage: Storage) -> Serving:
    return Serving(storage, f"{ROOT}/runs", "t")


def publish(storage: Storage, run_id: str) -> None:
    serving_of(storage).publish(Model(storage, run_id), lambda: None)


def night(storage: Storage, run_id: str) -> None:
    """Publishes, rolls back, goes forward again, and prunes."""
    publish(storage, run_id)
    serving_of(storage).rollback()
    serving_of(storage).rollback(2)
    serving_of(storage).prune(1)


def check_whole(memory: MemoryStore, when: str) -> None:
    """Is a reader of sparktf's: finds the version that is current, and every other, whole."""
    storage = view(memory)
    serving = serving_of(storage)
    for version in serving.versions():
        read_manifest(storage, version.folder, ModelManifest)
    assert serving.current() in [version.number for version in serving.versions() if not version.withdrawn], when


def check_shown(memory: MemoryStore, when: str) -> None:
    """Knows the store alone: finds what the names say."""
    serving = serving_of(view(memory))
    prefix = f"{serving.path}/"
    keys = {e.path.removeprefix(prefix) for e in WatchedStore(memory, lambda what, call: call()).walk(serving.path)}
    numbers = [version.number for version in serving.versions() if not version.withdrawn]
    assert keys == {f"{number}/{name}" for number in numbers for name in (*NAMES, MANIFEST)} | {CURRENT}, when


@pytest.mark.parametrize("instead", [kills, kills_after, loses_the_answer])
def test_a_publisher_that_is_cut_off_at_any_request_leaves_whole_models_and_the_next_one_puts_right_what_others_find(
    instead: Way,
) -> None:
    for nth in range(MOST):
        memory, way = MemoryStore(), Nth(nth, instead)
        publish(view(memory), "a")
        with suppress(KilledError, SparkTFError):
            night(view(memory, way), "b")
        check_whole(memory, f"{instead} at request {nth}")
        publish(view(memory), "c")
        check_whole(memory, f"after {instead} at request {nth}")
        check_shown(memory, f"after {instead} at request {nth}")
        if not way.struck:
            assert nth > 30
            return


def test_a_publisher_that_is_frozen_at_any_request_acts_upon_nothing_that_it_saw_before() -> None:
    for nth in range(MOST):
        memory = MemoryStore()
        publish(view(memory), "a")

        def freeze(what: str, call: Callable[[], Any], memory: MemoryStore = memory) -> Any:
            publish(view(memory), "c")
            return call()

        way = Nth(nth, freeze)
        with suppress(SparkTFError):
            night(view(memory, way), "b")
        check_whole(memory, f"frozen at request {nth}")
        publish(view(memory), "d")
        check_whole(memory, f"after being frozen at request {nth}")
        check_shown(memory, f"after being frozen at request {nth}")
        if not way.struck:
            assert nth > 30
            return


def _whatever_is_there(self: WatchedStore, path: str, content: bytes, tag: Tag | None) -> Tag | None:
    self.write_bytes(path, content)
    return self.tag_of(path)


def _without_a_fence(self: NamedStorage, path: str, content: bytes, inside: str) -> bool:
    self.write_bytes(path, content)
    return True


@pytest.mark.parametrize(
    ("guard", "instead"),
    [
        ("sparktf.storage.transactions.fence.Fence.check", lambda self: None),
        ("watched_store.WatchedStore.put_tagged", _whatever_is_there),
        ("sparktf.storage.names.named_storage.NamedStorage.write_if", _without_a_fence),
    ],
)
def test_without_a_guard_an_owner_that_was_frozen_is_noticed(guard: str, instead: Callable[..., Any]) -> None:
    with mock.patch(guard, instead), pytest.raises(AssertionError, match="frozen at request"):
        test_an_owner_that_is_frozen_at_any_request_changes_nothing_of_what_its_successor_has()


def test_a_row_of_the_history_is_replaced_only_while_the_fence_stands() -> None:
    memory = MemoryStore()
    old, new = (Contender(name, view(memory), RUN) for name in ("old", "new"))
    history = f"{ROOT}/runs/_runs/name=t/r.parquet"
    old.begin()
    old.fence.put(history, b"by the old one")
    assert view(memory).read_bytes(history) == b"by the old one"
    written = old.fence.prepare(history, b"by the old one, late")
    new.clock.advance(LIMIT_S * 3)
    old.beside(new)
    new.begin(wait=True)
    new.fence.put(history, b"by the new one")
    assert isinstance(outcome(lambda: old.fence.show(written, history)), SparkTFError)
    assert view(memory).read_bytes(history) == b"by the new one"
