"""Rows that feeders bring to a node: kept until they are trained, once each, in memory that is bounded."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import array, deal, id_table, plan_lake, write_lake

from sparktf.errors import PeerLostError, RefusedError
from sparktf.feature import FeedSpec
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.channel.held import SPLIT_SPAN
from sparktf.feed.channel.staged_parts import StagedParts
from sparktf.feed.channel.staged_rows import Budget, StagedRows
from sparktf.feed.channel.staging import Staging
from sparktf.feed.pipeline import NodeFeed
from sparktf.knobs import KNOBS
from sparktf.sequence import Interval, Stream, merge, remaining
from sparktf.storage.file_systems import open_storage

BLOCK_ROWS = 40
BATCH_ROWS = 16
PLENTY = 1 << 30
WAIT_S = 10.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each feed's end is found by a look for more rows."""
    monkeypatch.setattr(KNOBS, "staged_poll_s", 0.001)


class Node:
    """A staging and what it takes to fill and empty it.

    Attributes:
        budget: Memory in bytes.
    """

    def __init__(self, spec: FeedSpec, folder: Path, *, budget: int = PLENTY, room: int = PLENTY) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.spec = spec
        self.budget = Budget(budget)
        self._size = budget
        self.staging = Staging(spec, Stream.TRAIN, block_rows=BLOCK_ROWS, budget=self.budget, room=room, folder=folder)

    def begin(self, epoch: int = 0, done: Sequence[Interval] = (), *, keep: bool = False, again: bool = False) -> None:
        self.staging.begin(epoch, done, keep=keep, again=again)

    def stage(self, first: int, rows: int) -> StagedRows:
        """Returns rows that a feeder has brought, not sealed yet."""
        staged = self.staging.new_rows()
        for batch in id_table(first, rows).to_batches(max_chunksize=BATCH_ROWS):
            staged.append(batch)
        return staged

    def seal(self, split: int, first: int, rows: int, epoch: int = 0) -> int:
        return self.staging.seal(epoch, split, self.stage(first, rows), "unix")

    def fill(self, sizes: Sequence[int], epoch: int = 0) -> None:
        """Seals splits of such sizes, with ids from 0 on."""
        for split, rows in enumerate(sizes):
            assert self.seal(split, sum(sizes[:split]), rows, epoch) == rows

    def feed(self, more: Callable[[], bool | None] = lambda: False) -> NodeFeed:
        return NodeFeed(self.spec, StagedParts(self.staging, more))

    def ids(self) -> list[int]:
        """Trains on all that waits; returns the ids in order."""
        with self.feed() as feed:
            return ids_of(feed, 1 << 20)

    def memory_left(self) -> bool:
        """Whether nothing of the memory is taken."""
        free = self.budget.reserve(self._size)
        if free:
            self.budget.give(self._size)
        return free


def ids_of(feed: NodeFeed, rows: int) -> list[int]:
    """Returns the ids of the next rows."""
    return [int(i) for i in array(feed.next_rows(rows), "input:id")]


@pytest.fixture
def spec(tmp_path: Path) -> FeedSpec:
    return plan_lake(write_lake(tmp_path / "lake", [3]), seed=5).spec


@pytest.fixture
def node(spec: FeedSpec, tmp_path: Path) -> Node:
    made = Node(spec, tmp_path / "node")
    made.begin()
    return made


