"""Data goes to the nodes beside it, and stays balanced: row groups, shuffle blocks and assignments against hosts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from lakes import lake_config, no_filter, placed, write_lake

from sparktf.driver.gang.placement import Request, apart, ask_beside, best_hosts, best_nodes, near, request_for, seats
from sparktf.driver.plan.locality import NO_HOST, FileBlock, Hosts
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.planner import plan_source
from sparktf.driver.plan.stored_plan import load_plan, save_plan
from sparktf.driver.source.hdfs_blocks import parse_blocks
from sparktf.sequence import Assignment, Stream, remaining
from sparktf.storage.file_systems import open_storage

TRAIN = Stream.TRAIN
MIB = 1 << 20


def deal(plan: Plan, nodes: Sequence[str], *, rebalance: bool = True, locality: bool = True) -> list[Assignment]:
    whole = [(0, plan.rows(TRAIN))]
    return list(plan.assignments(TRAIN, 0, whole, nodes, rebalance=rebalance, locality=locality))


def local_share(parts: Sequence[Assignment]) -> float:
    """Returns the share of the bytes that are read beside their data."""
    splits = [split for part in parts for piece in part.pieces for split in piece.splits]
    return sum(split.local_nbytes for split in splits) / sum(split.nbytes for split in splits)


def assert_every_row_once(plan: Plan, parts: Sequence[Assignment]) -> None:
    done = [interval for part in parts for interval in part.intervals]
    assert remaining(plan.rows(TRAIN), done) == []


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Counts the calls of functions, those written in C too."""
    count = [0]

    def note(frame: object, event: str, arg: object) -> None:
        del frame, arg
        count[0] += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        yield count
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("seed", range(5))
def test_three_of_four_hosts_read_nearly_all_of_their_rows_at_home(seed: int) -> None:
    plan = placed(hosts=4, replication=2, groups=150, seed=seed)
    nodes = [f"n{i}.example.org" for i in range(3)]
    parts = deal(plan, nodes)
    rows = [part.rows for part in parts]
    assert max(rows) - min(rows) <= 1
    assert_every_row_once(plan, parts)
    assert local_share(parts) >= 0.9
    assert 0.3 < local_share(deal(plan, nodes, locality=False)) < 0.7


def test_a_large_cluster_reads_at_home() -> None:
    plan = placed(hosts=300, replication=3, groups=20_000)
    nodes = [f"n{i}.example.org" for i in range(0, 300, 2)]
    parts = deal(plan, nodes)
    assert_every_row_once(plan, parts)
    rows = [part.rows for part in parts]
    assert max(rows) - min(rows) <= 1
    assert local_share(parts) > 0.8
    assert local_share(deal(plan, nodes, locality=False)) < 0.05


def test_dealing_takes_so_many_calls_for_each_block_whatever_the_number_of_nodes() -> None:
    plan = placed(hosts=200, replication=3, groups=20_000)
    blocks = len(plan.block_rows(TRAIN))
    whole = [(0, plan.rows(TRAIN))]
    for nodes in (2, 200):
        for rebalance in (True, False):
            with counted_calls() as count:
                hosts = [f"n{i}.example.org" for i in range(nodes)]
                parts = plan.assignments(TRAIN, 0, whole, hosts, rebalance=rebalance)
            assert count[0] < 20 * blocks + 100 * nodes
    with counted_calls() as count:
        mine = sum(len(piece.splits) for piece in parts[7].pieces)
    assert count[0] < 20 * mine + 1_000  # its own part is made, and no other one


def test_whole_blocks_stay_whole_and_near_balance() -> None:
    plan = placed(hosts=4, replication=2, groups=600)
    parts = deal(plan, [f"n{i}.example.org" for i in range(4)], rebalance=False)
    assert_every_row_once(plan, parts)
    blocks = plan.block_rows(TRAIN)
    assert all(piece.rows == blocks[piece.block] for part in parts for piece in part.pieces)
    rows = [part.rows for part in parts]
    assert max(rows) - min(rows) <= 2 * 131_072
    assert local_share(parts) >= 0.9


