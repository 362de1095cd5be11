"""What each member of a gang trains in each update, by the words of all: the books of all are the same, and exact."""

from __future__ import annotations

import numpy as np
import pytest

from sparktf.feed.arrays.aside import Handed
from sparktf.sequence import merge, remaining
from sparktf.trainer.sync.book import Book, OwnShare, Word

STEPS = 8


class Begun:
    """A feed whose parts are begun one after the other."""

    def __init__(self, parts: list[Handed]) -> None:
        self.parts = parts
        self.begun = 0

    def handed_since(self, part: int) -> list[Handed]:
        """See `BegunParts`."""
        return self.parts[part : self.begun]

    def begin_for(self, rows: int) -> int:
        """Begins parts until so many rows were handed out in all; returns how many could be."""
        while self.begun < len(self.parts) and sum(part.good for part in self.parts[: self.begun]) < rows:
            self.begun += 1
        return min(rows, sum(part.good for part in self.parts[: self.begun]))


def drawn(rng: np.random.Generator, first: int, rows: int, bad: float) -> list[Handed]:
    """Returns parts of a share of the epoch, in any order, with some rows that are left out."""
    ends = np.sort(rng.choice(np.arange(1, rows), min(int(rng.integers(1, 6)), rows - 1), replace=False))
    edges = [first, *(first + ends).tolist(), first + rows]
    parts = []
    for start, stop in rng.permutation(np.stack([edges[:-1], edges[1:]], axis=1)).tolist():
        places = np.flatnonzero(rng.random(stop - start) >= bad)
        parts.append(Handed(start, stop - start, places if len(places) < stop - start else None))
    return parts


@pytest.mark.parametrize("seed", range(60))
def test_books_have_each_row_that_was_trained_once_and_say_which_are_left(seed: int) -> None:
    rng = np.random.default_rng(seed)
    members, batch, bad = int(rng.integers(1, 5)), int(rng.integers(5, 40)), float(rng.choice([0.0, 0.1, 0.6]))
    sizes = rng.integers(2, 200, members).tolist()
    firsts = np.cumsum([0, *sizes]).tolist()
    feeds = [Begun(drawn(rng, first, size, bad)) for first, size in zip(firsts, sizes, strict=False)]
    trained = [set[int]() for _ in feeds]
    good = [
        [
            part.first_row + int(place)
            for part in feed.parts
            for place in (range(part.rows) if part.places is None else part.places)
        ]
        for feed in feeds
    ]
    book, brought, taken = Book(batch, members, STEPS), [OwnShare(feed) for feed in feeds], [0] * members
    while True:
        steps = int(rng.integers(1, STEPS + 1))
        words, before = [], taken.copy()
        for member, feed in enumerate(feeds):
            wanted = book.shares[member] * steps
            taken[member] = feed.begin_for(before[member] + wanted)
            rows = taken[member] - before[member]
            counts = np.diff(np.minimum(np.arange(1, STEPS + 1) * book.shares[member], rows), prepend=0).tolist()
            words.append(Word.unpacked(Word.of(counts, brought[member].take(counts)).packed()))
        block = book.block(words)
        if not len(block.totals):
            break
        updates = int(rng.integers(0, len(block.totals) + 1)) if rng.random() < 0.1 else len(block.totals)
        for member, count in enumerate(before):
            made = min(book.shares[member] * updates, taken[member] - count)
            trained[member] |= set(good[member][count : count + made])
        book.add(block, updates)
        done = book.done
        rows_done = {row for start, stop in done.intervals for row in range(start, stop)}
        assert set().union(*trained) <= rows_done
        assert len(rows_done) - done.rows_aside == sum(map(len, trained))
        assert rows_done.isdisjoint(
            {row for rows, own in zip(good, trained, strict=True) for row in rows if row not in own}
        )
        if updates < len(block.totals):
            return  # the call was interrupted
    left = {row for start, stop in remaining(sum(sizes), merge(book.done.intervals)) for row in range(start, stop)}
    assert left.isdisjoint(row for rows in good for row in rows)


def test_the_rows_of_each_update_are_those_that_all_bring_to_it() -> None:
    book = Book(10, 2, STEPS)
    block = book.block([Word(rows=12, spans=((0, 12),)), Word(rows=7, spans=((50, 57),))])
    assert block.totals.tolist() == [10, 7, 2]
    assert [done.intervals for done in block.within(1)] == [[(0, 5)], [(50, 55)]]
    book.add(block, 2)
    assert book.done.intervals == [(0, 10), (50, 57)]


def test_a_row_that_is_trained_twice_is_noticed() -> None:
    book = Book(4, 1, STEPS)
    for _ in range(2):
        book.add(book.block([Word(rows=4, spans=((0, 4),))]), 1)
    with pytest.raises(ValueError, match="covered twice"):
        _ = book.done
