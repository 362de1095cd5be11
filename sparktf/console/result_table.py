"""The table that ends a run, and the words and colours of ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparktf.errors import Verdict
from sparktf.results.comparison import TOLERATED, Comparison, Difference
from sparktf.results.result import RunResult
from sparktf.told import count_in_words, log_of, told, words_of_error

_log = log_of(__name__)

_COLOURS = {Verdict.DONE: "green", Verdict.GATED: "yellow", Verdict.NOT_READY: "yellow", Verdict.OWNED: "yellow"}

_SHOWN_HOSTS = 8
_SHOWN_LOSSES = 5


def ending_of(result: RunResult) -> str:
    """Returns a run's end in a word or two."""
    return "interrupted" if result.is_interrupted else words_of(result.verdict)


def words_of(verdict: int) -> str:
    """Returns a verdict in words; one of a later version stays a number."""
    return Verdict(verdict).name.lower().replace("_", " ") if verdict in set(Verdict) else str(verdict)


def style_of(verdict: int) -> str:
    return next((colour for known, colour in _COLOURS.items() if known == verdict), "red")


def print_result(console: Console, result: RunResult) -> None:
    """Prints the table that ends a run, after the traceback of a failure. Raises nothing: the verdict stands."""
    try:
        _print_result(console, result)
    except Exception as error:  # noqa: BLE001 - a result that is stored, and whose verdict is the exit code
        _log.warning("the result could not be shown: %s: %s", type(error).__name__, told(words_of_error(error)))


def _print_result(console: Console, result: RunResult) -> None:
    if result.error is not None and result.error.traceback:
        console.print(Text(result.error.traceback.rstrip(), style="dim"))
    if result.comparison is not None:
        for table in _comparisons(result.comparison):
            console.print(table)
    title = Text(f"{result.name} / {result.run_id}: {ending_of(result)}")
    table = Table(title=title, title_justify="left", show_header=False, title_style=f"bold {style_of(result.verdict)}")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for key, value in _facts(result):
        table.add_row(Text(key), Text(value))
    console.print(table)


def _comparisons(comparison: Comparison) -> Iterator[Table]:
    """Yields the tables of the gate's outcome: against the champion, and against another anchor."""
    versus, resampled = comparison.champion or "nothing published", f"rows resampled {comparison.replicates:,} times"
    yield _comparison(f"gate: this model against {versus}, {resampled}", versus, comparison.differences)
    anchor = comparison.anchor
    if anchor is not None:
        said = f"which cannot be compared with: {anchor.problem}" if anchor.problem else resampled
        title = f"gate: this model against {anchor.label}, {said}"
        yield _comparison(title, f"version {anchor.version}", anchor.differences)


def _comparison(title: str, versus: str, differences: Iterable[Difference]) -> Table:
    """Returns a table of both models, their differences, and the findings."""
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    table.add_column("metric", style="bold")
    for column in ("rows", "this model", versus, "better by", "tolerance"):
        table.add_column(Text(column), justify="right")
    table.add_column("finding")
    for d in differences:
        name = f"{d.metric}, {d.slice}" if d.slice else d.metric
        champion, tolerance = ("-" if value is None else shown_figure(value) for value in (d.champion, d.tolerance))
        ends = "-" if d.low is None or d.high is None else f"{shown_figure(d.low)} to {shown_figure(d.high)}"
        colour = _FINDINGS.get(d.finding, "")
        shown = (name, f"{d.rows:,}", shown_figure(d.challenger), champion, ends, tolerance, d.finding)
        table.add_row(*(Text(value, style=colour if value is d.finding else "") for value in shown))
    return table


_FINDINGS = {"good": "green", TOLERATED: "yellow", "worse": "red", "out of bounds": "red", "undecided": "yellow"}


def _locality(result: RunResult) -> str:
    """Returns the bytes read, and the share read locally: "12.0 MB, 97 % on the node's own host (...)"."""
    if result.locality is None:
        return ""
    by_host = result.host_nbytes
    nbytes = sum(read for read, _ in by_host.values())
    shown = [f"{host} {local / read:.0%}" for host, (read, local) in sorted(by_host.items())]
    if len(shown) > _SHOWN_HOSTS:
        shown = [*shown[:_SHOWN_HOSTS], f"{len(shown) - _SHOWN_HOSTS} more"]
    return f"{nbytes / 1e6:,.1f} MB, {result.locality:.0%} on the reader's own host ({', '.join(shown)})"


def shown_figure(value: float) -> str:
    """Returns the text of a metric."""
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:.4f}"


