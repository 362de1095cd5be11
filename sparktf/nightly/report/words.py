"""Figures and drawings for the pages."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from sparktf.version import __version__

if TYPE_CHECKING:
    from sparktf.nightly.report.drawing import Pen

TEMPLATES = PurePosixPath("templates")

Drawing = Callable[["Pen"], str | None]
"""Draws a chart with a pen; None if there is nothing to draw."""


class Tile(NamedTuple):
    """A figure on top of a page."""

    what: str
    value: str
    more: str = ""
    finding: str = ""  # A badge beside it; "" for none
    tone: str = ""


class Figures(NamedTuple):
    """Charts beside each other."""

    across: int  # In a row, on a wide screen
    charts: list[tuple[str, Any, Any]]  # Titles and drawings: for narrow places; for wide ones, None for the same


def number(value: float | None, *, whole: bool = False, places: int | None = None) -> str:
    """Returns the text of a number on all pages: four significant digits, thousands apart; "" for none.

    Args:
        whole: It counts something: no fraction.
        places: Digits after the point. Default: by its size, so that numbers of one size have equally many.
    """
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    if places is not None:
        return f"{value:,.{places}f}"
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-3:
        return f"{value:.2e}"
    digits = 0 if whole or size >= 1e3 else 1 if size >= 100 else 2 if size >= 10 else 3 if size >= 1 else 4
    return f"{value:,.{digits}f}"


def tick(value: float, position: object = None) -> str:
    """Returns a number on an axis, as `number` does, but no longer than it has to be."""
    del position
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{_bare(number(value / size))}{letter}"
    return _bare(number(value))


def signed(value: float) -> str:
    """Returns the text of a difference."""
    return f"{'+' if value >= 0 else ''}{number(value)}"


def nbytes(count: float) -> str:
    """Returns the text of a size."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,.0f} B"


def percent(part: float | None) -> str:
    """Returns the text of a share; "" for none."""
    if part is None:
        return ""
    if part in (0, 1):
        return f"{part:.0%}"
    return "<0.1%" if 0 < part < 5e-4 else ">99.9%" if 0.9995 < part < 1 else f"{part:.1%}"


def length(seconds: float) -> str:
    """Returns a duration for people."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def moment(time_s: float) -> str:
    """Returns the text of a time in UTC; "" for none."""
    return f"{dt.datetime.fromtimestamp(time_s, dt.UTC):%Y-%m-%d %H:%M:%S}" if time_s else ""


def capped(text: str, most: int = 20_000) -> str:
    """Returns the end of a long text, the most useful part of tracebacks and logs."""
    return text if len(text) <= most else f"... {len(text) - most:,} characters are left out ...\n{text[-most:]}"


def fill(template: str, now_s: float, **values: Any) -> bytes:
    """Returns a page. Everything but `Markup` is escaped: names of columns and errors may contain anything.

    jinja2 is imported here, and not before.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=PackageLoader("sparktf.nightly.report", str(TEMPLATES)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    made = {"made": moment(now_s), "version": __version__}
    return environment.get_template(template).render(**values, **made).encode()


def figures(pen: Pen, *charts: tuple[str, Drawing], beside: int = 0) -> Figures:
    """Returns the existing drawings with their titles, as many in a row as fill it.

    Where a row has fewer than three, each is drawn a second time, as wide as its place on a wide screen: enlarged, its
    letters would be, too.

    Args:
        beside: How many other things stand in the same rows.
    """
    found = [(title, draw, svg) for title, draw in charts if (svg := draw(pen)) is not None]
    across = {1: 1, 2: 2, 4: 2}.get(len(found) + beside, 3)
    wide_pen = None if across == 3 else pen.widened(across)
    drawn = []
    for title, draw, svg in found:
        wide = None if wide_pen is None else draw(wide_pen)
        drawn.append((title, as_markup(svg), None if wide is None else as_markup(wide)))
    return Figures(across, drawn)


def as_markup(svg: str) -> Any:
    """Returns a drawing of matplotlib's, which has escaped its text."""
    from markupsafe import Markup  # noqa: PLC0415 - jinja2's: see fill

    return Markup(svg)


def _bare(text: str) -> str:
    """Returns a number without zeros that say nothing."""
    return text if "e" in text or "." not in text else text.rstrip("0").rstrip(".")
