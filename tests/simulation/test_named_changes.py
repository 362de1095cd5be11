"""A change of names in a store whose answer is lost while another process makes one, or which comes too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contenders import Late, Nth, Way, at_once, happens_twice, loses_the_answer, outcome
from obstore.store import MemoryStore
from watched_store import ROOT, WatchedStore

from sparktf.errors import StorageUnavailableError
from sparktf.storage.names import tree
from sparktf.storage.names.catalogue import REMEMBERED_SWAPS, Catalogue
from sparktf.storage.names.named_storage import NamedStorage
from sparktf.storage.transactions.leftovers import discard

FOLDER = f"{ROOT}/run"
FILE, EARLIER, STAGED = f"{FOLDER}/a/file", f"{FOLDER}/a/earlier", f"{FOLDER}/_tmp/1"

Files = dict[str, bytes]
Change = Callable[[NamedStorage], None]

BEFORE: Files = {"a/file": b"file", "a/earlier": b"earlier"}


def _remove(*names: str) -> Files:
    return {name: content for name, content in BEFORE.items() if name not in names}


def _stage(storage: NamedStorage) -> None:
    storage.write_bytes(f"{STAGED}/x", b"staged")
    storage.rename(STAGED, f"{FOLDER}/a/step")


def _stage_over(storage: NamedStorage) -> None:
    storage.write_bytes(STAGED, b"staged")
    storage.replace(STAGED, EARLIER)


CHANGES: dict[str, tuple[Change, Files]] = {
    "a new file": (lambda storage: storage.write_bytes(f"{FOLDER}/a/new", b"new"), BEFORE | {"a/new": b"new"}),
    "a file again": (lambda storage: storage.write_bytes(FILE, b"again"), BEFORE | {"a/file": b"again"}),
    "a file while a folder is there": (
        lambda storage: _holds(storage.write_if(FILE, b"again", f"{FOLDER}/a")),
        BEFORE | {"a/file": b"again"},
    ),
    "a copy over a file": (lambda storage: _holds(storage.copy(FILE, EARLIER)), BEFORE | {"a/earlier": b"file"}),
    "a file's rename": (lambda storage: storage.rename(FILE, f"{FOLDER}/b"), _remove("a/file") | {"b": b"file"}),
    "a folder's rename": (
        lambda storage: storage.rename(f"{FOLDER}/a", f"{FOLDER}/b"),
        {"b/file": b"file", "b/earlier": b"earlier"},
    ),
    "a rename over a file": (
        lambda storage: storage.replace(FILE, EARLIER),
        _remove("a/file") | {"a/earlier": b"file"},
    ),
    "what was staged": (_stage, BEFORE | {"a/step/x": b"staged"}),
    "what was staged, over a file": (_stage_over, BEFORE | {"a/earlier": b"staged"}),
    "a deletion": (lambda storage: storage.delete(FILE), _remove("a/file")),
    "a folder's deletion": (lambda storage: storage.delete(f"{FOLDER}/a"), {}),
}


def _holds(what: object) -> None:
    assert what


@pytest.mark.parametrize("instead", [loses_the_answer, happens_twice])
@pytest.mark.parametrize("changes", [1, 3])
@pytest.mark.parametrize("name", CHANGES)
def test_each_name_keeps_its_object_and_no_other_is_left(name: str, changes: int, instead: Way) -> None:
    found, unnamed = _files_after(name, changes, instead)
    assert found == CHANGES[name][1] | {"other": b"%d" % (changes - 1)}
    assert not unnamed


@pytest.mark.parametrize("name", ["a new file", "a file again", "a copy over a file"])
def test_what_is_written_keeps_its_object_when_so_many_have_followed_that_it_is_made_a_second_time(name: str) -> None:
    found, _ = _files_after(name, REMEMBERED_SWAPS + 1, loses_the_answer)
    assert found == CHANGES[name][1] | {"other": b"%d" % REMEMBERED_SWAPS}


def _files_after(name: str, changes: int, instead: Way) -> tuple[Files, set[str]]:
    """Makes a change, whose answer is lost while another process makes some; returns what is there.

    Returns:
        What a process that knows nothing yet reads; the objects that have no name.
    """
    change, memory = CHANGES[name][0], MemoryStore()
    others = NamedStorage(WatchedStore(memory, at_once))
    _fill(others)

    def followed(what: str, call: Callable[[], Any]) -> Any:
        def made() -> Any:
            put = call()
            for number in range(changes):
                others.write_bytes(f"{FOLDER}/other", b"%d" % number)
            return put

        return instead(what, made)

    way = Nth(0, followed, "swap")
    assert outcome(lambda: change(NamedStorage(WatchedStore(memory, way)))) is None
    assert way.struck
    return _files_in(memory)


def _fill(storage: NamedStorage) -> None:
    storage.keep_names(FOLDER)
    for path, content in BEFORE.items():
        storage.write_bytes(f"{FOLDER}/{path}", content)


def _files_in(memory: MemoryStore) -> tuple[Files, set[str]]:
    store = WatchedStore(memory, at_once)
    seen = Catalogue(store, FOLDER).read()
    assert seen is not None
    objects = {"/".join(path): f"{FOLDER}/{file.at}" for path, file in tree.paths_of(seen.root)}
    unnamed = {entry.path for entry in store.below(FOLDER)} - set(objects.values())
    return {path: store.read_bytes(at) for path, at in objects.items()}, unnamed


@pytest.mark.parametrize("heals", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_comes_after_its_process_gave_it_up_names_nothing_that_was_deleted_since(
    name: str, heals: bool
) -> None:
    memory, late, is_away = MemoryStore(), Late(), False

    def away(what: str, call: Callable[[], Any]) -> Any:
        return late(what, call) if is_away and what == "swap" else call()

    storage = NamedStorage(WatchedStore(memory, away))
    _fill(storage)
    is_away = True
    assert isinstance(outcome(lambda: CHANGES[name][0](storage)), StorageUnavailableError)
    is_away = not heals
    for path in (STAGED, f"{FOLDER}/_tmp"):
        discard(storage, path)
    while late.calls:
        late.come()
    found, _ = _files_in(memory)
    assert found in (BEFORE, CHANGES[name][1])
