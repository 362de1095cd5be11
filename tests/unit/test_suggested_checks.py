"""`sparktf suggest-checks`: bounds that all nights keep, that the configuration takes, and that say why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.test_data_checks import column, spread, table

from sparktf.commands.cli import main
from sparktf.config.checks import ChecksConfig
from sparktf.config.load import parse_config
from sparktf.config.yaml import load_yaml
from sparktf.errors import ErrorRecord, Verdict
from sparktf.nightly.data_checks import Baseline, findings
from sparktf.nightly.suggested_changes import suggest_changes
from sparktf.nightly.suggesting import NightData
from sparktf.results.result import RunResult
from sparktf.runs.suggested_checks import Nights, suggested_yaml
from sparktf.statistics.column_statistics import ColumnStatistics, Spread, TableStatistics

CONFIG = """\
name: churn
model: m:build
data: {path: lake, inputs: {x: x}, targets: {y: y}}
output: {path: runs}
"""


def nights_of(tables: list[TableStatistics]) -> list[NightData]:
    return [NightData(f"2026-11-{day:02d}", found) for day, found in enumerate(tables, start=1)]


def accepted(text: str) -> ChecksConfig:
    """Returns the checks of what is written, as a configuration with it has them."""
    config = {**yaml.safe_load(CONFIG)}
    config["data"] |= load_yaml(text)["data"]
    checks = parse_config(yaml.safe_dump(config)).data.checks
    assert checks is not None
    return checks


def written(tables: list[TableStatistics], present: ChecksConfig | None = None) -> str:
    return suggested_yaml(Nights("churn", nights_of(tables), present), present, "churn.yaml")


def broken(checks: ChecksConfig, tables: list[TableStatistics]) -> list[str]:
    """Returns which of the checks these nights do not keep."""
    nights = nights_of(tables)
    found: list[str] = []
    for before, night in zip((None, *nights), nights, strict=False):
        then = None if before is None else Baseline(before.run_id, before.statistics)
        for level, bounds in (("refuse", checks.refuse), ("warn", checks.warn)):
            found += [str(each) for each in findings(level, bounds, night.statistics, then)]
    return found


# --- whatever the data is ---

rows_of_a_night = 60
numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
values = st.one_of(
    st.lists(numbers, min_size=rows_of_a_night, max_size=rows_of_a_night),
    st.lists(st.integers(-3, 3), min_size=rows_of_a_night, max_size=rows_of_a_night),
    st.lists(st.booleans(), min_size=rows_of_a_night, max_size=rows_of_a_night),
    st.lists(
        st.one_of(st.none(), st.text(max_size=3), st.sampled_from(["no", "1", "a: b", "#", "x\ny", "\u2028"])),
        min_size=rows_of_a_night,
        max_size=rows_of_a_night,
    ).filter(any),
)
names = st.text(min_size=1, max_size=6)


@st.composite
def some_nights(draw: st.DrawFn) -> list[TableStatistics]:
    """Nights with the same columns, whose rows are drawn anew from the same few."""
    columns = draw(st.dictionaries(names, values, min_size=1, max_size=3))
    labels = draw(st.sampled_from([(), tuple(columns)[:1]]))
    seeds = draw(st.lists(st.integers(0, 99), min_size=1, max_size=6))
    kinds = {name: column(of).type for name, of in columns.items()}
    tables = []
    for seed in seeds:
        pick = np.random.default_rng(seed).integers(rows_of_a_night, size=rows_of_a_night)
        drawn = {name: [of[i] for i in pick] for name, of in columns.items()}
        made = {name: column(of, kinds[name]) for name, of in drawn.items() if any(v is not None for v in of)}
        tables.append(table(labels=[label for label in labels if label in made], **made))
    return [TableStatistics(**{**vars(each), "rows_read": rows_of_a_night}) for each in tables]


@settings(max_examples=15, deadline=None)
@given(some_nights())
def test_the_nights_themselves_keep_what_is_suggested_and_the_configuration_takes_it(
    tables: list[TableStatistics],
) -> None:
    tables = [each for each in tables if each.columns.keys() == tables[-1].columns.keys()]
    text = written(tables)
    assert not broken(accepted(text), tables), text


@settings(max_examples=15, deadline=None)
@given(some_nights())
def test_what_is_suggested_beside_present_checks_is_kept_and_taken_too(tables: list[TableStatistics]) -> None:
    tables = [each for each in tables if each.columns.keys() == tables[-1].columns.keys()]
    first = accepted(written(tables[:1]))
    assert not broken(accepted(written(tables, first)), tables)


@pytest.mark.parametrize("name", ["a\xa0", "\u3000a", "no", "1", "a: b #", "a\n", "{{date}}", "x" * 200])
def test_a_column_of_whatever_name_is_written_as_it_is_called(name: str) -> None:
    columns: dict[str, Any] = {name: np.arange(60.0) % 7}
    data = table(**columns)
    assert list(accepted(written([data, data], accepted(written([data])))).refuse.columns) == [name]


# --- what is read ---


def customers(seed: int, **changed: Any) -> TableStatistics:
    """Returns the data of a night of customers."""
    draw = np.random.default_rng(seed)
    plans = ["basic", "family", "pro"]
    columns: dict[str, Any] = {
        "bill": draw.normal(50, 8, 2_000).clip(10, 90),
        "plan": [plans[i] for i in draw.integers(3, size=2_000)],
        "customer": column([f"c{i}" for i in range(2_000)]),
        "version": np.full(2_000, 7.0),
        "day": ColumnStatistics(type="date", nulls=0, numbers=spread(np.full(2_000, 20_000.0 + seed)), distinct=1),
        "words": ColumnStatistics(type="array<string>", nulls=0, lengths=Spread(count=2_000, min=8, max=8)),
        "churned": draw.integers(2, size=2_000).astype(float),
    }
    return table(labels=["churned"], **(columns | changed))


def test_each_bound_of_a_first_night_says_what_it_was_derived_from() -> None:
    lines = [" ".join(line.split()) for line in written([customers(1)]).splitlines()]
    assert lines[0] == "# Suggested from the data of 1 night of churn, 2026-11-01; to be edited."
    for line in (
        "rows: [1000, 4000] # 2,000 rows in 1 night",
        "# customer: string: other values in nearly each row, no bounds of its values",
        "# version: always 7 in 1 night, no bounds of its values",
        "# day: date: moves on with the nights, no bounds of its values",
        "null_share: 0.01 # no row is null in 1 night",
        "length: [8, 8] # 8 in 1 night",
        "columns: true # no column may come, go or change its type",
        "row_ratio: [0.5, 2] # as is usual: one night has no other to differ from",
        "label: 0.05 # as is usual: one night has no other to differ from",
        "ignore: [customer, day] # other values each night",
    ):
        assert line in lines
    assert any(
        line.startswith("values: [basic, family, pro] # all values in 1 night, the rarest in 6") for line in lines
    )
    assert any(line.startswith("values: [0, 1] # all values in 1 night, the rarest in ") for line in lines)
    assert any(line.startswith("max: ") and "# the greatest is 8" in line for line in lines)


def test_a_number_below_zero_is_refused_where_no_night_had_one() -> None:
    checks = accepted(written([customers(1)]))
    cents = customers(2, bill=np.full(2_000, 8_235.0))
    debts = customers(2, bill=np.full(2_000, -1.0))
    gone = customers(2, plan=["student"] * 2_000)
    for night, said in ((cents, "the greatest value is 8235"), (debts, "the least value is -1"), (gone, "'student'")):
        assert any(said in each for each in broken(checks, [night]))


def suggested(checks: dict[str, Any], tables: list[TableStatistics]) -> dict[str, tuple[Any, str]]:
    """Returns value and reason of each suggestion, by its key."""
    found = suggest_changes(ChecksConfig.model_validate(checks), nights_of(tables))
    return {".".join(bound.key): (bound.value, bound.why) for bound in found}


def test_a_later_night_widens_what_it_breaks_and_leaves_the_rest() -> None:
    present = {
        "sample": 0.5,
        "refuse": {"columns": {"bill": {"min": 0, "max": 60}, "plan": {"values": ["basic", "family"]}}},
        "warn": {"columns": {"day": {"max": "2024-10-05"}}},
    }
    found = suggested(present, [customers(1), customers(2)])
    assert found["sample"] == (0.5, "as it is")
    value, why = found["refuse.columns.bill.max"]
    assert value > 70
    assert why.startswith("was 60: 2 of 2 nights broke it; the greatest is 8")
    assert found["refuse.columns.bill.min"][0] == 0
    value, why = found["refuse.columns.plan.values"]
    assert value == ["basic", "family", "pro"]
    assert why.startswith("was [basic, family]: 2 of 2 nights broke it; all values in 2 nights")
    assert found["warn.columns.day.max"][0] == "2024-10-06"
    assert found["refuse.rows"][1].startswith("new: ")
    assert "refuse.columns.plan.min" not in found


def test_several_nights_narrow_what_none_comes_near_but_not_what_is_known_by_hand() -> None:
    present = {
        "refuse": {"rows": [1, 1_000_000], "columns": {"bill": {"max": 1e6, "null_share": 0.5}}},
        "warn": {"rows": [1_000, float("inf")], "columns": {"bill": {"mean": [0, 200]}}},
    }
    few, many = (suggested(present, [customers(seed) for seed in range(n)]) for n in (4, 5))
    assert few["refuse.rows"][0] == [1, 1_000_000]
    assert many["refuse.rows"] == ([1300, 2900], "was [1, 1000000]: 2,000 rows in 5 nights")
    assert many["refuse.columns.bill.null_share"] == (0.01, "was 0.5: no row is null in 5 nights")
    assert many["refuse.columns.bill.max"][0] == 1_000_000
    assert many["warn.rows"][0] == [1_000, float("inf")]
    low, high = many["warn.columns.bill.mean"][0]
    assert 40 < low < 50 < high < 60


# --- the command ---


class Runs:
    """Runs that have measured their data."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def ended(self, day: int, data: TableStatistics | None, verdict: Verdict = Verdict.DONE) -> None:
        run = self.root / "churn" / f"2026-11-{day:02d}"
        run.mkdir(parents=True)
        error = None
        if verdict:
            error = ErrorRecord(type="DataError", message="no", verdict=verdict, time_s=0.0)
        result = RunResult(run_id=run.name, name="churn", verdict=verdict, error=error)
        (run / "result.json").write_text(result.model_dump_json(), "utf-8")
        if verdict is not Verdict.DATA_REFUSED:  # which is before a run stores it
            checked = CONFIG.replace(
                "{y: y}}", "{y: y}, checks: {refuse: {columns: {plan: {values: [basic, family, pro]}}}}}"
            )
            (run / "config.yaml").write_text(checked, "utf-8")
        if data is not None:
            (run / "statistics.json").write_text(data.model_dump_json(), "utf-8")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("SPARKTF_OUTPUT", str(tmp_path / "runs"))
    return Runs(tmp_path / "runs")


