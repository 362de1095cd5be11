"""Files that trainers would read otherwise than Spark, and so leave to Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sparktf.errors import CorruptFileError


class NotPlainError(ValueError):
    """Trainers would read other values than Spark; the message is the reason, for a sentence's end."""


@contextmanager
def left_to_spark() -> Iterator[None]:
    """Leaves files to Spark that Arrow does not read. Raises `NotPlainError` for such a file."""
    try:
        yield
    except CorruptFileError as error:
        if error.may_be_sparks:
            raise NotPlainError(str(error)) from error
        raise
