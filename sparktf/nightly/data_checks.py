"""Compares a run's data with the bounds of `data.checks`, and with the data of the last run.

`findings` compares, and is pure; `check_data` measures, stores, compares and reports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from sparktf.config.checks import BoundsConfig, ChecksConfig, ColumnBounds, DriftBounds
from sparktf.driver.gang.site import Voice
from sparktf.driver.hooks import Put
from sparktf.errors import CorruptFileError, DataError, StorageNotFoundError, TornCheckpointError, Verdict
from sparktf.nightly.natural_order import natural_key
from sparktf.published.serving import Serving, Version
from sparktf.rundir import RESULT, SERVING, STATISTICS, RunDirectory
from sparktf.statistics.column_statistics import ColumnStatistics, TableStatistics, number_of, number_text
from sparktf.statistics.distances import divergence, has_all_values, infinity_distance
from sparktf.storage.base import Storage, name_of
from sparktf.storage.transactions.results import read_result

_NAMED = 10
"""Findings in the error of a run; the others are counted."""


class Finding(NamedTuple):
    """A check that does not hold."""

    key: str  # The setting, below `data.checks`, e.g. "refuse.columns.age.max".
    column: str  # "" for the rows as a whole
    text: str  # Figure and bound in words

    def __str__(self) -> str:
        return f"{f'column {self.column}: ' if self.column else ''}{self.text} (data.checks.{self.key})"


class Baseline(NamedTuple):
    """The data of another run, to compare with."""

    run_id: str
    statistics: TableStatistics
    version: int | None = None  # Its model, if it is the current one

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"run {self.run_id}" if self.version is None else f"version {self.version} (run {self.run_id})"


class BaselineFolder(NamedTuple):
    """A possible place of statistics to compare with: the folder of a version, or of a completed run."""

    folder: str
    version: int | None = None


def check_data(
    checks: ChecksConfig,
    storage: Storage,
    rundir: RunDirectory,
    measure: Callable[[], TableStatistics],
    put: Put,
    voice: Voice,
) -> None:
    """Measures a run's data, stores the statistics with the run, and returns warnings.

    Args:
        put: Stores a file of the run.

    Raises:
        DataError: a check of `data.checks.refuse` does not hold; the message has column, figure and bound of each.
        StorageError: the storage failed.
    """
    now = measure()
    put(rundir.statistics, now.model_dump_json().encode())
    share = "" if checks.sample == 1 else f", of {checks.sample:.0%} of the rows"
    voice.say(f"data.checks: statistics of {now.rows:,} rows and {len(now.columns):,} columns{share}")
    drifts = (checks.refuse.drift, checks.warn.drift)
    then = find_baseline(storage, rundir, voice.warn) if any(drift != DriftBounds() for drift in drifts) else None
    if then is not None:
        voice.say(f"data.checks: compared with {then.name}")
    elif any(drift != DriftBounds() for drift in drifts):
        voice.say(
            "data.checks: neither the published model nor a completed run of this name has statistics to compare with"
        )
    for finding in findings("warn", checks.warn, now, then):
        voice.warn(str(finding))
    refused = [str(finding) for finding in findings("refuse", checks.refuse, now, then)]
    if refused:
        more = f"; and {len(refused) - _NAMED:,} more" if len(refused) > _NAMED else ""
        for unnamed in refused[_NAMED:]:
            voice.say(unnamed)
        raise DataError(f"the data is refused: {'; '.join(refused[:_NAMED])}{more}")


def places(current: Version | None, runs: Sequence[str], rundir: RunDirectory) -> list[BaselineFolder]:
    """Returns the possible places of statistics to compare a run with, the first one to try first.

    These are the current model, whatever day it is of; then the earlier runs, the last one first. Runs are ordered by
    id, with numbers in ids compared as such: dates and ids of applications are in order.

    Args:
        current: The published version.
        runs: The ids of all runs of the name.
    """
    mine = natural_key(rundir.run_id)
    earlier = sorted((name for name in runs if natural_key(name) < mine), key=natural_key, reverse=True)
    found = [BaselineFolder(RunDirectory(rundir.root, rundir.name, name).path) for name in earlier]
    return found if current is None else [BaselineFolder(current.folder, current.number), *found]


def find_baseline(
    storage: Storage, rundir: RunDirectory, warn: Callable[[str], None], before: int | None = None
) -> Baseline | None:
    """Returns the statistics at the first of the `places` that has some, None if none has.

    Args:
        before: Use the model that was current before this version. Default: the current one.

    Raises:
        StorageError: the storage failed.
    """
    serving = Serving(storage, rundir.root, rundir.name)
    entries = storage.list(rundir.path.rpartition("/")[0])
    names = [name for entry in entries if entry.is_dir and (name := name_of(entry.path)) != SERVING]
    current = serving.current_version() if before is None else _last_before(serving.versions(), before)
    for place in places(current, names, rundir):
        try:
            if (run_id := _run_at(storage, place, serving)) is not None:
                content = storage.read_bytes(f"{place.folder}/{STATISTICS}")
                return Baseline(run_id, TableStatistics.model_validate_json(content), place.version)
        except (StorageNotFoundError, TornCheckpointError):
            continue
        except CorruptFileError as error:  # of that run, which is not this one's fault
            warn(_passed_over(place, str(error)))
        except ValidationError as error:
            differ = f"another version of sparktf has written them ({error.error_count()} fields differ)"
            warn(_passed_over(place, f"{place.folder}: {differ}"))
    return None


def _passed_over(place: BaselineFolder, why: str) -> str:
    what = "run" if place.version is None else "version"
    whose = f"{what} {name_of(place.folder)}"
    return f"data.checks: the statistics of {whose} cannot be read, and earlier ones are compared with: {why}"


def _last_before(versions: Sequence[Version], number: int) -> Version | None:
    return max((v for v in versions if v.number < number and not v.withdrawn), default=None)


def _run_at(storage: Storage, place: BaselineFolder, serving: Serving) -> str | None:
    """Returns the run whose statistics are at a place; None for a run that is not done."""
    if place.version is not None:
        return serving.manifest(Version(place.version, place.folder, withdrawn=False)).run_id
    result = read_result(storage, f"{place.folder}/{RESULT}")
    return name_of(place.folder) if result.verdict is Verdict.DONE else None


def findings(level: str, bounds: BoundsConfig, now: TableStatistics, then: Baseline | None) -> list[Finding]:
    """Returns the bounds that do not hold, in the order of the configuration, and for drift of the columns.

    Args:
        level: "warn" or "refuse".
        then: The baseline; without one, there is no drift.
    """
    found = list(_of_range(f"{level}.rows", "", "rows are", now.rows, bounds.rows))
    for name, column in bounds.columns.items():
        found += _of_column(f"{level}.columns.{name}", name, column, now)
    if then is not None:
        found += _drift(f"{level}.drift", bounds.drift, now, then)
    return found


def _of_column(key: str, name: str, bounds: ColumnBounds, now: TableStatistics) -> Iterator[Finding]:
    column, rows = now.columns[name], max(now.rows_read, 1)
    numbers, kind = column.numbers, column.type
    if numbers is not None and numbers.min is not None and numbers.max is not None:
        if bounds.min is not None and numbers.min < number_of(bounds.min, kind):
            yield Finding(
                f"{key}.min", name, f"the least value is {number_text(numbers.min, kind)}, below {_bound(bounds.min)}"
            )
        if bounds.max is not None and numbers.max > number_of(bounds.max, kind):
            yield Finding(
                f"{key}.max",
                name,
                f"the greatest value is {number_text(numbers.max, kind)}, above {_bound(bounds.max)}",
            )
    if numbers is not None:
        yield from _of_range(f"{key}.mean", name, "the mean is", numbers.mean, bounds.mean)
        yield from _of_range(f"{key}.deviation", name, "the deviation is", numbers.deviation, bounds.deviation)
    yield from _of_share(f"{key}.null_share", name, "null", column.nulls / rows, bounds.null_share)
    yield from _of_share(f"{key}.nan_share", name, "NaN or infinite", column.nans / rows, bounds.nan_share)
    yield from _of_range(f"{key}.distinct", name, "distinct values are", column.distinct, bounds.distinct)
    if bounds.values is not None:
        others = [common for common in column.commonest if common.value not in bounds.values]
        if others:
            known = sum(common.count for common in others)
            most = ", ".join(repr(common.value) for common in others[:3])
            yield Finding(
                f"{key}.values", name, f"{known / rows:.3%} of the rows have another value than is allowed: {most}"
            )
    if column.lengths is not None:
        yield from _of_range(f"{key}.length", name, "the least length is", column.lengths.min, bounds.length)
        yield from _of_range(f"{key}.length", name, "the greatest length is", column.lengths.max, bounds.length)


def _drift(key: str, bounds: DriftBounds, now: TableStatistics, then: Baseline) -> Iterator[Finding]:
    old, run = then.statistics, then.name
    if old.rows:
        what = f"{now.rows:,} rows, {old.rows:,} in {run}: the ratio is"
        yield from _of_range(f"{key}.row_ratio", "", what, now.rows / old.rows, bounds.row_ratio)
    if bounds.columns:
        yield from _changed_columns(f"{key}.columns", now.columns, old.columns, run)
    for pair in comparable_columns(now, old, bounds.ignore):
        shares = (pair.now.nulls / pair.rows[0], pair.before.nulls / pair.rows[1])
        if bounds.null_share is not None and abs(shares[0] - shares[1]) > bounds.null_share:
            yield Finding(
                f"{key}.null_share",
                pair.name,
                f"{shares[0]:.3%} of the rows are null, {shares[1]:.3%} in {run}: that is more than "
                f"{bounds.null_share:.3%} apart",
            )
        if has_distance(pair):
            yield from _apart(key, bounds, pair, run)


class ColumnPair(NamedTuple):
    """A column now and before, with the number of rows read of each."""

    name: str
    now: ColumnStatistics
    before: ColumnStatistics
    rows: tuple[int, int]
    is_label: bool

    @property
    def are_numbers(self) -> bool:
        """Whether both are numbers."""
        return self.now.numbers is not None and self.before.numbers is not None

    def distance(self, *, as_label: bool) -> tuple[str, float]:
        """Returns the name of the distance that applies, and how far apart the values are by it."""
        columns = (self.now, self.before)
        are_classes = all(has_all_values(column, n) for column, n in zip(columns, self.rows, strict=True))
        if not self.are_numbers or (as_label and are_classes):
            return "L-infinity distance", infinity_distance(*columns, self.rows)
        return "Jensen-Shannon divergence", divergence(*columns, self.rows)


def comparable_columns(
    now: TableStatistics, old: TableStatistics, ignored: Collection[str] = ()
) -> Iterator[ColumnPair]:
    """Yields the columns that are in both, without those that are ignored."""
    for name, column in now.columns.items():
        before = old.columns.get(name)
        if before is not None and now.rows_read and old.rows_read and name not in ignored:
            yield ColumnPair(name, column, before, (now.rows_read, old.rows_read), name in now.labels)


def has_distance(pair: ColumnPair) -> bool:
    """Whether there is a distance of such values: there is none of lists."""
    return "array" not in pair.now.type and "array" not in pair.before.type


def _apart(key: str, bounds: DriftBounds, pair: ColumnPair, run: str) -> Iterator[Finding]:
    """Yields the findings on a column whose values are too far from the baseline's."""
    setting, bound = "label", bounds.label
    if not pair.is_label or bound is None:
        setting, bound = ("js", bounds.js) if pair.are_numbers else ("linf", bounds.linf)
    if bound is None:
        return
    what, apart = pair.distance(as_label=setting == "label")
    if apart > bound:
        yield Finding(f"{key}.{setting}", pair.name, f"the {what} from {run} is {apart:.4f}, above {bound:g}")


