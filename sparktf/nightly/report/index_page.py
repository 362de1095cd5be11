"""The page of all runs of a name, which every run rewrites at its end.

It is made of the runs' folders, so that deleted runs vanish from it. Nobody owns it: it is replaced whole, by one
rename, and its writer checks afterwards whether another run has ended meanwhile.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from sparktf.driver.plan.files import at_once
from sparktf.errors import CorruptFileError, StorageError, StorageExistsError, StorageNotFoundError
from sparktf.nightly.natural_order import natural_key
from sparktf.nightly.report import words
from sparktf.nightly.report.dated_chart import DatedMetric, axis_of, by_date, jumps
from sparktf.nightly.report.drawing import styled
from sparktf.nightly.report.headline import Headline, Tone, headline_of, headline_of_unended, published_version
from sparktf.nightly.report.page_tables import Cell, TableColumn, table
from sparktf.published.serving import Serving
from sparktf.results.result import RunResult
from sparktf.rundir import EVENTS, SERVING, TERMS, RunDirectory, is_name
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.leftovers import staged_name, sweep
from sparktf.storage.transactions.replaced_folder import replace_file
from sparktf.storage.transactions.results import read_result
from sparktf.storage.transactions.terms import LastWord, last_word

SHOWN = 120
"""Runs on the page, the last by their ids."""

_ASIDE = "_index-"

_OURS = b" by sparktf "
"""Part of the last line of each page."""

_AGAIN = 3
_UP, _DOWN = " \N{BLACK UP-POINTING TRIANGLE}", " \N{BLACK DOWN-POINTING TRIANGLE}"
"""Marks of a jump."""

_METRICS, _DRAWN, _RECENT, _UNFOLDED = 4, 6, 30, 10
_UNDER_WAY: Tone = "plain"


class IndexedRun(NamedTuple):
    """A run that has ended."""

    result: RunResult
    page: str  # Address of its own page, from the index; "" if it has none


class UnendedRun(NamedTuple):
    """A run without a result."""

    run_id: str
    word: LastWord
    page: str  # As of an `IndexedRun`: a page of an earlier submission


class IndexedRuns(NamedTuple):
    """The runs of a name, the last by id first."""

    name: str
    runs: tuple[IndexedRun, ...]
    unended: tuple[UnendedRun, ...] = ()  # Runs without a result: under way, or their driver is gone
    seen: frozenset[str] = frozenset()  # Ids of the runs with a result, readable or not
    older: int = 0  # The number of runs that are left out
    current: int | None = None  # The current version; None if nothing is published


def write_index(storage: Storage, root: str, name: str, now_s: float) -> None:
    """Replaces the page of a name by one of the present runs.

    Raises:
        StorageExistsError: the existing page is not sparktf's.
        StorageError: the storage failed; the old page is still there.
    """
    folder = f"{root.rstrip('/')}/{name}"
    sweep(storage, folder, (_ASIDE,), now_s)
    path = f"{folder}/index.html"
    with suppress(StorageNotFoundError):
        if _OURS not in storage.read_bytes(path):
            raise StorageExistsError(f"{path} is somebody else's page, and stays")
    for _ in range(_AGAIN):
        found = indexed_runs(storage, root, name)
        aside = f"{folder}/{staged_name(_ASIDE, suffix='.html')}"
        replace_file(storage, path, index_page(found, now_s), aside)
        # Another run may have ended since, and have replaced the page before this one did.
        if _ended(storage, folder) <= found.seen:
            return


def indexed_runs(storage: Storage, root: str, name: str) -> IndexedRuns:
    """Returns the runs of a name. Raises `StorageError`."""
    folder = f"{root.rstrip('/')}/{name}"
    ids = _ids(storage, folder)

    seen: set[str] = set()

    def read(run_id: str) -> IndexedRun | UnendedRun | None:
        rundir = RunDirectory(root, name, run_id)
        try:
            result = read_result(storage, rundir.result)
        except StorageNotFoundError:
            return _unended(storage, rundir)
        except CorruptFileError:
            seen.add(run_id)
            return None
        seen.add(run_id)
        return IndexedRun(result, _page(storage, rundir))

    found = at_once("index", read, ids[:SHOWN])
    ended = tuple(run for run in found if isinstance(run, IndexedRun))
    unended = tuple(run for run in found if isinstance(run, UnendedRun))
    try:
        current = Serving(storage, root, name).current_version()
    except StorageError:
        current = None
    number = None if current is None else current.number
    return IndexedRuns(name, ended, unended, frozenset(seen), max(len(ids) - SHOWN, 0), number)


def _unended(storage: Storage, rundir: RunDirectory) -> UnendedRun | None:
    """Returns a run without a result; None for a folder in which none has begun."""
    try:
        names = {name_of(entry.path) for entry in storage.list(rundir.path)}
    except StorageNotFoundError:
        return None
    if not {TERMS, EVENTS} & names:
        return None
    return UnendedRun(rundir.run_id, last_word(storage, rundir), _page(storage, rundir))


def _page(storage: Storage, rundir: RunDirectory) -> str:
    return f"{rundir.run_id}/{name_of(rundir.report)}" if storage.exists(rundir.report) else ""


def index_page(found: IndexedRuns, now_s: float) -> bytes:
    """Returns the page of all runs of a name, as self-contained HTML."""
    metrics = list(dict.fromkeys(name for run in found.runs for name in _values(run.result)))
    results = [run.result for run in reversed(found.runs)]
    rows = [*_rows(found.runs, metrics[:_METRICS]), *(_unended_row(run, now_s) for run in found.unended)]
    columns = _columns(metrics[:_METRICS])
    rows.sort(key=lambda row: natural_key(row["run_id"]), reverse=True)
    nothing = {"title": "No run has ended yet", "tone": "plain", "reason": "", "run_id": "", "link": ""}
    return words.fill(
        "index.html.j2",
        now_s,
        name=found.name,
        latest=next((row for row in rows if row["tone"] != _UNDER_WAY), nothing),
        tiles=_tiles(found, [row["tone"] for row in rows]),
        figures=_drawn(results, metrics[:_DRAWN]) if len(results) > 1 else None,
        runs=table("Runs", columns, [row["cells"] for row in rows[:_UNFOLDED]]),
        earlier=table("Earlier runs", columns, [row["cells"] for row in rows[_UNFOLDED:]]),
        earlier_title=f"{len(rows) - _UNFOLDED} earlier runs",
        more=f"{found.older:,} older runs are not shown." if found.older else "",
    )


def _drawn(results: Sequence[RunResult], metrics: Sequence[str]) -> words.Figures:
    axis = axis_of([(result.date, result.run_id, result.started) for result in results])

    def draw(name: str) -> words.Drawing:
        nights = [_night(result, name, at) for result, at in zip(results, axis.places, strict=True)]
        return lambda pen: by_date(pen, name, axis, nights)

    with styled() as pen:
        return words.figures(pen, *((name, draw(name)) for name in metrics))


def _tiles(found: IndexedRuns, tones: Sequence[Tone]) -> list[words.Tile]:
    tiles = []
    if found.current is not None:
        of = next((r.result.run_id for r in found.runs if published_version(r.result) == found.current), "")
        tiles.append(words.Tile("current version", str(found.current), of and f"of {of}"))
    recent = [tone for tone in tones if tone != _UNDER_WAY][:_RECENT]
    counts: dict[str, tuple[Tone, ...]] = {
        "with a model": ("good", "worse"),
        "kept the old one": ("kept",),
        "failed": ("bad",),
    }
    over = f"of the last {len(recent)}"
    return tiles + [words.Tile(what, str(sum(tone in of for tone in recent)), over) for what, of in counts.items()]


def _columns(metrics: Sequence[str]) -> list[TableColumn]:
    return [
        TableColumn("run", "run"),
        TableColumn("date", "date"),
        TableColumn("ended", "ended", "w fills"),
        *(TableColumn(f"metric {name}", name, "n") for name in metrics),
        TableColumn("rows", "rows", "n"),
        TableColumn("took", "took", "n"),
        TableColumn("began", "began", "n"),
    ]


def _unended_row(run: UnendedRun, now_s: float) -> dict[str, Any]:
    head = headline_of_unended(run.word, now_s)
    return _row_of(run.run_id, run.page, head)


def _row_of(run_id: str, link: str, head: Headline, **cells: str | Cell) -> dict[str, Any]:
    shown = {"run": Cell(run_id, link=link), "ended": Cell(head.title, head.tone, more=head.reason), **cells}
    return {"run_id": run_id, "link": link, **head._asdict(), "cells": shown}


def _rows(runs: Sequence[IndexedRun], metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields the rows of runs that have ended, the last first."""
    signs = {name: jumps([_values(run.result).get(name) for run in reversed(runs)]) for name in metrics}
    for n, run in enumerate(runs):
        result = run.result
        beside = {} if result.comparison is None else result.comparison.champion_metrics
        figures = {}
        for name, value in _values(result).items():
            by = signs.get(name, {}).get(len(runs) - 1 - n, 0.0)
            mark = (
                "" if not by else " \N{BLACK UP-POINTING TRIANGLE}" if by > 0 else " \N{BLACK DOWN-POINTING TRIANGLE}"
            )
            champion = f"champion {words.number(beside[name])}" if name in beside else ""
            figures[f"metric {name}"] = Cell(f"{words.number(value)}{mark}", more=champion)
        yield _row_of(
            result.run_id,
            run.page,
            headline_of(result),
            date="" if result.date == result.run_id else result.date,
            rows=words.number(result.rows_trained, whole=True) if result.rows_trained else "",
            took=words.length(result.duration_s),
            began=_began(result),
            **figures,
        )