class TestSplits:
    @pytest.mark.parametrize("sizes", [[1], [0], [], [0, 1, 0], [40, 80], [229], [7] * 30, [100, 0, 3, 0, 41]])
    def test_each_row_comes_exactly_once(self, node: Node, sizes: list[int]) -> None:
        node.fill(sizes)
        assert sorted(node.ids()) == list(range(sum(sizes)))

    def test_values_of_a_row_stay_together(self, node: Node) -> None:
        node.fill([100, 50])
        with node.feed() as feed:
            batch = feed.next_rows(150)
        assert (array(batch, "input:x")[:, 0] == array(batch, "input:id") * 2).all()

    def test_rows_come_permuted_within_their_block(self, node: Node) -> None:
        node.fill([120])
        ids = node.ids()
        for block in range(3):
            part = ids[block * BLOCK_ROWS : (block + 1) * BLOCK_ROWS]
            assert part != sorted(part) == list(range(block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS))

    def test_without_shuffling_rows_come_as_they_were_fed(self, spec: FeedSpec, tmp_path: Path) -> None:
        node = Node(spec.model_copy(update={"shuffle": False}), tmp_path / "node")
        node.begin()
        node.fill([50, 90])
        assert node.ids() == list(range(140))

    def test_a_split_that_is_here_already_is_dropped(self, node: Node) -> None:
        assert node.seal(3, 0, 50) == 50
        assert node.seal(3, 1000, 60) == 50
        assert node.staging.input.rows == {"unix": 50}
        assert sorted(node.ids()) == list(range(50))
        assert node.memory_left()

    def test_of_two_feeders_of_a_split_the_first_that_ends_wins(self, node: Node) -> None:
        slow, fast = node.stage(1000, 30), node.stage(0, 30)
        assert node.staging.seal(0, 0, fast, "tcp") == 30
        assert node.staging.seal(0, 0, slow, "unix") == 30
        assert sorted(node.ids()) == list(range(30))

    def test_a_feeder_of_an_epoch_that_is_over_leaves_nothing(self, node: Node) -> None:
        staged = node.stage(0, 50)
        node.begin(1)
        with pytest.raises(RefusedError, match="epoch 0 of train is over"):
            node.staging.seal(0, 0, staged, "unix")
        assert node.memory_left()
        assert node.ids() == []

    def test_nothing_is_held_once_all_is_trained(self, node: Node) -> None:
        node.fill([100, 30, 0])
        node.ids()
        assert node.memory_left()
        assert node.staging.input.memory_nbytes == node.staging.input.disk_nbytes == 0


class TestSpilling:
    def test_what_exceeds_the_memory_comes_back_from_a_file(self, spec: FeedSpec, tmp_path: Path) -> None:
        nbytes = id_table(0, 100).nbytes
        node = Node(spec, tmp_path / "node", budget=nbytes)
        node.begin()
        node.fill([90, 100, 110])
        came = node.staging.input
        assert 0 < came.spilled_nbytes < came.nbytes == 3 * nbytes
        assert came.nbytes - came.spilled_nbytes <= nbytes
        assert sorted(node.ids()) == list(range(300))
        assert node.memory_left()
        assert list(node.folder.iterdir()) == []

    def test_a_split_that_breaks_off_leaves_no_file(self, spec: FeedSpec, tmp_path: Path) -> None:
        node = Node(spec, tmp_path / "node", budget=500)
        node.begin()
        staged = node.stage(0, 200)
        assert len(list(node.folder.iterdir())) == 1
        staged.release()
        assert list(node.folder.iterdir()) == []
        assert node.memory_left()


class TestEpochs:
    def test_kept_rows_come_again_in_another_order(self, node: Node) -> None:
        node.begin(0, keep=True)
        node.fill([100, 60, 90])
        orders = [node.ids()]
        for epoch in (1, 2):
            node.begin(epoch, keep=True, again=True)
            orders.append(node.ids())
        assert all(sorted(order) == list(range(250)) for order in orders)
        assert len({tuple(order) for order in orders}) == 3

    def test_the_order_follows_from_the_seed(self, spec: FeedSpec, tmp_path: Path) -> None:
        def second_epoch(name: str, seed: int) -> list[int]:
            node = Node(spec.model_copy(update={"seed": seed}), tmp_path / name)
            node.begin(0, keep=True)
            node.fill([100, 60])
            node.ids()
            node.begin(1, keep=True, again=True)
            return node.ids()

        assert second_epoch("first", 5) == second_epoch("again", 5) != second_epoch("other", 6)

    def test_without_keeping_an_epoch_begins_empty(self, node: Node) -> None:
        node.fill([100])
        node.begin(1)
        assert node.memory_left()
        node.fill([30], epoch=1)
        assert sorted(node.ids()) == list(range(30))

    def test_rows_kept_beyond_the_memory_come_again_from_files(self, spec: FeedSpec, tmp_path: Path) -> None:
        node = Node(spec, tmp_path / "node", budget=id_table(0, 100).nbytes)
        node.begin(0, keep=True)
        node.fill([150, 150])
        first = node.ids()
        memory, disk = node.staging.input.memory_nbytes, node.staging.input.disk_nbytes
        assert memory > 0 < disk
        node.begin(1, keep=True, again=True)
        assert sorted(node.ids()) == sorted(first) == list(range(300))


