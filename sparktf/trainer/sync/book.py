"""Which rows each member trains in each update of a call: all members keep the same book of all.

Before each call every member tells the others what it brings. So each knows of every other one what it has trained, by
intervals of the epoch sequence: the leader's checkpoint has the position of all, and what a lost member had trained
needs no word of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np

from sparktf.feed.arrays.aside import Handed
from sparktf.sequence import Integers, Interval, batch_shares, leading, merge
from sparktf.trainer.node.position import Done

_MANY = 4096
"""The most intervals that are kept unmerged."""


class BegunParts(Protocol):
    """A feed that tells which parts of the epoch it has begun to hand out."""

    def handed_since(self, part: int) -> Sequence[Handed]:
        """Returns the parts begun so far, from number `part` on."""


class Covered(NamedTuple):
    """The part of the epoch sequence that some rows cover."""

    spans: list[Interval]  # In the order in which they are handed out
    ends: list[int]  # Rows of these that are covered before the first update, and after each


class OwnShare:
    """The rows that one member brings from its feed, one call after the other."""

    def __init__(self, feed: BegunParts) -> None:
        """Begins with the first row that is handed out."""
        self._feed = feed
        self._seen = 0
        self._parts: deque[Handed] = deque()
        self._used = 0  # Of the first of these, rows that were handed out
        self._covered = 0  # And those that they cover

    def take(self, counts: Sequence[int]) -> Covered:
        """Returns the part that the next rows cover, all handed out already; `counts` has those of each update."""
        begun = self._feed.handed_since(self._seen)
        self._parts.extend(begun)
        self._seen += len(begun)
        spans: list[Interval] = []
        ends = [self._advance(0, spans)]
        for count in counts:
            ends.append(ends[-1] + self._advance(count, spans))
        return Covered(spans, ends)

    def _advance(self, rows: int, spans: list[Interval]) -> int:
        """Takes some rows, and adds the intervals that they cover to `spans`; returns the number of rows covered.

        Parts without a row to hand out are covered with those before them.
        """
        left, total = rows, 0
        while self._parts and (left or not self._parts[0].good):
            part = self._parts[0]
            taken = min(left, part.good - self._used)
            covered = part.covered(self._used + taken)
            _extend(spans, part.first_row + self._covered, part.first_row + covered)
            total += covered - self._covered
            left -= taken
            self._used, self._covered = self._used + taken, covered
            if covered == part.rows:
                self._parts.popleft()
                self._used = self._covered = 0
        return total


def _extend(spans: list[Interval], start: int, stop: int) -> None:
    if start == stop:
        return
    if spans and spans[-1][1] == start:
        spans[-1] = (spans[-1][0], stop)
    else:
        spans.append((start, stop))


class Word(NamedTuple):
    """The word of one member to the others before a call."""

    rows: int  # That it brings to the call
    save: bool = False  # Its wishes
    end: bool = False
    join: bool = False
    next_steps: int = 0
    spans: tuple[Interval, ...] = ()  # See `Covered`
    ends: tuple[int, ...] = ()  # Likewise; empty where each row covers itself alone

    def packed(self) -> Integers:
        """Returns it as sent, int64."""
        flat = [bound for span in self.spans for bound in span]
        wishes = self.save, self.end, self.join
        return np.array([self.rows, *wishes, self.next_steps, len(self.spans), *flat, *self.ends], np.int64)

    @classmethod
    def unpacked(cls, sent: Integers) -> Self:
        """Returns it as it was told."""
        rows, save, end, join, next_steps, spans, *rest = sent.tolist()
        flat = rest[: 2 * spans]
        pairs = tuple(zip(flat[::2], flat[1::2], strict=True))
        return cls(rows, bool(save), bool(end), bool(join), next_steps, pairs, tuple(rest[2 * spans :]))

    @classmethod
    def of(cls, counts: Sequence[int], covered: Covered) -> Self:
        """Returns the word of a member without wishes about its rows of each update."""
        rows = sum(counts)
        ends = tuple(covered.ends) if covered.ends[-1] != rows else ()
        return cls(rows, spans=tuple(covered.spans), ends=ends)


class SharedCall:
    """The updates of one call, by all members' words.

    Attributes:
        totals: int32 [updates], the rows of each update over all members, none zero.
    """

    def __init__(self, words: Sequence[Word], shares: Sequence[int], steps: int) -> None:
        """Takes the words and the shares of a full update, by rank; `steps` is the most updates of a call."""
        self._words = words
        self._shares = shares
        counts = np.minimum(np.outer(np.arange(1, steps + 1), shares), [word.rows for word in words])
        rows = np.diff(counts.sum(axis=1), prepend=0)
        self.totals = rows[: np.count_nonzero(rows)].astype(np.int32)

    def within(self, updates: int) -> list[Done]:
        """Returns the rows that each member has trained once some updates are made, by rank."""
        return [self._of(word, share, updates) for word, share in zip(self._words, self._shares, strict=True)]

    @staticmethod
    def _of(word: Word, share: int, updates: int) -> Done:
        rows = min(share * updates, word.rows)
        covered = word.ends[updates] if word.ends else rows
        return Done(leading(word.spans, covered), covered - rows)


class Book:
    """The rows of an epoch that all members have trained."""

    def __init__(self, batch_size: int, members: int, steps: int) -> None:
        """Begins empty; `steps` is the most updates of a call."""
        self.shares = batch_shares(batch_size, members)
        self._batch_size = batch_size
        self._steps = steps
        self._intervals: list[Interval] = []
        self._aside = 0

    def begin(self) -> None:
        """Forgets all, at the beginning of an epoch, or of the rest of one."""
        self._intervals, self._aside = [], 0

    def take(self, intervals: Sequence[Interval], aside: int) -> None:
        """Takes over another member's book."""
        self._intervals, self._aside = list(intervals), aside

    def take_members(self, members: int) -> None:
        """Goes on with another number of members; the rows that were trained stay."""
        self.shares = batch_shares(self._batch_size, members)

    def block(self, words: Sequence[Word]) -> SharedCall:
        """Returns the updates of a call; nothing of them counts yet."""
        return SharedCall(words, self.shares, self._steps)

    def add(self, block: SharedCall, updates: int) -> None:
        """Counts the first updates of a call."""
        for done in block.within(updates):
            self._intervals.extend(done.intervals)
            self._aside += done.rows_aside
        if len(self._intervals) > _MANY:
            self._intervals = merge(self._intervals)

    def done_within(self, block: SharedCall, updates: int) -> Done:
        """Returns the rows that all members have trained once the first updates of a call are made, too."""
        also = block.within(updates)
        intervals = merge([*self._intervals, *(span for done in also for span in done.intervals)])
        return Done(intervals, self._aside + sum(done.rows_aside for done in also), of_all=True)

    @property
    def done(self) -> Done:
        """The rows that all members have trained.

        Raises:
            ValueError: a row was trained twice.
        """
        self._intervals = merge(self._intervals)
        return Done(self._intervals, self._aside, of_all=True)
