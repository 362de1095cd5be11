"""Results of rows that Spark feeds to a function: a real server of a node, and the generator that a Spark task runs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import Row

from sparktf.compat.tensorflowonspark.tf_node import DataFeed
from sparktf.errors import BadValueError, NodeLostError
from sparktf.executor.guest_feeder import GuestFeedSettings, answer_guests
from sparktf.feed.channel import guest_feed
from sparktf.feed.channel.guest_feed import GuestQueue, GuestServer
from sparktf.wire.guest import GuestPlace
from sparktf.wire.security import ControlAccess

SECRET = "secret"
BOUND_NBYTES = 1 << 20
ROW = "x" * 1000
ROWS = 100_000
WITHIN_S = 60

Function = Callable[[DataFeed], None]


class Node:
    """A node whose function answers rows."""

    def __init__(self, folder: Path, function: Function) -> None:
        self.queue = GuestQueue(BOUND_NBYTES)
        server = GuestServer("127.0.0.1", None, folder, SECRET, None, self.queue)
        place = GuestPlace(number=0, host="h", jvm="j", data=server.address)
        self.settings = GuestFeedSettings(ControlAccess(location="", secret=SECRET), (place,), False, 1.0)
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self._thread.start()

    def _run(self, function: Function) -> None:
        function(DataFeed(self.queue, train_mode=False))
        self.queue.terminate()

    def answers(self, rows: Iterator[Any], split: int = 0) -> Iterator[Any]:
        return answer_guests(split, rows, self.settings)

    def end(self) -> None:
        self.queue.end()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()


def echo(feed: DataFeed) -> None:
    """Answers each row with its number."""
    while not feed.should_stop():
        feed.batch_results([row[0] for row in feed.next_batch(100)])


ANY_ROWS: list[Any] = [
    Row(age=1, of=Row(name="a")),
    (1, (Vectors.dense([1, 2]), {3, 4})),
    {"a": {"b": [1, 2.5, (None, True)]}},
    ["a", "b", b"c", bytearray(b"d"), Decimal("1.50"), date(2020, 1, 1), 2**70, np.float32(1.5)],
    [],
]


def test_any_rows_and_any_results_come_as_they_were(tmp_path: Path) -> None:
    taken: list[Any] = []

    def same(feed: DataFeed) -> None:
        while not feed.should_stop():
            rows = feed.next_batch(2)
            taken.extend(rows)
            feed.batch_results(rows)

    node = Node(tmp_path, same)
    answered = list(node.answers(iter(ANY_ROWS * 3)))
    for rows in (taken, answered):
        assert rows == ANY_ROWS * 3
        assert [repr(row) for row in rows] == [repr(row) for row in ANY_ROWS * 3]
    assert answered[0]["of"]["name"] == "a"
    node.end()


def counted(rows: Iterator[Any], most: list[int], answered: list[Any]) -> Iterator[Any]:
    """Yields rows; `most` keeps how many of them were under way without a result at most."""
    for given, row in enumerate(rows, 1):
        most[0] = max(most[0], given - len(answered))
        yield row


def test_results_come_while_rows_still_come_and_few_rows_are_under_way(tmp_path: Path) -> None:
    node, answered, most = Node(tmp_path, echo), list[int](), [0]
    rows = ((i, ROW) for i in range(ROWS))
    for answer in node.answers(counted(rows, most, answered)):
        answered.append(answer)
    assert answered == list(range(ROWS))
    assert most[0] < ROWS / 4, "a partition passes through the node, and is nowhere kept whole"
    node.end()


def test_results_that_nobody_reads_hold_the_function_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_feed, "_MOST_ANSWERS", 1000)
    most, taken = [0], list[int]()

    def large(feed: DataFeed) -> None:
        while not feed.should_stop():
            rows = feed.next_batch(100)
            taken.extend(row[0] for row in rows)
            feed.batch_results([(row[0], row[1]) for row in rows])

    node, read = Node(tmp_path, large), 0
    for _ in node.answers((i, ROW) for i in range(ROWS)):
        read += 1
        most[0] = max(most[0], len(taken) - read)
    assert read == ROWS
    assert most[0] < ROWS / 4
    node.end()


def test_the_results_of_two_partitions_may_be_read_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark's `zip` does; the second one's rows wait until the first one's have come."""
    monkeypatch.setattr(guest_feed, "_MOST_ANSWERS", 1000)
    node, half = Node(tmp_path, echo), ROWS // 2
    first = node.answers((i, ROW) for i in range(half))
    second = node.answers((half + i, ROW) for i in range(half))
    assert list(zip(first, second, strict=True)) == [(i, half + i) for i in range(half)]
    node.end()


def test_a_function_may_answer_once_it_has_all_rows_of_a_partition(tmp_path: Path) -> None:
    def late(feed: DataFeed) -> None:
        while not feed.should_stop():
            rows = feed.next_batch(ROWS)
            feed.batch_results([len(rows)] * len(rows))

    node = Node(tmp_path, late)
    assert list(node.answers((i, "") for i in range(5000))) == [5000] * 5000
    assert list(node.answers(iter([(1, ""), (2, "")]), split=1)) == [2, 2]
    node.end()


def test_whoever_has_enough_results_leaves_and_the_next_partition_has_its_own(tmp_path: Path) -> None:
    node, begun = Node(tmp_path, echo), 0
    with closing(node.answers((i, ROW) for i in itertools.count())) as endless:  # type: ignore[type-var]
        for begun in endless:
            if begun == 2000:
                break
    assert list(node.answers(iter([(-1, ""), (-2, "")]))) == [-1, -2]
    node.end()


def test_rows_that_cannot_be_sent_are_the_cause_and_the_next_partition_has_its_own(tmp_path: Path) -> None:
    node = Node(tmp_path, echo)
    rows = itertools.chain(((i, "") for i in range(5000)), [(1, object())])
    with pytest.raises(BadValueError, match="partition 3 of the RDD"):
        list(node.answers(rows, split=3))
    assert list(node.answers(iter([(7, "")]))) == [7]
    node.end()


def test_a_function_that_wants_no_more_rows_leaves_no_partition_half_answered_in_silence(tmp_path: Path) -> None:
    def few(feed: DataFeed) -> None:
        feed.batch_results([row[0] for row in feed.next_batch(100)])

    node = Node(tmp_path, few)
    with pytest.raises(NodeLostError, match="only 100 results came for 3000 rows, and the function takes no more rows"):
        list(node.answers((i, "") for i in range(3000)))
    node.end()
