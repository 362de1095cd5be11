"""Figures and drawings for the pages."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import PurePosixPath
from typing import Any

from sparktf.version import __version__

TEMPLATES = PurePosixPath("templates")

Charts = list[tuple[str, Any]]
"""Titles and drawings."""


def figure(value: float | None) -> str:
    """Returns the text of a metric; "" for none."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.2e}" if 0 < abs(value) < 1e-3 or abs(value) >= 1e6 else f"{value:.4f}"


def signed(value: float) -> str:
    """Returns the text of a difference."""
    return f"{value:+.4f}" if abs(value) >= 1e-3 or value == 0 else f"{value:+.1e}"


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
    return f"{part:.1%}" if 0 < part < 0.0995 or 0.9905 < part < 1 else f"{part:.0%}"


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


def drawn(*parts: tuple[str, str | None]) -> Charts:
    """Returns the existing drawings with their titles."""
    return [(title, as_markup(svg)) for title, svg in parts if svg is not None]


def as_markup(svg: str) -> Any:
    """Returns a drawing of matplotlib's, which has escaped its text."""
    from markupsafe import Markup  # noqa: PLC0415 - jinja2's: see fill

    return Markup(svg)
