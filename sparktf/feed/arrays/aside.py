"""Rows that fail a check: the first one is refused, or up to a limit they are set aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparktf.errors import BadValueError

RowNumbers = npt.NDArray[np.int64]
Number = Callable[[int], int]
"""Row of a row group -> its number in the file, from 0 on."""
Reason = Callable[[int], str]
"""Position in the refused rows -> why."""
Judge = Callable[[str, RowNumbers, Reason], None]
"""(column, rows of a row group, reasons) for one or more rows that fail a check: raises, or notes them."""


class BadRow(NamedTuple):
    """A row that was set aside, or several consecutive ones."""

    origin: str  # The file's path
    row: int  # Number of the (first) row there, from 0
    rows: int
    column: str  # Column of the bad value; "" if the rows cannot be read at all
    reason: str


def refuse(origin: str, number: Number, column: str, rows: RowNumbers, reason: Reason) -> None:
    """Raises `BadValueError` for the first row: a `Judge` once origin and numbers are bound."""
    raise BadValueError(f"{origin}: column {column!r}, row {number(int(rows[0]))}: {reason(0)}")


class Handed(NamedTuple):
    """Rows of the epoch sequence from `first_row` on, of which some may be left out."""

    first_row: int
    rows: int
    places: RowNumbers | None = None  # int64 [n], the rows handed out, counted from the first; None for all

    @property
    def good(self) -> int:
        """The number of rows handed out."""
        return self.rows if self.places is None else len(self.places)

    def covered(self, good: int) -> int:
        """Returns the rows that the first `good` ones cover, including bad ones up to the next good one."""
        if good == self.good:
            return self.rows
        return good if self.places is None or not good else int(self.places[good])


class Aside:
    """The rows of a block that fail a check.

    Attributes:
        bad: bool [rows].
    """

    def __init__(self, rows: int, limit: int) -> None:
        """Begins with none; keeps the reasons of up to `limit` rows."""
        self.bad = np.zeros(rows, np.bool_)
        self._limit = limit
        self._single: dict[int, BadRow] = {}
        self._spans: list[tuple[int, int, BadRow]] = []

    def judge(
        self,
        origin: str,
        number: Number,
        kept: RowNumbers | None,
        start: int,
        column: str,
        rows: RowNumbers,
        reason: Reason,
    ) -> None:
        """Notes rows of a row group: a `Judge` once all but its own arguments are bound.

        Args:
            kept: int64 [n], the rows of the group in the block, sorted; None for all.
            start: The block's row of the first of these.
            rows: The refused rows; a list with several refused values appears once for each.
        """
        firsts = np.unique(rows, return_index=True)[1]
        places = rows if kept is None else np.searchsorted(kept, rows)
        if kept is not None:
            there = kept[np.minimum(places, len(kept) - 1)] == rows if len(kept) else np.zeros(len(rows), np.bool_)
            positions = firsts[there[firsts]]
        else:
            positions = firsts
        fresh = positions[~self.bad[start + places[positions]]]
        self.bad[start + places[positions]] = True
        for i in fresh[: max(self._limit - len(self._single), 0)].tolist():
            row = BadRow(origin, number(int(rows[i])), 1, column, reason(i))
            self._single.setdefault(start + int(places[i]), row)

    def unreadable(self, origin: str, first_row: int, start: int, rows: int, reason: str) -> None:
        """Notes the rows `[start, start + rows)` of the block, those of an unreadable row group."""
        self.bad[start : start + rows] = True
        self._spans.append((start, start + rows, BadRow(origin, first_row, rows, "", reason)))

    def among(self, rows: RowNumbers) -> list[BadRow]:
        """Returns the bad rows among some rows of the block."""
        bad = np.sort(rows[self.bad[rows]])
        found = [self._single[row] for row in bad.tolist() if row in self._single] if self._single else []
        for start, stop, span in self._spans:
            count = int(np.searchsorted(bad, stop) - np.searchsorted(bad, start))
            if count:
                found.append(span._replace(rows=count))
        return found


def too_many(rows: int, limit: int, bad: Sequence[BadRow]) -> BadValueError:
    """Returns the error for more bad rows than may be set aside; names one of `bad`."""
    text = f"{rows} rows fail a check, and data.max_bad_rows is {limit}"
    if not bad:
        return BadValueError(text)
    last = bad[-1]
    where = f"column {last.column!r}, row {last.row}" if last.column else f"{last.rows} rows from row {last.row} on"
    return BadValueError(f"{text}; one of them: {last.origin}: {where}: {last.reason}")