_WAYS = {
    "direct": "read from files",
    "unix": "fed on their node's own host",
    "tcp": "fed from other hosts",
    "peer": "moved to nodes that had run dry",
}


def _input(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yields the way of the rows, the waiting for them, and the rows kept."""
    inputs = [node.input for attempt in result.attempts for node in attempt.nodes]
    rows = {way: sum(i.rows.get(way, 0) for i in inputs) for way in _WAYS}
    ways = [f"{count:,} rows {_WAYS[way]}" for way, count in rows.items() if count]
    if not ways or result.waiting_share is None:
        return
    waited = f"trainers waited for rows {result.waiting_share:.0%} of the time"
    feeders_s = sum(i.feeders_wait_s for i in inputs)
    yield "input", ", ".join([*ways, waited, *([f"feeders for trainers {feeders_s:.1f} s"] if feeders_s >= 1 else [])])
    kept = [node.input for node in result.attempts[-1].nodes]
    memory, disk = sum(i.memory_nbytes for i in kept), sum(i.disk_nbytes for i in kept)
    if memory or disk:
        yield "kept", f"{memory / 1e6:,.1f} MB in memory and {disk / 1e6:,.1f} MB on disk, for later epochs"


def _outlived(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yields the losses that cost no attempt."""
    said = [each.in_words() for attempt in result.attempts for each in attempt.outlived]
    if len(said) > _SHOWN_LOSSES:
        said = [*said[:_SHOWN_LOSSES], f"{len(said) - _SHOWN_LOSSES:,} more losses that cost no attempt"]
    if said:
        yield "losses", "\n".join(said)


def _made(result: RunResult) -> str:
    """Returns the speed and the staleness of workers that make updates of their own."""
    made = [node.made for node in (result.attempts[-1].nodes if result.attempts else ()) if node.made is not None]
    rates = [m.steps_s for m in made]
    stale = [m.staleness for m in made if m.staleness is not None]
    if not rates:
        return ""
    speed = f"{len(rates)} with {min(rates):,.1f} to {max(rates):,.1f} steps/s"
    most = f"{max(s.median for s in stale)}, and {max(s.p99 for s in stale)} at most of 99 %" if stale else ""
    return f"{speed}, updates between reading and applying: {most}" if most else speed


def _ends(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yields the initial weights and the reason of the end, if they are unusual."""
    if result.carried is not None:
        yield "begun", result.carried.in_words().removeprefix("begins ")
    if result.stopped is not None:
        yield "ended", result.stopped.text


def _facts(result: RunResult) -> list[tuple[str, str]]:
    rows = result.rows
    facts = []
    if rows:
        fed, planned, trained = (sum(getattr(e, what) for e in rows) for what in ("fed", "planned", "trained"))
        facts.append(
            (
                "rows",
                f"{planned:,} planned, {fed:,} fed, {trained:,} trained "
                f"(epochs {rows[0].epoch + 1}-{rows[-1].epoch + 1})",
            )
        )
    if result.source_version is not None:
        facts.append(("data", f"version {result.source_version} of the table"))
    facts.append(
        ("updates", f"{result.steps:,} in {count_in_words(len(result.attempts), 'attempt')}, {result.duration_s:.1f} s")
    )
    facts.extend(_outlived(result))
    if result.seconds:
        facts.append(("seconds", ", ".join(f"{phase} {spent_s:.1f}" for phase, spent_s in result.seconds.items())))
    if locality := _locality(result):
        facts.append(("read", locality))
    facts.extend(_input(result))
    if made := _made(result):
        facts.append(("workers", made))
    if result.attempts and result.attempts[-1].advice:
        facts.append(("advice", result.attempts[-1].advice))
    facts.extend(_ends(result))
    if result.kept is not None:
        kept = result.kept
        facts.append(("weights", f"{kept.whose}: best {kept.metric} {kept.value:.4f}"))
    for stream, values in result.metrics.items():
        facts.extend((f"{stream} {name}", shown_figure(value)) for name, value in values.items())
    if result.evaluation_error is not None:
        facts.append(("evaluation", result.evaluation_error.message))
    facts.extend((name, getattr(result, name)) for name in ("model", "checkpoint") if getattr(result, name))
    if result.error is not None:
        facts.append(("cause", result.error.message))
    elif result.comparison is not None:
        facts.append(("gate", result.comparison.reason))
    if result.error is not None and result.verdict is not Verdict.GATED:
        facts.extend([("node", f"{result.error.node} {result.error.host}".strip()), ("log", result.error.log or "-")])
    facts.append(("result", f"{result.path}/result.json"))
    return facts
