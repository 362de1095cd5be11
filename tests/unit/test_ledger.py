"""The driver's books of what Spark feeds: which node gets a split, which are sealed, and what cannot be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from sparktf.driver.attempt.rows.ledger import FeedAddress, Ledger
from sparktf.errors import DataError, EmptySourceError, RefusedError, RowAccountingError
from sparktf.feed.channel.held import SPLIT_SPAN
from sparktf.sequence import Interval, Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.control import AssignmentRequest
from sparktf.wire.data import DataAddress, Lease, LeaseRequest, Sealed, Span, StagedShare, WorkRequest

TRAIN = Stream.TRAIN
A, B, C = (NodeId(role=Role.WORKER, index=i) for i in range(3))
ADDRESSES = {
    node: DataAddress(host="h", socket=f"/{node.index}", location=f"grpc://h:{node.index}") for node in (A, B, C)
}


def ledger(*, expected: Mapping[int, int] | None = None, epoch: int = 0, rebalance: bool = True) -> Ledger:
    """A and B are on the hosts 1 and 2, C is a second executor's on host 2; all are ready, epoch 0 is open."""
    places = {A: FeedAddress("host1", "jvm1"), B: FeedAddress("host2", "jvm2"), C: FeedAddress("host2", "jvm3")}
    made = Ledger(places, lambda: 7.0, expected=expected or {}, epoch=epoch, rebalance=rebalance)
    for node, address in ADDRESSES.items():
        made.ready(node, address)
    made.open(TRAIN, 0)
    return made


def span(split: int = -1, epoch: int = 0) -> Span:
    return Span(attempt=1, stream=TRAIN, epoch=epoch, split=split)


def lease(books: Ledger, split: int, host: str = "host1", jvm: str = "jvm1", epoch: int = 0) -> NodeId:
    """Asks as a feeder on an executor does; returns the node that gets the split."""
    answer = books.lease(LeaseRequest(span=span(split, epoch), host=host, jvm=jvm))
    return next(node for node, address in ADDRESSES.items() if address == answer.data)


def seal(books: Ledger, split: int, rows: int, node: NodeId = A, epoch: int = 0) -> None:
    books.sealed(Sealed(attempt=1, node=node, span=span(split, epoch), rows=rows))


def ask(
    books: Ledger, node: NodeId, generation: int, done: Sequence[Interval] = (), *, keep: bool = False
) -> tuple[StagedShare, bool]:
    """Asks as a member of a synchronous gang does."""
    request = AssignmentRequest(attempt=1, node=node, stream=TRAIN, epoch=0, generation=generation)
    return books.share(TRAIN, 0, done, keep=keep, sender=request, generation=generation)


def peers(
    books: Ledger, node: NodeId, trained: Mapping[NodeId, int] | None = None, *, starved_s: float = 60.0
) -> list[NodeId]:
    work = books.work(WorkRequest(attempt=1, node=node, span=span(), starved_s=starved_s), trained or {})
    return [next(n for n, a in ADDRESSES.items() if a == address) for address in work.peers]


