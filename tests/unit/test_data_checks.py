"""Data checks: what is measured against bounds and against an earlier run, and how a run ends that is refused."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lakes import lake_config, plan_lake, write_file, write_lake
from pretend import PretendDriver, pretend_config

from sparktf.config.checks import BoundsConfig
from sparktf.config.job import JobConfig
from sparktf.driver.plan.plan import Plan
from sparktf.errors import ConfigError, DataError, Verdict
from sparktf.knobs import KNOBS
from sparktf.nightly.data_checks import Baseline, find_baseline, findings, places
from sparktf.nightly.night import Night
from sparktf.published.serving import ModelManifest, Version
from sparktf.results.result import Application, RunResult
from sparktf.rundir import RunDirectory
from sparktf.statistics.column_statistics import (
    COMMONEST,
    RANKS,
    ColumnStatistics,
    Spread,
    TableStatistics,
    Value,
    ValueCount,
    number_of,
    number_text,
)
from sparktf.statistics.distances import divergence, infinity_distance, jensen_shannon
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.local import LocalStorage

ROWS = 10_000
BITS = 0.02
"""How far a divergence by quantiles may be from the exact one in these tests."""


def spread(values: npt.NDArray[Any]) -> Spread:
    """Returns what Spark would measure of numbers, without its errors."""
    if not len(values):
        return Spread(count=0)
    return Spread(
        count=len(values),
        min=values.min(),
        max=values.max(),
        mean=values.mean(),
        deviation=values.std(),
        quantiles=tuple(np.quantile(values, RANKS, method="inverted_cdf").tolist()),
    )


def column(values: Sequence[Value | None] | npt.NDArray[Any], kind: str = "") -> ColumnStatistics:
    """Returns the statistics of a column of these values."""
    there = [value for value in values if value is not None]
    distinct, counts = np.unique(np.array(there), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    worth = [i for i in order if counts[i] > 1 or len(distinct) <= COMMONEST][:COMMONEST]
    is_text = bool(there) and isinstance(there[0], (str, bool))
    return ColumnStatistics(
        type=kind or ("string" if is_text else "double"),
        nulls=len(values) - len(there),
        numbers=None if is_text else spread(np.array(there, np.float64)),
        distinct=len(distinct),
        commonest=tuple(ValueCount(value=distinct[i].item(), count=counts[i]) for i in worth),
    )


def table(labels: Sequence[str] = (), **columns: Any) -> TableStatistics:
    """Returns the statistics of a table; a column is given by its values or by its statistics."""
    rows = max((len(values) for values in columns.values() if not isinstance(values, ColumnStatistics)), default=ROWS)
    made = {n: values if isinstance(values, ColumnStatistics) else column(values) for n, values in columns.items()}
    return TableStatistics(rows=rows, sample=1.0, rows_read=rows, columns=made, labels=tuple(labels))


def found(now: TableStatistics, then: TableStatistics | None = None, **bounds: Any) -> list[str]:
    """Returns what the checks find, as a user reads it."""
    baseline = None if then is None else Baseline("2026-11-19", then)
    return [str(finding) for finding in findings("refuse", BoundsConfig(**bounds), now, baseline)]


def normal(mean: float = 0.0, rows: int = ROWS, seed: int = 0) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).normal(mean, 1, rows)


# --- distances ---


def test_the_divergence_of_bins_is_that_of_its_definition() -> None:
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.25, 0.5])
    m = (p + q) / 2
    by_hand = sum(0.5 * x * math.log2(x / y) for s in (p, q) for x, y in zip(s, m, strict=True) if x)
    assert jensen_shannon(p, q) == pytest.approx(by_hand)
    assert jensen_shannon(p, p) == 0
    assert jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1


shares = st.lists(st.floats(0, 1), min_size=3, max_size=3).filter(lambda s: sum(s) > 0.01).map(np.array)


@given(shares, shares)
def test_a_divergence_lies_between_0_and_1_and_is_the_same_both_ways(p: Any, q: Any) -> None:
    assert 0 <= jensen_shannon(p, q) <= 1 + 1e-9
    assert jensen_shannon(p, q) == pytest.approx(jensen_shannon(q, p), abs=1e-9)


def exact_divergence(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    """Returns the divergence of the numbers where these are few, else of bins at the deciles of both."""
    if all(len(np.unique(values)) <= COMMONEST for values in (one, other)):
        known = np.unique(np.append(one, other))
        return jensen_shannon(*(np.array([(values == value).mean() for value in known]) for values in (one, other)))
    tenths = np.arange(0, 11) / 10
    edges = np.unique([np.quantile(values, tenths, method="inverted_cdf") for values in (one, other)])

    at = [np.array([(values == edge).mean() for edge in edges]) for values in (one, other)]
    common = (at[0] >= 0.05) | (at[1] >= 0.05)
    lows = [-math.inf, *edges[:-1]]

    def masses(values: npt.NDArray[Any], at: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        between = [((values > low) & (values < high)).mean() for low, high in zip(lows, edges, strict=True)]
        return np.concatenate([at[common], between + np.where(common, 0, at)])

    return jensen_shannon(masses(one, at[0]), masses(other, at[1]))


numbers = st.tuples(
    st.floats(-3, 3), st.floats(0.2, 4), st.sampled_from(["normal", "skewed", "zeros", "rounded"]), st.integers(0, 99)
)


def drawn(law: tuple[float, float, str, int]) -> npt.NDArray[np.float64]:
    mean, deviation, kind, seed = law
    rng = np.random.default_rng(seed)
    values = rng.normal(mean, deviation, 4000)
    if kind == "skewed":
        values = rng.exponential(deviation, 4000) + mean
    elif kind == "zeros":
        values[rng.random(4000) < 0.6] = 0.0
    return np.round(values, 1) if kind == "rounded" else values


@settings(max_examples=40)
@given(numbers, numbers)
def test_the_divergence_by_quantiles_is_close_to_that_of_the_rows(one: Any, other: Any) -> None:
    first, second = drawn(one), drawn(other)
    by_quantiles = divergence(column(first), column(second), (4000, 4000))
    assert by_quantiles == pytest.approx(exact_divergence(first, second), abs=0.06)
    assert by_quantiles == pytest.approx(divergence(column(second), column(first), (4000, 4000)), abs=1e-9)


def test_numbers_of_the_same_law_are_close_and_others_are_not() -> None:
    same = divergence(column(normal()), column(normal(seed=1)), (ROWS, ROWS))
    shifted = divergence(column(normal()), column(normal(1.0, seed=1)), (ROWS, ROWS))
    apart = divergence(column(normal()), column(normal(100.0, seed=1)), (ROWS, ROWS))
    assert same < BITS
    assert 0.15 < shifted < 0.25
    assert apart > 0.95


def test_few_numbers_are_compared_value_by_value() -> None:
    one, other = column([0.0] * 90 + [1.0] * 10), column([0.0] * 50 + [1.0] * 50)
    expected = jensen_shannon(np.array([0.9, 0.1]), np.array([0.5, 0.5]))
    assert divergence(one, other, (100, 100)) == pytest.approx(expected)
    disjoint = divergence(column([1.0] * 50), column([2.0] * 50), (50, 50))
    assert disjoint == 1


def test_what_many_rows_have_counts_among_numbers_of_all_kinds() -> None:
    rng = np.random.default_rng(0)
    few, many = (np.where(rng.random(ROWS) < share, 0.0, rng.exponential(1.0, ROWS)) for share in (0.3, 0.6))
    apart = divergence(column(few), column(many), (ROWS, ROWS))
    assert apart == pytest.approx(jensen_shannon(np.array([0.3, 0.7]), np.array([0.6, 0.4])), abs=BITS)


def test_the_distance_of_categories_is_the_greatest_difference_of_a_share() -> None:
    one = column(["a"] * 50 + ["b"] * 30 + ["c"] * 20)
    other = column(["a"] * 40 + ["b"] * 30 + ["d"] * 30)
    assert infinity_distance(one, other, (100, 100)) == pytest.approx(0.3)
    assert infinity_distance(one, one, (100, 100)) == 0


def test_nulls_are_no_category() -> None:
    one, other = column(["a"] * 50 + ["b"] * 50), column(["a"] * 5 + ["b"] * 5 + [None] * 90)
    assert infinity_distance(one, other, (100, 100)) == 0
    nothing = ColumnStatistics(type="string", nulls=100)
    assert infinity_distance(one, nothing, (100, 100)) == 0


def test_a_rare_value_that_is_not_listed_may_be_as_common_as_the_last_that_is() -> None:
    listed = tuple(ValueCount(value=f"v{i}", count=100) for i in range(COMMONEST))
    one = ColumnStatistics(type="string", nulls=0, distinct=5000, commonest=listed)
    other = one.model_copy(update={"commonest": (*listed[1:], ValueCount(value="new", count=100))})
    assert infinity_distance(one, other, (100_000, 100_000)) == 0
    sudden = one.model_copy(update={"commonest": (ValueCount(value="new", count=30_000), *listed[1:])})
    assert infinity_distance(one, sudden, (100_000, 100_000)) == pytest.approx(0.3 - 0.001)


# --- bounds ---


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"min": 1}, "column age: the least value is 0, below 1 (data.checks.refuse.columns.age.min)"),
        ({"max": 99}, "column age: the greatest value is 100, above 99 (data.checks.refuse.columns.age.max)"),
        ({"mean": [51, 60]}, "column age: the mean is 50, below 51 (data.checks.refuse.columns.age.mean)"),
        ({"mean": [0, 49]}, "column age: the mean is 50, above 49 (data.checks.refuse.columns.age.mean)"),
        ({"deviation": [0, 29]}, "column age: the deviation is 29.15475947, above 29"),
        ({"null_share": 0.1}, "column age: 10.081% of the rows are null, above 10.000%"),
        ({"nan_share": 0.01}, "column age: 2.000% of the rows are NaN or infinite, above 1.000%"),
        ({"distinct": [102, 200]}, "column age: distinct values are 101, below 102"),
    ],
)
def test_a_bound_that_does_not_hold_is_told_with_column_figure_and_bound(bounds: Any, message: str) -> None:
    ages = column([float(i) for i in range(101)]).model_copy(update={"nulls": 1_0081, "nans": 2000})
    now = TableStatistics(rows=100_000, sample=1.0, rows_read=100_000, columns={"age": ages})
    (said,) = found(now, columns={"age": bounds})
    assert said.startswith(message)


def test_figures_on_their_bounds_are_within_them() -> None:
    now = table(age=[*map(float, range(100)), None])
    within = {"min": 0, "max": 99, "mean": [49.5, 49.5], "null_share": 1 / 101, "nan_share": 0, "distinct": [100, 100]}
    assert not found(now, columns={"age": within}, rows=[101, 101])
    assert found(now, rows=[102, math.inf]) == ["rows are 101, below 102 (data.checks.refuse.rows)"]


def test_only_the_values_that_are_allowed_may_be_there() -> None:
    now = table(country=["de"] * 60 + ["fr"] * 39 + ["xx"])
    assert not found(now, columns={"country": {"values": ["de", "fr", "xx", "nl"]}})
    (said,) = found(now, columns={"country": {"values": ["de", "fr"]}})
    assert said.startswith("column country: 1.000% of the rows have another value than is allowed: 'xx' (")


def test_lengths_of_lists_have_bounds() -> None:
    words = ColumnStatistics(type="array<int>", nulls=0, lengths=spread(np.array([1.0, 4.0, 9.0])))
    now = table(words=words)
    assert not found(now, columns={"words": {"length": [1, 9]}})
    assert found(now, columns={"words": {"length": [2, 8]}}) == [
        "column words: the least length is 1, below 2 (data.checks.refuse.columns.words.length)",
        "column words: the greatest length is 9, above 8 (data.checks.refuse.columns.words.length)",
    ]


def test_days_are_told_as_days() -> None:
    days = column([20454.0, 20463.0], "date")
    assert not found(table(day=days), columns={"day": {"min": "2026-01-01", "max": "2026-01-10"}})
    (said,) = found(table(day=days), columns={"day": {"max": "2026-01-09"}})
    assert said.startswith("column day: the greatest value is 2026-01-10, above 2026-01-09 (")


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (20454.0, "date", "2026-01-01"),
        (1767225600e6, "timestamp", "2026-01-01 00:00:00"),
        (1e12, "date", "1e+12"),
        (2.5, "double", "2.5"),
    ],
)
def test_numbers_are_written_as_the_columns_are(number: float, kind: str, text: str) -> None:
    assert number_text(number, kind) == text


def test_a_column_without_values_has_no_least_one() -> None:
    now = table(age=[None, None])
    assert found(now, columns={"age": {"min": 0, "max": 1, "mean": [0, 1], "null_share": 0.5}}) == [
        "column age: 100.000% of the rows are null, above 50.000% (data.checks.refuse.columns.age.null_share)"
    ]


# --- drift ---


def test_without_an_earlier_run_nothing_has_drifted() -> None:
    assert not found(table(a=normal(9)), None, drift={"row_ratio": [0.9, 1.1], "js": 0.0, "columns": True})


def test_rows_are_compared_with_those_of_the_earlier_run() -> None:
    (said,) = found(table(a=normal(rows=300)), table(a=normal(rows=1000)), drift={"row_ratio": [0.5, 2]})
    assert said == (
        "300 rows, 1,000 in run 2026-11-19: the ratio is 0.3, below 0.5 (data.checks.refuse.drift.row_ratio)"
    )
    assert not found(table(a=normal(rows=500)), table(a=normal(rows=1000)), drift={"row_ratio": [0.5, 2]})


def test_columns_that_come_go_and_change_are_told() -> None:
    now, then = table(a=column([1.0], "int"), new=[1.0]), table(a=column([1.0], "bigint"), gone=["x"])
    assert [said.partition(" (")[0] for said in found(now, then, drift={"columns": True})] == [
        "column a: it is int, and was bigint in run 2026-11-19",
        "column gone: it is gone, and was string in run 2026-11-19",
        "column new: it has come, and was not in run 2026-11-19",
    ]
    assert not found(now, then, drift={"js": 0.1, "linf": 0.1, "null_share": 0.1})


def test_more_and_fewer_nulls_are_told() -> None:
    few, many = table(a=[*normal(rows=99), None]), table(a=[*normal(rows=90), *[None] * 10])
    for now, then in ((few, many), (many, few)):
        (said,) = found(now, then, drift={"null_share": 0.05})
        assert "of the rows are null" in said
    assert not found(many, few, drift={"null_share": 0.1})


def test_text_is_compared_by_the_distance_of_categories_and_numbers_by_divergence() -> None:
    then = table(a=normal(), country=["de", "fr"] * (ROWS // 2))
    now = table(a=normal(2.0), country=["de"] * ROWS)
    said = found(now, then, drift={"linf": 0.1, "js": 0.1})
    assert [text.partition(" is ")[0] for text in said] == [
        "column a: the Jensen-Shannon divergence from run 2026-11-19",
        "column country: the L-infinity distance from run 2026-11-19",
    ]
    assert "is 0.5000, above 0.1 (data.checks.refuse.drift.linf)" in said[1]
    assert not found(then, then, drift={"linf": 0.0, "js": 0.0})
    assert not found(now, then, drift={"linf": 0.1, "js": 0.1, "ignore": ["a", "country"]})


def test_labels_have_a_bound_of_their_own() -> None:
    then, now = (table(["y"], y=[0.0] * n + [1.0] * (ROWS - n)) for n in (9000, 7000))
    assert found(now, then, drift={"js": 1.0, "label": 0.1}) == [
        "column y: the L-infinity distance from run 2026-11-19 is 0.2000, above 0.1 (data.checks.refuse.drift.label)"
    ]
    assert not found(now, then, drift={"js": 0.001, "label": 0.3})
    assert "drift.js" in found(now, then, drift={"js": 0.001})[0]
    then, now = (table(["y"], y=normal(mean)) for mean in (0.0, 1.0))
    assert "Jensen-Shannon divergence" in found(now, then, drift={"label": 0.1})[0]


def test_lists_are_not_compared_by_value() -> None:
    words = ColumnStatistics(type="array<int>", nulls=0, numbers=Spread(count=9, min=0, max=5), lengths=Spread(count=9))
    assert not found(table(a=words), table(a=words), drift={"js": 0.0, "linf": 0.0, "null_share": 0.0})


def test_numbers_are_not_compared_with_those_of_lists() -> None:
    values = normal()
    lists = ColumnStatistics(
        type="array<double>",
        nulls=0,
        numbers=Spread(count=ROWS, min=values.min(), max=values.max()),
        lengths=spread(np.full(ROWS, 1.0)),
    )
    for now, then in ((table(a=values), table(a=lists)), (table(a=lists), table(a=values))):
        (said,) = found(now, then, drift={"js": 0.0, "columns": True})
        assert "drift.columns" in said


# --- configuration ---


def checks_of(tmp_path: Path, **checks: Any) -> JobConfig:
    return lake_config(tmp_path, checks=checks)


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ({"refuse": {"colums": {}}}, "did you mean data.checks.refuse.columns?"),
        ({"warn": {"columns": {"a": {"mn": 0}}}}, "did you mean data.checks.warn.columns.a.min?"),
        (
            {"refuse": {"columns": {"a": {"min": 2, "max": 1}}}},
            "data.checks.refuse.columns.a: min: 2.0 is more than max",
        ),
        ({"refuse": {"columns": {"a": {"mean": [2, 1]}}}}, "must be [least, most], and 2 is more than 1"),
        ({"refuse": {"drift": {"row_ratio": 2}}}, "data.checks.refuse.drift.row_ratio: must be [least, most]"),
        ({"refuse": {"drift": {"js": 1.5}}}, "data.checks.refuse.drift.js is 1.5: must be at most 1"),
        ({"sample": 0}, "data.checks.sample is 0: must be more than 0"),
    ],
)
def test_bounds_that_say_nothing_are_refused(checks: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        checks_of(tmp_path, **checks)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"columns": {"lable": {}}}, "no input, target or weight has a column 'lable'; did you mean 'label'?"),
        ({"drift": {"ignore": ["q"]}}, "data.checks.warn.drift.ignore: no input, target or weight has a column 'q'"),
        ({"columns": {"a": {"length": [1, 2]}}}, "a.length: this statistic is not measured for columns of type float"),
        (
            {"columns": {"words": {"mean": [0, 1]}}},
            "words.mean: this statistic is not measured for columns of type array",
        ),
        ({"columns": {"text": {"min": 0}}}, "text.min: this statistic is not measured for columns of type string"),
        ({"columns": {"a": {"min": "2026-01-01"}}}, "a.min: '2026-01-01' is not a value of type float"),
        ({"columns": {"day": {"min": 3}}}, "day.min: 3.0 is not a value of type date"),
    ],
)
def test_bounds_that_do_not_fit_the_columns_are_refused_by_the_plan(bounds: Any, message: str, tmp_path: Path) -> None:
    typed = pa.table(
        {
            **{"id": [1], "label": pa.array([1], pa.int32()), "a": pa.array([1.0], pa.float32()), "text": ["x"]},
            **{"words": [[1]], "day": pa.array([20454], pa.date32())},
        }
    )
    write_file(tmp_path / "part-0.parquet", typed)
    inputs = {name: name for name in ("id", "a", "text", "day")} | {"words": {"columns": "words", "ragged": True}}
    with pytest.raises(ConfigError) as refused:
        plan_lake(tmp_path, inputs=inputs, checks={"warn": bounds})
    assert message in str(refused.value)
    fits = {"columns": {"day": {"min": "2026-01-01"}, "words": {"length": [1, 9], "max": 5}, "text": {"values": ["x"]}}}
    assert plan_lake(tmp_path, inputs=inputs, checks={"warn": fits}).files


def test_a_run_goes_on_with_other_checks(tmp_path: Path) -> None:
    assert checks_of(tmp_path, sample=0.5).plan_hash() == lake_config(tmp_path).plan_hash()


def test_a_time_of_a_zone_is_a_time() -> None:
    assert number_of("2026-01-01T01:00+01:00", "timestamp") == number_of("2026-01-01", "timestamp") == 1767225600e6


# --- a run ---


class Nights:
    """Runs of one name, with data as a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake = write_lake(folder / "lake", [20])
        self.measured = table(a=normal(rows=1000))
        self.said = ""

    def run(self, **checks: Any) -> RunResult:
        """Runs to an end, which is that of run `r`, as a submission."""
        data = pretend_config(self.lake, self.folder).model_dump(exclude_unset=True)["data"]
        config = pretend_config(self.lake, self.folder / "runs", data={**data, "checks": checks})
        driver = PretendDriver(Application("app"), config, plan_lake(self.lake, checks=checks))
        driver.hooks = Night(FileSystems(), driver.site.clock, self._measure)
        try:
            return driver.train()
        except DataError as error:
            result: RunResult = error.result
            return result
        finally:
            self.said = driver.said.getvalue()

    def earlier(self, run_id: str, verdict: Verdict = Verdict.DONE, **columns: Any) -> None:
        """Leaves a run behind that ended so."""
        run = RunDirectory(str(self.folder / "runs"), "t", run_id)
        Path(run.path).mkdir(parents=True)
        Path(run.result).write_text(RunResult(run_id=run_id, name="t", verdict=verdict).model_dump_json())
        if columns:
            Path(run.statistics).write_text(table(**columns).model_dump_json())

    def published(self, number: int, run_id: str, **columns: Any) -> None:
        """Leaves a version behind that readers have."""
        serving = self.folder / "runs/t/serving"
        folder = serving / str(number)
        folder.mkdir(parents=True)
        manifest = ModelManifest(files=(), name="t", run_id=run_id, date="", published="", plan_hash="", steps=1)
        (folder / "MANIFEST.json").write_text(manifest.model_dump_json())
        (serving / "CURRENT").write_text(f"{number}\n")
        if columns:
            (folder / "statistics.json").write_text(table(**columns).model_dump_json())

    @property
    def paths(self) -> RunDirectory:
        return RunDirectory(str(self.folder / "runs"), "t", "r")

    def _measure(self, config: JobConfig, plan: Plan) -> TableStatistics:
        return self.measured


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)
    return Nights(tmp_path)


