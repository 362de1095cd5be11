"""Data, and weights taken over, on the page of a run."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparktf.nightly.report import words
from sparktf.nightly.report.charts import ColumnPen
from sparktf.nightly.report.drawing import Pen
from sparktf.nightly.report.drift import DRAWN, ColumnDrift, ColumnShape, TableDrift
from sparktf.nightly.report.page_tables import Cell, TableColumn, table
from sparktf.nightly.report.stored import StoredRun
from sparktf.results.carried import Carried, CarriedVariable

_OTHERS = 400
"""The most columns in the table of those that are not drawn."""

_VARIABLES = 100
_NAMED, _NAMED_QUIET = 20, 4

_OTHER_COLUMNS = [
    TableColumn("name", "column", "t"),
    TableColumn("type", "type"),
    TableColumn("score", "distance"),
    TableColumn("null", "null", "n"),
]
_VARIABLE_COLUMNS = [
    TableColumn("name", "variable", "t"),
    TableColumn("shape", "shape"),
    TableColumn("how", "how", "t"),
    TableColumn("kept", "kept", "n"),
    TableColumn("new", "new", "n"),
    TableColumn("left", "left", "n"),
]
_FOUND = 100


class NamedBar(NamedTuple):
    """The share of one value, now and then."""

    name: str
    now: str
    then: str
    now_width: str  # In hundredths of the longest bar; `then_width` likewise, "" for none
    then_width: str


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
    quiet = [column for column in columns if column.is_quiet]
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
        "columns": [_column(column_pen, column) for column in columns if column not in quiet],
        "quiet": [_column(column_pen, column) for column in quiet],
        "quiet_title": _quiet_title(run, [column.name for column in quiet]),
        "others": table("Other columns", _OTHER_COLUMNS, [_other(column) for column in others]),
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
        "table": table("Variables", _VARIABLE_COLUMNS, [_variable(v) for v in first[:_VARIABLES]]),
        "more": f"{hidden:,} more variables, which are kept, are in result.json." if hidden > 0 else "",
    }


def _variable(v: CarriedVariable) -> dict[str, str | Cell]:
    return {
        "name": v.name,
        "shape": " by ".join(map(str, v.shape)) or "scalar",
        "how": f"{v.how}: {v.why}" if v.why else {"entries": "by entry"}.get(v.how, v.how),
        **{what: f"{getattr(v, what):,}" if v.how == "entries" else "" for what in ("kept", "new", "left")},
    }


def _other(column: ColumnDrift) -> dict[str, str | Cell]:
    null = words.percent(column.null_share)
    return {"name": column.name, "type": column.type, "score": _score(column), "null": null}


def _quiet_title(run: StoredRun, names: list[str]) -> str:
    """Returns the line for the columns that are folded."""
    held = "that hold" if run.checked else "that have hardly changed" if run.drift and run.drift.baseline else "more"
    named = ", ".join(names[:_NAMED_QUIET]) + (", ..." if len(names) > _NAMED_QUIET else "")
    counted = f"{len(names):,} {'column' if len(names) == 1 else 'columns'}"
    return f"{len(names):,} more: {named}" if held == "more" else f"{counted} {held}: {named}"


def _summary(drift: TableDrift) -> str:
    now = drift.now
    said = f"{now.rows:,} rows, {len(now.columns):,} columns"
    if now.sample < 1:
        said += f"; figures are of {words.percent(now.sample)} of the rows"
    if drift.baseline is None:
        return f"{said}."
    then = drift.baseline.statistics
    times = f", {words.number(now.rows / then.rows)} times as many as" if then.rows else ", compared with"
    return f"{said}{times} in {drift.baseline.name} ({then.rows:,} rows)."


def _column(pen: ColumnPen, column: ColumnDrift) -> dict[str, Any]:
    shape = column.shape
    label = f"Values of {column.name}: {_score(column) or 'this run'}"
    facts = [("null", words.percent(column.null_share), words.percent(column.null_share_then)), *column.facts]
    named = () if shape is None else shape.names
    changes = [change for change in column.changes if change[0] not in named]
    facts += [(value, words.percent(now), words.percent(then)) for value, now, then in changes]
    return {
        "name": column.name,
        "type": column.type,
        "is_label": column.is_label,
        "svg": None if shape is None or shape.names else words.as_markup(pen.draw(shape, label)),
        "ends": None if shape is None or shape.names else (shape.low, shape.high),
        "label": label,
        "bars": [] if shape is None else _bars(shape),
        "score": _score(column),
        "found": column.found,
        "facts": facts,
    }


def _bars(shape: ColumnShape) -> list[NamedBar]:
    """Returns the bars of values; [] for a distribution."""
    then = [None] * len(shape.names) if shape.then is None else shape.then.tolist()
    most = max([*shape.now.tolist(), *(part or 0.0 for part in then), 1e-12])
    return [
        NamedBar(name, words.percent(now), words.percent(was), _width(now, most), _width(was, most))
        for name, now, was in zip(shape.names, shape.now.tolist(), then, strict=False)
    ]


def _width(part: float | None, most: float) -> str:
    """Returns the width of a bar, in hundredths of the longest one's; "" for no bar."""
    return "" if part is None else f"{max(100 * part / most, 0.4):.1f}"


def _score(column: ColumnDrift) -> str:
    if column.remark:
        return column.remark
    return "" if column.distance is None else f"{column.measure} {words.number(column.distance, places=4)}"