class TestLeases:
    def test_a_split_goes_to_the_node_of_the_feeders_own_executor(self) -> None:
        books = ledger()
        assert [lease(books, i, "host2", "jvm3") for i in range(3)] == [C, C, C]

    def test_only_nodes_that_take_the_stream_get_any(self) -> None:
        places = {A: FeedAddress("host1", "jvm1"), B: FeedAddress("host2", "jvm2")}
        takers = {TRAIN: [B], Stream.VALIDATION: [A]}
        books = Ledger(places, lambda: 7.0, expected={}, epoch=0, rebalance=True, takers=takers)
        for node in (A, B, C):
            books.ready(node, ADDRESSES[node])
        books.open(TRAIN, 0)
        assert lease(books, 0, "host1", "jvm1") == B
        seal(books, 0, 50, B)
        assert peers(books, A) == [B]

    def test_it_stays_with_its_node_whoever_asks(self) -> None:
        books = ledger()
        assert lease(books, 0, "host2", "jvm2") == B
        assert lease(books, 0, "host1", "jvm1") == B
        assert lease(books, 0, "elsewhere", "jvm9") == B

    def test_without_a_node_on_its_executor_a_node_on_its_host_takes_it(self) -> None:
        books = ledger()
        assert {lease(books, i, "host2", "jvm9") for i in range(4)} == {B, C}
        assert lease(books, 9, "host1", "jvm9") == A

    def test_an_executors_number_on_another_host_is_another_executor(self) -> None:
        assert lease(ledger(), 0, "host1", "jvm3") == A

    def test_from_elsewhere_the_node_with_fewest_splits_takes_it(self) -> None:
        books = ledger()
        assert [lease(books, i, "host2", "jvm2") for i in range(3)] == [B] * 3
        assert [lease(books, 10 + i, "elsewhere", "jvm9") for i in range(4)] == [A, C, A, C]

    def test_of_equals_the_one_with_fewest_rows_takes_it(self) -> None:
        books = ledger()
        assert [lease(books, i, "elsewhere", "x") for i in range(3)] == [A, B, C]
        for i, rows in enumerate((50, 40, 60)):
            seal(books, i, rows, (A, B, C)[i])
        assert lease(books, 3, "elsewhere", "x") == B

    def test_an_epoch_that_is_not_fed_has_none(self) -> None:
        books = ledger()
        with pytest.raises(RefusedError, match="epoch 1 of train is not fed"):
            lease(books, 0, epoch=1)
        lease(books, 0)
        seal(books, 0, 50)
        books.end(TRAIN, 0, 1)
        with pytest.raises(RefusedError, match="epoch 0 of train is not fed"):
            lease(books, 0)

    def test_feeders_wait_until_every_node_takes_rows(self) -> None:
        books = Ledger(
            {A: FeedAddress("h", "j"), B: FeedAddress("h", "j")}, lambda: 0.0, expected={}, epoch=0, rebalance=True
        )
        assert not books.is_ready
        books.ready(A, ADDRESSES[A])
        assert not books.is_ready
        books.ready(B, ADDRESSES[B])
        assert books.is_ready


class TestSeals:
    def test_rows_are_those_of_sealed_splits(self) -> None:
        books = ledger()
        lease(books, 0)
        lease(books, 1)
        seal(books, 0, 50)
        seal(books, 1, 0)
        assert books.rows(TRAIN, 0) == 50

    def test_a_seal_told_twice_counts_once(self) -> None:
        books = ledger()
        lease(books, 0)
        seal(books, 0, 50)
        seal(books, 0, 50)
        assert books.rows(TRAIN, 0) == 50

    def test_of_two_feeders_of_a_partition_the_one_with_other_rows_is_sent_away(self) -> None:
        books = ledger()
        lease(books, 0)
        seal(books, 0, 50)
        with pytest.raises(RefusedError, match="partition 0 has already come with 50 rows, and now has 49"):
            seal(books, 0, 49)
        assert books.rows(TRAIN, 0) == 50

    @pytest.mark.parametrize("split", [0, 5])
    def test_another_node_cannot_seal_it(self, split: int) -> None:
        books = ledger()
        lease(books, 0)
        with pytest.raises(RefusedError, match=f"partition {split} is not leased to worker 1"):
            seal(books, split, 50, B)
        assert books.rows(TRAIN, 0) == 0

    def test_fewer_splits_than_spark_fed_are_an_error_that_names_one(self) -> None:
        books = ledger()
        for split in (0, 2):
            lease(books, split)
            seal(books, split, 5)
        with pytest.raises(RowAccountingError, match="Spark fed 3 partitions, but 2 reached the nodes; partition 1"):
            books.end(TRAIN, 0, 3)

    def test_more_are_an_error_too(self) -> None:
        books = ledger()
        for split in (0, 1):
            lease(books, split)
            seal(books, split, 5)
        with pytest.raises(RowAccountingError, match="Spark fed 1 partitions, but 2 reached"):
            books.end(TRAIN, 0, 1)

    def test_no_rows_at_all_are_an_error(self) -> None:
        books = ledger()
        lease(books, 0)
        seal(books, 0, 0)
        with pytest.raises(EmptySourceError, match="train: Spark computed no rows"):
            books.end(TRAIN, 0, 1)
        assert books.book(TRAIN, 0).ended

    def test_other_rows_than_the_checkpoint_knew_are_refused_by_the_partitions_name(self) -> None:
        books = ledger(expected={3: 1000}, epoch=0)
        lease(books, 3)
        lease(books, 4)
        seal(books, 4, 10)
        with pytest.raises(DataError, match="partition 3 of the data has 1,001 rows, but had 1,000 when"):
            seal(books, 3, 1001)

    def test_later_epochs_may_have_others(self) -> None:
        books = ledger(expected={3: 1000}, epoch=0)
        books.open(TRAIN, 1)
        lease(books, 3, epoch=1)
        seal(books, 3, 999, epoch=1)
        assert books.rows(TRAIN, 1) == 999