def test_statistics_are_kept_with_the_run(nights: Nights) -> None:
    assert nights.run().verdict is Verdict.DONE
    stored = Path(nights.paths.statistics).read_bytes()
    assert TableStatistics.model_validate_json(stored) == nights.measured
    assert "data.checks: statistics of 1,000 rows and 1 columns" in nights.said


def test_refused_data_ends_the_run_with_3_and_holds_nothing(nights: Nights) -> None:
    bounds = {"columns": {"a": {"max": 0.5, "mean": [1, 2]}}}
    result = nights.run(refuse=bounds)
    assert result.verdict is Verdict.DATA_REFUSED
    assert result.attempts == ()
    assert result.error is not None
    assert "column a: the greatest value is" in result.error.message
    assert "above 0.5 (data.checks.refuse.columns.a.max); column a: the mean is" in result.error.message
    assert Path(nights.paths.statistics).exists()
    nights.measured = table(a=np.full(1000, 0.5))
    assert nights.run(refuse={"columns": {"a": {"max": 0.5}}}).verdict is Verdict.DONE  # data that was mended


def test_a_warning_does_not_end_the_run(nights: Nights) -> None:
    result = nights.run(warn={"rows": [2000, 3000]})
    assert result.verdict is Verdict.DONE
    assert "rows are 1000, below 2000 (data.checks.warn.rows)" in result.warnings


