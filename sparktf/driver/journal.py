"""All reports of a run: lines on the console, events in its directory, warnings for its result."""

from __future__ import annotations

from rich.console import Console

from sparktf.config.job import JobConfig
from sparktf.console.console import Display
from sparktf.driver.event_log import EventLog
from sparktf.driver.gang.site import Voice
from sparktf.errors import StorageError
from sparktf.results.events import Event, LineSaid, RunEnded, WarningGiven
from sparktf.results.result import RunResult
from sparktf.told import told


class Journal:
    """The reports of one run.

    Attributes:
        display: Every line that it keeps is an event too, for those who follow the run from elsewhere.
        warnings: So far.
    """

    def __init__(self, console: Console, config: JobConfig) -> None:
        """Stores nothing before `open`."""
        self.warnings: list[str] = []
        self.display = Display(console, config.output.progress_seconds, config.train.epochs, observer=self._keep_line)
        self._events: EventLog | None = None

    @property
    def voice(self) -> Voice:
        return Voice(self.display.say, self.warn)

    def open(self, events: EventLog) -> None:
        self._events = events

    def emit(self, event: Event) -> None:
        if self._events is not None:
            self._events.emit(event)

    def warn(self, text: str) -> None:
        """Shows a warning, and adds it to the result."""
        text = told(text)
        self.warnings.append(text)
        self.display.say(f"warning: {text}", "yellow")
        self.emit(WarningGiven(text=text))

    def warn_once(self, text: str) -> None:
        """Gives a warning unless it was given already."""
        if told(text) not in self.warnings:
            self.warn(text)

    def flush(self) -> None:
        """Stores all events so far. Raises `StorageError`."""
        if self._events is not None:
            self._events.flush()

    def keep_end(self, result: RunResult) -> None:
        """Reports the end of the run, and stores it; shows what could not be stored."""
        self.emit(RunEnded(verdict=int(result.verdict), error=result.error.message if result.error else None))
        try:
            self.flush()
        except StorageError as e:
            self.display.say(f"the last events of the run could not be stored: {e}", "yellow")

    def end(self) -> None:
        if self._events is not None:
            self._events.end()

    def _keep_line(self, text: str, style: str) -> None:
        self.emit(LineSaid(text=text, style=style))
