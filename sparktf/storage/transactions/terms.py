"""The owners of a run by its folder: terms, which are editions of a `Head`; the newest counts."""

from __future__ import annotations

import math
from typing import NamedTuple

from pydantic import ConfigDict, ValidationError

from sparktf.errors import StorageNotFoundError
from sparktf.message import Message
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.transactions.head import FolderHead, Head

OWNER = "owner.json"
BEAT = "beat"
RELEASED = "released"
"""Files of a term."""


_APART_S = 120.0
"""The largest difference between the clocks of a process and of the storage."""

_UNOWNED_S = 3600.0
"""A run of a version without owners stores events at least this often."""


class Owner(Message):
    """The owner of a term."""

    model_config = ConfigDict(extra="ignore")  # fields of later versions

    application: str
    attempt: int
    host: str
    user: str
    since: str  # When it was made, by the owner's clock: for people
    nonce: str
    limit_s: float = 0.0  # Silence after which it is gone; 0 if each process that looks decides

    def __str__(self) -> str:
        return f"application {self.application} of {self.user} on {self.host}, since {self.since}"


class Term(NamedTuple):
    """The newest term as one look found it."""

    number: int = 0  # 0 without a term
    owner: Owner | None = None  # None if unreadable
    beat: bytes = b""
    released: bool = False


def head_of(storage: Storage, terms: str, hasty: Storage | None = None) -> Head:
    """Returns the head whose editions are the terms of a run.

    Args:
        terms: The folder of all of them.
        hasty: See `FolderHead`.
    """
    # A beat from the first moment on: an owner without one would be taken for gone before it can give any.
    return FolderHead(storage, terms, OWNER, beside={BEAT: b"0"}, hasty=hasty)


def look(storage: Storage, terms: str) -> Term:
    """Reads the newest term. Raises `StorageError`."""
    head = head_of(storage, terms)
    while True:
        number, content = head.read()
        beat = _read(storage, f"{head.path(number)}/{BEAT}") if number else b""
        released = number > 0 and storage.exists(f"{head.path(number)}/{RELEASED}")
        # A term that is followed and deleted during the read would look like one without a beat.
        if beat or number == head.newest():
            return Term(number, _owner(content), beat, released)


def beat_ms(storage: Storage, terms: str, number: int) -> int:
    """Returns when the owner of a term gave its last sign of life, by the storage's clock; 0 where there is none."""
    try:
        return storage.stat(f"{head_of(storage, terms).path(number)}/{BEAT}").modified_ms
    except StorageNotFoundError:
        return 0


def _owner(content: bytes) -> Owner | None:
    try:
        return Owner.model_validate_json(content)
    except ValidationError:  # there is none, or a torn one
        return None


def _read(storage: Storage, path: str) -> bytes:
    try:
        return storage.read_bytes(path)
    except StorageNotFoundError:
        return b""


class LastWord(NamedTuple):
    """The last sign of life of an owner."""

    heard_s: float  # Its last sign of life, by the storage's clock, in seconds since 1970; 0 for none
    limit_s: float  # Silence after which others may take the run; -inf if it was released

    def is_over(self, now_s: float) -> bool:
        """Whether nobody is at work."""
        return now_s - self.heard_s > self.limit_s


UNHEARD = LastWord(0.0, math.inf)


def last_word(storage: Storage, rundir: RunDirectory) -> LastWord:
    """Returns the last sign of life of a run that has no result. Raises `StorageError`."""
    term = look(storage, rundir.terms)
    beat_s = beat_ms(storage, rundir.terms, term.number) / 1000 if term.number else 0.0
    heard_s = max(beat_s, _told_s(storage, rundir))
    limit_s = term.owner.limit_s + _APART_S if term.owner else _UNOWNED_S
    return LastWord(heard_s, -math.inf if term.released else limit_s)


def _told_s(storage: Storage, rundir: RunDirectory) -> float:
    """Returns when its driver last stored an event."""
    try:
        return max((entry.modified_ms for entry in storage.list(rundir.events)), default=0) / 1000
    except StorageNotFoundError:
        return 0.0