def test_a_name_means_its_nights_that_were_not_refused_and_a_run_itself_too(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.ended(1, customers(1))
    runs.ended(2, None)
    runs.ended(9, customers(2))
    runs.ended(10, customers(3, plan=["student"] * 2_000), Verdict.DATA_REFUSED)
    runs.ended(11, customers(4, bill=np.full(2_000, 8_235.0)), Verdict.DATA_REFUSED)

    def shown(*arguments: str) -> str:
        assert main(["suggest-checks", *arguments]) == 0
        return capsys.readouterr().out

    by_name = shown("churn")
    assert "2 nights of churn, 2026-11-01 to 2026-11-09;" in by_name
    assert "student" not in by_name
    of_run = shown("churn/2026-11-10")
    assert "3 nights of churn, 2026-11-01 to 2026-11-10;" in of_run
    assert '# Beside the checks of run 2026-11-09: "was" says what is changed' in of_run
    assert "values: [basic, family, pro, student]" in of_run
    assert "# was [basic, family, pro]: 1 of 3 nights broke it" in of_run
    assert shown(str(runs.root / "churn/2026-11-01")).startswith("# Suggested from the data of 1 night of churn, 2026")
    config = tmp_path / "churn.yaml"
    output = f"output: {{path: {runs.root}}}"
    checks = "{y: y}, checks: {refuse: {columns: {bill: {max: 60}}}}}"
    config.write_text(CONFIG.replace("output: {path: runs}", output).replace("{y: y}}", checks), "utf-8")
    beside = shown("--config", str(config))
    assert f"# Beside the checks of {config}: " in beside
    assert "# was 60: 2 of 2 nights broke it; the greatest is " in beside


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["churn"], "{root} has no run of churn with statistics: set data.checks: {{}}, which only keeps statistics"),
        (["churn/2026-11-01"], "churn/2026-11-01 has no statistics: set data.checks: {{}}"),
        (["chrun"], "there is no run 'chrun' below {root}: did you mean churn?"),
        ([], "no name is given: give NAME or --config FILE: {root} has churn"),
    ],
)
def test_runs_without_statistics_are_told_how_to_get_some(
    arguments: list[str], said: str, runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.ended(1, None)
    assert main(["suggest-checks", *arguments]) == 2
    assert said.format(root=runs.root) in capsys.readouterr().err