class TestAdmission:
    def room(self, spec: FeedSpec, tmp_path: Path, rows: int) -> Node:
        node = Node(spec, tmp_path / "node", room=id_table(0, rows).nbytes)
        node.begin()
        return node

    def test_a_feeder_waits_while_there_is_no_room_and_goes_on_when_rows_are_trained(
        self, spec: FeedSpec, tmp_path: Path
    ) -> None:
        node = self.room(spec, tmp_path, rows=50)
        node.fill([60])
        admitted: list[int | None] = []
        feeder = threading.Thread(target=lambda: admitted.append(node.staging.admit(0, 1)))
        feeder.start()
        feeder.join(0.2)
        assert not admitted
        node.ids()
        feeder.join(WAIT_S)
        assert admitted == [None]
        assert node.staging.input.feeders_wait_s >= 0.2

    def test_a_split_that_has_begun_may_end_although_there_is_no_room(self, spec: FeedSpec, tmp_path: Path) -> None:
        node = self.room(spec, tmp_path, rows=50)
        assert node.staging.admit(0, 0) is None
        assert node.staging.admit(0, 1) is None
        node.fill([60, 60])
        assert sorted(node.ids()) == list(range(120))

    def test_a_split_that_is_here_is_declined_at_once_even_without_room(self, spec: FeedSpec, tmp_path: Path) -> None:
        node = self.room(spec, tmp_path, rows=50)
        node.fill([60])
        answers: list[int | None] = []
        feeder = threading.Thread(target=lambda: answers.append(node.staging.admit(0, 0)), daemon=True)
        feeder.start()
        feeder.join(WAIT_S)
        assert answers == [60]

    def test_the_end_of_an_epoch_sends_waiting_feeders_away(self, spec: FeedSpec, tmp_path: Path) -> None:
        node = self.room(spec, tmp_path, rows=50)
        node.fill([60])
        refused: list[BaseException] = []

        def ask() -> None:
            with pytest.raises(RefusedError) as caught:
                node.staging.admit(0, 1)
            refused.append(caught.value)

        feeder = threading.Thread(target=ask)
        feeder.start()
        node.begin(1)
        feeder.join(WAIT_S)
        assert refused


def move(giver: Node, taker: Node) -> tuple[int, int] | None:
    """Moves one part between two nodes, as the data channel does; returns its interval of the epoch sequence."""
    found = giver.staging.give(0)
    if found is None:
        return None
    queued, batches = found
    rows = taker.staging.new_rows()
    for batch in batches:
        rows.append(batch)
    taker.staging.accept(queued.split, queued.first_row, queued.start, queued.stop, rows)
    first = queued.split * SPLIT_SPAN + queued.first_row
    return first + queued.start, first + queued.stop