class TestKeeping:
    def test_a_later_epoch_has_the_rows_of_an_earlier_one_that_ended(self) -> None:
        books = ledger()
        assert not books.keep(TRAIN, 1)
        lease(books, 0)
        seal(books, 0, 50)
        books.end(TRAIN, 0, 1)
        assert books.keep(TRAIN, 1)
        assert books.rows(TRAIN, 1) == 50
        assert books.book(TRAIN, 1).again
        assert books.book(TRAIN, 1).ended

    def test_another_streams_rows_are_not_its_own(self) -> None:
        books = ledger()
        lease(books, 0)
        seal(books, 0, 50)
        books.end(TRAIN, 0, 1)
        assert not books.keep(Stream.VALIDATION, 1)


class TestWork:
    @pytest.fixture
    def books(self) -> Ledger:
        made = ledger()
        for split, (node, host, jvm, rows) in enumerate(
            [(A, "host1", "jvm1", 500), (B, "host2", "jvm2", 900), (C, "host2", "jvm3", 0)]
        ):
            assert lease(made, split, host, jvm) == node
            seal(made, split, rows, node)
        return made

    def test_nodes_that_have_rows_left_come_with_most_first(self, books: Ledger) -> None:
        assert peers(books, C) == [B, A]
        assert peers(books, C, {A: 100, B: 700}) == [A, B]
        assert peers(books, B, {A: 100}) == [A]

    def test_a_node_waits_a_moment_for_its_own_feeders_while_there_are_some(self, books: Ledger) -> None:
        assert peers(books, C, starved_s=0.1) == []
        books.end(TRAIN, 0, 3)
        assert peers(books, C, starved_s=0.1) == [B, A]

    def test_a_node_that_has_trained_all_has_none(self, books: Ledger) -> None:
        books.end(TRAIN, 0, 3)
        assert peers(books, C, {A: 500, B: 899}) == [B]

    def test_who_trained_rows_of_others_may_have_its_own_still_while_feeders_are_at_work(self, books: Ledger) -> None:
        # A took rows from B before its own came: they fill its memory, and its feeders wait for room.
        assert peers(books, C, {A: 600, B: 900}) == [B, A]
        # Some of B's were taken and are trained elsewhere: it seems to have them still, and has none to give.
        assert peers(books, C, {A: 600, B: 800}) == [B, A]

    def test_its_end_is_told_when_spark_has_fed_everything(self, books: Ledger) -> None:
        request = WorkRequest(attempt=1, node=C, span=span(), starved_s=0.0)
        assert not books.work(request, {}).ended
        books.end(TRAIN, 0, 3)
        assert books.work(request, {}).ended

    def test_without_rebalancing_nobody_is_asked(self) -> None:
        books = ledger(rebalance=False)
        lease(books, 0)
        seal(books, 0, 500)
        assert peers(books, B) == []


