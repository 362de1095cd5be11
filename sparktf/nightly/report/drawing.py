"""Charts as inline SVG: text stays text, and colours are those of the page.

matplotlib draws with placeholder colours, which are then replaced by the page's CSS variables.
"""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, LINE, CARD = "#010101", "#020202", "#030303", "#040404"
NOW, THEN, GOOD, BAD, WARN = "#050505", "#060606", "#070707", "#080808", "#090909"
SERIES = ("#0a0a0a", "#0b0b0b", "#0c0c0c", "#0d0d0d", "#0e0e0e", "#0f0f0f", "#101010", "#111111")
_NAMES = ("ink", "muted", "line", "card", "now", "then", "good", "bad", "warn", *(f"s{n}" for n in range(1, 9)))
_VARIABLES = {f"#{n:02x}{n:02x}{n:02x}": f"var(--{name})" for n, name in enumerate(_NAMES, start=1)}

_COLOUR = re.compile("|".join(_VARIABLES))
_OUTSIDE = re.compile(r"^.*?(?=<svg )|<metadata>.*?</metadata>\s*|<style type=\"text/css\">.*?</style>\s*", re.DOTALL)
_SIZE = re.compile(r' width="[\d.]+pt" height="[\d.]+pt"')
_FONT = re.compile(r"font-family: [^;\"]+; ?")
_GROUP = re.compile(r'<g id="[^"]*"')
_BREAK = re.compile(r" ?\n *")

WIDTH_IN = 4.8
"""Of a chart: 346 units, so that one unit is about a pixel on a telephone, and in each of three on a wide screen."""

_WIDE_IN = {1: 15.6, 2: 7.6}
"""Of charts on a wide screen, by their number in a row."""


class Pen:
    """Draws the charts of one page, with distinct ids."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.width_in = WIDTH_IN

    def widened(self, across: int) -> Pen:
        """Returns one for charts of which one or two stand in a row, `across`."""
        wide = copy(self)
        wide.width_in = _WIDE_IN[across]
        return wide

    def axes(self, height_in: float = 2.6) -> Axes:
        """Returns axes to draw on, for `svg`."""
        from matplotlib.figure import Figure  # noqa: PLC0415 - see `styled`
        from matplotlib.layout_engine import TightLayoutEngine  # noqa: PLC0415

        once = TightLayoutEngine(rect=None)  # type: ignore[arg-type]  # the whole as a rectangle is measured twice
        return Figure(figsize=(self.width_in, height_in), layout=once, dpi=72).add_subplot()

    def svg(self, axes: Axes, label: str, *, stretches: bool = False) -> str:
        """Returns a drawing as an element of a page.

        Args:
            label: Describes it for people who cannot see it.
            stretches: It fills whatever place it is given; for drawings without letters.
        """
        from matplotlib import rcParams  # noqa: PLC0415
        from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415

        rcParams["svg.hashsalt"] = f"chart {next(self._numbers)}"
        held = io.StringIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a name in letters that its font lacks: the browser has them
            # Not `savefig`, which draws all twice.
            FigureCanvasSVG(figure_of(axes)).print_svg(held, metadata={"Date": None})  # type: ignore[no-untyped-call]
        return as_element(held.getvalue(), label, ' preserveAspectRatio="none"' if stretches else "")


def figure_of(axes: Axes) -> Figure:
    """Returns the figure of axes from `Pen.axes`. Raises `ValueError` if they stand in none."""
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("these axes stand in no figure")
    return figure


def as_element(drawn: str, label: str, more: str = "") -> str:
    """Returns the `svg` element of a file, in the page's colours and as wide as the page allows."""
    text = _OUTSIDE.sub("", drawn)
    text = _COLOUR.sub(lambda found: _VARIABLES[found.group()], text)
    text = _SIZE.sub("", _GROUP.sub("<g", _FONT.sub("", text)))
    opening = f'<svg role="img" aria-label="{escape(label)}"{more}'
    return _BREAK.sub(" ", text.replace("<svg", opening, 1)).replace("> <", "><").strip()


@contextmanager
def styled() -> Iterator[Pen]:
    """Draws in a page's style, not the process's. Imports matplotlib, which takes half a second, only here."""
    import matplotlib  # noqa: PLC0415

    with matplotlib.rc_context(_STYLE):
        yield Pen()


_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 12,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "figure.edgecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.labelsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-4, 6),
    "axes.xmargin": 0.02,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "legend.handlelength": 1.2,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0.2,
}
