"""Sums, gathers and copies over the members of a gang: what each gets, how much each sends, and what ends a wait."""

from __future__ import annotations

import math
import threading
import tracemalloc
from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from exchanges import linked
from hypothesis import given, settings
from hypothesis import strategies as st

from sparktf.errors import ExchangeError, PeerLostError
from sparktf.trainer.sync.exchange.frames import HEADER_NBYTES, Frame, OperationKind
from sparktf.trainer.sync.exchange.link import Awaited, Link
from sparktf.trainer.sync.exchange.linked import PACKED_NBYTES, LinkedExchange, partners
from sparktf.trainer.sync.exchange.transfer import SMALL_NBYTES

TYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int32, np.int64)
MEMBERS = st.integers(1, 9)


def drawn(seed: int, rank: int, shapes: list[tuple[int, ...]], kind: Any) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng((seed, rank))
    return [rng.integers(-8, 9, shape).astype(kind) for shape in shapes]


@settings(max_examples=15, deadline=None)
@given(
    members=MEMBERS,
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(TYPES),
    shapes=st.lists(st.lists(st.integers(0, 5), max_size=3).map(tuple), min_size=1, max_size=4),
    large=st.one_of(st.integers(0, 3 * SMALL_NBYTES), st.just(PACKED_NBYTES + 1)),
)
def test_a_sum_is_that_of_all_members_whatever_their_number_and_the_arrays(
    members: int, seed: int, kind: Any, shapes: list[tuple[int, ...]], large: int
) -> None:
    every = [*shapes, (large,)]
    given_ = [drawn(seed, rank, every, kind) for rank in range(members)]  # whole numbers: their sums are exact
    with linked(members) as gang:
        found = gang.each(lambda member: member.sum(given_[member.rank]))
    expected = [np.sum([arrays[i].astype(np.float64) for arrays in given_], axis=0) for i in range(len(every))]
    for sums in found:
        assert [(array.dtype, array.shape) for array in sums] == [(np.dtype(kind), shape) for shape in every]
        for array, value in zip(sums, expected, strict=True):
            np.testing.assert_array_equal(array.astype(np.float64), value)
            assert not array.size or array.ctypes.data % 64 == 0, "TensorFlow would copy it"


@pytest.mark.parametrize("members", [2, 3, 5, 8])
@pytest.mark.parametrize("size", [1_000, 100_003])
def test_all_members_hold_the_same_bits_and_the_same_again(members: int, size: int) -> None:
    rng = np.random.default_rng(size)
    given_ = rng.normal(size=(members, size)).astype(np.float32)
    found = []
    for _ in range(2):
        with linked(members) as gang:
            found += gang.each(lambda member: member.sum([given_[member.rank]])[0].tobytes())
    assert len(set(found)) == 1


def test_gradients_that_are_not_finite_are_summed_without_a_word() -> None:
    given_ = [np.array([np.inf, 6e4, 1.0], np.float16), np.array([-np.inf, 6e4, np.nan], np.float16)]
    with linked(2) as gang:
        for (found,) in gang.each(lambda member: member.sum([given_[member.rank]])):
            np.testing.assert_array_equal(found, np.array([np.nan, np.inf, np.nan], np.float16))


@settings(max_examples=15, deadline=None)
@given(members=MEMBERS, seed=st.integers(0, 2**32), data=st.data())
def test_arrays_of_any_length_are_gathered_by_rank(members: int, seed: int, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(0, 4_000), min_size=members, max_size=members))
    given_ = [drawn(seed, rank, [(length, 3)], np.float32)[0] for rank, length in enumerate(lengths)]
    with linked(members) as gang:
        for found in gang.each(lambda member: member.gather(given_[member.rank])):
            assert len(found) == members
            for array, expected in zip(found, given_, strict=True):
                np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(("members", "leader"), [(1, 0), (2, 1), (5, 3)])
def test_all_get_what_the_leader_has(members: int, leader: int) -> None:
    shapes = [(700_000,), (), (0, 2), (3, 3)]
    theirs = drawn(1, leader, shapes, np.float32)
    with linked(members, leader=leader) as gang:
        found = gang.each(
            lambda member: member.from_leader(theirs if member.leads else drawn(2, member.rank, shapes, np.float32))
        )
    for arrays in found:
        for array, expected in zip(arrays, theirs, strict=True):
            np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    "origins",
    [[0, 0], [2, 1, 2], [3, 3, 3, 3], [3, 1, 1, 3, 3, 3], [0, 1, 1, 3, 3]],
    ids=lambda origins: "".join(map(str, origins)),
)
def test_those_who_have_nothing_get_what_the_next_one_before_them_has_and_the_others_keep_theirs(
    origins: list[int],
) -> None:
    """`origins` has for each member whose values it holds in the end."""
    shapes = [(700_000,), (), (0, 2), (3, 3)]
    takers = {rank for rank, origin in enumerate(origins) if origin != rank}
    held = [drawn(5, rank, shapes, np.float32) for rank in range(len(origins))]
    before = [[array.copy() for array in arrays] for arrays in held]
    with linked(len(origins)) as gang:
        assert gang.each(lambda member: member.fill(held[member.rank], takers)) == [[]] * len(origins)
    for arrays, origin in zip(held, origins, strict=True):
        for array, expected in zip(arrays, before[origin], strict=True):
            np.testing.assert_array_equal(array, expected)


