"""Who reads the files of a feed: it depends on their format."""

from __future__ import annotations

from sparktf.feature import FeedSpec
from sparktf.feed.formats.parquet import SplitReader
from sparktf.feed.formats.record_reader import RecordReader
from sparktf.feed.formats.split_sequence import Reader
from sparktf.feed.formats.splits import OpenStorage


def new_reader(
    spec: FeedSpec, open_storage: OpenStorage, *, sets_aside: bool = False, use_threads: bool = False
) -> Reader:
    """Returns what reads the splits of a feed: see `SplitReader` and `RecordReader`."""
    if spec.record_types:
        return RecordReader(spec, open_storage, sets_aside=sets_aside)
    return SplitReader(spec, open_storage, sets_aside=sets_aside, use_threads=use_threads)
