"""`sparktf diff`: the differences between two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparktf.config.yaml import YamlError, leaves, load_yaml
from sparktf.console.result_table import words_of
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.stored_plan import load_plan
from sparktf.errors import CorruptFileError, StorageNotFoundError
from sparktf.results.result import RunResult
from sparktf.runs.finding import FoundRun
from sparktf.sequence import FileStamp

_NOTHING = "-"

Facts = Mapping[str, Any]
"""Facts of a run by name; numbers where a difference is meaningful."""


class RunDifference(NamedTuple):
    """The differences between two runs; None for a part that either run lacks."""

    key: str
    first: Any
    second: Any


class Sides(NamedTuple):
    """Values of two runs that differ.

    Attributes:
        configuration: None where either run has stored none.
    """

    configuration: list[RunDifference] | None
    data: list[RunDifference]
    result: list[RunDifference]


def compare(first: FoundRun, second: FoundRun) -> Sides:
    """Returns the differences between two runs.

    Raises:
        StorageError: the storage failed.
        CorruptFileError: a run's files cannot be read.
    """
    results = first.result(), second.result()
    plans = _plan(first), _plan(second)
    data = [_planned(plan) | _fed(plan, result) for plan, result in zip(plans, results, strict=True)]
    mine, theirs = _config(first), _config(second)
    return Sides(
        configuration=None if mine is None or theirs is None else _differing(mine, theirs),
        data=[*_differing(*data), *_files(*plans)],
        result=_differing(*map(_outcome, results)),
    )


def print_difference(console: Console, first: FoundRun, second: FoundRun, sides: Sides) -> None:
    """Prints a table for each part in which the runs differ."""
    for title, found in zip(("configuration", "data", "result"), sides, strict=True):
        if found is None:
            console.print(Text(f"{title}: {_without_config(first, second)}"))
            continue
        if not found:
            console.print(Text(f"{title}: the same"))
            continue
        table = Table(title=title, title_justify="left", title_style="bold")
        table.add_column(style="bold", overflow="fold")
        for run in (first, second):
            table.add_column(run.title, overflow="fold")
        has_change = any(_change(difference) for difference in found)
        if has_change:
            table.add_column("change", no_wrap=True)
        for difference in found:
            cells = [Text(difference.key), Text(_shown(difference.first)), Text(_shown(difference.second))]
            table.add_row(*cells, *([Text(_change(difference))] if has_change else []))
        console.print(table)


def _differing(first: Facts, second: Facts) -> list[RunDifference]:
    keys = [*first, *(key for key in second if key not in first)]
    return [
        RunDifference(key, first.get(key), second.get(key))
        for key in keys
        if repr(first.get(key)) != repr(second.get(key))
    ]


def _without_config(*runs: FoundRun) -> str:
    titles = [run.title for run in dict.fromkeys(runs) if run.read(run.rundir.config) is None]
    return f"not compared, {' and '.join(titles)} stored none: it is stored once a run has its nodes"


def _config(run: FoundRun) -> dict[str, Any] | None:
    """Returns a run's settings by dotted key; None if it never came to train."""
    content = run.read(run.rundir.config)
    if content is None:
        return None
    try:
        return dict(leaves(load_yaml(content.decode())))
    except (YamlError, UnicodeDecodeError) as error:
        raise CorruptFileError(f"{run.rundir.config}: {error}") from None


def _outcome(result: RunResult | None) -> dict[str, Any]:
    if result is None:
        return {}
    found: dict[str, Any] = {"verdict": words_of(result.verdict)}
    if result.error is not None:
        found["cause"] = result.error.message
    found |= {"epochs": result.epochs, "updates": result.steps, "rows trained": result.rows_trained}
    return found | {
        f"{stream} {name}": value for stream, values in result.metrics.items() for name, value in values.items()
    }


def _plan(run: FoundRun) -> Plan | None:
    try:
        return load_plan(run.storage, run.rundir.plan)
    except StorageNotFoundError:
        return None


def _planned(plan: Plan | None) -> dict[str, Any]:
    """Returns the planned rows of each stream that trainers read themselves."""
    found: dict[str, Any] = {}
    for stream, table in (plan.tables if plan else {}).items():
        found[f"{stream} rows"] = plan.rows(stream) if plan else 0
        found[f"{stream} row groups"] = len(table.rows)
        found[f"{stream} MB"] = round(plan.nbytes(stream) / 1e6, 1) if plan else 0
    return found | ({"files": len(plan.files)} if plan and plan.files else {})


def _fed(plan: Plan | None, result: RunResult | None) -> dict[str, Any]:
    """Returns the training rows that Spark fed, which no plan counts."""
    fed = {f"{stream} rows": "fed by Spark" for stream in (plan.staged if plan else ())}
    whole = [epoch.planned for epoch in (result.rows if result else ()) if epoch.complete]
    return fed | ({f"{plan.staged[0]} rows": whole[-1]} if plan and plan.staged and whole else {})


def _files(first: Plan | None, second: Plan | None) -> list[RunDifference]:
    """Returns the files that only one run has read, and how many have changed since under the same path."""
    if first is None or second is None:
        return []
    stamps = _stamps(first), _stamps(second)
    alone = [[path for path in mine if path not in theirs] for mine, theirs in (stamps, stamps[::-1])]
    rewritten = sum(
        1 for path, stamp in stamps[0].items() if stamp and stamps[1].get(path) and stamp != stamps[1][path]
    )
    found = [RunDifference("files of this run alone", *map(_named, alone))] if any(alone) else []
    return found + ([RunDifference("files rewritten in between", None, rewritten)] if rewritten else [])


def _stamps(plan: Plan) -> dict[str, FileStamp | None]:
    if plan.stamps is None:
        return dict.fromkeys(plan.files)
    return dict(zip(plan.files, map(FileStamp, *plan.stamps.T.tolist()), strict=True))


def _named(paths: Sequence[str]) -> str | None:
    """Returns the number of files, and the end of one path."""
    if not paths:
        return None
    named = "/".join(paths[0].rsplit("/", 2)[-2:])
    return f"{named} and {len(paths) - 1:,} more" if len(paths) > 1 else named


def _change(difference: RunDifference) -> str:
    first, second = difference.first, difference.second
    if not all(isinstance(value, int | float) for value in (first, second)):
        return ""
    change = second - first
    return f"{change:+,}" if isinstance(change, int) else f"{change:+.4g}"


def _shown(value: Any) -> str:
    if value is None:
        return _NOTHING
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