def _began(result: RunResult) -> str:
    """Returns when a run began; the time alone, if the day is that of its id."""
    if not result.started:
        return ""
    began = dt.datetime.fromisoformat(result.started).astimezone(dt.UTC)
    return f"{began:%H:%M}" if f"{began:%Y-%m-%d}" == result.run_id else f"{began:%Y-%m-%d %H:%M}"


def _values(result: RunResult) -> dict[str, float]:
    values = result.metrics.get("validation") or result.metrics.get("train") or {}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _night(result: RunResult, metric: str, at: float) -> DatedMetric:
    champion = None if result.comparison is None else result.comparison.champion_metrics.get(metric)
    return DatedMetric(
        at=at,
        value=_values(result).get(metric),
        champion=champion if champion is not None and math.isfinite(champion) else None,
        published=published_version(result) is not None,
    )


def _ids(storage: Storage, folder: str) -> list[str]:
    """Returns the ids of a name's runs, the last first, with numbers compared as such: dates are in order."""
    names = [name_of(entry.path) for entry in storage.list(folder) if entry.is_dir]
    return sorted((name for name in names if is_name(name) and name != SERVING), key=natural_key, reverse=True)


def _ended(storage: Storage, folder: str) -> set[str]:
    """Returns the runs that have a result now."""
    ids = _ids(storage, folder)[:SHOWN]
    there = at_once("index", lambda run_id: storage.exists(f"{folder}/{run_id}/result.json"), ids)
    return {run_id for run_id, is_there in zip(ids, there, strict=True) if is_there}