def _changed_columns(
    key: str, now: Mapping[str, ColumnStatistics], old: Mapping[str, ColumnStatistics], run: str
) -> Iterator[Finding]:
    for name in [*old, *(name for name in now if name not in old)]:
        if name not in now:
            yield Finding(key, name, f"it is gone, and was {old[name].type} in {run}")
        elif name not in old:
            yield Finding(key, name, f"it has come, and was not in {run}")
        elif now[name].type != old[name].type:
            yield Finding(key, name, f"it is {now[name].type}, and was {old[name].type} in {run}")


def _of_range(
    key: str, column: str, what: str, figure: float | None, bounds: tuple[float, float] | None
) -> Iterator[Finding]:
    if figure is None or bounds is None:
        return
    least, most = bounds
    if figure < least:
        yield Finding(key, column, f"{what} {figure:.10g}, below {least:.10g}")
    elif figure > most:
        yield Finding(key, column, f"{what} {figure:.10g}, above {most:.10g}")


def _of_share(key: str, column: str, what: str, share: float, bound: float | None) -> Iterator[Finding]:
    if bound is not None and share > bound:
        yield Finding(key, column, f"{share:.3%} of the rows are {what}, above {bound:.3%}")


def _bound(bound: float | str) -> str:
    return bound if isinstance(bound, str) else f"{bound:.10g}"