def test_data_is_compared_with_the_last_earlier_run_that_is_done(nights: Nights) -> None:
    nights.earlier("2026-11-09", a=normal(5.0, rows=1000))
    nights.earlier("2026-11-10", a=normal(rows=1000, seed=3))
    nights.earlier("2026-11-11", Verdict.DATA_REFUSED, a=normal(9.0, rows=1000))
    nights.earlier("2026-11-12")
    nights.earlier("s", a=normal(9.0, rows=1000))  # later than r
    assert nights.run(refuse={"drift": {"js": 0.1}}).verdict is Verdict.DONE
    assert "data.checks: compared with run 2026-11-10" in nights.said


def test_a_first_run_is_compared_with_nothing(nights: Nights) -> None:
    assert nights.run(refuse={"drift": {"js": 0.0}}).verdict is Verdict.DONE
    assert "neither the published model nor a completed run of this name has statistics" in nights.said


def test_data_is_compared_with_that_of_the_model_which_readers_have(nights: Nights) -> None:
    nights.earlier("2026-11-10", a=normal(9.0, rows=1000))
    nights.published(7, "2026-11-20", a=normal(rows=1000, seed=3))  # of a later day: what readers have, counts
    assert nights.run(refuse={"drift": {"js": 0.1}}).verdict is Verdict.DONE
    assert "data.checks: compared with version 7 (run 2026-11-20)" in nights.said


