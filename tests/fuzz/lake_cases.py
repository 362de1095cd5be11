"""Random lakes with random configurations, and what they hold."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fuzz.cells import IN_FILES, Told
from fuzz.parquet_files import FileShape, file_shapes, write
from fuzz.takes import ID, columns, takes
from fuzz.tensors import Column, Row, Take, Tensors, tensors_of
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

_ODD_NAMES = ("", "", " ", "é", "=", "%20", "[0]", "`", ":schema", "日本", '"', "a" * 200)
_PLAIN_FOLDERS = ("", "", "2026/11/20", "2026/11/3", "a b", "%3D", "[x]")


@dataclass(frozen=True)
class Run(Told):
    """How a lake is read.

    Attributes:
        epochs: The ones that are looked at.
        stop_after: Share of the epoch after which the run stops, to go on with `nodes_after` nodes.
        keeps_bad: Whether bad rows stay in the lake; else they are made good before it is written.
        sets_aside: Whether as many bad rows as there are may be.
    """

    nodes: int
    nodes_after: int
    stop_after: float
    epochs: tuple[int, ...]
    batch_rows: int
    rebalance: bool
    keeps_bad: bool
    sets_aside: bool


@dataclass(frozen=True)
class LakeCase(Told):
    """A lake, a configuration and a run of it.

    Attributes:
        fills: Column -> what fills its nulls, as a value of the column.
        rows: All rows, file by file.
        data: Further settings of `data`.
    """

    columns: tuple[Column, ...]
    takes: tuple[Take, ...]
    fills: Mapping[str, Any]
    rows: tuple[Row, ...]
    files: tuple[FileShape, ...]
    data: Mapping[str, Any]
    seed: int
    run: Run

    def config(self) -> dict[str, Any]:
        """Returns the data section."""
        section: dict[str, Any] = {
            "inputs": {take.name: take.config for take in self.takes if take.kind == "input"},
            "targets": {take.name: take.config for take in self.takes if take.kind == "target"},
            "fill_null": {c.name: spelled(c, self.fills[c.name]) for c in self.columns if c.name in self.fills},
            **self.data,
        }
        weights = [take.config for take in self.takes if take.kind == "weight"]
        return {**section, "sample_weight": weights[0]} if weights else section

    def tensors(self, row: Row) -> Tensors:
        """Returns what the docs promise of a row."""
        return tensors_of(row, self.takes, self.fills)

    def write(self, folder: Path) -> None:
        """Writes the files."""
        first = 0
        for i, shape in enumerate(self.files):
            rows = self.rows[first : first + shape.rows]
            write(folder / shape.folder / f"{i:02d}.parquet", shape, self.columns, rows)
            first += shape.rows


def spelled(column: Column, value: Any) -> Any:
    """Returns a value of a column as `data.fill_null` has it."""
    assert column.cells.fill is not None
    return column.cells.fill(value)


@st.composite
def runs(draw: DrawFn) -> Run:
    """Draws how a lake is read."""
    return Run(
        nodes=draw(st.integers(1, 4)),
        nodes_after=draw(st.integers(1, 4)),
        stop_after=draw(st.sampled_from((0.0, 1.0)) | st.floats(0, 1)),
        epochs=(0,) if draw(st.booleans()) else (0, draw(st.integers(1, 5))),
        batch_rows=draw(st.sampled_from((1, 2, 3, 7, 1000))),
        rebalance=draw(st.booleans()),
        keeps_bad=draw(st.booleans()),
        sets_aside=draw(st.booleans()),
    )


@st.composite
def lake_cases(draw: DrawFn) -> LakeCase:
    """Draws a lake that its configuration is right for, but for rows that are to be refused."""
    found = draw(columns(kinds=IN_FILES, names=_ODD_NAMES))
    wanted = draw(takes(found))
    fills = draw(fills_of(found))
    folder = st.sampled_from(_PLAIN_FOLDERS)
    shapes = draw(st.lists(folder.flatmap(lambda name: file_shapes([ID, *found], name)), min_size=1, max_size=3))
    shapes.sort(key=lambda shape: f"{shape.folder}/0".removeprefix("/"))  # as their paths are
    typed = draw(st.integers(0, len(shapes) - 1))  # somewhere each column has its type
    shapes = [replace(shape, untyped=i != typed and draw(st.booleans())) for i, shape in enumerate(shapes)]
    run = draw(runs())
    rows = draw(rows_of(found, sum(shape.rows for shape in shapes)))
    if not run.keeps_bad:
        rows = mended(rows, wanted, fills)
    data: dict[str, Any] = {"shuffle": draw(st.booleans()), "shuffle_rows": draw(st.sampled_from((1, 5, 20, 1000)))}
    return LakeCase((ID, *found), tuple(wanted), fills, tuple(rows), tuple(shapes), data, draw(st.integers(0, 3)), run)


@st.composite
def fills_of(draw: DrawFn, found: Sequence[Column]) -> dict[str, Any]:
    """Draws what fills the nulls of some columns, as values of theirs."""
    return {column.name: value for column in found if (value := _fill(draw, column)) is not None}


def _fill(draw: DrawFn, column: Column) -> Any:
    """Draws what fills the nulls of a column, or None."""
    spell = column.cells.fill
    if spell is None or draw(st.booleans()):
        return None
    value = draw(column.cells.values)
    return None if spell(value) is None else value


@st.composite
def rows_of(draw: DrawFn, found: Sequence[Column], count: int) -> list[Row]:
    """Draws rows: of each column a few values, dealt at random."""
    pools = {column.name: draw(_pool(column)) for column in found}
    dice = random.Random(draw(st.integers(0, 1 << 16)))
    return [{"id": i} | {name: dice.choice(pool) for name, pool in pools.items()} for i in range(count)]


def _pool(column: Column) -> st.SearchStrategy[list[Any]]:
    values = column.cells.values
    if column.is_list:
        low, high = (0, 4) if column.size is None else (column.size, column.size)
        nulls = st.none() | values
        values = st.lists(values, min_size=low, max_size=high) | st.lists(nulls, min_size=low, max_size=high)
    return st.lists(values, min_size=1, max_size=4) | st.lists(st.none() | values, min_size=1, max_size=4)


def mended(rows: Sequence[Row], wanted: Sequence[Take], fills: Mapping[str, Any]) -> list[Row]:
    """Returns the rows with good ones in place of those that are to be refused, if there are any."""
    good = [row for row in rows if not tensors_of(row, wanted, fills).bad]
    if not good:
        return list(rows)
    kept = {row["id"] for row in good}
    return [row if row["id"] in kept else {**good[i % len(good)], "id": row["id"]} for i, row in enumerate(rows)]
