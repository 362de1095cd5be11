"""The queue of guests' rows, and which node is what."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from pretend import PretendClock

from sparktf.compat.guest_settings import check_guest_slots, guest_timeouts
from sparktf.compat.guests import told_of
from sparktf.compat.tensorflowonspark.tf_checks import (
    check_count,
    check_main,
    check_mode,
    cluster_template,
    context_of,
    rdd_of,
)
from sparktf.compat.tensorflowonspark.tf_node import DataFeed, TFNodeContext, hdfs_path
from sparktf.driver.spark.masters import master_of
from sparktf.errors import ConfigError, ModelError, PreflightError
from sparktf.feed.channel.any_rows import rows_to_batch
from sparktf.feed.channel.brought_rows import BroughtRows, Hands
from sparktf.feed.channel.guest_queue import GuestQueue
from sparktf.trainer.main_place import main_place
from sparktf.wire.guest import GuestNode


def fed(*parts: list[Any], answers: bool = False) -> tuple[GuestQueue, list[BroughtRows]]:
    queue, streams = GuestQueue(1 << 20), []
    for part in parts:
        stream = BroughtRows(wants_answers=answers)
        with queue.answered(stream) if answers else nullcontext():
            queue.put(rows_to_batch(part), stream)
        streams.append(stream)
    return queue, streams


def test_batches_go_across_partitions_until_the_end() -> None:
    queue, streams = fed([1, 2, 3], [4], [5, 6])
    queue.end()
    feed = DataFeed(queue)
    assert [feed.next_batch(2), feed.next_batch(3)] == [[1, 2], [3, 4, 5]]
    assert not feed.should_stop()
    assert feed.next_batch(9) == [6]
    assert feed.should_stop()
    assert feed.next_batch(9) == []
    assert [stream.left for stream in streams] == [0, 0, 0]


def test_where_results_are_wanted_a_batch_ends_with_its_partition() -> None:
    queue, streams = fed([1, 2, 3], [4, 5], answers=True)
    feed = DataFeed(queue)
    assert [feed.next_batch(2), feed.next_batch(2)] == [[1, 2], [3]]
    feed.batch_results([10, 20, 30])
    assert feed.next_batch(5) == [4, 5]
    feed.batch_results([40, 50])
    assert [stream.answers for stream in streams] == [[10, 20, 30], [40, 50]]
    with pytest.raises(ValueError, match="there are 1 more results than rows"):
        feed.batch_results([60])


def test_whoever_brings_more_than_there_is_room_for_waits_until_rows_are_taken_or_unwanted() -> None:
    queue, stream = GuestQueue(1), BroughtRows()
    batch = rows_to_batch([1, 2])
    queue.put(batch, stream)
    done = threading.Event()

    def bring() -> None:
        queue.put(batch, stream)
        queue.wait_taken(stream)
        done.set()

    thread = threading.Thread(target=bring)
    thread.start()
    assert queue.take(3) == [1, 2, 1]
    assert not done.is_set()
    DataFeed(queue).terminate()
    thread.join(10)
    assert done.is_set()
    queue.put(batch, stream)
    assert queue.take(1) == [2]
    assert queue.take(1) == []


def test_results_may_come_from_another_thread_and_the_next_partition_waits_for_them() -> None:
    queue, streams = fed([1, 2, 3], [4], answers=True)
    assert queue.take(5) == [1, 2, 3]
    taken = list[Any]()
    taker = threading.Thread(target=lambda: taken.extend(queue.take(5)))
    taker.start()
    queue.answer([10, 20])
    assert not taken
    queue.answer([30])
    taker.join(10)
    assert taken == [4]
    assert [stream.answers for stream in streams] == [[10, 20, 30], []]


@pytest.mark.parametrize(
    ("takers", "givers", "others", "left_out"),
    [
        ({1}, {1}, True, True),
        ({1}, set(), False, True),
        ({1}, set(), True, False),
        ({1}, {2}, False, False),
        ({1, 2}, {1, 2}, False, False),
    ],
)
def test_results_that_are_missing_never_come_where_one_thread_does_all(
    takers: set[int], givers: set[int], *, others: bool, left_out: bool
) -> None:
    assert Hands(takers, givers).leaves_out(1, others=others) is left_out


def test_a_function_has_its_time_from_when_it_has_moved_or_first_has_something_to_do() -> None:
    stream = BroughtRows(limit_s=10.0, since_s=5.0)
    assert stream.due_in_s(moved_s=0.0, now_s=99.0) == math.inf, "there is nothing to do"
    stream.left = 1
    assert [stream.due_in_s(moved_s, now_s=12.0) for moved_s in (0.0, 7.0)] == [3.0, 5.0]


def test_rows_of_a_caller_that_has_gone_owe_nothing_to_a_function_that_leaves_some_out() -> None:
    queue, streams = fed([1, 2, 3], [4, 5], answers=True)
    queue.others = lambda: False
    assert queue.take(5) == [1, 2, 3]
    queue.forget(streams[0])
    assert queue.take(5) == [4, 5]
    queue.answer([40, 50])
    queue.returned()
    assert [stream.answers for stream in streams] == [[], [40, 50]]


def test_a_failure_of_the_function_is_raised_by_whatever_it_does_next() -> None:
    queue, _ = fed([1, 2, 3], answers=True)
    queue.others, queue.function = lambda: False, "main on worker 0"
    assert queue.take(5) == [1, 2, 3]
    for call in (lambda: queue.take(5), lambda: queue.answer([1]), queue.returned):
        with pytest.raises(ModelError, match=r"^main on worker 0 has given 0 results for the 3 rows of a partition"):
            call()
        assert DataFeed(queue).should_stop(), "a loop that catches everything ends"


def test_rows_that_are_left_by_a_feeder_that_died_hold_nobody_up_for_ever() -> None:
    clock = PretendClock()
    queue, batch = GuestQueue(1, clock), rows_to_batch([1, 2])
    queue.put(batch, BroughtRows())
    late = list[Exception]()
    queue.failed = late.append
    with pytest.raises(ModelError, match=r"^the function has taken 0 of the first 2 rows of partition 3, and none"):
        queue.put(batch, BroughtRows(partition=3, limit_s=60.0))
    assert 60 <= clock.now_s() < 62
    assert len(late) == 1


@pytest.mark.parametrize(
    ("habit", "late_s"),
    [("never reads", 60), ("has all rows", 70), ("wants no more", 60), ("reads on", 60), ("serves", 0), ("returns", 0)],
)
def test_a_function_that_does_not_return_after_the_end_of_its_rows_is_late(habit: str, late_s: int) -> None:
    clock, late = PretendClock(), list[tuple[float, str]]()
    queue = GuestQueue(1 << 20, clock)
    queue.failed = lambda error: late.append((clock.now_s(), str(error)))
    queue.place, queue.serves = lambda: "; it is at line 3", lambda: habit == "serves"
    if habit != "never reads":
        queue.put(rows_to_batch([1, 2]), BroughtRows())
        assert queue.take(2) == [1, 2]
    if habit == "wants no more":
        queue.terminate()
    if habit == "returns":
        queue.returned()
    queue.end(20.0, 60.0)
    for second in range(1, 100):
        if not late and ((habit == "has all rows" and second > 10) or habit in {"reads on", "serves"}):
            assert queue.take(2) == []
        clock.advance(1.0)
    said = "the function has not returned within 60 s (spark.sparktf.timeouts.after_feed) of its rows' end"
    assert late == ([(late_s + 1, f"{said}; it is at line 3")] if late_s else [])


def test_the_users_own_line_is_named_where_a_function_is_in_a_call_of_a_library() -> None:
    places = list[str]()
    thread = threading.Thread(target=lambda: places.append(main_place()))
    thread.start()
    thread.join()
    (place,) = places
    assert re.fullmatch(r"; it is at line \d+ of test_guests.py, in test_the_users_own_line_is_named_.*", place)


def test_a_mapping_makes_tensors_of_the_columns() -> None:
    queue, _ = fed([(1, "a"), (2, "b")])
    queue.end()
    feed = DataFeed(queue, input_mapping={"b": "texts", "a": "numbers"})
    assert feed.next_batch(5) == {"numbers": [1, 2], "texts": ["a", "b"]}
    assert feed.next_batch(5) == {"numbers": [], "texts": []}
    with pytest.raises(RuntimeError, match="Spark feeds this node no rows"):
        DataFeed(None)


@pytest.mark.parametrize(
    ("master", "cores", "task_cpus", "nodes", "said"),
    [
        ("local[2]", 1, 1, 2, ""),
        ("local[4]", 1, 2, 2, ""),
        ("yarn", 1, 1, 99, ""),
        ("local[2]", 1, 1, 3, "3 nodes need as many slots, but local[2] has 2: use --master 'local[3]'; or lower n"),
        (
            "local[4]",
            1,
            2,
            3,
            "3 nodes need as many slots of spark.task.cpus=2 each, but local[4] has 2: use --master '",
        ),
        ("local-cluster[2,1,9]", 1, 1, 3, "has 2: use --master 'local-cluster[3,1,...]'; or lower n"),
    ],
)
def test_more_nodes_than_slots_are_refused(master: str, cores: int, task_cpus: int, nodes: int, said: str) -> None:
    slots = master_of(master).slots(cores)
    with pytest.raises(PreflightError, match=re.escape(said)) if said else nullcontext():
        check_guest_slots(slots, task_cpus, nodes, "n")


def test_time_limits_are_settings_of_spark() -> None:
    conf = {"spark.app.name": "x", "spark.sparktf.timeouts.heartbeat": "60", "spark.sparktf.timeouts.stop": "1.5"}
    found = guest_timeouts(conf)
    assert (found.nodes.heartbeat, found.nodes.stop, found.nodes.start) == (60.0, 1.5, 180.0)
    assert found.after_feed_s == 3600.0
    assert guest_timeouts({"spark.sparktf.timeouts.after_feed": "60"}).after_feed_s == 60.0
    for key, value in (("heartbeat", "1m"), ("after_feed", "-1"), ("stop", "nan"), ("start", "inf"), ("reserve", "5")):
        with pytest.raises(ConfigError, match=f"^spark.sparktf.timeouts.{key} "):
            guest_timeouts({f"spark.sparktf.timeouts.{key}": value})


def test_nodes_have_names_as_there() -> None:
    assert cluster_template(4, 1, "chief", eval_node=True) == {"ps": [0], "chief": [1], "evaluator": [2], "worker": [3]}
    assert cluster_template(2, 0, None, eval_node=False) == {"worker": [0, 1]}
    assert cluster_template(1, 0, "master", eval_node=False) == {"master": [0]}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: cluster_template(1, 1, None, eval_node=False),
            "num_executors=1 is too few: 1 ps + 1 worker are 2 nodes",
        ),
        (
            lambda: cluster_template(2, 1, "chief", eval_node=True),
            "num_executors=2 is too few: 1 ps + 1 chief + 1 evaluator are 3 nodes, all of which it counts",
        ),
        (
            lambda: cluster_template(2, 0, "boss", eval_node=False),
            "master_node must be 'chief', 'master' or None, not 'b",
        ),
        (
            lambda: check_count("num_executors", "3", 1),
            "num_executors must be a whole number, not '3': argp",
        ),
        (lambda: cluster_template(3, -1, None, eval_node=False), "num_ps must be 0 or more, not -1"),
        (
            lambda: check_mode("SPARK"),
            "input_mode must be InputMode.TENSORFLOW (0) or InputMode.SPARK (1), not 'SPARK'",
        ),
        (
            lambda: check_main({}),
            "map_fun must be a function of (args, ctx), not dict: it comes before tf_args",
        ),
        (lambda: context_of("local"), "sc must be a SparkContext, or a SparkSession, not str"),
        (
            lambda: rdd_of([1], "train"),
            "TFCluster.train() takes an RDD, a DataFrame or a DStream, not list: sc.paralleli",
        ),
    ],
)
def test_what_is_no_argument_is_refused_with_what_to_write(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}"):
        call()


@pytest.mark.parametrize(
    ("default_fs", "path", "found"),
    [
        ("hdfs://nn:8020", "/data/x", "hdfs://nn:8020/data/x"),
        ("hdfs://nn:8020", "s3a://b/x", "s3a://b/x"),
        ("file://", "/data/x", "file:///data/x"),
        ("file://", "x", "file:///work/here/x"),
        ("s3a://bucket", "x", "s3a://bucket/x"),
    ],
)
def test_paths_are_those_of_the_default_file_system(default_fs: str, path: str, found: str) -> None:
    cluster = {"chief": ("a:1",), "worker": ("b:2", "c:3"), "ps": ("d:4",)}
    node = GuestNode(
        number=3, job="worker", index=1, cluster=cluster, default_fs=default_fs, working_dir="/work/here", is_fed=True
    )
    ctx = TFNodeContext.of(node, None)
    assert (ctx.num_workers, ctx.worker_num, ctx.cluster_spec["worker"]) == (3, 3, ["b:2", "c:3"])
    assert hdfs_path(ctx, path) == ctx.absolute_path(path) == found


def test_a_node_is_told_by_the_address_that_others_reach_it_at() -> None:
    cluster: dict[str, tuple[str, ...]] = {"ps": ("10.1.0.7:2222",), "worker": ("10.1.0.8:2223",)}
    nodes = [
        GuestNode(number=n, job=job, index=0, cluster=cluster, default_fs="", working_dir="/", is_fed=False)
        for n, job in ((1, "worker"), (0, "ps"))
    ]
    told = [(node["executor_id"], node["job_name"], node["host"], node["port"]) for node in told_of(nodes)]
    assert told == [(0, "ps", "10.1.0.7", 2222), (1, "worker", "10.1.0.8", 2223)]
