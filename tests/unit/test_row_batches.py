"""When rows that come one by one are sent: by their bytes, by time, and never two batches at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparktf.errors import BadValueError
from sparktf.executor.row_batches import send_rows
from sparktf.feed.channel.any_rows import MOST_BATCH_NBYTES, batch_to_rows

ROWS_OF = "partition 3 of the RDD, which main_fun gets"
WITHIN_S = 30


class Sent:
    """Batches that were sent."""

    def __init__(self, most: int | None = None) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.some = threading.Event()
        self._most = most

    def __call__(self, batch: pa.RecordBatch) -> bool:
        self.batches.append(batch)
        self.some.set()
        return self._most is None or len(self.batches) < self._most

    @property
    def rows(self) -> list[Any]:
        return [row for batch in self.batches for row in batch_to_rows(batch)]


@given(
    st.lists(st.one_of(st.integers(), st.binary(), st.just("x" * (MOST_BATCH_NBYTES // 2)), st.none()), max_size=300)
)
@settings(max_examples=20)
def test_all_rows_come_in_order(rows: list[Any]) -> None:
    sent = Sent()
    assert send_rows(iter(rows), sent, ROWS_OF) == len(rows)
    assert sent.rows == rows


def test_large_rows_come_a_few_at_a_time_and_small_ones_many() -> None:
    large = Sent()
    image = b"x" * 1_100_000
    assert send_rows((image for _ in range(200)), large, ROWS_OF) == 200
    assert max(batch.nbytes for batch in large.batches) < 1.2 * MOST_BATCH_NBYTES
    assert len(large.batches) < 20
    small = Sent()
    assert send_rows(iter(range(10_000)), small, ROWS_OF) == 10_000
    assert len(small.batches) < 8


def test_rows_that_grow_are_noticed_soon() -> None:
    sent = Sent()
    send_rows((b"x" * (10 if i < 1000 else 1_000_000) for i in range(1200)), sent, ROWS_OF)
    assert max(batch.nbytes for batch in sent.batches) < 6 * MOST_BATCH_NBYTES


def test_a_row_is_sent_while_the_next_one_does_not_come() -> None:
    sent = Sent()

    def slow() -> Iterator[int]:
        for i in range(3):
            yield i
            assert sent.some.wait(WITHIN_S), "the row waits for another one"
            sent.some.clear()

    assert send_rows(slow(), sent, ROWS_OF) == 3
    assert sent.rows == [0, 1, 2]


def test_whoever_wants_no_more_is_sent_no_more_and_reading_ends() -> None:
    sent, read = Sent(2), [0]

    def endless() -> Iterator[int]:
        while True:
            read[0] += 1
            yield read[0]

    sent_rows = send_rows(endless(), sent, ROWS_OF)
    assert sent_rows == len(sent.rows) <= read[0] < 20_000


@pytest.mark.parametrize("place", [0, 5000])
def test_a_row_that_cannot_be_sent_is_told_with_its_number_in_its_partition(place: int) -> None:
    rows = [(i, "a") for i in range(place)] + [(1, {"x": open}), (2, "b")]
    with pytest.raises(BadValueError, match=rf"^row {place} of {ROWS_OF}: a value of type \S+ at \[1\]\['x'\]; what"):
        send_rows(rows, Sent(), ROWS_OF)


def test_what_goes_wrong_beside_the_reader_ends_it() -> None:
    sent = Sent()

    def broken(batch: pa.RecordBatch) -> bool:
        sent(batch)
        raise ConnectionError("gone")

    def slow() -> Iterator[int]:
        yield 0
        assert sent.some.wait(WITHIN_S)
        yield from iter(int, 1)

    with pytest.raises(ConnectionError, match="gone"):
        send_rows(slow(), broken, ROWS_OF)


def test_an_error_of_the_rows_themselves_is_raised_as_it_is() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        send_rows(broken(), Sent(), ROWS_OF)
