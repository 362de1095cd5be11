"""Data, and weights taken over, on the page of a run."""

from __future__ import annotations

from typing import Any

from sparktf.nightly.report import words
from sparktf.nightly.report.charts import ColumnPen
from sparktf.nightly.report.drawing import Pen
from sparktf.nightly.report.drift import DRAWN, ColumnDrift, TableDrift
from sparktf.nightly.report.stored import StoredRun
from sparktf.results.carried import Carried

_OTHERS = 400
"""The most columns in the table of those that are not drawn."""

_VARIABLES = 100
_NAMED = 20
_FOUND = 100


def data_view(pen: Pen, run: StoredRun) -> dict[str, Any] | None:
    """Returns the section on the data: the checks, and each column beside the baseline's."""
    drift = run.drift
    if drift is None:
        return None
    found = [
        ("refused" if level == "refuse" else "warning", "bad" if level == "refuse" else "kept", str(finding))
        for level in ("refuse", "warn")
        for finding in run.found.get(level, ())
    ]
    columns, others = drift.columns[:DRAWN], drift.columns[DRAWN : DRAWN + _OTHERS]
    column_pen = ColumnPen(pen)
    hidden = len(drift.columns) - len(columns) - len(others)
    return {
        "summary": _summary(drift),
        "found": found[:_FOUND],
        "checked": run.checked,
        "gone": ", ".join(drift.gone[:_NAMED])
        + (f" and {len(drift.gone) - _NAMED:,} more" if len(drift.gone) > _NAMED else ""),
        "title": "Columns, beside those of the model before" if drift.baseline else "Columns",
        "baseline": drift.baseline.name if drift.baseline else "",
        "columns": [_column(column_pen, column) for column in columns],
        "others": [
            {"name": c.name, "type": c.type, "score": _score(c), "null": words.percent(c.null_share)} for c in others
        ],
        "others_title": f"{len(others):,} more columns, which are not drawn",
        "left_out": f"{hidden:,} more columns, which changed less, are in statistics.json alone." if hidden else "",
    }


def carried_view(carried: Carried) -> dict[str, Any]:
    """Returns the section on the weights taken over."""
    counts = {how: sum(v.how == how for v in carried.variables) for how in ("kept", "entries", "new")}
    state = "with the optimizer's state" if carried.optimizer else "without the optimizer's state"
    summary = (
        f"From {carried.source}{f' (run {carried.run_id})' if carried.run_id else ''}, {state}. "
        f"Variables: {counts['kept']:,} kept whole, {counts['entries']:,} by entry, {counts['new']:,} new"
    )
    if carried.left:
        more = f" and {len(carried.left) - _NAMED:,} more" if len(carried.left) > _NAMED else ""
        summary += f"; not taken over: {', '.join(carried.left[:_NAMED])}{more}"
    if carried.full_date:
        summary += f". The weights go back to a training from scratch of {carried.full_date}"
    first = sorted(carried.variables, key=lambda v: ("new", "entries", "kept").index(v.how))
    hidden = len(first) - _VARIABLES
    return {
        "summary": f"{summary}.",
        "rows": [
            {
                "name": v.name,
                "shape": " by ".join(map(str, v.shape)) or "scalar",
                "how": f"{v.how}: {v.why}" if v.why else {"entries": "by entry"}.get(v.how, v.how),
                **{what: f"{getattr(v, what):,}" if v.how == "entries" else "" for what in ("kept", "new", "left")},
            }
            for v in first[:_VARIABLES]
        ],
        "more": f"{hidden:,} more variables, which are kept, are in result.json." if hidden > 0 else "",
    }


def _summary(drift: TableDrift) -> str:
    now = drift.now
    said = f"{now.rows:,} rows, {len(now.columns):,} columns"
    if now.sample < 1:
        said += f"; figures are of {words.percent(now.sample)} of the rows"
    if drift.baseline is None:
        return f"{said}. There is nothing to compare with."
    then = drift.baseline.statistics
    times = f", {now.rows / then.rows:.2f} times as many as" if then.rows else ", compared with"
    return f"{said}{times} in {drift.baseline.name} ({then.rows:,} rows)."


def _column(pen: ColumnPen, column: ColumnDrift) -> dict[str, Any]:
    shape, svg, ends = column.shape, None, None
    if shape is not None:
        svg = words.as_markup(pen.draw(shape, f"Values of {column.name}: {_score(column) or 'this run'}"))
        ends = None if shape.are_values else (shape.low, shape.high)
        if shape.are_values and len(shape.names) > 1:
            ends = (shape.names[0], shape.names[-1])
    facts = [("null", words.percent(column.null_share), words.percent(column.null_share_then))]
    facts += column.facts
    facts += [(value, words.percent(now), words.percent(then)) for value, now, then in column.changes]
    return {
        "name": column.name,
        "type": column.type,
        "is_label": column.is_label,
        "svg": svg,
        "ends": ends,
        "score": _score(column),
        "found": column.found,
        "facts": facts,
    }


def _score(column: ColumnDrift) -> str:
    if column.remark:
        return column.remark
    return "" if column.distance is None else f"{column.measure} {column.distance:.3f}"
