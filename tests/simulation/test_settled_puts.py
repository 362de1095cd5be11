"""Puts on a condition whose answer is lost, or which come too late: of tables in a store, and of its preflight."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from contenders import Late, Nth, Way, at_once, happens_twice, loses_the_answer, outcome
from obstore.store import MemoryStore
from watched_store import ROOT, WatchedStore

from sparktf.errors import StorageError, StorageExistsError
from sparktf.storage.names.conditions import check_conditions
from sparktf.storage.transactions.partition import MARKER, DayFolder, Marker, Partition
from sparktf.storage.transactions.placed_objects import put_folder, store_of

NOW_S = 1_000_000.0
MOST = 9
"""No replacement makes so many puts on a condition."""


def replace(store: WatchedStore, content: str) -> None:
    """Replaces a day by two files."""

    def write(folder: str) -> None:
        for number in range(2):
            store.write_bytes(f"{folder}/{number}.parquet", content.encode())

    marker = Marker(name="churn", version="1", job=content)
    Partition(store, DayFolder(f"{ROOT}/scores", "date", "2026-11-20")).replace(write, marker, NOW_S)


def counted(memory: MemoryStore) -> list[bytes]:
    """Returns the files that readers of a day count."""
    store, folder = WatchedStore(memory, at_once), f"{ROOT}/scores/date=2026-11-20"
    marker = Marker.model_validate_json(store.read_bytes(f"{folder}/{MARKER}"))
    return [store.read_bytes(f"{folder}/{name}") for name in marker.files]


@pytest.mark.parametrize("before", [[], ["first"]])
@pytest.mark.parametrize("instead", [loses_the_answer, happens_twice])
def test_a_day_whose_answer_is_lost_is_replaced(instead: Way, before: list[str]) -> None:
    for nth in range(MOST):
        memory = MemoryStore()
        for content in before:
            replace(WatchedStore(memory, at_once), content)
        way = Nth(nth, instead, "swap")
        assert outcome(partial(replace, WatchedStore(memory, way), "new")) is None
        assert counted(memory) == [b"new"] * 2
        if not way.struck:
            return
    raise AssertionError(f"{MOST} puts")


@pytest.mark.parametrize("nth", range(3))
@pytest.mark.parametrize("heals", [True, False])
def test_a_day_whose_put_comes_too_late_has_the_files_of_one_job(nth: int, heals: bool) -> None:
    memory, late, puts = MemoryStore(), Late(), 0
    replace(WatchedStore(memory, at_once), "first")

    def away(what: str, call: Callable[[], Any]) -> Any:
        nonlocal puts
        puts += what == "swap"
        return call() if what != "swap" or puts <= nth or (late.calls and heals) else late(what, call)

    ended = outcome(lambda: replace(WatchedStore(memory, away), "new"))
    assert ended is None or isinstance(ended, StorageError)
    while late.calls:
        late.come()
    assert counted(memory) in ([[b"new"] * 2] if ended is None else [[b"first"] * 2, [b"new"] * 2])


@pytest.mark.parametrize("instead", [loses_the_answer, happens_twice])
def test_a_folder_whose_answer_is_lost_is_put(instead: Way) -> None:
    memory = MemoryStore()
    put_records(WatchedStore(memory, Nth(0, instead, "swap")), "new")
    assert records(memory) == [b"new"]


def test_a_folder_that_came_since_it_was_looked_for_stays() -> None:
    memory = MemoryStore()

    def late(what: str, call: Callable[[], Any]) -> Any:
        put_records(WatchedStore(memory, at_once), "other")
        return call()

    with pytest.raises(StorageExistsError, match=r"records: another process has written it meanwhile$"):
        put_records(WatchedStore(memory, Nth(0, late, "swap")), "new")
    assert records(memory) == [b"other"]
    with pytest.raises(StorageExistsError, match=r"records: it is there$"):
        put_records(WatchedStore(memory, at_once), "new")


def put_records(store: WatchedStore, content: str) -> None:
    """Puts a folder of one file where none is."""
    store.write_bytes(f"{ROOT}/_{content}/part-0", content.encode())
    store.write_bytes(f"{ROOT}/_{content}/_SUCCESS", b"")
    found = store_of(store)
    assert found is not None
    put_folder(found, f"{ROOT}/_{content}", f"{ROOT}/records", replaces=False)


def records(memory: MemoryStore) -> list[bytes]:
    """Returns the files of that folder, which is complete."""
    store = WatchedStore(memory, at_once)
    assert store.exists(f"{ROOT}/records/_SUCCESS")
    assert not store.exists(f"{ROOT}/records/_writing")
    return [store.read_bytes(entry.path) for entry in store.walk(f"{ROOT}/records")]


@pytest.mark.parametrize("instead", [loses_the_answer, happens_twice])
def test_a_store_that_keeps_conditions_is_taken_whichever_answer_is_lost(instead: Way) -> None:
    for nth in range(MOST):
        way = Nth(nth, instead, "swap")
        assert outcome(partial(check_conditions, WatchedStore(MemoryStore(), way), ROOT)) is None, f"at put {nth}"
        if not way.struck:
            return
    raise AssertionError(f"{MOST} puts")
