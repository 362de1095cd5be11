"""The display of a run: a live line on a terminal, plain lines elsewhere, and a table at the end."""

from __future__ import annotations

import html
import os
import shutil
import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparktf.console.plain_console import PlainConsole
from sparktf.errors import Verdict
from sparktf.knobs import KNOBS
from sparktf.results.comparison import TOLERATED, Comparison, Difference
from sparktf.results.result import RunResult
from sparktf.told import count_in_words, log_of, told, words_of_error
from sparktf.wire.control import Metrics, Progress


def make_console() -> Console:
    """Returns the console of the driver's output.

    spark-submit puts a pipe between a Python driver and the terminal, so the parent's terminal counts too.
    """
    if Console().is_jupyter:
        return PlainConsole(width=_NOTEBOOK_COLUMNS)
    terminal = sys.stdout.isatty() or _parent_has_terminal()
    width = shutil.get_terminal_size((120, 24)).columns if terminal else 160
    return PlainConsole(force_terminal=terminal or None, width=width, soft_wrap=not terminal)


def _parent_has_terminal() -> bool:
    try:
        fd = os.open(f"/proc/{os.getppid()}/fd/1", os.O_WRONLY | os.O_NOCTTY | os.O_APPEND)
    except OSError:
        return False
    try:
        return os.isatty(fd)
    finally:
        os.close(fd)


_log = log_of(__name__)

_NOTEBOOK_COLUMNS = 110
_PARTS_OF_EPOCH = 10
"""Without a terminal, a line is printed for each of these parts."""

_SHOWN_HOSTS = 8


