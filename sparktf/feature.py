"""Resolved features: the columns of each tensor; made by the planner, used by feed and trainer."""

from __future__ import annotations

import enum
import math
from typing import Any, NamedTuple

import numpy as np
from pydantic import model_validator

from sparktf.message import Message
from sparktf.predicate import Condition, FillValue

TEXT = "string"


class Kind(enum.StrEnum):
    """The use of a tensor, as the user declared it."""

    INPUT = "input"
    TARGET = "target"
    WEIGHT = "weight"


class Feature(Message):
    """A tensor `[batch, *shape]`, or `[batch, None]` if it is ragged."""

    kind: Kind
    name: str  # Model input or output it belongs to ("" for one weight of all outputs)
    columns: tuple[str, ...]  # Source columns; several are packed into a vector
    dtype: str  # TensorFlow dtype name, "string" for text
    shape: tuple[int, ...] = ()  # Shape of one row, () for a scalar
    ragged: bool = False  # Rows are lists of any length; the shape is that of one value, ()
    # Fills lists that have fewer values than the shape; None if every list must have as many
    pad: FillValue | None = None
    truncate: bool = False  # Lists may have more values than the shape: the first ones count
    # Nulls are allowed: they are filled (`FeedSpec.fill_null`, else zero or empty text), and a mask marks them
    masked: bool = False
    is_mask: bool = False  # The tensor is such a mask: bool, whether each value exists

    @property
    def key(self) -> str:
        """Unique name of the tensor within a batch, e.g. "input:pixels"."""
        return f"{self.kind.value}:{self.name}"

    @property
    def is_text(self) -> bool:
        return self.dtype == TEXT

    @property
    def is_array(self) -> bool:
        """Whether the rows are an array [rows, *shape]: neither text nor ragged."""
        return not (self.is_text or self.ragged)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of the tensor as an array; text is an array of `bytes` objects."""
        return np.dtype(object if self.is_text else self.dtype)

    @property
    def places(self) -> int:
        """Values of one row."""
        return math.prod(self.shape)

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row as an array; for text of the int32 codes alone, for ragged rows of one value."""
        return (4 if self.is_text else self.numpy_dtype.itemsize) * self.places


class FeedLimits(NamedTuple):
    """Limits on a node's reading. No part of the plan: every start of a run may have others."""

    prefetch_bytes: int = 256 << 20  # Upper bound of the rows read ahead
    max_bad_rows: int = 0  # Rows of a stream and epoch that may be left out because they fail a check


class FeedSpec(Message):
    """The specification by which nodes turn splits into tensors, the same for every node and epoch."""

    features: tuple[Feature, ...]
    partition_columns: tuple[str, ...] = ()  # Names of hive-style partition columns, in the order of `Split.partition`
    # Their Spark types ("int", "bigint", "decimal(20,0)", "double", "date", "timestamp", "string", "void")
    partition_types: tuple[str, ...] = ()
    fill_null: dict[str, FillValue] = {}  # Column -> value in place of null
    renamed: dict[str, str] = {}  # Column -> its name in the files, if that differs
    where: tuple[Condition, ...] = ()  # Condition on the files' rows that belong to the stream
    # Columns without values and type in some files -> Spark's type of them, from the other files
    untyped: dict[str, str] = {}
    record_types: dict[str, str] = {}  # Of TFRecord files: column -> Spark's type of it. Empty for Parquet files.
    shuffle: bool = True
    seed: int = 0

    @model_validator(mode="before")
    @classmethod
    def _without_limits(cls, stored: Any) -> Any:
        """Drops the limits from plans that were stored before `FeedLimits` held them."""
        if isinstance(stored, dict):
            return {key: value for key, value in stored.items() if key not in ("prefetch_bytes", "max_bad_rows")}
        return stored

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row over all features."""
        return sum(feature.row_nbytes for feature in self.features)

    @property
    def inputs(self) -> tuple[Feature, ...]:
        return tuple(f for f in self.features if f.kind is Kind.INPUT)

    @property
    def targets(self) -> tuple[Feature, ...]:
        return tuple(f for f in self.features if f.kind is Kind.TARGET)

    @property
    def weights(self) -> tuple[Feature, ...]:
        return tuple(f for f in self.features if f.kind is Kind.WEIGHT)
