"""Which process may change the published models of one name, among several that want to.

A turn is a `Passage` among equals, a folder `_turn-<nonce>/` beside the models. A process that takes one moves all
others away, then reads their state, and then changes it: so it decides and acts on the same state, or fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.leftovers import is_staged_name, staged_name
from sparktf.storage.transactions.passage import PUT, SWEPT, Passage

WITHDRAWN = "_withdrawn-"
"""Prefix of the number of a version that was rolled back."""

LOADED = "saved_model.pb"
"""File of a version that TensorFlow Serving loads it by."""

_TURN, _OVER = "_turn-", "_over-"
"""The second is of earlier versions of sparktf, for turns moved away."""

_ON_ITS_WAY = re.compile(r"^withdrawn-\d+$")


class TurnLostError(Exception):
    """Another process has taken a turn: read the models' state again."""


class Turn(Passage):
    """One turn; see `take_turn`."""

    def __init__(self, storage: Storage, folder: str) -> None:
        """Touches nothing."""
        super().__init__(storage, folder)
        self._mine = f"{folder}/{staged_name(_TURN)}"

    def lose(self) -> TurnLostError:
        """See `Passage`."""
        return TurnLostError()

    def withdraw(self, number: int) -> None:
        """Hides a version from readers that list numbers; see `Passage`."""
        self.place(f"{self._parent}/{number}", f"{self._parent}/{WITHDRAWN}{number}", f"withdrawn-{number}")

    def bring_back(self, number: int) -> None:
        """Shows a withdrawn version again; see `Passage`."""
        self.place(f"{self._parent}/{WITHDRAWN}{number}", f"{self._parent}/{number}", f"withdrawn-{number}")

    def begin(self) -> None:
        """Ends all other turns.

        Raises:
            TurnLostError: another has begun at the same moment.
            StorageError: the storage failed.
        """
        self._path = self._mine
        self._storage.keep_names(self._parent)
        self._storage.make_dirs(self._path)
        names = self._names(self._parent)
        others = [n for n in names if is_staged_name(n, _TURN, _OVER, PUT) and n != name_of(self._mine)]
        # Turns first: a process that loses its file before its turn would take that for a failure of the storage.
        others.sort(key=lambda name: name.startswith(PUT))
        with self.guarded():
            swept = [aside for _, aside in self._sweep_in(f"{self._parent}/{name}" for name in others)]
            for aside in swept:
                self._put_back(aside)
        self.check()
        self.discard(*swept)

    def appear(self) -> None:
        """Makes what was changed appear to readers that know a store alone; see `Storage.show`."""
        with self.guarded():
            self._storage.show(self._parent, LOADED)

    def end(self) -> None:
        """Deletes everything taken in; the next turn deletes the rest."""
        self.discard(self._mine)

    def _put_back(self, folder: str) -> None:
        """Puts back folders on their way through earlier turns, or through those that this one has moved away."""
        for name in self._names(folder):
            if _ON_ITS_WAY.match(name):
                self._storage.rename(f"{folder}/{name}", f"{self._parent}/_{name}")
            elif name.startswith(SWEPT):
                self._put_back(f"{folder}/{name}")


@contextmanager
def take_turn(storage: Storage, folder: str) -> Iterator[Turn]:
    """Gives a block a turn at a folder, which is made if missing.

    Raises:
        TurnLostError: another has begun at the same moment.
        StorageError: the storage failed.
    """
    turn = Turn(storage, folder)
    try:
        turn.begin()
        yield turn
        turn.appear()
    finally:
        turn.end()