def test_drift_from_the_published_model_names_its_version(nights: Nights) -> None:
    nights.earlier("2026-11-10", a=normal(rows=1000, seed=3))
    nights.published(7, "2026-11-09", a=normal(9.0, rows=1000))
    result = nights.run(refuse={"drift": {"js": 0.1}})
    assert result.error is not None
    assert "column a: the Jensen-Shannon divergence from version 7 (run 2026-11-09) is 1.0000" in result.error.message


def test_a_published_model_without_statistics_leaves_the_last_earlier_run(nights: Nights) -> None:
    nights.earlier("2026-11-10", a=[1.0])
    nights.published(7, "2026-11-09")
    found = find_baseline(LocalStorage(), nights.paths, pytest.fail)
    assert found is not None
    assert (found.run_id, found.version) == ("2026-11-10", None)


V7 = Version(7, "runs/t/serving/7", withdrawn=False)


@pytest.mark.parametrize(
    ("current", "runs", "mine", "looked_at"),
    [
        (None, [], "2026-11-20", []),
        (V7, [], "2026-11-20", ["serving/7"]),
        (None, ["2026-11-19", "2026-11-18", "2026-11-21", "2026-11-20"], "2026-11-20", ["2026-11-19", "2026-11-18"]),
        (V7, ["2026-11-18", "2026-11-19"], "2026-11-20", ["serving/7", "2026-11-19", "2026-11-18"]),
        (V7, ["a_9", "a_11", "a_10"], "a_11", ["serving/7", "a_10", "a_9"]),
    ],
)
def test_the_published_model_comes_first_and_then_the_last_of_the_earlier_runs(
    current: Version | None, runs: list[str], mine: str, looked_at: list[str]
) -> None:
    found = places(current, runs, RunDirectory("runs", "t", mine))
    assert [place.folder for place in found] == [f"runs/t/{name}" for name in looked_at]
    assert [place.version for place in found if place.version is not None] == ([7] if current else [])