def test_data_on_one_host_is_shared_all_the_same() -> None:
    plan = placed(hosts=1, replication=1, groups=100)
    parts = deal(plan, ["n0.example.org", "n1.example.org"])
    assert [part.rows for part in parts] == [1_000_000, 1_000_000]
    assert local_share(parts) == pytest.approx(0.5, abs=0.05)


def test_two_nodes_on_one_host_share_what_lies_there() -> None:
    plan = placed(hosts=2, replication=1, groups=400)
    parts = deal(plan, ["n0.example.org", "n0.example.org", "n1.example.org", "n1.example.org"])
    assert local_share(parts) > 0.9


def test_short_names_are_the_same_hosts() -> None:
    plan = placed(hosts=3, replication=1, groups=30)
    numbers = [plan.host_number(name) for name in ("n1.example.org", "n1", "N1.EXAMPLE.ORG", "n1.elsewhere.org", "n7")]
    assert numbers[0] != NO_HOST
    assert numbers == [numbers[0]] * 4 + [NO_HOST]


def test_a_row_group_over_two_blocks_is_partly_on_each_ones_hosts() -> None:
    blocks = [FileBlock(0, 100, ("a", "b")), FileBlock(100, 100, ("b", "c"))]
    hosts = Hosts(("/f",), {"/f": blocks})
    ints = [np.array([value]) for value in (0, 80, 120, 40)]
    replicas = hosts.replicas(*ints)
    held = {hosts.names[h]: n for h, n in zip(replicas.host[0], replicas.nbytes[0], strict=True)}
    assert held == {"a": 20, "b": 40, "c": 20}


def test_a_plan_keeps_where_its_data_lies(tmp_path: Path) -> None:
    write_lake(tmp_path / "lake", [40, 40, 40])

    def locate(files: Sequence[str]) -> Mapping[str, Sequence[FileBlock]]:
        return {file: [FileBlock(0, 1 << 30, (f"h{i % 2}", "h2"))] for i, file in enumerate(files[:2])}

    storage = open_storage("/")
    plan = plan_source(lake_config(tmp_path / "lake"), open_storage, no_filter, locate)
    save_plan(plan, storage, str(tmp_path / "plan"))
    loaded = load_plan(storage, str(tmp_path / "plan"))
    assert loaded == plan
    assert set(loaded.hosts) == {"h0", "h1", "h2"}
    assert local_share(deal(loaded, ["h2"])) == pytest.approx(2 / 3, abs=0.01)
    assert deal(loaded, ["h0", "h1"]) == deal(plan, ["h0", "h1"])


def test_hosts_are_asked_for_so_that_together_they_hold_everything() -> None:
    held = {"a": {0: 100, 1: 90}, "b": {0: 100, 1: 80}, "c": {2: 50}, "d": {2: 40}}
    assert best_hosts(held, 2, []) == ["a", "c"]
    assert best_hosts(held, 1, ["c"]) == ["a"]
    assert best_hosts(held, 5, [])[:4] == ["a", "c", "b", "d"]
    assert best_hosts({}, 2, []) == []
    assert best_hosts({"a": {0: 1}}, 3, ["b"]) == ["a", "a", "a"]


def test_an_executor_far_from_the_data_gets_a_spare_beside_it() -> None:
    held = {"a": {0: 100}, "b": {1: 100}, "c": {1: 100}}
    assert request_for(held, 2, 2, ["a"]) == Request(2, ("b",))
    assert request_for(held, 2, 2, ["x"]) == Request(3, ("a", "b"))
    assert request_for(held, 2, 2, ["a", "b"]) == Request(2, ())
    assert request_for({}, 3, 3, ["x"]) == Request(3, ())


def test_only_those_who_read_data_are_wanted_beside_it() -> None:
    held = {"a": {0: 100}, "b": {1: 100}, "c": {1: 10}}
    assert request_for(held, 5, 2, ["x"]) == Request(5, ("a", "b"))
    assert request_for(held, 5, 2, ["x", "y"]) == Request(5, ("a", "b"))
    assert request_for(held, 4, 2, ["x", "a", "b", "y"]) == Request(4, ())
    assert request_for(held, 4, 2, ["x", "a", "y", "z"]) == Request(5, ("b",)), "one more than it takes"
    assert request_for({}, 4, 2, ["x"]) == Request(4, ())


