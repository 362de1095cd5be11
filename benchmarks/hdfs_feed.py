"""The direct Parquet feed from HDFS beside hdfs-native reading the same files to nowhere: `make bench-hdfs`.

On a mini cluster of its own, which it takes down again; in one run, alternating. Bytes are those of the files; the feed
decodes all columns of them, and hands out batches.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Sequence

import hdfs_native
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _report import figure, report

from minihadoop import ClusterConfig, MiniHadoop, down, up
from sparktf.config.job import JobConfig
from sparktf.driver.plan.planner import plan_source
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.formats.parquet import SplitReader
from sparktf.feed.pipeline import NodeFeed
from sparktf.hadoop import HadoopConf
from sparktf.sequence import Assignment, Stream
from sparktf.storage.file_systems import FileSystems

FILES, ROWS, GROUP_ROWS, COLUMNS, BLOCK_MIB = 4, 2_000_000, 250_000, 16, 128
BATCH, RUNS = 8_192, 5
LAKE = "/lake"


def write_lake(cluster: MiniHadoop) -> None:
    """Writes FILES files of ROWS rows of random numbers to HDFS, each in blocks of BLOCK_MIB."""
    random = np.random.default_rng(0)
    for i in range(FILES):
        columns = {f"x{c}": random.random(ROWS, dtype=np.float32) for c in range(COLUMNS)}
        sink = io.BytesIO()
        table = pa.table({**columns, "y": random.random(ROWS, dtype=np.float32)})
        pq.write_table(table, sink, row_group_size=GROUP_ROWS, compression="none", use_dictionary=False)
        cluster.hdfs.put(f"{LAKE}/part-{i}.parquet", sink.getvalue())


def read_to_nowhere(url: str, files: Sequence[str]) -> float:
    """Returns the bytes per second of hdfs-native, in the way that is its fastest."""
    client = hdfs_native.Client(url)
    nbytes, start = 0, time.perf_counter()
    for path in files:
        reader = client.read(path)
        for chunk in reader.read_range_stream(0, len(reader)):
            nbytes += len(chunk)
    return nbytes / (time.perf_counter() - start)


class Feed:
    """The lake as one node reads it."""

    def __init__(self, conf: HadoopConf) -> None:
        self._systems = FileSystems(conf)
        config = JobConfig.model_validate(
            {
                "name": "bench",
                "model": "none:none",
                "data": {
                    "path": self._systems.normalise(LAKE),
                    "inputs": {"x": ["x*"]},
                    "targets": {"y": "y"},
                    "prefetch_mib": 512,
                },
                "output": {"path": "/nowhere"},
            }
        )
        self._plan = plan_source(config, self._systems.open, lambda *_: [])
        self.files = [path.removeprefix(conf.default_fs) for path in self._plan.files]

    def decode(self) -> float:
        """Returns the bytes per second of reading and decoding alone."""
        reader = SplitReader(self._plan.spec, self._systems.open)
        nbytes, start = 0, time.perf_counter()
        for piece in self._assignment().pieces:
            for split in piece.splits:
                reader.read(split)
                nbytes += split.nbytes
        reader.close()
        return nbytes / (time.perf_counter() - start)

    def feed(self) -> float:
        """Returns the bytes per second of shuffled batches."""
        rows, start = 0, time.perf_counter()
        with NodeFeed(self._plan.spec, PlannedParts(self._plan.spec, self._assignment(), self._systems.open)) as feed:
            while n := len(feed.next_rows(BATCH)["target:y"]):
                rows += n
            nbytes = feed.nbytes
        seconds = time.perf_counter() - start
        if rows != FILES * ROWS:
            raise SystemExit(f"{rows} of {FILES * ROWS} rows came")
        return nbytes / seconds

    def _assignment(self) -> Assignment:
        (assignment,) = self._plan.assignments(Stream.TRAIN, 0, [(0, FILES * ROWS)], [""], rebalance=True)
        return assignment


def measure(cluster: MiniHadoop) -> None:
    """Measures and reports, inside the cluster's network."""
    write_lake(cluster)
    conf = HadoopConf.from_folder(cluster.conf_dir())
    feed = Feed(conf)
    read_to_nowhere(conf.default_fs, feed.files)  # warms the page cache
    runs = [(read_to_nowhere(conf.default_fs, feed.files), feed.decode(), feed.feed()) for _ in range(RUNS)]
    limit, decoded, fed = (np.array(column) for column in zip(*runs, strict=True))
    report(
        "hdfs",
        [
            figure("hdfs-native to nowhere", limit / 1e6, unit="MB/s"),
            figure("row groups read and decoded / hdfs-native", decoded / limit, unit="ratio"),
            figure("direct feed, shuffled / hdfs-native", fed / limit, unit="ratio", goal=">= 0.6"),
        ],
    )


def main() -> None:
    """Brings a cluster up and takes it down."""
    config = ClusterConfig(f"bench-{os.getpid()}", hosts=2, block_mib=BLOCK_MIB)
    try:
        cluster = up(config, print)
        with cluster.inside():
            measure(cluster)
    finally:
        down(config.name, print)


if __name__ == "__main__":
    main()
