"""How the variables that parameter servers hold become the data files of one ordinary TensorFlow checkpoint.

A data file is a *part*: some variables whole, or rows of a large one, which would be copied if it was read whole once
something was scattered into it. Which server has written a part plays no role when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sparktf.sequence import Interval

PART_NBYTES = 32 << 20
"""So much memory a server needs beside its variables while it writes them."""


class OwnedVariable(NamedTuple):
    """A variable that a parameter server holds.

    Attributes:
        key: Its name in the checkpoint.
        family: Only what is of one family shares a part, so that it can be read without the others.
        itemsize: Bytes of a value.
    """

    key: str
    server: int
    family: str
    shape: tuple[int, ...]
    itemsize: int

    @property
    def row_nbytes(self) -> int:
        """Bytes of a row; of a scalar, which has none, bytes of all."""
        nbytes = self.itemsize
        for size in self.shape[1:]:
            nbytes *= size
        return nbytes

    @property
    def nbytes(self) -> int:
        return self.row_nbytes * (self.shape[0] if self.shape else 1)


class Part(NamedTuple):
    """What one data file holds.

    Attributes:
        keys: Variables.
        rows: Which rows of the only one; None for all that there is of them.
        shape: Of the variable whose rows these are.
    """

    server: int
    keys: tuple[str, ...]
    nbytes: int
    rows: Interval | None = None
    shape: tuple[int, ...] = ()


def parts_of(variables: Sequence[OwnedVariable], limit: int = PART_NBYTES) -> list[Part]:
    """Returns the parts of a checkpoint: of each server's variables in their order, none larger than `limit`.

    A single row that is larger is a part.
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
    """Returns how TensorFlow names rows of a tensor: the shape of all, and of each axis start and length."""
    start, stop = rows
    extents = [(start, stop - start), *((0, size) for size in shape[1:])]
    return f"{' '.join(map(str, shape))} {':'.join(f'{first},{length}' for first, length in extents)}"
