"""`sparktf backfill`: a run for each of several dates, in their order.

A completed run is skipped and an interrupted one resumed: the same command again continues where it stopped.
"""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from rich.table import Table
from rich.text import Text

from sparktf.config.duration import duration_text
from sparktf.config.job import JobConfig
from sparktf.config.load import load_config
from sparktf.config.train import PUBLISHED
from sparktf.console.plain_console import PlainConsole
from sparktf.console.result_table import ending_of, style_of
from sparktf.errors import ConfigError, CorruptFileError, StorageNotFoundError, Verdict
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.results import read_result

_DAY_S = 86_400
_MOST_DATES = 10_000

_FOR_EVERY_DATE = (Verdict.MODEL_FAILED, Verdict.REFUSED)
"""Verdicts on code and configuration, which any other date would share."""


@dataclass(frozen=True, slots=True)
class DatedRun:
    """The run of one date, as found when the backfill began."""

    date: str
    rundir: RunDirectory
    result: RunResult | None  # Of an earlier submission that ended
    has_begun: bool  # Whether there is something to resume

    @property
    def is_done(self) -> bool:
        """Whether it is skipped."""
        return self.result is not None and self.result.is_final

    @property
    def state(self) -> str:
        """Its state in words, and what the backfill will do with it."""
        if self.is_done:
            return "done before"
        return "goes on" if self.has_begun else "new"


@dataclass(slots=True)
class Backfill:
    """Runs submitted one after the other, or a few at once."""

    # Date -> the command of its run, whose exit code is the verdict; `--wait` is appended where another submission owns
    # the run
    command: Callable[[str], Sequence[str]]
    say: Callable[[str], None]
    parallel: int = 1
    codes: dict[str, int] = field(default_factory=dict)  # Date -> exit code, of the runs that have ended
    _children: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False

    def run(self, dates: Sequence[str]) -> None:
        """Runs the dates in order until all have ended, or one fails by its code or configuration.

        Raises:
            KeyboardInterrupt: the runs under way were interrupted and have ended.
        """
        with ThreadPoolExecutor(self.parallel, thread_name_prefix="backfill") as pool:
            futures: list[Future[None]] = [pool.submit(self._one, date) for date in dates]
            try:
                for future in futures:
                    future.result()
            finally:
                self._stop()

    def _one(self, date: str) -> None:
        """Runs a date. Waits if another submission trains it, such as one of a backfill that was killed."""
        if self._submit(date, wait=False) == Verdict.OWNED:
            self.say(f"{date}  another submission trains it: waiting for that")
            self._submit(date, wait=True)

    def _submit(self, date: str, *, wait: bool) -> int | None:
        """Returns the exit code; None for a run that was not begun."""
        with self._lock:
            if self._stopped:
                return None
            # A group of its own: Ctrl-C reaches us alone, and we stop things in order.
            command = [*self.command(date), *(["--wait"] if wait else [])]
            child = self._children[date] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors="replace", process_group=0,
            )  # fmt: skip
        with child:
            for line in child.stdout or ():
                self.say(f"{date}  {line.rstrip()}")
        with self._lock:
            del self._children[date]
            # Of one that a signal has ended, as a shell says it.
            self.codes[date] = child.returncode if child.returncode >= 0 else 128 - child.returncode
            self._stopped = self._stopped or child.returncode in _FOR_EVERY_DATE
            return self.codes[date]

    def _stop(self) -> None:
        """Starts no further run, and interrupts those under way, which stop in order."""
        with self._lock:
            self._stopped = True
            for child in self._children.values():
                child.send_signal(signal.SIGTERM)


def run_backfill(
    config: str, sets: Sequence[str], dates: Sequence[str], systems: FileSystems, parallel: int, *, dry_run: bool
) -> int:
    """Submits a configuration for each date, and prints a table; returns the exit code.

    Args:
        config: Path of its file; `sets` override keys of it.
        parallel: Runs at once.
        dry_run: Only show how the run of each date stands.

    Raises:
        ConfigError: the configuration of a date is wrong, or the dates depend on each other.
    """
    configs = {date: load_config(config, sets, date) for date in dates}
    check_order(configs, parallel)
    runs = runs_of(configs, systems)
    console = PlainConsole()
    if dry_run:
        console.print(plan_table(runs))
        return 0

    def command(date: str) -> list[str]:
        overrides = [word for override in sets for word in ("--set", override)]
        return [sys.executable, "-m", "sparktf.commands.cli", "submit", config, "--date", date, *overrides]

    work = Backfill(command, partial(print, flush=True), parallel)
    try:
        work.run([run.date for run in runs if not run.is_done])
    finally:
        console.print(table_of(runs, work.codes, systems))
    return exit_code(work.codes)


