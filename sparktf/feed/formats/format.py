"""The table of formats whose files trainers read themselves: who reads them, and what they tell of themselves.

`driver/plan/planned_formats` has how such files are planned, `driver/source/spark_formats` how Spark reads them. A new
format is a reader, a plan, a DataFrame and the keys of its own in the configuration: and a line in each of the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from sparktf.feature import FeedSpec
from sparktf.feed.formats.parquet import SplitReader
from sparktf.feed.formats.record_reader import RecordReader
from sparktf.feed.formats.split_sequence import Reader
from sparktf.feed.formats.splits import OpenStorage


class NewReader(Protocol):
    """Makes what reads the splits of a feed."""

    def __call__(
        self, spec: FeedSpec, open_storage: OpenStorage, *, sets_aside: bool = False, use_threads: bool = False
    ) -> Reader:
        """Opens nothing yet.

        Args:
            sets_aside: What cannot be read is set aside, rather than refused.
            use_threads: It may be decoded by several threads.
        """


@dataclass(frozen=True, slots=True)
class Format:
    """A format whose files trainers read themselves.

    Attributes:
        name: How `data.format` calls it.
        title: How messages call it.
        new_reader: Makes what reads the splits of its files.
        has_footers: Whether its files end in footers as Parquet's, which tell rows and statistics of the columns.
    """

    name: str
    title: str
    new_reader: NewReader
    has_footers: bool


PARQUET = Format("parquet", "Parquet", SplitReader, has_footers=True)
TFRECORD = Format("tfrecord", "TFRecord", RecordReader, has_footers=False)

FORMATS: Mapping[str, Format] = MappingProxyType({known.name: known for known in (PARQUET, TFRECORD)})
"""Name -> the format."""


def format_of(spec: FeedSpec) -> Format:
    """Returns the format of the files that a feed reads: stored plans tell it by what they know of the files' types."""
    return TFRECORD if spec.record_types else PARQUET
