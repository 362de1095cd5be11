"""Tables of the pages: without columns that have nothing to say, and with names of their own for narrow screens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Cell(NamedTuple):
    """A cell of more than text."""

    text: str
    tone: str = ""  # It is a badge of this tone; "" for none
    link: str = ""  # Where it leads; "" for nowhere
    more: str = ""  # A second, smaller line


class TableColumn(NamedTuple):
    """A column, whose cells have its key."""

    key: str
    title: str
    css: str = ""  # "n" for numbers, "w" and "t" for texts that may be wrapped


class ShownTable(NamedTuple):
    """A table; the first column is its rows' names."""

    label: str  # For people who cannot see it
    columns: list[TableColumn]
    rows: list[Mapping[str, Cell]]


def table(label: str, columns: Sequence[TableColumn], rows: Sequence[Mapping[str, str | Cell]]) -> ShownTable | None:
    """Returns a table without empty columns; None without rows. A cell that a row lacks is empty."""
    cells = [
        {key: cell if isinstance(cell, Cell) else Cell(cell) for key, cell in row.items() if cell != ""} for row in rows
    ]
    told = [column for column in columns if any(row[column.key].text for row in cells if column.key in row)]
    return ShownTable(label, told, list(cells)) if cells else None
