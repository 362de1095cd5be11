"""What the page of a run is made of, gathered from what the run has stored."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from sparktf.config.checks import ChecksConfig
from sparktf.config.job import JobConfig
from sparktf.config.load import show_config
from sparktf.config.yaml import YamlError, load_yaml
from sparktf.driver.plan.files import FOOTER_THREADS
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
    MetricsSeen,
    RunBegun,
    RunEnded,
    Samples,
    WarningGiven,
    read_events,
)
from sparktf.results.result import AttemptResult, RunResult
from sparktf.rundir import RunDirectory
from sparktf.statistics.column_statistics import TableStatistics
from sparktf.storage.base import Storage
from sparktf.storage.transactions.last_word import UNHEARD, LastWord, last_word
from sparktf.storage.transactions.results import read_result

_ROUNDED_S = 1.0
"""A result tells its start in whole seconds."""

_NOT_DRAWN = re.compile(rb'"kind":"line"')


@dataclass(frozen=True)
class SeenAttempt:
    """One attempt of a run, of whichever submission.

    Attributes:
        began_s: Seconds since 1970; `ended_s` likewise, None while it is under way.
        result: How it ended; None while it is under way, or where its driver was lost.
        is_lost: Whether the driver ended before it did.
    """

    number: int
    began_s: float
    workers: int
    hosts: str
    from_step: int
    ended_s: float | None = None
    result: AttemptResult | None = None
    samples: Samples = field(default_factory=Samples)
    is_lost: bool = False


@dataclass(frozen=True)
class ToldEvents:
    """What a run has told of itself, over all its submissions.

    Attributes:
        began_s: Of each submission.
        heard_s: When it last said anything; None where it has said nothing.
        has_ended: Whether the last submission has.
        unread: Segments that could not be read.
    """

    began_s: tuple[float, ...] = ()
    attempts: tuple[SeenAttempt, ...] = ()
    metrics: tuple[MetricsSeen, ...] = ()
    warnings: tuple[str, ...] = ()
    last_line: str = ""
    heard_s: float | None = None
    has_ended: bool = False
    unread: int = 0


@dataclass(frozen=True)
class StoredRun:
    """All that the page tells of.

    Attributes:
        result: None while the run is under way.
        config: As it is stored, redacted; "" where it is not.
        found: Checks of the data that do not hold, by level, "refuse" and "warn"; empty where there are none.
        checked: Whether the configuration checks the data, where that is known.
        problems: What of the run could not be read.
        word: Its last sign of life, where it has no result.
    """

    rundir: RunDirectory
    result: RunResult | None
    told: ToldEvents
    config: str = ""
    drift: TableDrift | None = None
    found: dict[str, list[Finding]] = field(default_factory=dict)
    checked: bool = False
    problems: tuple[str, ...] = ()
    word: LastWord = UNHEARD


def gather(
    storage: Storage, rundir: RunDirectory, result: RunResult | None = None, config: JobConfig | None = None
) -> StoredRun:
    """Returns what a run has stored.

    Args:
        result: How it ended. Default: as it is stored; where an earlier submission ended, and a later one is under way,
            it is None.
        config: Its configuration. Default: as it is stored.

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
    """Returns the version after the one that the run's data was compared with; None for that which readers have now."""
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
    """Returns what was told with the attempts of a result whose events are not there, or say less."""
    known = {attempt.number: attempt for attempt in told.attempts}
    for ended in result.attempts:
        seen = known.get(ended.attempt) or SeenAttempt(
            ended.attempt, 0.0, ended.workers, ", ".join(dict.fromkeys(ended.hosts)), ended.from_step
        )
        until_s = seen.ended_s or (seen.began_s + ended.duration_s if seen.began_s else None)
        known[ended.attempt] = replace(seen, result=seen.result or ended, ended_s=until_s, is_lost=False)
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

    with ThreadPoolExecutor(FOOTER_THREADS, thread_name_prefix="report") as pool:
        segments = list(pool.map(read, sorted(paths)))
    entries = [entry for segment in segments if segment is not None for entry in segment]
    return replace(told_by(sorted(entries, key=lambda entry: entry.time_s)), unread=segments.count(None))


def _entries(content: bytes) -> list[LogEntry]:
    """Returns the events of a segment; of the lines for people, which are most of them, the last one alone."""
    lines = content.splitlines()
    said = [number for number, line in enumerate(lines) if _NOT_DRAWN.search(line)]
    skipped = set(said[:-1])
    return list(read_events(line for number, line in enumerate(lines) if number not in skipped))


def told_by(entries: Sequence[LogEntry]) -> ToldEvents:
    """Returns what events amount to, in the order of their times."""
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
        elif isinstance(event, AttemptEnded) and event.attempt in attempts:
            ended = AttemptResult(**{name: getattr(event, name) for name in AttemptResult.model_fields})
            seen = attempts[event.attempt]
            attempts[event.attempt] = replace(
                seen, ended_s=time_s, result=ended, samples=event.samples if event.samples.steps else seen.samples
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
    """Ends the attempts of a driver that another one has followed."""
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
