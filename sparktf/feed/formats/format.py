"""The table of formats whose files trainers read themselves.

`driver/plan/planned_formats` plans such files, `driver/source/spark_formats` lets Spark read them. A new format needs a
reader, a plan, a DataFrame and its keys in the configuration, and a line in each of these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from sparktf.feature import FeedSpec
from sparktf.feed.formats.once_opened import OnceOpened
from sparktf.feed.formats.parquet import SplitReader
from sparktf.feed.formats.record_reader import RecordReader
from sparktf.feed.formats.split_sequence import Reader
from sparktf.feed.formats.splits import OpenStorage


class NewReader(Protocol):
    """Makes a reader of a feed's splits."""

    def __call__(
        self,
        spec: FeedSpec,
        open_storage: OpenStorage,
        *,
        sets_aside: bool = False,
        use_threads: bool = False,
        opened: OnceOpened[Any] | None = None,
    ) -> Reader:
        """Opens nothing yet.

        Args:
            sets_aside: Set unreadable rows aside, rather than refuse them.
            use_threads: Several threads may decode.
            opened: Files in a store that other readers of this format have opened. Default: the reader's own.
        """


@dataclass(frozen=True, slots=True)
class Format:
    """A format whose files trainers read themselves."""

    name: str  # Its name in `data.format`
    title: str  # Its name in messages
    new_reader: NewReader
    has_footers: bool  # Whether its files have footers like Parquet's, with rows and column statistics


PARQUET = Format("parquet", "Parquet", SplitReader, has_footers=True)
TFRECORD = Format("tfrecord", "TFRecord", RecordReader, has_footers=False)

FORMATS: Mapping[str, Format] = MappingProxyType({known.name: known for known in (PARQUET, TFRECORD)})
"""Name -> the format."""


def format_of(spec: FeedSpec) -> Format:
    """Returns the format of a feed's files; in stored plans it follows from the presence of record types."""
    return TFRECORD if spec.record_types else PARQUET
