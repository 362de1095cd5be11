"""Rows that Spark feeds: each exactly once in an epoch, whatever feeders, nodes and retries do."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fuzz.cases import NewFolder, cases
from fuzz.cells import Told
from fuzz.lake_cases import fills_of, mended, rows_of, spelled
from fuzz.parquet_files import table_of
from fuzz.reading import check_values, ids_of, rows_in
from fuzz.takes import ID, columns, takes
from fuzz.tensors import Column, Row, Take, tensors_of
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from lakes import lake_config

from sparktf.driver.plan.features import Schema
from sparktf.driver.plan.planner import feed_spec
from sparktf.errors import BadValueError, RefusedError
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.columns import Columns
from sparktf.feed.channel.staged_parts import StagedParts
from sparktf.feed.channel.staged_rows import Budget, StagedRows
from sparktf.feed.channel.staging import Staging
from sparktf.feed.pipeline import NodeFeed
from sparktf.knobs import KNOBS
from sparktf.sequence import Cursor, Stream


@dataclass(frozen=True)
class FedCase(Told):
    """What is fed, and how.

    Attributes:
        splits: Rows of each partition of the DataFrame.
        batch_rows: Rows of the record batches that Spark makes.
        seed: Draws what happens: which feeder ends first, which one dies, who gives rows to whom.
        stop_after: Share of the first epoch after which the run stops and goes on, on `nodes_after` nodes.
    """

    columns: tuple[Column, ...]
    takes: tuple[Take, ...]
    fills: Mapping[str, Any]
    rows: tuple[Row, ...]
    splits: tuple[int, ...]
    batch_rows: int
    block_rows: int
    nodes: int
    nodes_after: int
    memory: int
    shuffle: bool
    keep: bool
    seed: int
    stop_after: float


@st.composite
def fed_cases(draw: DrawFn) -> FedCase:
    """Draws partitions, also empty ones, with rows of which some may be bad."""
    found = draw(columns(max_size=3))
    wanted = draw(takes(found))
    fills = draw(fills_of(found))
    splits = draw(st.lists(st.integers(0, 30), min_size=1, max_size=5))
    rows = draw(rows_of(found, sum(splits)))
    return FedCase(
        columns=(ID, *found),
        takes=tuple(wanted),
        fills=fills,
        rows=tuple(mended(rows, wanted, fills)),
        splits=tuple(splits),
        batch_rows=draw(st.integers(1, 20)),
        block_rows=draw(st.sampled_from((1, 7, 1000))),
        nodes=draw(st.integers(1, 3)),
        nodes_after=draw(st.integers(1, 3)),
        memory=draw(st.sampled_from((0, 2000, 1 << 30))),
        shuffle=draw(st.booleans()),
        keep=draw(st.booleans()),
        seed=draw(st.integers(0, 1000)),
        stop_after=draw(st.sampled_from((0.0, 1.0)) | st.floats(0, 1)),
    )


class Gang:
    """Nodes, and the driver's leases: which node gets a split."""

    def __init__(self, case: FedCase, folder: Path, nodes: int, dice: random.Random) -> None:
        data: dict[str, Any] = {
            "inputs": {take.name: take.config for take in case.takes if take.kind == "input"},
            "targets": {take.name: take.config for take in case.takes if take.kind == "target"},
            "fill_null": {c.name: spelled(c, case.fills[c.name]) for c in case.columns if c.name in case.fills},
        }
        weights = [take.config for take in case.takes if take.kind == "weight"]
        self._table = table_of(case.columns, case.rows)
        schema = Schema({field.name: field.type for field in self._table.schema}, lambda name: None)
        config = lake_config(
            seed=case.seed, shuffle=case.shuffle, sample_weight=weights[0] if weights else None, **data
        )
        self.spec: FeedSpec = feed_spec(config, schema)
        self._case, self._dice = case, dice
        self.nodes = []
        for i in range(nodes):
            (folder / f"{i}").mkdir()
            budget = Budget(case.memory)
            staging = Staging(
                self.spec, Stream.TRAIN, block_rows=case.block_rows, budget=budget, room=1 << 40, folder=folder / f"{i}"
            )
            self.nodes.append(staging)
        self._leases = [dice.randrange(nodes) for _ in case.splits]

    def begin(self, epoch: int, cursor: Cursor, *, again: bool = False) -> None:
        for node in self.nodes:
            node.begin(epoch, cursor.done, keep=self._case.keep, again=again)

    def feed(self, epoch: int) -> None:
        """Brings every split, some of them twice, some by a feeder that dies before, in any order."""
        attempts = [split for split in range(len(self._case.splits)) for _ in range(self._dice.choice((1, 1, 2)))]
        self._dice.shuffle(attempts)
        sealed: set[int] = set()
        for split in attempts:
            node = self.nodes[self._leases[split]]
            if self._dice.random() < 0.3:
                self._bring(node, split, self._dice.random()).release()  # it dies
            if self._dice.random() < 0.5:
                rows = node.admit(epoch, split)
                assert rows == (self._case.splits[split] if split in sealed else None)
            whole = self._bring(node, split, 1.0)
            assert node.seal(epoch, split, whole, self._dice.choice(("unix", "tcp"))) == self._case.splits[split]
            sealed.add(split)
        if epoch:
            with pytest.raises(RefusedError):
                self.nodes[0].seal(epoch - 1, 0, self._bring(self.nodes[0], 0, 1.0), "tcp")

    def _bring(self, node: Staging, split: int, share: float) -> StagedRows:
        first, rows = sum(self._case.splits[:split]), self._case.splits[split]
        staged = node.new_rows()
        for batch in self._table.slice(first, int(rows * share)).to_batches(max_chunksize=self._case.batch_rows):
            staged.append(_plain(batch))
        return staged

    def give(self, epoch: int) -> None:
        """Has nodes give rows to others, as one that runs dry asks for them."""
        for _ in range(self._dice.randrange(3)):
            giver, taker = self._dice.choice(self.nodes), self._dice.choice(self.nodes)
            found = None if giver is taker else giver.give(epoch)
            if found is not None:
                queued, batches = found
                rows = taker.new_rows()
                for batch in batches:
                    rows.append(batch)
                taker.accept(queued.split, queued.first_row, queued.start, queued.stop, rows)

    def train(self, share: float = 1.0) -> tuple[list[Columns], Cursor]:
        """Trains on a share of what each node has; returns the batches, and how far that is."""
        found: list[Columns] = []
        cursor = Cursor(epoch=self.nodes[0].at[0])
        for node in self.nodes:
            mine: list[Columns] = []
            with NodeFeed(self.spec, StagedParts(node, lambda: False)) as feed:
                while rows_in(batch := feed.next_rows(self._dice.randint(1, 9))):
                    if share < 1 and self._dice.random() >= share:
                        break  # handed out, and not trained
                    mine.append(batch)
                cursor = cursor.advance(feed.consumed(sum(map(rows_in, mine))))
            found += mine
        return found, cursor


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch as Spark makes them: without dictionaries."""
    return pa.RecordBatch.from_arrays(
        [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns],
        names=batch.schema.names,
    )


@pytest.fixture(scope="module", autouse=True)
def without_waiting() -> Iterator[None]:
    """Has nodes that have run dry look around at once: nothing comes later here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KNOBS, "staged_poll_s", 0.0)
        yield


@cases(fed_cases())
def test_every_row_that_is_fed_comes_once_in_an_epoch(case: FedCase, new_folder: NewFolder) -> None:
    dice = random.Random(case.seed)
    wanted = {row["id"]: tensors_of(row, case.takes, case.fills) for row in case.rows}
    everything = sorted(wanted)
    gang = Gang(case, new_folder(), case.nodes, dice)
    gang.begin(0, Cursor())
    gang.feed(0)
    gang.give(0)
    if any(tensors.bad for tensors in wanted.values()):
        with pytest.raises(BadValueError, match=r"^partition \d+ of the data: column '.*', row \d+: "):
            gang.train()
        return
    before, cursor = gang.train(case.stop_after)
    # Another attempt, on other nodes, to which Spark brings all partitions once more.
    others = Gang(case, new_folder(), case.nodes_after, dice)
    others.begin(0, cursor)
    others.feed(0)
    others.give(0)
    after, cursor = others.train()
    assert sorted(ids_of(before + after)) == everything
    others.begin(1, Cursor(epoch=1), again=case.keep)
    if not case.keep:
        others.feed(1)
    batches, _ = others.train()
    assert sorted(ids_of(batches)) == everything
    check_values(before + after + batches, case.takes, wanted)
