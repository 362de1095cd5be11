"""The page of one run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from sparktf.errors import ErrorRecord
from sparktf.nightly.report import charts, words
from sparktf.nightly.report.drawing import Pen, styled
from sparktf.nightly.report.headline import headline_of, headline_of_unended
from sparktf.nightly.report.node_views import attempts_view, nodes_view
from sparktf.nightly.report.page_tables import Cell, ShownTable, TableColumn, table
from sparktf.nightly.report.stored import StoredRun
from sparktf.nightly.report.table_views import carried_view, data_view
from sparktf.nightly.report.words import Tile
from sparktf.results.comparison import TOLERATED, Comparison, Difference
from sparktf.results.events import MetricsSeen
from sparktf.results.result import RunResult

_METRICS = 8
"""Metrics that are drawn."""

_TILES = 3

_TONES = {"good": "good", TOLERATED: "kept", "worse": "bad", "undecided": "kept", "out of bounds": "bad"}

_SECTIONS = {
    "error": ("failure", "What went wrong"),
    "warnings": ("warnings", "Warnings"),
    "gate": ("gate", "Challenger against champion"),
    "learning": ("learning", "Loss and metrics"),
    "data": ("data", "Data"),
    "nodes": ("nodes", "Nodes"),
    "course": ("course", "How it went"),
    "carried": ("carried", "Carried over"),
    "": ("configuration", "Configuration"),
}


def run_page(run: StoredRun, now_s: float) -> bytes:
    """Returns the page of a run, as self-contained HTML; draws an attempt under way until `now_s`, since 1970."""
    result, told = run.result, run.told
    with styled() as pen:
        views: dict[str, Any] = {
            "error": None if result is None or result.error is None else _error(result.error),
            "warnings": (*run.problems, *told.warnings),
            "gate": None if result is None or result.comparison is None else _gate(pen, result.comparison),
            "learning": _learning(pen, run),
            "data": data_view(pen, run),
            "nodes": nodes_view(pen, run),
            "course": attempts_view(pen, run, now_s),
            "carried": None if result is None or result.carried is None else carried_view(result.carried),
        }
    shown = {part: titled for part, titled in _SECTIONS.items() if not part or views[part]}
    if views["gate"]:
        shown["gate"] = (shown["gate"][0], views["gate"]["title"])
    return words.fill(
        "report.html.j2",
        now_s,
        run=run.rundir.run,
        name=run.rundir.name,
        run_id=run.rundir.run_id,
        headline=headline_of(result) if result else headline_of_unended(run.word, now_s, told.last_line),
        tiles=_tiles(run, now_s),
        sections=list(shown.values()),
        config=run.config,
        facts=_facts(run),
        **views,
    )


def _tiles(run: StoredRun, now_s: float) -> list[Tile]:
    result, told = run.result, run.told
    if result is None:
        began_s = told.began_s[0] if told.began_s else 0.0
        heard = "" if told.heard_s is None else f"last heard of {words.length(max(now_s - told.heard_s, 0.0))} earlier"
        began, made = words.moment(began_s), words.moment(now_s)
        return [Tile("began", began[11:16], began[:10]), Tile("as of", made[11:16], heard)]
    tiles = _metric_tiles(result)
    if result.rows_trained:
        trained, updates = (words.number(n, whole=True) for n in (result.rows_trained, result.steps))
        tiles.append(Tile("rows trained", trained, f"{updates} updates"))
    began = ""
    if result.started:
        start = dt.datetime.fromisoformat(result.started).astimezone(dt.UTC)
        began = f"from {start:%H:%M}" if f"{start:%Y-%m-%d}" == result.date else f"from {start:%Y-%m-%d %H:%M}"
    tiles.append(Tile("took", words.length(result.duration_s), began))
    if result.date:
        tiles.append(Tile("date", result.date))
    return tiles


def _metric_tiles(result: RunResult) -> list[Tile]:
    compared = [] if result.comparison is None else [d for d in result.comparison.differences if not d.slice]
    if compared:
        return [
            Tile(
                d.metric,
                words.number(d.challenger),
                "" if d.champion is None else f"champion {words.number(d.champion)}",
                d.finding,
                _TONES.get(d.finding, "none"),
            )
            for d in compared[:_TILES]
        ]
    stream = "validation" if result.metrics.get("validation") else "train"
    values = result.metrics.get(stream, {})
    return [Tile(name, words.number(value), stream) for name, value in list(values.items())[:_TILES]]


def _error(error: ErrorRecord) -> dict[str, Any]:
    facts = {
        "cause": error.message,
        "kind": error.type,
        "when": words.moment(error.time_s),
        "node": f"{error.node} on {error.host}" if error.host else error.node,
        "executor": error.executor,
        "exit code": "" if error.exit_code is None else str(error.exit_code),
        "log": error.log,
    }
    return {
        "facts": [(what, value) for what, value in facts.items() if value],
        "traceback": words.capped(error.traceback.rstrip()),
        "log_tail": words.capped(error.log_tail.rstrip()),
    }


def _gate(pen: Pen, gate: Comparison) -> dict[str, Any]:
    by_metric: dict[str, list[Difference]] = {}
    for difference in gate.differences:
        by_metric.setdefault(difference.metric, []).append(difference)
    anchor = gate.anchor
    beside_anchor = () if anchor is None else anchor.differences
    by_anchor = [d.model_copy(update={"slice": f"beside version {anchor.version}"}) for d in beside_anchor if anchor]

    def draw(name: str) -> words.Drawing:
        found = [*by_metric[name], *(d for d in by_anchor if d.metric == name)]
        return lambda pen: charts.intervals(pen, name, found)

    opponent = "champion" if gate.champion else "published model"
    first = [d for found in by_metric.values() for d in found if not d.slice or d.finding != "good"]
    folded = [d for found in by_metric.values() for d in found if d.slice and d.finding == "good"]
    return {
        "gate": gate,
        "title": _gate_title(gate),
        "reason": gate.reason,
        "confidence": f"{100 * gate.confidence:g}%",
        "replicates": f"{gate.replicates:,}" if gate.replicates else "",
        "has_tolerance": any(d.tolerance for d in gate.differences),
        "figures": words.figures(pen, *((name, draw(name)) for name in list(by_metric)[:_METRICS])),
        "table": _compared(first, opponent),
        "folded": _compared(folded, opponent),
        "folded_title": f"{len(folded)} slices that are good",
        "anchor": "" if anchor is None else anchor.label,
        "anchor_problem": "" if anchor is None else anchor.problem,
        "anchor_table": _compared(beside_anchor, "anchor"),
    }


def _gate_title(gate: Comparison) -> str:
    return _SECTIONS["gate"][1] if gate.champion else "Model against its bounds"


def _compared(differences: Sequence[Difference], opponent: str) -> ShownTable | None:
    columns = [
        TableColumn("metric", "metric"),
        TableColumn("slice", "of", "t"),
        TableColumn("found", "found"),
        TableColumn("challenger", "challenger", "n"),
        TableColumn("champion", opponent, "n"),
        TableColumn("interval", "better by", "n"),
        TableColumn("rows", "rows", "n"),
        TableColumn("asked", "asked for"),
        TableColumn("needed", "rows that would decide", "n"),
    ]
    return table(f"Challenger and {opponent}", columns, [_difference(difference) for difference in differences])


def _difference(d: Difference) -> dict[str, str | Cell]:
    asked = {"tolerance": d.tolerance, "at least": d.least, "at most": d.most}
    return {
        "metric": d.metric,
        "slice": d.slice or "all rows",
        "rows": f"{d.rows:,}",
        "challenger": words.number(d.challenger),
        "champion": words.number(d.champion),
        "interval": "" if d.low is None or d.high is None else f"{words.signed(d.low)} to {words.signed(d.high)}",
        "asked": ", ".join(f"{what} {bound:g}" for what, bound in asked.items() if bound is not None),
        "found": Cell(d.finding, _TONES.get(d.finding, "none")),
        "needed": f"{d.rows_needed:,}" if d.rows_needed else "",
    }


def _learning(pen: Pen, run: StoredRun) -> dict[str, Any] | None:
    seen = _seen(run)
    metrics = _last(seen) if run.result is None else run.result.metrics
    names = list(dict.fromkeys(name for each in seen for name in each.values if name != "loss"))

    def draw(name: str) -> words.Drawing:
        return lambda pen: charts.metric(pen, name, seen)

    figures = words.figures(
        pen,
        ("loss by update", lambda pen: charts.losses(pen, run.told.attempts, seen)),
        *((f"{name} by update", draw(name)) for name in names[:_METRICS]),
        beside=1 if metrics else 0,
    )
    if not figures.charts and not metrics:
        return None
    last = list(dict.fromkeys(name for values in metrics.values() for name in values))
    rows = [{"metric": name, **{s: words.number(v.get(name)) for s, v in metrics.items()}} for name in last]
    return {
        "notes": _notes(run.result),
        "figures": figures,
        "more": f"{len(names) - _METRICS} more metrics are in the table alone." if len(names) > _METRICS else "",
        "table": table(
            "Last metrics", [TableColumn("metric", "at the end"), *(TableColumn(s, s, "n") for s in metrics)], rows
        ),
    }


def _seen(run: StoredRun) -> Sequence[MetricsSeen]:
    """Returns the reported metrics; for a run whose events are gone, the validation metrics of its result."""
    if run.told.metrics or run.result is None:
        return run.told.metrics
    fields: dict[str, Any] = {"attempt": 0, "node": {"role": "worker", "index": 0}, "stream": "validation"}
    return [MetricsSeen.model_validate({**fields, **dict(evaluation)}) for evaluation in run.result.validation]


def _last(seen: Sequence[MetricsSeen]) -> Mapping[str, Mapping[str, float]]:
    return {each.stream.value: each.values for each in sorted(seen, key=lambda each: each.step)}


def _notes(result: RunResult | None) -> list[str]:
    if result is None:
        return []
    notes = [] if result.stopped is None else [f"Training ended early: {result.stopped.text}"]
    if result.kept is not None:
        kept = result.kept
        best = f"best {kept.metric} {words.number(kept.value)}"
        notes.append(f"The weights are {kept.whose}: {best}.")
    if result.evaluation_error is not None:
        notes.append(f"The last commits are not evaluated: {result.evaluation_error.message}")
    return notes


def _facts(run: StoredRun) -> list[tuple[str, str]]:
    facts = [("folder", run.rundir.path)]
    result = run.result
    if result is not None:
        facts += [
            (what, getattr(result, what)) for what in ("model", "checkpoint", "application") if getattr(result, what)
        ]
        facts += sorted(result.versions.items())
    return facts
