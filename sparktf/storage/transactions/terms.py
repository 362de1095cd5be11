"""What a run's folder says of its owners: the terms, the newest of which counts."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import ConfigDict, ValidationError

from sparktf.errors import StorageNotFoundError
from sparktf.message import Message
from sparktf.rundir import term_name, term_number
from sparktf.storage.base import Storage, name_of

OWNER = "owner.json"
BEAT = "beat"
RELEASED = "released"
"""Files of a term."""


class Owner(Message):
    """Who has a term.

    Attributes:
        since: When it was made, by the owner's clock: for people.
        nonce: Its own.
        limit_s: After so long without a beat it is gone; 0 where that is whoever looks's to say.
    """

    model_config = ConfigDict(extra="ignore")  # what a later version says besides

    application: str
    attempt: int
    host: str
    user: str
    since: str
    nonce: str
    limit_s: float = 0.0

    def __str__(self) -> str:
        return f"application {self.application} of {self.user} on {self.host}, since {self.since}"


class Term(NamedTuple):
    """What one look has found.

    Attributes:
        number: Of the newest term; 0 if there is none.
        owner: None where it does not say.
    """

    number: int = 0
    owner: Owner | None = None
    beat: bytes = b""
    released: bool = False


def look(storage: Storage, terms: str) -> Term:
    """Returns what there is of the newest term.

    Args:
        terms: The folder of all terms of a run.

    Raises:
        StorageError: the storage failed.
    """
    number = newest(storage, terms)
    while number:
        folder = f"{terms}/{term_name(number)}"
        beat, owner = _read(storage, f"{folder}/{BEAT}"), owner_of(storage, folder)
        is_released = storage.exists(f"{folder}/{RELEASED}")
        before, number = number, newest(storage, terms) if owner is None else number
        if before == number:
            return Term(number, owner, beat, is_released)
    return Term()


def beat_ms(storage: Storage, terms: str, number: int) -> int:
    """Returns when the owner of a term gave its last sign of life, by the storage's clock; 0 where there is none."""
    try:
        return storage.stat(f"{terms}/{term_name(number)}/{BEAT}").modified_ms
    except StorageNotFoundError:
        return 0


def newest(storage: Storage, terms: str) -> int:
    """Returns the number of the newest term; 0 if there is none. Raises `StorageError`."""
    try:
        entries = storage.list(terms)
    except StorageNotFoundError:
        return 0
    return max((term_number(name_of(entry.path)) for entry in entries), default=0)


def owner_of(storage: Storage, folder: str) -> Owner | None:
    """Returns whose the term in a folder is; None where it does not say. Raises `StorageError`."""
    try:
        return Owner.model_validate_json(_read(storage, f"{folder}/{OWNER}"))
    except ValidationError:  # there is none, or a torn one
        return None


def _read(storage: Storage, path: str) -> bytes:
    try:
        return storage.read_bytes(path)
    except StorageNotFoundError:
        return b""