@pytest.mark.parametrize(
    ("came", "asked", "total"),
    [
        (["a", "b"], [Request(2, ("b",))], 2),
        # YARN passed over b, whose heartbeat was late.
        (["a", "a"], [Request(2, ("b",)), Request(3, ("b",))], 3),
        (["a", "x"], [Request(2, ("b",)), Request(3, ("b",))], 3),
        # The cluster is full.
        (["a"], [Request(2, ("b",))], 2),
    ],
)
def test_executors_that_came_far_from_the_data_are_asked_for_once_more(
    came: list[str], asked: list[Request], total: int
) -> None:
    lies = {"a": {0: 100}, "b": {1: 100}, "c": {1: 90}}
    requests: list[Request] = []
    awaited: list[int] = []

    def held(count: int) -> list[str]:
        awaited.append(count)
        return came if count else ["a"]

    assert ask_beside(lies, 2, 2, held, requests.append) == total
    assert awaited == [0, 2], "nobody waits for what was asked for last: the gang does"
    assert requests == asked


def test_a_host_that_holds_little_is_far_from_the_data_although_the_others_hold_all() -> None:
    held = {"a": {0: 100, 1: 90}, "b": {0: 100, 2: 90}, "c": {1: 90, 2: 90, 3: 10}, "little": {3: 10}}
    assert near(held, ["a", "b", "c"]) == pytest.approx(290)
    assert near(held, ["a", "b", "little"]) == pytest.approx(2 * 290 / 3 + 10)
    assert near(held, ["a", "a", "b"]) == pytest.approx(280)
    assert near(held, []) == near({}, ["a"]) == 0
    assert request_for(held, 3, 3, ["little", "a", "b"]) == Request(4, ("c",))
    assert best_nodes(held, ["little", "a", "b", "c"], 3) == [1, 2, 3]


def test_of_the_nodes_that_came_those_beside_the_data_are_kept() -> None:
    held = {"a": {0: 100, 1: 100}, "b": {0: 100}, "c": {1: 100, 2: 50}}
    assert best_nodes(held, ["x", "b", "a", "c"], 2) == [2, 3]
    assert best_nodes(held, ["a", "a", "c"], 2) == [0, 2]
    assert best_nodes(held, ["a"], 2) == [0]
    assert best_nodes({}, ["x", "y", "z"], 2) == [0, 1]


def test_nodes_that_take_much_of_a_host_lie_apart() -> None:
    assert apart(["a", "b", "c", "c"], ["a", "b"], 1) == [2]
    assert apart(["a", "b", "c", "c"], ["a", "b"], 2) == [2, 0]
    assert apart(["a", "a", "b"], [], 2) == [0, 2]
    assert apart(["a"], [], 3) == [0]


def test_a_plan_says_what_each_host_holds() -> None:
    plan = placed(hosts=3, replication=2, groups=300)
    held = plan.host_nbytes()
    assert sorted(held) == ["n0.example.org", "n1.example.org", "n2.example.org"]
    assert sum(sum(groups.values()) for groups in held.values()) == 2 * plan.nbytes(TRAIN)
    assert len({group for groups in held.values() for group in groups}) == 3


def test_nodes_take_the_seats_of_their_hosts() -> None:
    assert seats(["a", "b", "c"], ("c", "a", "b")) == [2, 0, 1]
    assert seats(["a", "a", "x"], ("c", "a", "a")) == [2, 0, 1]
    assert seats(["x", "y"], ("a", "b")) == [0, 1]


def test_printed_blocks_are_read() -> None:
    printed = "{0,4194304,h1.test,10.0.0.2,4194304,100,h3.test(corrupt)}"
    assert parse_blocks(printed) == [
        FileBlock(0, 4194304, ("h1.test", "10.0.0.2")),
        FileBlock(4194304, 100, ("h3.test",)),
    ]
    assert parse_blocks("{}") == []
    assert parse_blocks("{0,7}") == [FileBlock(0, 7, ())]