class TestGiving:
    @pytest.fixture
    def taker(self, spec: FeedSpec, tmp_path: Path) -> Node:
        made = Node(spec, tmp_path / "taker")
        made.begin()
        return made

    def test_each_row_is_trained_by_one_of_the_two(self, node: Node, taker: Node) -> None:
        node.fill([100, 0, 90])
        alone = Node(node.spec, node.folder / "alone")
        alone.begin()
        alone.fill([100, 0, 90])
        moved = [interval for _ in range(2) if (interval := move(node, taker))]
        theirs = taker.ids()
        assert Counter(node.ids() + theirs) == Counter(range(190))
        assert len(theirs) == sum(stop - start for start, stop in moved) == node.staging.input.given
        assert taker.staging.input.rows == {"peer": len(theirs)}
        assert node.memory_left()
        assert taker.memory_left()

    def test_positions_are_those_that_the_giver_would_have_had(self, node: Node, taker: Node, tmp_path: Path) -> None:
        node.fill([100, 90])
        alone = Node(node.spec, tmp_path / "alone")
        alone.begin()
        alone.fill([100, 90])
        with alone.feed() as feed:
            order = ids_of(feed, 190)
            sequence = feed.consumed(190)
        place = dict(zip((row for start, stop in sequence for row in range(start, stop)), order, strict=True))
        moved = move(node, taker)
        assert moved is not None
        with taker.feed() as feed:
            theirs = ids_of(feed, 190)
            assert merge([moved]) == feed.consumed(len(theirs))
        assert theirs == [place[row] for row in range(*moved)]

    def test_a_block_is_cut_where_it_is_the_only_one_and_large(self, spec: FeedSpec, tmp_path: Path) -> None:
        large = [Node(spec, tmp_path / name) for name in ("giver", "taker")]
        for made in large:
            made.staging._block_rows = 20_000
            made.begin()
        giver, taker = large
        giver.fill([20_000])
        assert move(giver, taker) == (10_000, 20_000)
        theirs, ours = taker.ids(), giver.ids()
        assert len(theirs) == len(ours) == 10_000
        assert sorted(theirs + ours) == list(range(20_000))

    def test_a_small_last_part_stays(self, node: Node, taker: Node) -> None:
        node.fill([40])
        assert move(node, taker) is None
        assert sorted(node.ids()) == list(range(40))

    def test_a_small_last_part_goes_where_feeders_wait_for_room(self, spec: FeedSpec, tmp_path: Path) -> None:
        # The taker's own rows may be behind those feeders: both nodes would wait for ever.
        giver, taker = Node(spec, tmp_path / "giver", room=100), Node(spec, tmp_path / "taker")
        giver.begin()
        taker.begin()
        giver.fill([40])
        assert move(giver, taker) is not None
        assert sorted(giver.ids() + taker.ids()) == list(range(40))

    def test_kept_rows_stay_with_the_giver_for_the_next_epoch(self, node: Node, taker: Node) -> None:
        node.begin(0, keep=True)
        taker.begin(0, keep=True)
        node.fill([100])
        assert move(node, taker)
        assert sorted(node.ids() + taker.ids()) == list(range(100))
        for made in (node, taker):
            made.begin(1, keep=True, again=True)
        assert sorted(node.ids()) == list(range(100))
        assert taker.ids() == []

    def test_nothing_is_given_of_another_epoch(self, node: Node) -> None:
        node.fill([100, 100])
        assert node.staging.give(1) is None


Fed = Callable[[Sequence[Interval]], NodeFeed]


def check_every_boundary(feed_of: Fed, rows: int, batch: int) -> None:
    """Takes the position at every batch boundary, restores each, and compares the rest with what would have come."""
    with feed_of(()) as whole:
        batches = []
        while len(taken := ids_of(whole, batch)):
            batches.append(taken)
        order = [i for taken in batches for i in taken]
        positions = [whole.consumed(sum(map(len, batches[:n]))) for n in range(len(batches) + 1)]
    assert sorted(order) == list(range(rows))
    for n, done in enumerate(positions):
        with feed_of(done) as rest:
            found = ids_of(rest, rows + 1)
        assert found == order[sum(map(len, batches[:n])) :], f"after {n} batches"


class TestPosition:
    @pytest.mark.parametrize("shuffle", [True, False])
    def test_of_a_planned_share(self, tmp_path: Path, shuffle: bool) -> None:
        plan = plan_lake(write_lake(tmp_path / "lake"), shuffle_rows=40, shuffle=shuffle)
        rows = plan.rows(Stream.TRAIN)

        def feed_of(done: Sequence[Interval]) -> NodeFeed:
            (part,) = deal(plan, intervals=remaining(rows, done))
            return NodeFeed(plan.spec, PlannedParts(plan.spec, part, open_storage))

        check_every_boundary(feed_of, rows, 23)

    @pytest.mark.parametrize("shuffle", [True, False])
    @pytest.mark.parametrize("budget", [PLENTY, 3000])
    def test_of_a_staged_share(self, spec: FeedSpec, tmp_path: Path, shuffle: bool, budget: int) -> None:
        sizes = [70, 0, 5, 1, 120, 33]

        def feed_of(done: Sequence[Interval]) -> NodeFeed:
            node = Node(spec.model_copy(update={"shuffle": shuffle}), tmp_path / "node", budget=budget)
            node.begin(0, done)
            node.fill(sizes)
            return node.feed()

        check_every_boundary(feed_of, sum(sizes), 23)

    def test_of_two_nodes_that_moved_rows(self, spec: FeedSpec, tmp_path: Path) -> None:
        for taken in range(0, 100, 17):
            giver, taker = Node(spec, tmp_path / "giver"), Node(spec, tmp_path / "taker")
            giver.begin()
            taker.begin()
            giver.fill([130, 70])
            while taker.staging._waiting_nbytes < giver.staging._waiting_nbytes:
                assert move(giver, taker)
            before: list[int] = []
            done: list[Interval] = []
            for node in (giver, taker):
                with node.feed() as feed:
                    before += ids_of(feed, taken)
                    done += feed.consumed(feed.rows_taken)
            resumed = Node(spec, tmp_path / "resumed")
            resumed.begin(0, merge(done))
            resumed.fill([130, 70])
            assert Counter(before + resumed.ids()) == Counter(range(200))

    def test_a_done_split_is_not_held(self, spec: FeedSpec, tmp_path: Path) -> None:
        node = Node(spec, tmp_path / "node")
        node.begin(0, [(SPLIT_SPAN, SPLIT_SPAN + 60)])
        node.fill([20, 60])
        assert sorted(node.ids()) == list(range(20))
        assert node.memory_left()


