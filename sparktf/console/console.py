"""The display of a run: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import html
import os
import shutil
import sys
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from sparktf.console.plain_console import PlainConsole
from sparktf.console.result_table import shown_figure
from sparktf.knobs import KNOBS
from sparktf.told import told
from sparktf.wire.control import AWAITS_EXPORT, Metrics, Progress


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


_NOTEBOOK_COLUMNS = 110
_PARTS_OF_EPOCH = 10
"""Without a terminal, a line is printed for each of these parts."""


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
        phases = {p.phase for p in nodes} - {"training", AWAITS_EXPORT}
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
        values = "  ".join(f"{name} {shown_figure(value)}" for name, value in metrics.values.items())
        self.say(
            f"epoch {metrics.epoch + 1}/{self._epochs}  step {metrics.step:,}  "
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


def _of(rows: int) -> str:
    return f"/{rows:,}" if rows else ""
