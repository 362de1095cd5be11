"""Parts of a page that are not escaped."""

from __future__ import annotations

from typing import Any

Charts = list[tuple[str, Any]]
"""Titles and drawings."""


def drawn(*parts: tuple[str, str | None]) -> Charts:
    """Returns the existing drawings with their titles."""
    return [(title, as_markup(svg)) for title, svg in parts if svg is not None]


def as_markup(svg: str) -> Any:
    """Returns a drawing of matplotlib's, which has escaped its text."""
    from markupsafe import Markup  # noqa: PLC0415 - jinja2's: see words.fill

    return Markup(svg)
