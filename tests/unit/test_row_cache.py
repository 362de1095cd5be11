"""`data.cache: disk`: rows that were read once from a remote storage come from the local disk in later epochs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lakes import array, deal, lake_config, placed, plan_lake, write_file, write_lake

from sparktf.driver.plan.plan import Plan
from sparktf.errors import BadValueError, SourceNotFoundError
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.formats.row_cache import RowCache
from sparktf.feed.pipeline import NodeFeed
from sparktf.sequence import Stream
from sparktf.storage.base import FileEntry, Storage
from sparktf.storage.local import LocalStorage

MIB = 1 << 20


class FarStorage:
    """Local files that no reader knows to be local; counts the files that are opened."""

    reads_ahead = 2

    def __init__(self) -> None:
        self.opened = 0
        self._storage = LocalStorage()

    def __call__(self, path: str) -> Storage:
        del path
        return self  # type: ignore[return-value]

    def stat(self, path: str) -> FileEntry:
        return self._storage.stat(path)

    def open(self, path: str) -> Any:
        self.opened += 1
        return self._storage.open(path)


class Reads:
    """The epochs of one node that keeps its rows."""

    def __init__(self, plan: Plan, folder: Path, limit_nbytes: int = 64 * MIB) -> None:
        self.storage, self.warned = FarStorage(), list[str]()
        self.folder = folder / "rows"
        self.cache = RowCache(self.folder, limit_nbytes, self.warned.append)
        self._plan = plan

    def epoch(self, number: int) -> list[int]:
        """Returns the ids of an epoch's rows, in the order of training."""
        (share,) = deal(self._plan, epoch=number)
        with NodeFeed(self._plan.spec, PlannedParts(self._plan.spec, share, self.storage, cache=self.cache)) as feed:
            batch = feed.next_rows(share.rows or 0)
        return [int(i) for i in array(batch, "input:id")]


def test_a_second_epoch_needs_no_storage(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake")
    plan = plan_lake(lake)
    kept, anew = Reads(plan, tmp_path), Reads(plan, tmp_path / "lake", limit_nbytes=1)
    first, opened = kept.epoch(0), kept.storage.opened
    same = anew.epoch(1)
    shutil.rmtree(lake)
    assert kept.epoch(1) == same, "the order of an epoch is the plan's, wherever its rows come from"
    assert sorted(first) == sorted(same) == list(range(229))
    assert kept.storage.opened == opened
    assert kept.cache.read_nbytes > 0
    assert not kept.warned


def test_it_takes_no_more_than_it_may_and_the_rest_is_read_again(tmp_path: Path) -> None:
    plan = plan_lake(write_lake(tmp_path / "lake"))
    kept = Reads(plan, tmp_path, limit_nbytes=3_000)
    assert sorted(kept.epoch(0)) == sorted(kept.epoch(1)) == list(range(229))
    on_disk = sum(file.stat().st_size for file in kept.folder.iterdir())
    assert 0 < on_disk < 3_000 + 2_000, "one more group than fits in, at most, with Arrow's words around its columns"
    assert kept.cache.nbytes == on_disk


def test_damage_on_the_disk_is_found_and_said_and_the_rows_are_read_again(tmp_path: Path) -> None:
    plan = plan_lake(write_lake(tmp_path / "lake"))
    kept = Reads(plan, tmp_path)
    kept.epoch(0)
    damaged, gone = sorted(kept.folder.iterdir())[:2]
    content = bytearray(damaged.read_bytes())
    content[-20] ^= 1
    damaged.write_bytes(content)
    gone.unlink()
    assert sorted(kept.epoch(1)) == list(range(229))
    assert len(kept.warned) == 2
    assert str(damaged) in "".join(kept.warned)
    assert "its checksum is wrong" in "".join(kept.warned)


def test_a_bad_row_of_a_later_epoch_is_named_as_in_the_first(tmp_path: Path) -> None:
    rows = {"id": np.arange(40), "a": np.ones(40, "f4"), "b": np.ones(40, "f4")}
    label = pa.array([None if i == 33 else i % 7 for i in range(40)], pa.int32())
    write_file(tmp_path / "lake" / "p.parquet", pa.table({**rows, "label": label}), group_rows=16)
    plan, said = plan_lake(tmp_path / "lake"), list[str]()
    kept = Reads(plan, tmp_path)
    for number in range(2):
        with pytest.raises(BadValueError) as refused:
            kept.epoch(number)
        said.append(str(refused.value))
    assert "row 33" in said[0]
    assert said[1] == said[0]


def test_another_file_in_its_place_is_never_taken_for_it(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake")
    kept = Reads(plan_lake(lake), tmp_path, limit_nbytes=1)
    kept.epoch(0)
    shutil.rmtree(lake)
    with pytest.raises(SourceNotFoundError, match="was deleted after the plan was made"):
        kept.epoch(1)


@pytest.mark.parametrize("nodes", [2, 3, 7])
def test_each_node_gets_the_blocks_again_that_it_had(nodes: int) -> None:
    plan = placed(1, 1, 400, block_rows=40_000)
    total = plan.rows(Stream.TRAIN)

    def blocks(epoch: int, *, sticky: bool) -> list[set[int]]:
        shares = plan.assignments(
            Stream.TRAIN, epoch, [(0, total)], ["elsewhere"] * nodes, rebalance=True, sticky=sticky
        )
        rows = [sum(piece.stop - piece.start for piece in share.pieces) for share in shares]
        assert sum(rows) == total
        assert max(rows) - min(rows) <= 1
        return [{piece.block for piece in share.pieces} for share in shares]

    def again(sticky: bool) -> float:
        pairs = zip(blocks(0, sticky=sticky), blocks(1, sticky=sticky), strict=True)
        return float(np.mean([len(one & two) / len(two) for one, two in pairs]))

    assert again(sticky=True) > 0.95
    assert again(sticky=False) < 0.95 / nodes + 0.2


def test_what_is_kept_may_change_when_a_run_is_resumed(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake")
    hashes = {lake_config(lake, cache=cache, cache_mib=mib).plan_hash() for cache, mib in (("auto", 1), ("disk", 2))}
    assert len(hashes) == 1
