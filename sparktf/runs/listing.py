"""`sparktf runs`: the runs that have ended, the last begun first."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparktf.config.duration import Duration
from sparktf.console.result_table import style_of, words_of
from sparktf.errors import ConfigError
from sparktf.nightly.history import RunRecord, names_in_history, read_history
from sparktf.runs.finding import RunsRoot, name_with_history
from sparktf.told import told

_WIDE, _WIDEST = 100, 140
"""Console widths from which a table has more columns."""

_LENGTH: TypeAdapter[float] = TypeAdapter(Duration)


def recorded_runs(
    output: RunsRoot,
    name: str | None,
    *,
    failed: bool,
    since: datetime.datetime | None,
    warn: Callable[[str], None],
) -> list[RunRecord]:
    """Returns the runs of a name, or all, optionally only failed ones or those begun since a time.

    Raises:
        ConfigError: there is no history.
        StorageError: the storage failed.
    """
    name = name or output.name
    names = names_in_history(output.storage, output.root) if name is None else [name_with_history(name, output)]
    if not names:
        raise ConfigError(f"{output.root} has no history of runs: set output.history: true to record the next ones")
    found = read_history(output.storage, output.root, names, warn)
    return [
        record
        for record in found
        if (record.verdict or not failed)
        and (since is None or (record.started is not None and record.started >= since))
    ]


def parse_since(text: str, now: datetime.datetime) -> datetime.datetime:
    """Returns the time given by `--since`: a day, a time in UTC, or a duration before now.

    Raises:
        ConfigError: it is none of them.
    """
    try:
        time = datetime.datetime.fromisoformat(text)
        return time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
    except ValueError:
        pass
    try:
        return now - datetime.timedelta(seconds=_LENGTH.validate_python(text))
    except (ValidationError, OverflowError):
        raise ConfigError(
            f"--since {text} is no time: write a day as 2026-11-20, or a length of time as 36h or 7d"
        ) from None


def json_lines(records: Sequence[RunRecord]) -> list[str]:
    """Returns each run as a line of JSON; numbers that are not finite become null."""
    return [json.dumps(_plain(record._asdict())) for record in records]


def print_runs(console: Console, records: Sequence[RunRecord]) -> None:
    """Prints a line for each run; in a narrow terminal, only the most important columns."""
    if not records:
        console.print("no runs found")
        return
    wide, widest = console.width >= _WIDE, console.width >= _WIDEST
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("run", overflow="fold")
    columns: list[tuple[str, Callable[[RunRecord], str]]] = []
    if widest and any(r.date is not None and r.date.isoformat() != r.run_id for r in records):
        columns.append(("date", lambda r: str(r.date or "")))
    if wide:
        columns += [("began (UTC)", _began), ("rows", lambda r: f"{r.rows:,}")]
    columns.append(("took", lambda r: roughly(sum(r.seconds.values()))))
    if widest:
        columns += [("local", lambda r: _share(r.locality)), ("waited", lambda r: _share(r.waiting_share))]
    for title, _ in columns:
        table.add_column(title, no_wrap=True, justify="left" if title in ("date", "began (UTC)") else "right")
    table.add_column("verdict", no_wrap=True)
    table.add_column("metrics, or cause")
    for record in records:
        verdict = Text(words_of(record.verdict), style=style_of(record.verdict))
        cells = [value(record) for _, value in columns]
        # Its own, not its column's: a column that must not wrap would not be the first to give way.
        outcome = Text(_outcome(record), no_wrap=True, overflow="ellipsis")
        table.add_row(Text(f"{record.name}/{record.run_id}"), *cells, verdict, outcome)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip(), file=console.file)


def _outcome(record: RunRecord) -> str:
    """Returns the cause of a failure in one line, else metrics: of validation, if there are any."""
    if record.cause is not None:
        return told(" ".join(record.cause.split()))
    stream = "validation" if record.metrics.get("validation") else next(iter(record.metrics), "")
    values = ", ".join(f"{name} {value:.4f}" for name, value in record.metrics.get(stream, {}).items())
    return values if stream == "validation" or not values else f"{stream}: {values}"


def _began(record: RunRecord) -> str:
    return "" if record.started is None else f"{record.started.astimezone(datetime.UTC):%Y-%m-%d %H:%M}"


def roughly(seconds: float) -> str:
    """Returns a rounded duration for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, datetime.date):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value