def dates_between(first: str, last: str, every_s: float) -> list[str]:
    """Returns the days from the first to the last.

    Raises:
        ConfigError: one is no day, their order is wrong, there are too many, or the step is no number of days.
    """
    begin, end = _day("--from", first), _day("--to", last)
    days, rest = divmod(every_s, _DAY_S)
    if rest or not days:
        raise ConfigError(f"--every: {duration_text(every_s)} is no number of whole days: write 1d or 7d")
    if end < begin:
        raise ConfigError(f"--to {last} is before --from {first}: swap them")
    count = int((end - begin).days // days) + 1
    if count > _MOST_DATES:
        raise ConfigError(
            f"--from {first} --to {last} are {count:,} dates, and at most {_MOST_DATES:,} are allowed: split them, or "
            "give a longer --every"
        )
    return [str(begin + i * dt.timedelta(days=days)) for i in range(count)]


def runs_of(configs: Mapping[str, JobConfig], file_systems: FileSystems) -> list[DatedRun]:
    """Returns the state of each date's run.

    Args:
        configs: Date -> its configuration.

    Raises:
        ConfigError: the configuration is the same for all dates.
        StorageError: the storage failed.
    """
    plans = {config.plan_hash() for config in configs.values()}
    if len(configs) > 1 and len(plans) == 1:
        raise ConfigError(
            "data does not depend on the date, so that all runs would read the same rows: put {{date}} in data.path or "
            "data.where"
        )
    return [_run_of(date, config, file_systems) for date, config in configs.items()]


def check_order(configs: Mapping[str, JobConfig], parallel: int) -> None:
    """Refuses to train dates in parallel if one begins with the weights of another. Raises `ConfigError`.

    Args:
        configs: Date -> its configuration.
        parallel: Runs at once.
    """
    for date, config in configs.items() if parallel > 1 else ():
        init_from, run = config.train.init_from, config.train.init_run
        if run in configs or (init_from == PUBLISHED and config.publish is not None):
            raise ConfigError(
                f"--parallel {parallel}: with train.init_from: {init_from} the run of {date} begins from that of "
                "another date: leave --parallel out, so that they train in order"
            )


def exit_code(codes: Mapping[str, int]) -> int:
    """Returns the exit code of a backfill: that of the earliest failed run, else 0.

    A run whose model the gate kept back counts as completed: the next backfill skips it.
    """
    failed = (code for _, code in sorted(codes.items()) if code not in (Verdict.DONE, Verdict.GATED))
    return next(failed, int(Verdict.DONE))


def table_of(runs: Iterable[DatedRun], codes: Mapping[str, int], file_systems: FileSystems) -> Table:
    """Returns the table of outcomes by date."""
    table = Table(title_justify="left", header_style="bold")
    for column in ("date", "verdict", "rows", "metrics", "seconds", "cause"):
        table.add_column(column, justify="right" if column in ("rows", "seconds") else "left", overflow="fold")
    for run in runs:
        code = codes.get(run.date)
        result = run.result if code is None else _result(run.rundir, file_systems)
        if code is None and not run.is_done:
            table.add_row(run.date, Text("not begun" if not run.has_begun else "not gone on with", "yellow"))
        elif result is None:
            table.add_row(run.date, Text(f"exit code {code}", "red"), "", "", "", "no result: its output says why")
        else:
            ending = f"{ending_of(result)}{' before' if code is None else ''}"
            colour = style_of(result.verdict)
            metrics = result.metrics.get("validation") or result.metrics.get("train") or {}
            table.add_row(
                run.date,
                Text(ending, colour),
                f"{result.rows_trained:,}",
                Text("  ".join(f"{name} {value:.4f}" for name, value in metrics.items())),
                f"{result.duration_s:,.0f}",
                Text(result.error.message if result.error else ""),
            )
    return table


def plan_table(runs: Iterable[DatedRun]) -> Table:
    """Returns the table of planned actions by date."""
    table = Table(header_style="bold")
    table.add_column("date")
    table.add_column("its run")
    for run in runs:
        table.add_row(run.date, run.state)
    return table


def _day(option: str, text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option} {text}: must be a day of the calendar as YYYY-MM-DD") from None


def _run_of(date: str, config: JobConfig, file_systems: FileSystems) -> DatedRun:
    rundir = RunDirectory(file_systems.normalise(config.output.path), config.name, date)
    has_begun = file_systems.open_runs(rundir.root).exists(rundir.plan)
    return DatedRun(date, rundir, _result(rundir, file_systems), has_begun)


def _result(rundir: RunDirectory, file_systems: FileSystems) -> RunResult | None:
    storage = file_systems.open_runs(rundir.root)
    try:
        return read_result(storage, rundir.result)
    except (CorruptFileError, StorageNotFoundError):  # the day's own run reports it; the other days continue
        return None
