"""Divides the parameter servers' variables into the data files of one ordinary TensorFlow checkpoint.

A data file is a *part*: several whole variables, or some rows of a large one. TensorFlow copies a variable that is read
whole after a sparse update, hence the rows. Any server can read any part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sparktf.sequence import Interval

PART_NBYTES = 32 << 20
"""Size of a part: the memory that a server needs for writing, beside its variables."""


class OwnedVariable(NamedTuple):
    """A variable that a parameter server holds."""

    key: str  # Name in the checkpoint
    server: int
    family: str  # A part holds variables of one family only, so that it can be read without the others
    shape: tuple[int, ...]
    itemsize: int  # Bytes of a value

    @property
    def row_nbytes(self) -> int:
        """Bytes of a row, or of a scalar."""
        nbytes = self.itemsize
        for size in self.shape[1:]:
            nbytes *= size
        return nbytes

    @property
    def nbytes(self) -> int:
        return self.row_nbytes * (self.shape[0] if self.shape else 1)


class Part(NamedTuple):
    """The content of one data file."""

    server: int
    keys: tuple[str, ...]  # Its variables
    nbytes: int
    rows: Interval | None = None  # Rows of a single variable; None for whole variables
    shape: tuple[int, ...] = ()  # Shape of that variable


def parts_of(variables: Sequence[OwnedVariable], limit: int = PART_NBYTES) -> list[Part]:
    """Returns the parts of a checkpoint, of each server's variables in their order.

    No part is larger than `limit`, unless it is a single row.
    """
    parts: list[Part] = []
    for server in sorted({variable.server for variable in variables}):
        held = [variable for variable in variables if variable.server == server]
        for family in dict.fromkeys(variable.family for variable in held):
            parts += _parts_of([variable for variable in held if variable.family == family], limit)
    return parts


def _parts_of(held: Sequence[OwnedVariable], limit: int) -> Iterator[Part]:
    small: list[OwnedVariable] = []
    for variable in held:
        if variable.nbytes > limit and variable.shape:
            yield from _slices(variable, limit)
            continue
        if small and sum(v.nbytes for v in small) + variable.nbytes > limit:
            yield _whole(small)
            small = []
        small.append(variable)
    if small:
        yield _whole(small)


def _whole(variables: Sequence[OwnedVariable]) -> Part:
    return Part(variables[0].server, tuple(v.key for v in variables), sum(v.nbytes for v in variables))


def _slices(variable: OwnedVariable, limit: int) -> Iterator[Part]:
    rows = variable.shape[0]
    step = max(limit // variable.row_nbytes, 1)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        yield Part(
            variable.server, (variable.key,), (stop - start) * variable.row_nbytes, (start, stop), variable.shape
        )


def slice_spec(shape: Sequence[int], rows: Interval) -> str:
    """Returns TensorFlow's slice specification of rows: the whole shape, then start and length on each axis."""
    start, stop = rows
    extents = [(start, stop - start), *((0, size) for size in shape[1:])]
    return f"{' '.join(map(str, shape))} {':'.join(f'{first},{length}' for first, length in extents)}"