def test_many_findings_are_counted(nights: Nights) -> None:
    near, far = ({f"c{i}": normal(mean, rows=10) for i in range(13)} for mean in (0.0, 90.0))
    nights.measured = table((), **near)
    nights.earlier("2026-11-10", Verdict.DONE, **far)
    result = nights.run(refuse={"drift": {"js": 0.1}})
    assert result.error is not None
    assert result.error.message.endswith("; and 3 more")
    shown = [f"column c{i}: the Jensen-Shannon divergence" for i in range(13)]
    assert [text in result.error.message for text in shown] == [True] * 10 + [False] * 3
    assert all(text in nights.said for text in shown[10:])


def test_ids_are_in_the_order_of_their_numbers(nights: Nights) -> None:
    nights.earlier("application_1700000000000_9", a=[1.0])
    nights.earlier("application_1700000000000_10", a=[2.0])
    mine = RunDirectory(str(nights.folder / "runs"), "t", "application_1700000000000_11")
    found = find_baseline(LocalStorage(), mine, pytest.fail)
    assert found is not None and found.run_id == "application_1700000000000_10"


@pytest.mark.parametrize("content", [b'{"run_id": "2026-11-1', b'{"run_id": "2026-11-11", "name": "t", "later": 1}'])
def test_a_torn_or_newer_result_of_another_run_is_passed_over_with_a_word(nights: Nights, content: bytes) -> None:
    nights.earlier("2026-11-10", a=[1.0])
    nights.earlier("2026-11-11", a=[2.0])
    Path(RunDirectory(str(nights.folder / "runs"), "t", "2026-11-11").result).write_bytes(content)
    warned: list[str] = []
    found = find_baseline(LocalStorage(), nights.paths, warned.append)
    assert found is not None and found.run_id == "2026-11-10"
    assert "statistics of run 2026-11-11 cannot be read, and earlier ones are compared with: " in warned[0]


def test_statistics_of_another_version_are_passed_over_with_a_word(nights: Nights) -> None:
    nights.earlier("2026-11-10", a=[1.0])
    nights.earlier("2026-11-11", a=[2.0])
    Path(RunDirectory(str(nights.folder / "runs"), "t", "2026-11-11").statistics).write_text('{"lines": 3}')
    warned: list[str] = []
    found = find_baseline(LocalStorage(), nights.paths, warned.append)
    assert found is not None and found.run_id == "2026-11-10"
    assert "statistics of run 2026-11-11 cannot be read, and earlier ones are compared with: " in warned[0]