class Display:
    """Prints a run as it goes."""

    def __init__(
        self,
        console: Console,
        interval_s: float,
        epochs: int,
        observer: Callable[[str, str], None] = lambda text, style: None,
    ) -> None:
        """Shows a live line on a terminal; elsewhere prints a line for each change, one in `interval_s` at most.

        `observer` is called with every lasting line and its style.
        """
        self._observer = observer
        self._console = console
        self._interval_s = interval_s
        self._epochs = epochs
        self._shown_s = float("-inf")
        self._state: Hashable = None
        self._seen: deque[tuple[float, int]] = deque()
        self._status: Any = None

    def say(self, text: str, style: str = "") -> None:
        """Prints a lasting line, cleaned for people (`sparktf.told`)."""
        text = told(text)
        self._console.print(Text(text, style=style))
        self._observer(text, style)

    def waiting(self, what: str, have: int, need: int, left_s: float, now_s: float) -> None:
        """Shows a countdown, and how many nodes have come."""
        self.countdown(f"{what}: {have} of {need}", left_s, now_s)

    def countdown(self, what: str, left_s: float, now_s: float) -> None:
        """Shows the awaited event, and the time left."""
        self._show(f"{what}, {max(left_s, 0):.0f} s left", what, now_s)

    def training(self, nodes: Sequence[Progress], planned: int, before: int, left_s: float, now_s: float) -> None:
        """Shows the gang's progress.

        Args:
            planned: Rows of an epoch; 0 while unknown.
            before: Rows of the current epoch that an earlier attempt has trained.
            left_s: Time left for the trainers to be ready.
        """
        waiting = sum(p.phase == "starting" for p in nodes)
        if waiting:
            self.waiting("starting trainers", len(nodes) - waiting, len(nodes), left_s, now_s)
            return
        front = max(nodes, key=lambda p: (p.epoch, p.step))
        rows = sum(p.rows_trained for p in nodes if p.epoch == front.epoch) + before
        loss = "" if front.loss is None else f"  loss {front.loss:.4f}"
        phases = {p.phase for p in nodes} - {"training"}
        rate = self._rate(now_s, front.epoch * planned + rows)
        left = left_in_words((self._epochs - front.epoch) * planned - rows, rate) if planned else ""
        # Of an epoch whose end nobody knows, it is a change that the rows have doubled.
        far = rows * _PARTS_OF_EPOCH // planned if planned else rows.bit_length()
        self._show(
            f"epoch {front.epoch + 1}/{self._epochs}  step {front.step:,}  rows {rows:,}{_of(planned)}"
            f"  {rate:,.0f} rows/s{loss}{left}" + (f"  ({', '.join(sorted(phases))})" if phases else ""),
            (front.epoch, frozenset(phases), far),
            now_s,
        )

    def evaluating(self, now_s: float) -> None:
        """Shows that only the evaluator is still at work."""
        line = "training is done: waiting for the last checkpoint's evaluation"
        self._show(line, line, now_s)

    def metrics(self, metrics: Metrics) -> None:
        values = "  ".join(f"{name} {_figure(value)}" for name, value in metrics.values.items())
        self.say(
            f"epoch {metrics.epoch + 1}/{self._epochs}  step {metrics.step}  "
            f"{metrics.stream}: {values}  ({metrics.rows:,} rows)"
        )

    def close(self) -> None:
        """Ends the live line."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _rate(self, now_s: float, rows: int) -> float:
        """Returns rows per second over the last few seconds; `rows` counts over all epochs."""
        while self._seen and (rows < self._seen[-1][1] or now_s - self._seen[0][0] > KNOBS.rate_window_s):
            self._seen.popleft()
        self._seen.append((now_s, rows))
        seconds = now_s - self._seen[0][0]
        return (rows - self._seen[0][1]) / seconds if seconds > 0 else 0.0

    def _show(self, line: str, state: Hashable, now_s: float) -> None:
        """Shows how far it is; without a terminal only where the state is another than that of the line before."""
        if self._console.is_terminal or self._console.is_jupyter:
            if self._status is None:
                self._status = _NotebookLine() if self._console.is_jupyter else self._console.status(line)
                self._status.start()
            self._status.update(Text(line))
        elif state != self._state and now_s - self._shown_s >= self._interval_s:
            self._shown_s, self._state = now_s, state
            self.say(line)


class _NotebookLine:
    """A line of a notebook's cell that is updated in place, as `rich.status.Status` is on a terminal."""

    def __init__(self) -> None:
        self._shown: Any = None

    def start(self) -> None:
        """Shows an empty line."""
        from IPython.display import display  # noqa: PLC0415 - there is no notebook without it

        show: Any = display
        self._shown = show(self._content(""), raw=True, display_id=True)

    def update(self, line: Text) -> None:
        self._shown.update(self._content(line.plain), raw=True)

    def stop(self) -> None:
        self._shown.update(self._content(""), raw=True)

    @staticmethod
    def _content(line: str) -> dict[str, str]:
        return {"text/plain": line, "text/html": f"<code>{html.escape(line)}</code>" if line else ""}


_COLOURS = {Verdict.DONE: "green", Verdict.GATED: "yellow", Verdict.NOT_READY: "yellow", Verdict.OWNED: "yellow"}


def left_in_words(rows: int, rate: float) -> str:
    """Returns about how long the training of rows takes; "" where there are none, or nothing moves.

    Args:
        rows: Those that are to be trained until the end.
        rate: Rows per second.
    """
    if rows <= 0 or rate <= 0:
        return ""
    left_s = rows / rate
    if left_s < 60:
        return f"  {left_s:.0f} s left"
    minutes = round(left_s / 60)
    return f"  {minutes} min left" if minutes < 90 else f"  {left_s / 3600:.1f} h left"


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
        champion, tolerance = ("-" if value is None else _figure(value) for value in (d.champion, d.tolerance))
        ends = "-" if d.low is None or d.high is None else f"{_figure(d.low)} to {_figure(d.high)}"
        colour = _FINDINGS.get(d.finding, "")
        shown = (name, f"{d.rows:,}", _figure(d.challenger), champion, ends, tolerance, d.finding)
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


def _figure(value: float) -> str:
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:.4f}"


def _of(rows: int) -> str:
    return f"/{rows:,}" if rows else ""


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
        facts.extend((f"{stream} {name}", _figure(value)) for name, value in values.items())
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
