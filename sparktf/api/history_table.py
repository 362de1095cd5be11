"""The history of a run, as pandas has tables, and as notebooks show it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from sparktf.results.events import MetricsSeen
from sparktf.sequence import Stream

VALIDATION = "val_"
"""What Keras puts before the names of metrics of held-out rows."""

_BESIDE = ("epoch", "step")


class HistoryTable(pd.DataFrame):  # type: ignore[misc]
    """A row for each epoch. What is made of it is a plain DataFrame."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        plain: type[pd.DataFrame] = pd.DataFrame
        return plain

    def __repr__(self) -> str:
        """Returns the table as text, with four digits of each metric."""
        return str(self.to_string(index=False, na_rep="", formatters=self._formatters()))

    def _repr_html_(self) -> str:
        """Returns the table as a notebook shows it."""
        return str(self.to_html(index=False, border=0, na_rep="", formatters=self._formatters()))

    def _formatters(self) -> dict[str, Any]:
        return {name: "{:,.0f}".format if name in _BESIDE else in_digits for name in self.columns}


def history_of(seen: Iterable[MetricsSeen]) -> HistoryTable:
    """Returns the metrics of each epoch by Keras's names, in their order of time; of a repeated epoch the last ones."""
    rows: dict[int, dict[str, Any]] = {}
    for metrics in seen:
        row = rows.setdefault(metrics.epoch, {"epoch": metrics.epoch + 1})
        row["step"] = max(metrics.step, row.get("step", 0))
        prefix = VALIDATION if metrics.stream is Stream.VALIDATION else ""
        row |= {f"{prefix}{name}": value for name, value in metrics.values.items()}
    names = dict.fromkeys(name for row in rows.values() for name in row)
    trained = [name for name in names if not name.startswith(VALIDATION)]
    return HistoryTable(
        [rows[epoch] for epoch in sorted(rows)], columns=[*trained, *(n for n in names if n not in trained)]
    )


def in_digits(value: float) -> str:
    """Returns a metric with four digits that count; "" for none."""
    if pd.isna(value):
        return ""
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def card_of(title: str, facts: Sequence[tuple[str, str]], metrics: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a result as HTML: facts, and a table of metrics, whose columns are streams."""
    rows = "".join(f"<tr><th>{_safe(name)}</th><td>{_safe(value)}</td></tr>" for name, value in facts)
    names = dict.fromkeys(name for values in metrics.values() for name in values)
    head = "".join(f"<th>{_safe(stream)}</th>" for stream in metrics)
    body = "".join(
        f"<tr><th>{_safe(name)}</th>"
        + "".join(f"<td>{in_digits(values[name]) if name in values else ''}</td>" for values in metrics.values())
        + "</tr>"
        for name in names
    )
    numbers = (
        f'<table class="numbers"><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>' if names else ""
    )
    return f'{_STYLE}<div class="sparktf-result"><b>{_safe(title)}</b>{numbers}<table>{rows}</table></div>'


_STYLE = """<style>
.sparktf-result table { border-collapse: collapse; margin: 0.4em 0; }
.sparktf-result th, .sparktf-result td { text-align: left !important; vertical-align: top; }
.sparktf-result th, .sparktf-result td { padding: 0.15em 1.2em 0.15em 0; }
.sparktf-result th { font-weight: normal; opacity: 0.7; }
.sparktf-result .numbers td, .sparktf-result .numbers thead th { text-align: right !important; }
.sparktf-result .numbers td { font-variant-numeric: tabular-nums; }
</style>"""


def _safe(text: str) -> str:
    return html.escape(text)
