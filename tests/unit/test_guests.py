"""The queue of guests' rows, and which node is what."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

import pytest

from sparktf.compat.tensorflowonspark.tf_cluster import cluster_template
from sparktf.compat.tensorflowonspark.tf_node import DataFeed, TFNodeContext, hdfs_path
from sparktf.errors import ConfigError
from sparktf.feed.channel.any_rows import rows_to_batch
from sparktf.feed.channel.guest_feed import BroughtRows, GuestQueue
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


def test_a_mapping_makes_tensors_of_the_columns() -> None:
    queue, _ = fed([(1, "a"), (2, "b")])
    queue.end()
    feed = DataFeed(queue, input_mapping={"b": "texts", "a": "numbers"})
    assert feed.next_batch(5) == {"numbers": [1, 2], "texts": ["a", "b"]}
    assert feed.next_batch(5) == {"numbers": [], "texts": []}
    with pytest.raises(RuntimeError, match="Spark feeds this node no rows"):
        DataFeed(None)


def test_nodes_have_names_as_there() -> None:
    assert cluster_template(4, 1, "chief", eval_node=True) == {"ps": [0], "chief": [1], "evaluator": [2], "worker": [3]}
    assert cluster_template(2, 0, None, eval_node=False) == {"worker": [0, 1]}
    assert cluster_template(1, 0, "master", eval_node=False) == {"master": [0]}
    for nodes, ps, master in ((1, 1, None), (1, 2, None), (1, 1, "chief"), (2, 0, "boss")):
        with pytest.raises(ConfigError):
            cluster_template(nodes, ps, master, eval_node=False)


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