def test_operations_of_all_kinds_follow_each_other() -> None:
    with linked(3) as gang:

        def work(member: LinkedExchange) -> list[float]:
            told = []
            for i in range(20):
                told.append(float(member.sum([np.full(1 + i * 4_000, member.rank, np.float32)])[0][0]))
                told.append(float(member.gather(np.full(i, member.rank))[-1].sum()))
                told.append(float(member.from_leader([np.array(10.0 * member.rank)])[0]))
            return told

        assert gang.each(work) == [[x for i in range(20) for x in (3.0, 2.0 * i, 0.0)]] * 3


def test_results_stay_while_they_or_parts_of_them_are_held() -> None:
    with linked(2) as gang:

        def work(member: LinkedExchange) -> None:
            held = []
            for i in range(6):
                small, large = member.sum([np.full(100, i, np.float32), np.full(400_000, i, np.float32)])
                held.append((small[50:60], large.reshape(400, -1)[7:].view(np.int32)) if i % 2 else (small, large))
            for i, results in enumerate(held):
                assert [np.unique(result.view(np.float32)).tolist() for result in results] == [[2 * i]] * 2

        gang.each(work)


def test_a_member_has_memory_for_two_sums_however_many_it_makes() -> None:
    arrays = [np.ones(size, np.float32) for size in (100_000, 2_000_000)]
    nbytes, members = sum(array.nbytes for array in arrays), 2
    tracemalloc.start()
    try:
        with linked(members) as gang:
            for _ in range(4):
                gang.each(lambda member: [float(values[0]) for values in member.sum(arrays)])
        assert tracemalloc.get_traced_memory()[1] <= members * (2 * nbytes + (3 << 20))
    finally:
        tracemalloc.stop()


# ---- what is sent ----


@pytest.mark.parametrize("members", [2, 3, 4, 5, 8, 9])
def test_rounds_and_bytes_are_as_few_as_they_can_be(members: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, headers, lock = Counter[int](), Counter[int](), threading.Lock()
    send = Link.send

    def counting(self: Link, view: memoryview) -> tuple[int, Awaited]:
        count, wanted = send(self, view)
        with lock:
            sent[threading.get_ident()] += count
            headers[threading.get_ident()] += len(view) == HEADER_NBYTES and count == HEADER_NBYTES
        return count, wanted

    monkeypatch.setattr(Link, "send", counting)
    with linked(members) as gang:
        gang.each(lambda member: member.sum([np.ones(16, np.float32)]))
        assert max(headers.values()) <= math.ceil(math.log2(members)) + 1
        sent.clear()
        headers.clear()
        nbytes = 4 * 1_000_003
        gang.each(lambda member: member.sum([np.ones(nbytes // 4, np.float32)]))
        assert max(sent.values()) <= 2 * nbytes
        assert sum(sent.values()) <= 2 * (members - 1) * nbytes + sum(headers.values()) * HEADER_NBYTES + 8 * members


@pytest.mark.parametrize("members", range(1, 40))
def test_whoever_has_a_link_is_linked_back_and_has_few(members: int) -> None:
    for rank in range(members):
        found = partners(rank, members)
        assert all(rank in partners(other, members) for other in found)
        assert len(found) <= math.log2(members) + 3


# ---- what ends a wait ----


def test_a_closed_connection_is_told_at_once_by_the_peers_name() -> None:
    with linked(2) as gang:
        one, other = gang.members
        thread = threading.Timer(0.05, gang.links[1][0].close)
        thread.start()
        with pytest.raises(PeerLostError, match=r"the connection to worker 1 is lost: (it has closed|.*reset)"):
            one.sum([np.ones(4, np.float32)])
        thread.join()
        assert other.rank == 1


@pytest.mark.parametrize("size", [4, 500_000])
def test_all_members_end_once_one_is_gone_whether_or_not_they_have_a_link_to_it(size: int) -> None:
    members, gone = 9, 5
    assert partners(gone, members) != set(range(members)) - {gone}
    with linked(members) as gang:

        def work(member: LinkedExchange) -> str:
            try:
                if member.rank != gone:
                    member.sum([np.ones(size, np.float32)])
            except PeerLostError as error:
                return str(error)
            finally:
                member.close()  # as its process does, which ends
            return ""

        told = gang.each(work)
    assert [rank for rank, said in enumerate(told) if not said] == [gone]
    assert any(said.startswith(f"the connection to worker {gone} is lost") for said in told)


def test_members_that_run_other_operations_find_out() -> None:
    with linked(2) as gang, pytest.raises(ExchangeError, match=r"worker \d sent a message with .* where .* was due"):
        gang.each(lambda member: member.sum([np.ones(4 + member.rank, np.float32)]))


@settings(max_examples=200, deadline=None)
@given(header=st.binary(min_size=HEADER_NBYTES, max_size=HEADER_NBYTES))
def test_no_other_header_than_the_one_that_is_due_is_taken(header: bytes) -> None:
    due = Frame(1, 1, 7, OperationKind.SUM, 0, 4_096)
    due.check(due.packed(), "worker 1")
    with pytest.raises(ExchangeError, match="worker 1 sent"):
        due.check(header, "worker 1")


@pytest.mark.parametrize("name", ["attempt", "generation", "operation", "kind", "part", "nbytes"])
def test_each_part_of_a_header_counts(name: str) -> None:
    due = Frame(1, 1, 7, OperationKind.SUM, 0, 4_096)
    changed: dict[str, Any] = {name: 2}
    other = due._replace(**changed)
    with pytest.raises(ExchangeError, match=f"with {name} 2 where {getattr(due, name):d} was due"):
        due.check(other.packed(), "worker 1")