class TestTheRestOfAnEpoch:
    """What members of a gang have left, for the next generation of them."""

    @pytest.fixture
    def books(self) -> Ledger:
        """A had a split, B three, of which it has trained one; B is lost."""
        made = ledger()
        for node in (A, B):
            ask(made, node, 1)
        for split, node in enumerate((A, B, B, B)):
            of = {A: ("host1", "jvm1"), B: ("host2", "jvm2")}[node]
            assert lease(made, split, *of) == node
            seal(made, split, 10 * (split + 1), node)
        made.end(TRAIN, 0, 4)
        made.lose(B)
        return made

    DONE = ((0, 4), (SPLIT_SPAN, SPLIT_SPAN + 20), (2 * SPLIT_SPAN, 2 * SPLIT_SPAN + 7))

    def ask_next(self, books: Ledger, split: int) -> Lease:
        next_span = span(split).model_copy(update={"generation": 2})
        return books.lease(LeaseRequest(span=next_span, host="host2", jvm="jvm3"))

    def test_is_fed_once_when_the_first_of_them_asks(self, books: Ledger) -> None:
        share, is_wanted = ask(books, A, 2, self.DONE)
        assert (share.rest, share.again, share.generation, is_wanted) == (True, False, 2, True)
        assert not books.book(TRAIN, 0).ended
        assert ask(books, C, 2, self.DONE) == (share, False)

    def test_is_all_that_is_not_trained_wherever_it_was(self, books: Ledger) -> None:
        for node in (A, C):
            ask(books, node, 2, self.DONE)
        assert self.ask_next(books, 0).data == ADDRESSES[A], "who lives may have it still"
        assert self.ask_next(books, 1) == Lease(sealed=True), "it is trained"
        assert {self.ask_next(books, split).data for split in (2, 3)} == {ADDRESSES[C]}

    def test_ends_when_all_of_it_has_come_with_as_many_rows_as_before(self, books: Ledger) -> None:
        for node in (A, C):
            ask(books, node, 2, self.DONE)

        def sealed(split: int, rows: int) -> None:
            holder = next(node for node in (A, C) if self.ask_next(books, split).data == ADDRESSES[node])
            of = span(split).model_copy(update={"generation": 2})
            books.sealed(Sealed(attempt=1, node=holder, span=of, rows=rows))

        sealed(0, 10)
        sealed(2, 30)
        with pytest.raises(DataError, match="partition 3 of the data has 39 rows, but had 40"):
            sealed(3, 39)
        with pytest.raises(RowAccountingError, match="partition 3 did not"):
            books.end(TRAIN, 0, 3)
        books.book(TRAIN, 0).ended = False
        sealed(3, 40)
        books.end(TRAIN, 0, 4)
        assert books.rows(TRAIN, 0) == 100

    def test_is_nothing_that_older_feeders_and_nodes_have_to_do_with(self, books: Ledger) -> None:
        ask(books, A, 2, self.DONE)
        with pytest.raises(RefusedError):
            lease(books, 3)
        with pytest.raises(RefusedError):
            seal(books, 3, 40)
        with pytest.raises(RefusedError, match="is fed to generation 2"):
            peers(books, A)

    def test_may_be_left_again_and_a_later_epoch_has_what_the_living_kept(self, books: Ledger) -> None:
        ask(books, A, 2, self.DONE, keep=True)
        ask(books, A, 3, self.DONE, keep=True)
        for split in (0, 2, 3):
            of = span(split).model_copy(update={"generation": 3})
            assert books.lease(LeaseRequest(span=of, host="host1", jvm="jvm1")).data == ADDRESSES[A]
            books.sealed(Sealed(attempt=1, node=A, span=of, rows=10 * (split + 1)))
        books.end(TRAIN, 0, 4)
        request = AssignmentRequest(attempt=1, node=A, stream=TRAIN, epoch=1, generation=3)
        share, is_wanted = books.share(TRAIN, 1, (), keep=True, sender=request, generation=3)
        assert (share.again, share.rest, is_wanted) == (True, False, True)
        assert books.book(TRAIN, 1).rows.keys() == {0, 2, 3}, "the lost one had kept the fourth"

    def test_is_all_of_it_where_it_was_evaluated_on(self, books: Ledger) -> None:
        stream = Stream.VALIDATION
        for generation in (1, 2):
            request = AssignmentRequest(attempt=1, node=A, stream=stream, epoch=0, generation=generation)
            share, is_wanted = books.share(stream, 0, (), keep=False, sender=request, generation=generation)
            assert (share.rest, is_wanted) == (generation == 2, True)
            of = Span(attempt=1, stream=stream, epoch=0, split=0, generation=generation)
            assert books.lease(LeaseRequest(span=of, host="host1", jvm="jvm1")).data == ADDRESSES[A]
            books.sealed(Sealed(attempt=1, node=A, span=of, rows=9))
            books.end(stream, 0, 1)
