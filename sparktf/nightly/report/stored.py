"""Gathers the stored data of a run for its page."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from sparktf.config.checks import ChecksConfig
from sparktf.config.job import JobConfig
from sparktf.config.load import show_config
from sparktf.config.yaml import YamlError, load_yaml
from sparktf.driver.plan.files import at_once
from sparktf.errors import StorageError, StorageNotFoundError
from sparktf.nightly.data_checks import Baseline, Finding, find_baseline, findings
from sparktf.nightly.report.drift import TableDrift, drift_of
from sparktf.nightly.report.headline import published_version
from sparktf.results.events import (
    AttemptBegun,
    AttemptEnded,
    CourseSeen,
    LineSaid,
    LogEntry,
    LossOutlived,
    MetricsSeen,
    RunBegun,
    RunEnded,
    Samples,
    WarningGiven,
    read_events,
)
from sparktf.results.outlived import Outlived
from sparktf.results.result import AttemptResult, RunResult
from sparktf.rundir import RunDirectory
from sparktf.statistics.column_statistics import TableStatistics
from sparktf.storage.base import Storage
from sparktf.storage.transactions.results import read_result
from sparktf.storage.transactions.terms import UNHEARD, LastWord, last_word

_ROUNDED_S = 1.0
"""A result has its start in whole seconds."""

_NOT_DRAWN = re.compile(rb'"kind":"line"')


@dataclass(frozen=True)
class SeenAttempt:
    """One attempt of a run, of any submission."""

    number: int
    began_s: float  # Seconds since 1970; `ended_s` likewise, None while it is under way
    workers: int
    hosts: str
    from_step: int
    ended_s: float | None = None
    result: AttemptResult | None = None  # Its end; None while it is under way, or if its driver was lost
    samples: Samples = field(default_factory=Samples)
    outlived: tuple[Outlived, ...] = ()  # Losses that cost no attempt
    is_lost: bool = False  # Whether the driver ended before it did


@dataclass(frozen=True)
class ToldEvents:
    """A summary of a run's events, over all its submissions."""

    began_s: tuple[float, ...] = ()  # Of each submission
    attempts: tuple[SeenAttempt, ...] = ()
    metrics: tuple[MetricsSeen, ...] = ()
    warnings: tuple[str, ...] = ()
    last_line: str = ""
    heard_s: float | None = None  # Time of the last event; None without one
    has_ended: bool = False  # Whether the last submission has
    unread: int = 0  # Segments that could not be read


@dataclass(frozen=True)
class StoredRun:
    """The data of the page."""

    rundir: RunDirectory
    result: RunResult | None  # None while the run is under way
    told: ToldEvents
    config: str = ""  # As stored, redacted; "" if it is not
    drift: TableDrift | None = None
    # Data checks that do not hold, by level, "refuse" and "warn"
    found: dict[str, list[Finding]] = field(default_factory=dict)
    checked: bool = False  # Whether the configuration checks the data, if known
    problems: tuple[str, ...] = ()  # Files of the run that could not be read
    word: LastWord = UNHEARD  # Its last sign of life, if it has no result


def gather(
    storage: Storage, rundir: RunDirectory, result: RunResult | None = None, config: JobConfig | None = None
) -> StoredRun:
    """Returns the stored data of a run.

    Args:
        result: Its result. Default: the stored one; None if an earlier submission ended and a later one is under way.
        config: Its configuration. Default: the stored one.

    Raises:
        CorruptFileError: the result cannot be read.
        StorageError: the storage failed.
    """
    told = _told(storage, rundir)
    if result is None:
        result = _standing(_result(storage, rundir), told)
    text, problems = (_text(storage, rundir.config), []) if config is None else (show_config(config), [])
    checks = _checks(text) if config is None else config.data.checks
    if told.unread:
        problems.append(f"{told.unread:,} of the files with the run's events cannot be read")
    told = told if result is None else _completed(told, result)
    stored = StoredRun(rundir, result, told, text, checked=checks is not None, problems=tuple(problems))
    if result is None:
        stored = replace(stored, word=last_word(storage, rundir))
    content = _read(storage, rundir.statistics)
    return stored if content is None else _with_statistics(stored, storage, content, checks)


def _with_statistics(stored: StoredRun, storage: Storage, content: bytes, checks: ChecksConfig | None) -> StoredRun:
    problems = list(stored.problems)
    try:
        now = TableStatistics.model_validate_json(content)
    except ValidationError:
        return replace(stored, problems=(*problems, "statistics.json cannot be read: another version has written it"))
    baseline = find_baseline(storage, stored.rundir, problems.append, _before(stored.result))
    found = {} if checks is None else _found(checks, now, baseline)
    drift = drift_of(now, baseline, [finding for level in found.values() for finding in level])
    return replace(stored, drift=drift, found=found, problems=tuple(problems))


def _before(result: RunResult | None) -> int | None:
    """Returns the version after the one that the run's data was compared with; None for the current one."""
    if result is None:
        return None
    champion = None if result.comparison is None else result.comparison.champion_version
    return published_version(result) or (None if champion is None else champion + 1)


def _found(checks: ChecksConfig, now: TableStatistics, baseline: Baseline | None) -> dict[str, list[Finding]]:
    levels = {"refuse": checks.refuse, "warn": checks.warn}
    return {level: found for level, bounds in levels.items() if (found := findings(level, bounds, now, baseline))}


