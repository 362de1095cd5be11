"""Random columns, and random configurations that are right for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from fuzz.cells import FLOATS, SCALARS, WHOLE, Cells
from fuzz.tensors import Column, Take
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

ID = Column("id", next(cells for cells in SCALARS if cells.spark == "bigint"))
"""Tells the rows apart; always an input."""
ID_TAKE = Take("input", "id", (ID,), "id", "int64")
_DTYPES = (*FLOATS, *WHOLE, "bool")
_STRUCTS = ("", "", "", "s.", "s.t.", "u.")


@st.composite
def columns(
    draw: DrawFn,
    *,
    structs: bool = True,
    max_size: int = 5,
    kinds: Sequence[Cells] = SCALARS,
    names: Sequence[str] = ("",),
) -> list[Column]:
    """Draws the columns of a source beside its id.

    Args:
        names: What their names may end with.
    """
    made = []
    for i in range(draw(st.integers(1, max_size))):
        prefix = draw(st.sampled_from(_STRUCTS)) if structs else ""
        cells = draw(st.sampled_from(kinds))
        is_list = draw(st.booleans())
        size: int | None = draw(st.sampled_from((None, 1, 2, 3))) if is_list and not prefix else None
        dictionary: bool = cells.is_text and not is_list and draw(st.booleans())
        made.append(Column(f"{prefix}c{i}{draw(st.sampled_from(names))}", cells, is_list, size, dictionary))
    return made


@st.composite
def takes(draw: DrawFn, found: Sequence[Column]) -> list[Take]:
    """Draws inputs of all columns, a target and perhaps a weight of some."""
    made = [ID_TAKE]
    numbers = [column for column in found if not column.is_list and not column.cells.is_text]
    for i, column in enumerate(found):
        made.append(draw(_input(f"x{i}", column)))
    if len(numbers) > 1 and draw(st.booleans()):
        made.append(draw(_packed("p", draw(st.lists(st.sampled_from(numbers), min_size=1, max_size=3, unique=True)))))
    target = draw(st.sampled_from([ID, *numbers, *(column for column in found if column.size and not column.is_list)]))
    made.append(draw(_target(target)))
    if draw(st.booleans()) and numbers:
        column = draw(st.sampled_from(numbers))
        made.append(Take("weight", "", (column,), column.name, "float32"))
    return made


def _dtype(draw: DrawFn, cells: Cells) -> str | None:
    if not cells.dtype:
        return draw(st.sampled_from(("float32", "float64")))
    return draw(st.none() | st.sampled_from(_DTYPES))


@st.composite
def _target(draw: DrawFn, column: Column) -> Take:
    dtype = _dtype(draw, column.cells)
    config = {"columns": column.name, **({"dtype": dtype} if dtype else {})}
    return Take("target", "y", (column,), config, dtype or column.cells.dtype)


@st.composite
def _input(draw: DrawFn, name: str, column: Column) -> Take:
    cells = column.cells
    as_bytes = cells.spark == "binary" and not column.is_list and draw(st.booleans())
    dtype = "uint8" if as_bytes else None if cells.is_text else _dtype(draw, cells)
    config: dict[str, Any] = {"columns": column.name}
    if dtype:
        config["dtype"] = dtype
    made = dtype or cells.dtype
    if not (column.is_list or as_bytes):
        mask = _mask(draw, name, column)
        config |= {"mask": mask} if mask else {}
        return Take("input", name, (column,), config, made, mask=mask)
    # A list of a fixed size has that shape by itself, but for a reader who does not know Arrow's schema.
    if draw(st.integers(0, 3)) == 0:
        return Take("input", name, (column,), {**config, "ragged": True}, made, ragged=True, as_bytes=as_bytes)
    pad = draw(st.none() | _pads(made))
    truncate = draw(st.booleans())
    shape = (column.size,) if column.size and not (pad is not None and truncate) else draw(st.sampled_from(_SHAPES))
    mask = _mask(draw, name, column)
    config |= {"shape": list(shape), "pad": pad, "truncate": truncate, "mask": mask}
    return Take("input", name, (column,), config, made, shape, pad, truncate, False, mask, as_bytes)


_SHAPES = ((1,), (2,), (3,), (1, 2), (2, 2))


def _mask(draw: DrawFn, name: str, column: Column) -> str | None:
    return f"{name}_there" if draw(st.booleans()) else None


def _pads(dtype: str) -> st.SearchStrategy[Any]:
    if dtype == "string":
        return st.sampled_from(["", "pad", "a"])
    if dtype == "bool":
        return st.booleans()
    if dtype in FLOATS:
        return st.sampled_from([0, -1, 0.5, float("nan")])
    limits = np.iinfo(dtype)
    return st.sampled_from([0, int(limits.min), int(limits.max)])


@st.composite
def _packed(draw: DrawFn, name: str, found: Sequence[Column]) -> Take:
    exact = any(not column.cells.dtype for column in found)
    dtype = draw(st.none() | st.sampled_from(("float32", "float64") if exact else _DTYPES))
    mask = f"{name}_there" if draw(st.booleans()) else None
    config: dict[str, Any] = {"columns": [column.name for column in found], "mask": mask, "dtype": dtype}
    if exact and dtype is None:
        dtype = config["dtype"] = "float32"
    return Take("input", name, tuple(found), config, dtype or "float32", (len(found),), mask=mask)
