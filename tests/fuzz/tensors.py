"""The oracle: what a row is to be in tensors, row after row and value after value, as docs/use/data.md promises it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fuzz.cells import Cells, Logical, Told, cast

Row = Mapping[str, Any]
"""Column -> its value, None for null, a list where the column holds lists."""


@dataclass(frozen=True)
class Column(Told):
    """A column of the source.

    Attributes:
        name: With dots where it is a field of a struct.
        size: Values of each list, where the type says so.
        dictionary: Whether it is written from a dictionary of Arrow's.
        is_partition: Whether folders hold it.
    """

    name: str
    cells: Cells
    is_list: bool = False
    size: int | None = None
    dictionary: bool = False
    is_partition: bool = False

    def __repr__(self) -> str:
        kind = f"{self.cells!r}{'[' + str(self.size or '') + ']' if self.is_list else ''}"
        return f"{self.name}: {kind}{' dictionary' if self.dictionary else ''}"

    @property
    def spark(self) -> str:
        return f"array<{self.cells.spark}>" if self.is_list else self.cells.spark


@dataclass(frozen=True)
class Take(Told):
    """A tensor that the configuration asks for.

    Attributes:
        kind: "input", "target" or "weight".
        config: As the configuration has it: `data.inputs.<name>`.
        dtype: Of the tensor.
        shape: Of one row.
        as_bytes: Whether a binary column is taken as its bytes.
    """

    kind: str
    name: str
    columns: tuple[Column, ...]
    config: Any
    dtype: str
    shape: tuple[int, ...] = ()
    pad: Any = None
    truncate: bool = False
    ragged: bool = False
    mask: str | None = None
    as_bytes: bool = False

    def __repr__(self) -> str:
        return f"{self.key}: {self.config} -> {self.dtype}{list(self.shape)}"

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}"

    @property
    def mask_key(self) -> str:
        return f"input:{self.mask}"

    @property
    def has_lists(self) -> bool:
        return self.columns[0].is_list or self.as_bytes

    @property
    def places(self) -> int:
        return int(np.prod(self.shape, dtype=int))


@dataclass
class Tensors:
    """A row's tensors.

    Attributes:
        values: Key -> array of the tensor's shape; for a ragged one, of its values.
        bad: The columns for which the row is refused.
    """

    values: dict[str, Any] = field(default_factory=dict)
    bad: set[str] = field(default_factory=set)


def tensors_of(row: Row, takes: Sequence[Take], fills: Mapping[str, Logical]) -> Tensors:
    """Returns what becomes of a row.

    Args:
        fills: Column -> the value that `data.fill_null` names.
    """
    made = Tensors()
    for take in takes:
        if take.has_lists:
            _lists(row, take, fills, made)
        else:
            _singles(row, take, fills, made)
    return made


def _singles(row: Row, take: Take, fills: Mapping[str, Logical], made: Tensors) -> None:
    numbers, there = [], []
    for column in take.columns:
        value = row[column.name]
        there.append(value is not None)
        number = _number(value, column, take, fills)
        fitting = None if number is None else _fitting(number, take)
        if fitting is None:
            made.bad.add(column.name)
        numbers.append(fitting)
    made.values[take.key] = _shaped(numbers, take)
    if take.mask:
        made.values[take.mask_key] = np.array(there).reshape(take.shape)


def _lists(row: Row, take: Take, fills: Mapping[str, Logical], made: Tensors) -> None:
    (column,) = take.columns
    values = row[column.name]
    fill = _fill(column, take, fills)
    is_bad = values is None and fill is None
    there = [] if values is None else [value is not None for value in values]
    numbers = [] if values is None else [fill if value is None else _read(value, column, take) for value in values]
    if not take.ragged:
        is_bad |= values is not None and (
            (len(numbers) < take.places and take.pad is None) or (len(numbers) > take.places and not take.truncate)
        )
        numbers, there = numbers[: take.places], there[: take.places]
    fitting = [None if number is None else _fitting(number, take) for number in numbers]
    if not take.ragged:
        missing = take.places - len(fitting)
        blank = None if fill is None else _fitting(fill, take)
        if take.pad is not None:
            blank = take.pad.encode() if isinstance(take.pad, str) else np.dtype(take.dtype).type(take.pad)
        fitting += [blank] * missing
        there += [False] * missing
    if is_bad or any(number is None for number in fitting):
        made.bad.add(column.name)
    made.values[take.key] = _shaped(fitting, take)
    if take.mask:
        made.values[take.mask_key] = np.array(there, bool).reshape(take.shape)


def _number(value: Logical | None, column: Column, take: Take, fills: Mapping[str, Logical]) -> Any:
    return _fill(column, take, fills) if value is None else _read(value, column, take)


def _fill(column: Column, take: Take, fills: Mapping[str, Logical]) -> Any:
    """Returns what takes the place of a null; None where it is refused."""
    if column.name in fills:
        return _read(fills[column.name], column, take)
    if take.mask is None:
        return None
    return b"" if take.dtype == "string" else np.dtype(take.dtype).type(0)


def _read(value: Logical, column: Column, take: Take) -> Any:
    return np.uint8(value) if take.as_bytes else column.cells.number(value)


def _fitting(number: Any, take: Take) -> Any:
    """Returns a value in the tensor's dtype; None where it is refused."""
    if take.dtype == "string":
        return number
    value = cast(number, take.dtype)
    if take.kind == "input" or value is None:
        return value
    if not np.isfinite(value) or (take.kind == "weight" and value < 0):
        return None
    return value


def _shaped(values: Sequence[Any], take: Take) -> Any:
    if any(value is None for value in values):
        return None
    shape = (len(values),) if take.ragged else take.shape
    if take.dtype == "string":
        text = np.empty(len(values), object)
        text[:] = values
        return text.reshape(shape)
    return np.array(values, take.dtype).reshape(shape)
