"""Whose turn it is to change the published models of one name, of any number of processes that may.

A turn is a folder `_turn-<nonce>/` beside the models. Whoever takes one moves all others away first, then looks what
is there, and then changes it by renames through its own folder. A rename into or out of a missing folder fails: so what
was decided by a look at what was there is done only if nobody else has had a turn since.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sparktf.errors import StorageError, StorageNotFoundError
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.leftovers import is_staged_name

WITHDRAWN = "_withdrawn-"
"""Before the number of a version that was rolled back."""

_PASSED = ("_turn-", "_over-", "_put-")
_ON_ITS_WAY = re.compile(r"^withdrawn-\d+$")


class TurnLostError(Exception):
    """Somebody else has taken a turn: look again at what is there."""


class Turn:
    """One turn; see `take_turn`."""

    def __init__(self, storage: Storage, folder: str) -> None:
        """Touches nothing."""
        self._storage = storage
        self._folder = folder
        self._nonce = secrets.token_hex(4)
        self._path = f"{folder}/_turn-{self._nonce}"

    def show(self, staged: str, number: int) -> None:
        """Makes a staged folder a version, in one step.

        Raises:
            TurnLostError: nothing is shown, and the staged folder may be gone.
            StorageError: the storage failed; `StorageExistsError`, if there is such a version.
        """
        self._move(staged, "new", f"{self._folder}/{number}")

    def withdraw(self, number: int) -> None:
        """Takes a version out of the sight of those who list numbers. Raises as `show`."""
        self._move(f"{self._folder}/{number}", f"withdrawn-{number}", f"{self._folder}/{WITHDRAWN}{number}")

    def bring_back(self, number: int) -> None:
        """Makes a version that was withdrawn one again. Raises as `show`."""
        self._move(f"{self._folder}/{WITHDRAWN}{number}", f"withdrawn-{number}", f"{self._folder}/{number}")

    def remove(self, name: str) -> None:
        """Takes a folder out of sight in one step; it is deleted when the turn ends. Raises as `show`."""
        with self._guarded():
            self._storage.rename(f"{self._folder}/{name}", f"{self._path}/old-{secrets.token_hex(4)}")

    def put(self, name: str, content: bytes) -> None:
        """Writes a small file, in one step where there is one. Raises as `show`."""
        # Not written into the turn's folder: writing makes folders, and would mend one that is gone.
        aside = f"{self._folder}/_put-{self._nonce}"
        with self._guarded():
            self._storage.write_bytes(f"{aside}/{name}", content)
            self._storage.rename(f"{aside}/{name}", f"{self._path}/{name}")
            self._storage.replace(f"{self._path}/{name}", f"{self._folder}/{name}")
        self._discard(aside)

    def begin(self) -> None:
        """Ends all other turns.

        Raises:
            TurnLostError: another has begun at the same moment.
            StorageError: the storage failed.
        """
        self._storage.make_dirs(self._path)
        # Made before the others are moved: of two that begin at once, each moves the other's, and never do both change.
        for entry in self._storage.list(self._folder):
            name = name_of(entry.path)
            if is_staged_name(name, *_PASSED) and name != name_of(self._path):
                self._end_other(name)
        with self._guarded():
            self._storage.stat(self._path)

    def end(self) -> None:
        """Deletes what was removed; what cannot be, the next turn deletes."""
        self._discard(self._path)

    def _end_other(self, name: str) -> None:
        """Moves the folder of an earlier turn away, puts back what was on its way through it, and deletes it."""
        over = f"{self._folder}/_over-{secrets.token_hex(4)}"
        # Nothing there: its owner has ended it, or another that begins at the same moment.
        with suppress(StorageNotFoundError):
            self._storage.rename(f"{self._folder}/{name}", over)
            for entry in self._storage.list(over):
                stranded = name_of(entry.path)
                if _ON_ITS_WAY.match(stranded):
                    self._storage.rename(f"{over}/{stranded}", f"{self._folder}/_{stranded}")
            self._discard(over)

    def _move(self, source: str, passing: str, target: str) -> None:
        with self._guarded():
            self._storage.rename(source, f"{self._path}/{passing}")
            self._storage.rename(f"{self._path}/{passing}", target)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            if not self._storage.exists(self._path):
                raise TurnLostError from error
            raise

    def _discard(self, folder: str) -> None:
        with suppress(StorageError):
            self._storage.delete(folder)


@contextmanager
def take_turn(storage: Storage, folder: str) -> Iterator[Turn]:
    """Gives a turn at what lies in a folder, which is made, to a block.

    Raises:
        TurnLostError: another has begun at the same moment.
        StorageError: the storage failed.
    """
    turn = Turn(storage, folder)
    try:
        turn.begin()
        yield turn
    finally:
        turn.end()