class TestParts:
    def test_they_wait_for_rows_and_look_for_more_until_none_will_come(self, node: Node) -> None:
        asked: list[int] = []

        def more() -> bool:
            asked.append(len(asked))
            if len(asked) == 2:
                node.seal(0, 0, 30)
            return len(asked) < 4

        with node.feed(more) as feed:
            assert sorted(ids_of(feed, 100)) == list(range(30))
            assert feed.is_all(30)
        assert len(asked) == 4

    def test_what_waits_is_trained_after_the_last_feeder_has_ended(self, node: Node) -> None:
        node.fill([100, 100])
        with node.feed(lambda: False) as feed:
            assert len(array(feed.next_rows(1000), "input:id")) == 200

    def test_closing_ends_the_waiting(self, node: Node) -> None:
        feed = node.feed(lambda: True)
        feed.close()
        assert not [t for t in threading.enumerate() if t.name == "feed" and t.is_alive()]

    def test_a_null_is_refused_with_its_partition_and_row(self, node: Node) -> None:
        table = id_table(0, 50)
        column: list[Any] = table["a"].to_pylist()
        column[41] = None
        staged = node.staging.new_rows()
        for batch in table.set_column(1, "a", pa.array(column, pa.float32())).to_batches(max_chunksize=BATCH_ROWS):
            staged.append(batch)
        node.staging.seal(0, 7, staged, "unix")
        with node.feed() as feed, pytest.raises(ValueError, match=r"partition 7 of the data.*row 41"):
            feed.next_rows(50)


class TestComingAgain:
    """What a node does with a partition that is fed again, since a lost node had rows of it."""

    DONE = ((0, 30), (35, 40))

    def test_what_it_has_not_kept_comes_anew_without_what_is_trained(self, node: Node) -> None:
        node.fill([50])
        node.ids()
        assert node.staging.admit(0, 0) == 50
        assert node.staging.admit(0, 0, turn=1) is None
        node.staging.seal(0, 0, node.stage(0, 50), "unix", turn=1, done=self.DONE)
        assert node.staging.admit(0, 0, turn=1) == 50, "a second feeder of the same turn"
        assert len(node.ids()) == 15
        assert node.memory_left()

    def test_what_it_has_kept_waits_once_more_and_is_not_computed(self, node: Node) -> None:
        node.begin(1, keep=True)
        node.fill([50], epoch=1)
        first = node.ids()
        assert node.staging.admit(1, 0, turn=1) == 50
        for _ in range(2):
            node.staging.queue_again(1, 0, 1, self.DONE)
        assert node.ids() == [*first[30:35], *first[40:]]

    def test_whatever_comes_or_goes_is_a_move(self, node: Node) -> None:
        seen = {node.staging.moves}
        node.fill([100])
        seen.add(node.staging.moves)
        node.staging.next(0.0)
        seen.add(node.staging.moves)
        assert node.staging.give(0) is not None
        seen.add(node.staging.moves)
        assert len(seen) == 4