def _result(storage: Storage, rundir: RunDirectory) -> RunResult | None:
    try:
        return read_result(storage, rundir.result)
    except StorageNotFoundError:
        return None


def _standing(result: RunResult | None, told: ToldEvents) -> RunResult | None:
    """Returns the result unless a later submission is under way. Its last events may never have been stored."""
    if result is None or told.has_ended or not told.began_s or not result.started:
        return result
    ended_s = datetime.datetime.fromisoformat(result.started).timestamp() + result.duration_s + _ROUNDED_S
    return result if told.began_s[-1] <= ended_s else None


def _checks(config: str) -> ChecksConfig | None:
    try:
        found = (load_yaml(config) or {}).get("data", {}).get("checks") if config else None
        return None if found is None else ChecksConfig.model_validate(found)
    except (YamlError, ValidationError):
        return None


def _completed(told: ToldEvents, result: RunResult) -> ToldEvents:
    """Returns the events' summary, with the attempts of the result if the events lack some."""
    known = {attempt.number: attempt for attempt in told.attempts}
    for ended in result.attempts:
        seen = known.get(ended.attempt) or SeenAttempt(
            ended.attempt, 0.0, ended.workers, ", ".join(dict.fromkeys(ended.hosts)), ended.from_step
        )
        until_s = seen.ended_s or (seen.began_s + ended.duration_s if seen.began_s else None)
        known[ended.attempt] = replace(
            seen, result=seen.result or ended, outlived=ended.outlived, ended_s=until_s, is_lost=False
        )
    warnings = dict.fromkeys((*told.warnings, *result.warnings))
    return replace(told, attempts=tuple(known[number] for number in sorted(known)), warnings=tuple(warnings))


# ---- events ----


def _told(storage: Storage, rundir: RunDirectory) -> ToldEvents:
    try:
        paths = [entry.path for entry in storage.list(rundir.events) if entry.path.endswith(".jsonl")]
    except StorageNotFoundError:
        return ToldEvents()

    def read(path: str) -> list[LogEntry] | None:
        try:
            return _entries(storage.read_bytes(path))
        except (StorageError, ValueError):
            return None

    segments = at_once("report", read, sorted(paths))
    entries = [entry for segment in segments if segment is not None for entry in segment]
    return replace(told_by(sorted(entries, key=lambda entry: entry.time_s)), unread=segments.count(None))


def _entries(content: bytes) -> list[LogEntry]:
    """Returns the events of a segment; of the console's lines, which are most of them, only the last one."""
    lines = content.splitlines()
    said = [number for number, line in enumerate(lines) if _NOT_DRAWN.search(line)]
    skipped = set(said[:-1])
    return list(read_events(line for number, line in enumerate(lines) if number not in skipped))


def told_by(entries: Sequence[LogEntry]) -> ToldEvents:
    """Returns the summary of events, given in the order of their times."""
    began_s: list[float] = []
    attempts: dict[int, SeenAttempt] = {}
    metrics, warnings, last_line, heard_s, has_ended = [], [], "", None, False
    for time_s, event in entries:
        if isinstance(event, RunBegun):
            _lose(attempts, heard_s)
            began_s.append(time_s)
            has_ended = False
        elif isinstance(event, AttemptBegun):
            attempts[event.attempt] = SeenAttempt(event.attempt, time_s, event.workers, event.hosts, event.from_step)
        elif isinstance(event, CourseSeen) and event.attempt in attempts:
            attempts[event.attempt] = replace(attempts[event.attempt], samples=event.samples)
        elif isinstance(event, LossOutlived) and event.attempt in attempts:
            seen = attempts[event.attempt]
            attempts[event.attempt] = replace(
                seen, outlived=(*seen.outlived[: event.number - 1], event.loss, *seen.outlived[event.number :])
            )
        elif isinstance(event, AttemptEnded) and event.attempt in attempts:
            ended = AttemptResult(**{name: getattr(event, name) for name in AttemptResult.model_fields})
            seen = attempts[event.attempt]
            attempts[event.attempt] = replace(
                seen,
                ended_s=time_s,
                result=ended,
                outlived=ended.outlived,
                samples=event.samples if event.samples.steps else seen.samples,
            )
        elif isinstance(event, MetricsSeen):
            metrics.append(event)
        elif isinstance(event, WarningGiven):
            warnings.append(event.text)
        elif isinstance(event, LineSaid):
            last_line = event.text
        elif isinstance(event, RunEnded):
            has_ended = True
        heard_s = time_s
    return ToldEvents(
        began_s=tuple(began_s),
        attempts=tuple(attempts[number] for number in sorted(attempts)),
        metrics=tuple(metrics),
        warnings=tuple(dict.fromkeys(warnings)),
        last_line=last_line,
        heard_s=heard_s,
        has_ended=has_ended,
    )


def _lose(attempts: dict[int, SeenAttempt], heard_s: float | None) -> None:
    """Ends the attempts of a driver that was replaced by another."""
    for number, seen in attempts.items():
        if seen.ended_s is None:
            attempts[number] = replace(seen, ended_s=heard_s, is_lost=True)


def _read(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read_bytes(path)
    except StorageNotFoundError:
        return None


def _text(storage: Storage, path: str) -> str:
    return (_read(storage, path) or b"").decode("utf-8", "replace")
