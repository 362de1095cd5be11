"""Processes that change the names of one folder in a store, at random, while requests fail, get lost or come late."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from unittest import mock

import pytest
from contenders import Late, at_once, fails, happens_twice, loses_the_answer
from obstore.store import MemoryStore
from watched_store import ROOT, WatchedStore

from sparktf.errors import StorageError
from sparktf.storage.names import tree
from sparktf.storage.names.catalogue import Catalogue
from sparktf.storage.names.named_storage import NamedStorage
from sparktf.storage.transactions.leftovers import discard

FOLDER = f"{ROOT}/run"
FILES = [f"{FOLDER}/{above}/{name}" for above in "ab" for name in "xyz"]
SEEDS, PROCESSES, CHANGES = 40, 3, 60

_DEEPEST = 2
"""Changes of others that may come within a change."""


@pytest.fixture(autouse=True)
def hasty() -> Iterator[None]:
    """Who was beaten looks again at once."""
    with mock.patch("sparktf.storage.names.catalogue._PAUSE_S", 0.0):
        yield


class Folder:
    """The processes of a seed, and what is on its way."""

    def __init__(self, seed: int) -> None:
        self.memory = MemoryStore()
        self._chance = random.Random(seed)
        self._late = Late()
        self._depth = self._made = 0
        begun = NamedStorage(WatchedStore(self.memory, at_once))
        begun.keep_names(FOLDER)
        for path in FILES:
            begun.write_bytes(path, path.encode())
        self._processes = [NamedStorage(WatchedStore(self.memory, self._request)) for _ in range(PROCESSES)]

    def play(self) -> None:
        """Has all changes made; what was late comes at the end."""
        for _ in range(CHANGES):
            self._change()
        while self._late.calls:
            self._comes()

    def lost(self) -> list[str]:
        """Returns the files that have a name and no object."""
        store = WatchedStore(self.memory, at_once)
        seen = Catalogue(store, FOLDER).read()
        assert seen is not None
        found = {entry.path for entry in store.below(FOLDER)}
        return ["/".join(path) for path, file in tree.paths_of(seen.root) if f"{FOLDER}/{file.at}" not in found]

    def _change(self) -> None:
        """Has a process change something."""
        storage, chance = self._chance.choice(self._processes), self._chance
        self._made += 1
        source, target, content = chance.choice(FILES), chance.choice(FILES), b"%d" % self._made
        staged = f"{FOLDER}/_put-{self._made}"

        def stage() -> None:
            try:
                storage.write_bytes(f"{staged}/file", content)
                chance.choice((storage.rename, storage.replace))(f"{staged}/file", target)
            finally:
                discard(storage, staged)

        with suppress(StorageError):
            chance.choice(
                (
                    stage,
                    stage,
                    lambda: storage.write_bytes(target, content),
                    lambda: storage.copy(source, target),
                    lambda: storage.rename(source, target),
                    lambda: storage.replace(source, target),
                    lambda: storage.rename(f"{FOLDER}/a", f"{FOLDER}/moved-{self._made}"),
                    lambda: storage.delete(source),
                )
            )()

    def _request(self, what: str, call: Callable[[], Any]) -> Any:
        """Makes a request of a process, or not, while others change something."""
        self._others()
        dice = self._chance.random()
        if dice < 0.15 and what == "swap":
            return self._late(what, call)

        def made() -> Any:
            answer = call()
            self._others()
            return answer

        return self._chance.choice((fails, loses_the_answer, happens_twice))(what, made) if dice > 0.85 else made()

    def _others(self) -> None:
        if self._depth < _DEEPEST and self._chance.random() < 0.15:
            self._depth += 1
            self._change()
            self._depth -= 1
        if self._late.calls and self._chance.random() < 0.1:
            self._comes()

    def _comes(self) -> None:
        self._late.come(self._chance.randrange(len(self._late.calls)))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_name_keeps_its_object(seed: int) -> None:
    folder = Folder(seed)
    folder.play()
    assert folder.lost() == []


@pytest.mark.parametrize("guard", ["Catalogue.settle", "NamesMemory.has"])
def test_without_a_guard_a_seed_notices(guard: str) -> None:
    with mock.patch(f"sparktf.storage.names.catalogue.{guard}", lambda *given: None):
        for seed in range(5 * SEEDS):
            folder = Folder(seed)
            folder.play()
            if folder.lost():
                return
    raise AssertionError(f"{5 * SEEDS} seeds noticed nothing")