class TestTakingWithoutWaiting:
    """What a worker under parameter servers does with what waits here."""

    def test_a_last_batch_waits_while_spark_may_bring_more_and_comes_once_it_has_brought_all(self, node: Node) -> None:
        is_fed = threading.Event()
        node.fill([BATCH_ROWS + 3])
        with node.feed(lambda: None if is_fed.is_set() else True) as feed:
            first = feed.take_now(1 << 20, WAIT_S, batch_rows=BATCH_ROWS)
            assert len(array(first, "input:id")) == BATCH_ROWS
            assert not len(array(feed.take_now(1 << 20, 0.3, batch_rows=BATCH_ROWS), "input:id"))
            is_fed.set()
            assert len(array(feed.take_now(1 << 20, WAIT_S, batch_rows=BATCH_ROWS), "input:id")) == 3
            assert not feed.is_drained

    def test_a_feed_of_an_epoch_before_takes_nothing_of_the_next(self, node: Node) -> None:
        parts = iter(StagedParts(node.staging, lambda: None))
        assert next(parts) is None
        node.begin(1)
        node.fill([10], epoch=1)
        assert next(parts) is None
        assert sorted(node.ids()) == list(range(10))


class TestTheRestOfAnEpoch:
    """What the next generation of a gang takes in, after the loss of a member."""

    SIZES = (90, 0, 40, 130, 7)

    def begin(self, node: Node, generation: int, done: Sequence[Interval], *, keep: bool = False) -> None:
        node.staging.begin(0, done, keep=keep, again=False, generation=generation, rest=True)

    def offer(self, node: Node, split: int, generation: int) -> bool:
        """Offers a split as a feeder does; returns whether it had to be computed."""
        rows, staging = self.SIZES[split], node.staging
        if staging.admit(0, split, 0, generation) is not None:
            staging.queue_again(0, split, 0, (), generation=generation)
            staging.queue_again(0, split, 0, (), generation=generation)  # the feeder is run again
            return False
        staged = node.stage(sum(self.SIZES[:split]), rows)
        assert staging.seal(0, split, staged, "unix", generation=generation) == rows
        return True

    @pytest.mark.parametrize("keep", [True, False])
    @pytest.mark.parametrize("read", [0, 1, 25, 90, 100, 170, 267])
    def test_has_each_row_once_that_is_not_trained(self, node: Node, keep: bool, read: int) -> None:
        node.begin(0, keep=keep)
        node.fill(self.SIZES)
        with node.feed() as feed:
            trained, done = ids_of(feed, read) if read else [], feed.consumed(read)
            feed.next_rows(10)  # handed out, but the update was not made
        for generation in (2, 3):
            self.begin(node, generation, done, keep=keep)
            assert node.staging.next(0.0) is None, "nothing waits before it is offered"
            computed = [split for split in range(len(self.SIZES)) if self.offer(node, split, generation)]
            assert not (keep and computed), "what was kept need not be computed again"
        assert sorted([*trained, *node.ids()]) == list(range(sum(self.SIZES)))
        node.begin(1)
        assert node.memory_left()

    def test_is_not_computed_again_where_a_part_of_a_split_has_not_been_read(self, node: Node) -> None:
        node.fill(self.SIZES)
        self.begin(node, 2, ())
        assert [self.offer(node, split, 2) for split in (0, 1, 2)] == [False, True, False]

    def test_has_no_row_that_comes_for_an_earlier_generation(self, node: Node) -> None:
        late = node.stage(0, 90)
        node.seal(2, 90, 40)
        given = node.staging.give(0)
        self.begin(node, 2, ())
        calls: list[Callable[[], object]] = [
            lambda: node.staging.admit(0, 0),
            lambda: node.staging.end(0, 0, node.stage(0, 90)),
            lambda: node.staging.seal(0, 0, late, "unix"),
        ]
        for call in calls:
            with pytest.raises(RefusedError, match="epoch 0 of train is over"):
                call()
        node.staging.accept(0, 0, 0, 40, node.stage(0, 40), (0, 1))
        node.staging.queue_again(0, 2, 0, ())
        assert given is None, "feeders do not wait"
        assert node.staging.give(0) is None
        assert node.ids() == []

    def test_is_not_offered_before_it_has_begun(self, node: Node) -> None:
        admitted: list[int | None] = []
        waiting = threading.Thread(target=lambda: admitted.append(node.staging.admit(0, 0, 0, 2)))
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive()
        self.begin(node, 2, ())
        waiting.join(WAIT_S)
        assert admitted == [None]


def test_who_waits_for_rows_is_told_why_none_will_come(node: Node) -> None:
    with node.feed(lambda: True) as feed, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(feed.next_rows, 10)
        feed.stop(PeerLostError("generation 1 of the gang is over"))
        with pytest.raises(PeerLostError, match="generation 1 of the gang is over"):
            waiting.result(WAIT_S)
