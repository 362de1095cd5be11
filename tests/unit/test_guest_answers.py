"""Results of rows that Spark feeds to a function: a real server of a node, and the generator that a Spark task runs."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import flight
from pyspark.ml.linalg import Vectors
from pyspark.sql import Row

from sparktf.compat.tensorflowonspark.tf_node import DataFeed
from sparktf.driver.gang.control_server import LocalControlServer
from sparktf.driver.gang.site import Handler
from sparktf.errors import BadValueError, ErrorRecord, ModelError, NodeLostError, SparkTFError, Verdict
from sparktf.executor.guest_feeder import GuestFeedSettings, answer_guests, feed_guests
from sparktf.feed.channel import brought_rows
from sparktf.feed.channel.client import connected
from sparktf.feed.channel.guest_feed import END, GuestServer
from sparktf.feed.channel.guest_queue import GuestQueue
from sparktf.wire.control import Action
from sparktf.wire.data import DataAddress
from sparktf.wire.flight import call_options
from sparktf.wire.guest import Deal, DealRequest, GuestCall, GuestPlace

SECRET = "secret"
BOUND_NBYTES = 1 << 20
ROW = "x" * 1000
ROWS = 100_000
WITHIN_S = 60

Function = Callable[[DataFeed], None]


class Node:
    """A node whose function answers rows, and its driver.

    Attributes:
        error: What its function has failed with, once `failed` is set.
        cause: What the driver says that has ended the nodes.
    """

    def __init__(self, folder: Path, function: Function, timeout_s: float = WITHIN_S) -> None:
        self.queue = GuestQueue(BOUND_NBYTES)
        self.queue.function = f"{function.__name__} on worker 0"
        self.queue.failed = self._fail
        self.error: SparkTFError | None = None
        self.failed = threading.Event()
        self.cause: ErrorRecord | None = None
        deal = Handler(DealRequest, lambda request: Deal(first=0, cause=self.cause))
        self.driver = LocalControlServer(str(folder), SECRET, {Action.DEAL: deal})
        server = GuestServer("127.0.0.1", None, folder, SECRET, None, self.queue)
        place = GuestPlace(number=0, host="h", jvm="j", data=server.address)
        self.settings = GuestFeedSettings(
            self.driver.access(),
            (place,),
            False,
            driver_lost_s=1.0,
            feed_timeout_s=timeout_s,
            cause_s=WITHIN_S,
            function=function.__name__,
        )
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self._thread.start()

    def _run(self, function: Function) -> None:
        try:
            function(DataFeed(self.queue, train_mode=False))
            self.queue.returned()
        except SparkTFError as error:
            self._fail(error)

    def _fail(self, error: SparkTFError) -> None:
        self.error = error
        self.failed.set()

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


def test_a_result_that_cannot_be_sent_back_fails_the_function_by_name_partition_and_row(tmp_path: Path) -> None:
    def odd(feed: DataFeed) -> None:
        while not feed.should_stop():
            feed.batch_results([{"at": open} if row[0] == 2500 else row for row in feed.next_batch(100)])

    node = Node(tmp_path, odd)
    row = "odd on worker 0 has given a result for row 2500 of partition 3 that cannot be sent back"
    said = rf"^{row}: a value of type \S+ at \['at'\]"
    with pytest.raises(ModelError, match=said):
        list(node.answers(((i, "") for i in range(5000)), split=3))
    node.end()
    assert str(node.error).startswith(row)


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


@pytest.mark.parametrize(("bound", "most_unsent"), [("MOST_ANSWERS", 1000), ("MOST_ANSWERS_NBYTES", 1000 * len(ROW))])
def test_results_that_nobody_reads_hold_the_function_up(
    bound: str, most_unsent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brought_rows, bound, most_unsent)
    most, taken = [0], list[int]()

    def large(feed: DataFeed) -> None:
        while not feed.should_stop():
            rows = feed.next_batch(100)
            taken.extend(row[0] for row in rows)
            feed.batch_results([(row[0], row[1]) for row in rows])

    node, read, rows = Node(tmp_path, large), 0, ROWS // 2
    for _ in node.answers((i, ROW) for i in range(rows)):
        read += 1
        most[0] = max(most[0], len(taken) - read)
    assert read == rows
    assert most[0] < rows / 4
    node.end()


def test_the_results_of_two_partitions_may_be_read_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark's `zip` does; the second one's rows wait until the first one's have come."""
    monkeypatch.setattr(brought_rows, "MOST_ANSWERS", 1000)
    node, half = Node(tmp_path, echo), ROWS // 10
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
    with pytest.raises(BadValueError, match=r"^row 5000 of partition 3 of the RDD, which echo gets: a value of type "):
        list(node.answers(rows, split=3))
    assert list(node.answers(iter([(7, "")]))) == [7]
    node.end()


def test_a_function_that_wants_no_more_rows_leaves_no_partition_half_answered_in_silence(tmp_path: Path) -> None:
    def few(feed: DataFeed) -> None:
        feed.batch_results([row[0] for row in feed.next_batch(100)])

    node = Node(tmp_path, few)
    said = r"^few on worker 0 returned with 100 results for the (first )?[23],[0-9]+ rows of partition 4: batch_results"
    with pytest.raises(ModelError, match=said):
        list(node.answers(((i, "") for i in range(3000)), split=4))
    node.end()
    assert str(node.error).startswith("few on worker 0 returned with 100 results")


