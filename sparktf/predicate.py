"""A filter over columns in the files that both Spark and the trainers can evaluate: comparisons that must all hold.

The values mean what they do in Spark: dates are days since 1970, timestamps microseconds.
"""

from __future__ import annotations

import enum

from sparktf.message import Message

FillValue = bool | int | float | str
"""A value in place of a null."""


class Op(enum.StrEnum):
    """A comparison. If the column is null, only `NULL` holds."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    NULL = "is null"
    NOT_NULL = "is not null"


class Condition(Message):
    """A column compared with constants of its own type."""

    column: str  # Its name in the files
    op: Op
    values: tuple[bool | int | float | str, ...] = ()  # One; for `Op.IN` any number, for the tests for null none
