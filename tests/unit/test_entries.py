"""Which row of a table becomes which, when the vocabulary changes that its rows are of."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from sparktf.trainer.model.entries import Vocabulary, listed, moves, vocabulary


def moved(ours: Vocabulary, theirs: Vocabulary) -> dict[int, int]:
    """Returns our row -> theirs."""
    found = moves(ours, theirs)
    return dict(zip(found.to.tolist(), found.source.tolist(), strict=True))


def of(*entries: Any, masked: bool = False, unknown: int = 1) -> Vocabulary:
    return vocabulary(entries, masked=masked, unknown=unknown)


def test_an_entry_keeps_its_row_wherever_that_is_now() -> None:
    found = moves(of("grey", "blue", "red"), of("red", "green", "blue"))
    assert (found.kept, found.new, found.left) == (2, 1, 1)
    assert moved(of("grey", "blue", "red"), of("red", "green", "blue")) == {0: 0, 2: 3, 3: 1}


def test_other_rows_are_kept_where_they_mean_the_same() -> None:
    assert moved(of("a", masked=True), of("a")) == {1: 0, 2: 1}, "padding is new, the unknown stay unknown"
    assert moved(of("a"), of("a", masked=True)) == {0: 1, 1: 2}
    assert moved(of("a", unknown=2), of("b", "a", unknown=2)) == {0: 0, 1: 1, 2: 3}
    assert moved(of("a", unknown=2), of("a", unknown=3)) == {2: 3}, "a hash deals the unknown to others"
    assert moved(of("a", unknown=0), of("a", unknown=1)) == {0: 1}


def test_nothing_in_common_moves_no_entry() -> None:
    found = moves(of("a", "b"), of("c"))
    assert (found.kept, found.new, found.left) == (0, 2, 1)
    assert moved(of(), of()) == {0: 0}
    assert moved(of("a"), of()) == {0: 0}


def test_numbers_are_entries_too_and_the_same_ones_as_their_texts() -> None:
    assert moved(of(7, 5), of(5, 6, 7)) == {0: 0, 1: 3, 2: 1}
    assert moved(of(np.int64(7)), of("7", unknown=1)) == {0: 0, 1: 1}
    assert moved(of(np.str_("ä")), of("ä")) == {0: 0, 1: 1}


@pytest.mark.parametrize("seed", range(100))
def test_rows_move_as_a_dictionary_says(seed: int) -> None:
    draw = random.Random(seed)
    kind = draw.choice([str, int])
    entries = [[kind(n) for n in draw.sample(range(30), draw.randrange(25))] for _ in range(2)]
    (ours, mine), (theirs, other) = (
        (of(*e, masked=draw.random() < 0.5, unknown=draw.randrange(3)), e) for e in entries
    )
    rows = [dict(zip(e, v.rows.tolist(), strict=True)) for v, e in ((ours, mine), (theirs, other))]
    expected = {row: rows[1][entry] for entry, row in rows[0].items() if entry in rows[1]}
    expected |= {row: theirs.others[what] for what, row in ours.others.items() if what in theirs.others}
    found = moves(ours, theirs)
    assert moved(ours, theirs) == expected
    common = len(set(mine) & set(other))
    assert (found.kept, found.new, found.left) == (common, len(mine) - common, len(other) - common)


def test_a_list_of_an_asset_is_in_the_last_rows_and_a_mapping_says_its_own() -> None:
    at_the_end = listed(["a", "b"], 5)
    assert at_the_end is not None
    assert at_the_end.rows.tolist() == [3, 4]
    mapped = listed({"a": 2, "b": 0}, 5)
    assert mapped is not None
    assert moved(mapped, at_the_end) == {2: 3, 0: 4}
    shorter = listed(["b"], 4)
    assert shorter is not None
    assert moved(shorter, at_the_end) == {0: 0, 1: 1, 2: 2, 3: 4}, "three rows in front, there as here"
    longer = listed(["b"], 5)
    assert longer is not None
    assert moved(longer, at_the_end) == {4: 4}, "nobody knows which of four were which of three"


@pytest.mark.parametrize("asset", [{"a": 5}, {"a": -1}, {"a": "x"}, ["a"] * 6, "text", 7, None])
def test_what_is_no_vocabulary_of_a_table_of_five_rows_is_told(asset: Any) -> None:
    assert listed(asset, 5) is None


def test_vocabularies_are_the_same_where_every_row_stands_for_the_same() -> None:
    assert of("a", "b").equals(of("a", "b"))
    assert not of("a", "b").equals(of("b", "a"))
    assert not of("a").equals(of("a", masked=True))
    assert not of(5).equals(of("5"))