def full_batches(feed: DataFeed) -> None:
    """Leaves the shorter batch at a partition's end out."""
    while not feed.should_stop():
        batch = feed.next_batch(10)
        if len(batch) == 10:
            feed.batch_results([2 * row[0] for row in batch])


def test_results_that_are_left_out_fail_the_function_and_no_partition_gets_those_of_another(tmp_path: Path) -> None:
    node = Node(tmp_path, full_batches)
    parts, ends = {7: range(1000, 1025), 8: range(2000, 2010), 9: range(3000, 3025)}, dict[int, str]()
    got: dict[int, list[Any]] = {split: [] for split in parts}

    def ask(split: int) -> None:
        try:
            for answer in node.answers(((i, "") for i in parts[split]), split):
                got[split].append(answer)
        except ModelError as error:
            ends[split] = str(error)

    tasks = [threading.Thread(target=ask, args=(split,), daemon=True) for split in parts]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join(WITHIN_S)
        assert not task.is_alive()
    for split, answers in got.items():
        assert answers == [2 * i for i in parts[split]][: len(answers)]
    assert ends
    assert set(ends) | {8} == set(parts), "only a partition of full batches may be answered"
    assert len(set(ends.values())) == 1
    # The first ones, until the node has heard that there are no others.
    said = r"full_batches on worker 0 has given 20 results for the (first )?25 rows of partition [79]"
    assert re.match(said, str(node.error))
    assert "and asks for more rows: batch_results() needs one result for each row" in str(node.error)
    node.end()


@pytest.mark.parametrize("wants_answers", [True, False])
def test_a_function_that_takes_nothing_is_late_for_whoever_feeds_it(*, wants_answers: bool, tmp_path: Path) -> None:
    over = threading.Event()

    def idle(feed: DataFeed) -> None:
        over.wait(WITHIN_S)

    node = Node(tmp_path, idle, timeout_s=0.2)
    done = "given 0 results for the (first )?2 rows" if wants_answers else "taken 0 of the 2 rows"
    none = "has neither taken rows nor given results" if wants_answers else "none"
    said = f"^idle on worker 0 has {done} of partition 5, and {none} within 0.2 s"
    rows = [(1, ""), (2, "")]
    with pytest.raises(ModelError, match=said):
        list(node.answers(iter(rows), 5)) if wants_answers else feed_guests(5, rows, node.settings)
    over.set()
    node.end()
    assert str(node.error).startswith("idle on worker 0 has")


@pytest.mark.parametrize(
    ("batches", "call", "late"),
    [
        (1, GuestCall(feed_timeout_s=0.2), "asked for more rows within 0.2 s (feed_timeout) of their end"),
        (2, GuestCall(after_feed_s=0.2), "returned within 0.2 s (spark.sparktf.timeouts.after_feed) of its rows' end"),
    ],
)
def test_a_function_that_stays_before_or_after_the_end_of_its_rows_is_late(
    batches: int, call: GuestCall, late: str, tmp_path: Path
) -> None:
    over = threading.Event()

    def stays(feed: DataFeed) -> None:
        for _ in range(batches):
            feed.batch_results([row[0] for row in feed.next_batch(2)])
        over.wait(WITHIN_S)

    node = Node(tmp_path, stays)
    assert list(node.answers(iter([(1, ""), (2, "")]))) == [1, 2]
    with connected(node.settings.places[0].data, None) as (client, _):
        list(client.do_action(flight.Action(END, call.model_dump_json().encode()), call_options(SECRET, WITHIN_S)))
    assert node.failed.wait(WITHIN_S)
    assert str(node.error).startswith(f"stays on worker 0 has not {late}")
    over.set()
    node.end()


def test_of_a_node_that_does_not_answer_the_driver_knows_what_became(tmp_path: Path) -> None:
    """As of a host that is gone, which does not even close its connections."""
    over, begun = threading.Event(), threading.Event()

    def idle(feed: DataFeed) -> None:
        feed.next_batch(1)
        begun.set()
        over.wait(WITHIN_S)

    node = Node(tmp_path, idle)
    results = node.answers(iter([(1, ""), (2, "")]), 5)
    found: list[Exception] = []

    def ask() -> None:
        try:
            next(results)
        except NodeLostError as error:
            found.append(error)

    task = threading.Thread(target=ask, daemon=True)
    task.start()
    assert begun.wait(WITHIN_S)
    message = "worker 0 on h lost its agent: its executor is gone"
    node.cause = ErrorRecord(type="NodeLostError", message=message, verdict=Verdict.INFRASTRUCTURE, time_s=1.0)
    task.join(WITHIN_S)
    assert [str(error) for error in found] == [message]
    over.set()
    node.end()


def test_rows_of_a_cluster_that_has_ended_are_not_waited_for(tmp_path: Path) -> None:
    node = Node(tmp_path, echo)
    node.driver.withdraw()
    node.driver.shutdown()
    (place,) = node.settings.places
    gone = place.model_copy(update={"data": DataAddress(host="h", socket=str(tmp_path / "gone" / "data"), location="")})
    settings = replace(node.settings, places=(gone,))
    with pytest.raises(NodeLostError, match=r"^the cluster has ended: collect what inference\(\) returns before"):
        list(answer_guests(0, iter([(1, "")]), settings))
    node.end()
