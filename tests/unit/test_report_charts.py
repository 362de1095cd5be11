"""What the pages' charts, tables and numbers say, and what they leave out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from reported import StoredRuns, samples, statistics

from sparktf.nightly.data_checks import Baseline
from sparktf.nightly.report import charts, words
from sparktf.nightly.report.dated_chart import DatedMetric, axis_of, by_date, jumps
from sparktf.nightly.report.drawing import styled
from sparktf.nightly.report.drift import drift_of
from sparktf.nightly.report.page_tables import Cell, TableColumn, table
from sparktf.nightly.report.run_page import run_page
from sparktf.nightly.report.stored import SeenAttempt, gather
from sparktf.results.events import MetricsSeen, Samples

LETTERS = re.compile(r"<text[^>]*>([^<]*)</text>")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1010.4, "1,010"),
        (4983.0, "4,983"),
        (0.834, "0.8340"),
        (41.25, "41.25"),
        (0.00012, "1.20e-04"),
        (-12_345_678.9, "-12,345,679"),
        (0.0, "0.0000"),
        (float("nan"), "nan"),
        (None, ""),
    ],
)
def test_numbers_have_four_digits_and_thousands_apart(value: float | None, text: str) -> None:
    assert words.number(value) == text


def test_shares_differences_and_axes_are_written_alike() -> None:
    assert [words.percent(share) for share in (0.0, 0.0001, 0.0213, 0.5, 0.9999, 1.0, None)] == [
        "0%",
        "<0.1%",
        "2.1%",
        "50.0%",
        ">99.9%",
        "100%",
        "",
    ]
    assert [words.signed(by) for by in (0.004, -0.012, 1500.0)] == ["+0.0040", "-0.0120", "+1,500"]
    assert [words.tick(value) for value in (0.0, 2500.0, 14_000.0, 2_500_000.0, 3e9)] == [
        "0",
        "2,500",
        "14,000",
        "2.5M",
        "3G",
    ]


def test_mean_and_extremes_of_a_column_are_written_alike() -> None:
    now = statistics(8, 0.0)
    spread = now.columns["f1"].numbers
    assert spread is not None
    wide = spread.model_copy(update={"mean": 1010.4, "min": -4983.0, "max": 4983.0})
    columns = {**now.columns, "f1": now.columns["f1"].model_copy(update={"numbers": wide})}
    drift = drift_of(now.model_copy(update={"columns": columns}), None, [])
    (column,) = [column for column in drift.columns if column.name == "f1"]
    assert column.facts == (("min", "-4,983", ""), ("mean", "1,010", ""), ("max", "4,983", ""))


def test_columns_that_hold_and_have_hardly_changed_are_quiet_and_labels_never() -> None:
    drift = drift_of(statistics(8, 0.2), Baseline("before", statistics(8, 0.0)), [])
    quiet = [column.name for column in drift.columns if column.is_quiet]
    assert "country" not in quiet
    assert "churned" not in quiet
    assert "plan" in quiet


def test_a_table_has_no_empty_columns() -> None:
    columns = [TableColumn("a", "a"), TableColumn("b", "b"), TableColumn("c", "c")]
    found = table("all", columns, [{"a": "1", "b": ""}, {"a": "2", "c": Cell("3")}])
    assert found is not None
    assert [column.title for column in found.columns] == ["a", "c"]
    assert table("none", columns, []) is None


# --- the course of training ---


def seen(stream: str, epoch: int, step: int, loss: float) -> MetricsSeen:
    fields = {"attempt": 1, "node": {"role": "worker", "index": 0}, "stream": stream, "epoch": epoch, "step": step}
    return MetricsSeen.model_validate({**fields, "rows": 9, "values": {"loss": loss}})


def test_a_loss_of_a_few_updates_is_no_course_beside_the_means_of_epochs() -> None:
    told = [seen("train", epoch, 100 * (epoch + 1), 0.5 - 0.1 * epoch) for epoch in range(3)]
    few = Samples(seconds=(1.0, 2.0), steps=(90, 300), losses=(0.2, 0.9), rows={})
    with styled() as pen:
        rising = charts.losses(pen, [SeenAttempt(1, 0.0, 1, "a", 0, samples=few)], told)
        sampled = charts.losses(pen, [SeenAttempt(1, 0.0, 1, "a", 0, samples=samples(60.0))], told)
    assert rising is not None
    assert sampled is not None
    assert "0.9" not in LETTERS.findall(rising)
    assert LETTERS.findall(rising)[-1:] == ["epoch means"]
    assert LETTERS.findall(sampled)[-2:] == ["training", "epoch means"]
    assert 'aria-label="Loss by update: from 0.5000 to 0.3000"' in rising


# --- all runs of a name ---


def nights(axis_days: list[float], values: list[float | None]) -> list[DatedMetric]:
    return [DatedMetric(at, value, None, published=True) for at, value in zip(axis_days, values, strict=True)]


def drawn(days: list[str], values: list[float | None]) -> str:
    axis = axis_of([(day, f"run-{n}", "") for n, day in enumerate(days)])
    with styled() as pen:
        svg = by_date(pen, "auc", axis, nights(list(axis.places), values))
    assert svg is not None
    return svg


def test_runs_stand_where_their_dates_are_or_else_their_starts_or_else_one_after_the_other() -> None:
    by_day = axis_of([("2026-11-01", "a", ""), ("", "2026-11-02", ""), ("2026-11-05", "c", "")])
    assert [place - by_day.places[0] for place in by_day.places] == [0.0, 1.0, 4.0]
    by_start = axis_of([("", "a", "2026-11-01T00:00:00+00:00"), ("", "b", "2026-11-01T12:00:00+00:00")])
    assert by_start.places[1] - by_start.places[0] == pytest.approx(0.5)
    assert axis_of([("", "a", ""), ("", "b", "")]) == ((0.0, 1.0), ("a", "b"))


def test_a_missing_night_is_a_gap_and_two_runs_are_no_trend() -> None:
    with_gap = drawn(["2026-11-01", "2026-11-02", "2026-11-03", "2026-11-06"], [0.8, 0.81, 0.8, 0.82])
    assert "no run" in LETTERS.findall(with_gap)
    every_night = drawn(["2026-11-01", "2026-11-02", "2026-11-03", "2026-11-04"], [0.8, 0.81, 0.8, 0.82])
    assert "no run" not in LETTERS.findall(every_night)
    joined = "stroke-opacity: 0.6"
    assert (every_night.count(joined), with_gap.count(joined)) == (3, 2)
    assert drawn(["2026-11-01", "2026-11-19"], [0.8, 0.9]).count(joined) == 0


def test_a_night_without_a_model_is_marked_and_not_drawn_over() -> None:
    svg = drawn(["2026-11-01", "2026-11-02", "2026-11-03", "2026-11-04"], [0.8, 0.81, None, 0.82])
    assert "no model" in LETTERS.findall(svg)
    assert svg.count("stroke-opacity: 0.6") == 1


def test_a_value_far_from_those_before_it_is_a_jump() -> None:
    steady: list[float | None] = [0.81, 0.812, None, 0.809, 0.811]
    assert jumps([*steady, 0.813]) == {}
    assert jumps([*steady, 0.78, 0.812]) == {5: pytest.approx(-0.0305)}
    assert jumps([0.2, 0.9]) == {}  # nothing to tell it from


# --- pages ---


def test_the_page_of_a_first_night_says_once_that_nothing_is_published(tmp_path: Path) -> None:
    runs = StoredRuns(tmp_path / "runs")
    runs.first(1)
    page = run_page(gather(runs.storage, runs.directory(1)), 1_795_600_000.0).decode()
    assert page.count("nothing is published to compare with") == 1
    assert "There is no champion" not in page
    assert "better by" not in page  # no column for what nothing was compared with
