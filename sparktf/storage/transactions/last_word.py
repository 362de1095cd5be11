"""What a run without a result says to whoever only looks: whether anybody is at work on it, by its owner's beat."""

from __future__ import annotations

import math
from typing import NamedTuple

from sparktf.errors import StorageNotFoundError
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.transactions.terms import beat_ms, look

_APART_S = 120.0
"""So far the clocks of whoever looks and of the storage may be apart."""

_UNOWNED_S = 3600.0
"""A run of a version that had no owners says something so often."""


class LastWord(NamedTuple):
    """What there is.

    Attributes:
        heard_s: When it gave its last sign of life, by the storage's clock, in seconds since 1970; 0 for never.
        limit_s: After so long without another nobody is at work: others may take the run; -inf where it was left.
    """

    heard_s: float
    limit_s: float

    def is_over(self, now_s: float) -> bool:
        """Whether nobody is at work."""
        return now_s - self.heard_s > self.limit_s


UNHEARD = LastWord(0.0, math.inf)


def last_word(storage: Storage, rundir: RunDirectory) -> LastWord:
    """Returns the last sign of life of a run that has no result.

    Raises:
        StorageError: the storage failed.
    """
    term = look(storage, rundir.terms)
    beat_s = beat_ms(storage, rundir.terms, term.number) / 1000 if term.number else 0.0
    heard_s = max(beat_s, _told_s(storage, rundir))
    limit_s = term.owner.limit_s + _APART_S if term.owner else _UNOWNED_S
    return LastWord(heard_s, -math.inf if term.released else limit_s)


def _told_s(storage: Storage, rundir: RunDirectory) -> float:
    """Returns when its driver last stored anything of what it said."""
    try:
        return max((entry.modified_ms for entry in storage.list(rundir.events)), default=0) / 1000
    except StorageNotFoundError:
        return 0.0
