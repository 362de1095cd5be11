"""The direct Parquet feed from S3 on loopback, beside obstore and PyArrow alone, and from its disk: make bench-stores.

A server of its own, in one run, alternating. Rows are those of the same row groups, decoded in one thread of the caller
or as the feed does; "alone" is what one would write by hand: obstore's ranges of a row group, and PyArrow's reader over
them, one row group after the other, or as many at a time as the feed has.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from _lake import float_columns, lake_config, write_lake
from _report import figure, report
from object_stores import s3_server
from obstore.store import S3Store

from sparktf.config.job import JobConfig
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.planner import plan_source
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.formats.parquet import SplitReader
from sparktf.feed.formats.row_cache import RowCache
from sparktf.feed.formats.split_sequence import SplitSequence
from sparktf.feed.pipeline import NodeFeed
from sparktf.hadoop import HadoopConf
from sparktf.sequence import Assignment, Split, Stream
from sparktf.storage.file_systems import FileSystems, open_storage

ROWS, GROUP_ROWS = 4_000_000, 100_000
BATCH, RUNS, AHEAD = 8_192, 5, 3
BUCKET = "bench"


class _Alone:
    """A file in a bucket as PyArrow wants one; each read is a request."""

    def __init__(self, store: S3Store, name: str) -> None:
        self.closed = False
        self._store, self._name, self._at = store, name, 0
        self._nbytes = obstore.head(store, name)["size"]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = [0, self._at, self._nbytes][whence] + offset
        return self._at

    def read_buffer(self, nbytes: int) -> pa.Buffer:
        stop = min(self._at + nbytes, self._nbytes)
        chunk = obstore.get_range(self._store, self._name, start=self._at, end=stop) if stop > self._at else b""
        self._at = stop
        return pa.py_buffer(chunk)

    def close(self) -> None:
        self.closed = True


class Lake:
    """One table in a bucket and on the disk, and the ways of reading it."""

    def __init__(self, folder: Path, properties: dict[str, str]) -> None:
        schema = float_columns(ROWS, GROUP_ROWS)
        self.local = write_lake(folder / "lake", schema)
        self._systems, root = FileSystems(HadoopConf(properties=properties)), f"s3a://{BUCKET}/lake"
        self._folder = folder
        storage = self._systems.open(root)
        for file in sorted(self.local.iterdir()):
            storage.upload(file, f"{root}/{file.name}")
        self._store = S3Store(
            BUCKET,
            config={
                "endpoint": properties["fs.s3a.endpoint"],
                "region": "us-east-1",
                "access_key_id": properties["fs.s3a.access.key"],
                "secret_access_key": properties["fs.s3a.secret.key"],
                "virtual_hosted_style_request": False,
            },
            client_options={"allow_http": True},
        )
        config = lake_config(Path("lake"), schema, prefetch_mib=512)
        self.far = self._plan(config, root, self._systems.open)
        self.near = self._plan(config, str(self.local), open_storage)

    def _plan(self, config: JobConfig, path: str, opened: Callable[[str], Any]) -> Plan:
        data = config.data.model_copy(update={"path": path})
        return plan_source(config.model_copy(update={"data": data}), opened, lambda *_: [])

    def alone(self, at_once: int) -> float:
        """Returns rows per second of obstore and PyArrow, for the row groups in the order of the feed."""
        start, splits = time.perf_counter(), list(_splits(_share(self.far)))
        names = sorted({split.path.removeprefix(f"s3a://{BUCKET}/") for split in splits})
        footers = {name: pq.read_metadata(pa.PythonFile(_Alone(self._store, name), mode="r")) for name in names}

        def read(split: Split) -> int:
            name = split.path.removeprefix(f"s3a://{BUCKET}/")
            source = pa.PythonFile(_Alone(self._store, name), mode="r")
            with pq.ParquetFile(source, metadata=footers[name], pre_buffer=True) as file:
                return int(file.read_row_group(split.row_group, use_threads=False).num_rows)

        with ThreadPoolExecutor(at_once) as pool:
            rows = sum(pool.map(read, splits))
        return rows / (time.perf_counter() - start)

    def groups(self) -> float:
        """Returns rows per second of the feed's readers: the same row groups, checked, without batches."""
        start, splits = time.perf_counter(), list(_splits(_share(self.far)))
        groups = SplitSequence(lambda: SplitReader(self.far.spec, self._systems.open), ahead=AHEAD)
        groups.add(splits)
        rows = sum(groups.read(1)[0].rows for _ in splits)
        groups.close()
        return rows / (time.perf_counter() - start)

    def feed(self) -> float:
        """Returns rows per second of shuffled batches from the store."""
        return _fed(self.far, self._systems.open, 0)

    def local_feed(self) -> float:
        """Returns rows per second of shuffled batches from the local files."""
        return _fed(self.near, open_storage, 1)

    def second_epoch(self) -> float:
        """Returns rows per second of an epoch whose rows an earlier one has kept on the disk."""
        folder = self._folder / "rows"
        cache = RowCache(folder, 8 << 30, print)
        _fed(self.far, self._systems.open, 0, cache)
        found = _fed(self.far, self._systems.open, 1, cache)
        shutil.rmtree(folder)
        return found


def _share(plan: Plan, epoch: int = 0) -> Assignment:
    (share,) = plan.assignments(Stream.TRAIN, epoch, [(0, ROWS)], [""], rebalance=True)
    return share


def _splits(share: Assignment) -> Sequence[Split]:
    return [split for piece in share.pieces for split in piece.splits]


def _fed(plan: Plan, opened: Callable[[str], Any], epoch: int, cache: RowCache | None = None) -> float:
    rows, start = 0, time.perf_counter()
    with NodeFeed(plan.spec, PlannedParts(plan.spec, _share(plan, epoch), opened, cache=cache)) as feed:
        while n := len(feed.next_rows(BATCH)["target:y"]):
            rows += n
    if rows != ROWS:
        raise SystemExit(f"{rows} of {ROWS} rows came")
    return rows / (time.perf_counter() - start)


def main() -> None:
    """Brings a server up and takes it down."""
    with tempfile.TemporaryDirectory(prefix="bench-stores-") as folder, s3_server(Path(folder, "s3")) as server:
        lake = Lake(Path(folder), server.hadoop())
        by_hand = [partial(lake.alone, 1), partial(lake.alone, AHEAD)]
        ways: list[Callable[[], float]] = [*by_hand, lake.groups, lake.feed, lake.local_feed, lake.second_epoch]
        for way in ways:  # warms caches up
            way()
        runs = np.array([[way() for way in ways] for _ in range(RUNS)])
    alone, together, groups, fed, near, second = runs.T
    report(
        "stores",
        [
            figure("obstore and PyArrow alone, one row group at a time", alone / 1e6, unit="M rows/s"),
            figure(f"obstore and PyArrow alone, {AHEAD} at a time", together / 1e6, unit="M rows/s"),
            figure("row groups read by the feed / alone, as many", groups / together, unit="ratio", goal=">= 0.8"),
            figure("direct feed from S3, shuffled / alone, one at a time", fed / alone, unit="ratio"),
            figure("direct feed from S3, shuffled / alone, as many at a time", fed / together, unit="ratio"),
            figure("second epoch from data.cache: disk / local Parquet", second / near, unit="ratio", goal=">= 0.8"),
        ],
    )


if __name__ == "__main__":
    main()
