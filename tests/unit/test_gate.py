"""The gate's decision, from what both models are on the same rows; and what of it a configuration may say."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from sparktf.config.gate_section import GateConfig, GatedMetric
from sparktf.config.job import JobConfig
from sparktf.errors import ConfigError
from sparktf.results.comparison import Comparison
from sparktf.results.gating import (
    BUCKETS,
    Beside,
    Floats,
    Levelled,
    Measured,
    Opponent,
    Question,
    best_version,
    draws,
    found,
    interval,
    judge,
    levels_after,
    rows_needed,
)
from sparktf.results.keep import KeepRule

CHAMPION = Opponent("version 14", 14)
UP, DOWN = KeepRule(metric="auc", mode="max"), KeepRule(metric="auc", mode="min")


def around(middle: float, width: float) -> Floats:
    """Returns differences whose 95 % interval reaches so far to both sides."""
    return middle + width / 0.95 * np.linspace(-1, 1, 4001)


def gate(**settings: Any) -> GateConfig:
    return GateConfig.model_validate({"metrics": {"auc": {"tolerance": 0.01}}, **settings})


def judged(
    *measured: Measured, rule: KeepRule = UP, opponent: Opponent = CHAMPION, asked: Any = None, **settings: Any
) -> Comparison:
    asked = GatedMetric.model_validate({"tolerance": 0.01} if asked is None else asked)
    return judge(measured, {"auc": Question(rule, asked)}, gate(**settings), opponent)


def pair(middle: float, width: float, *, name: str = "", rows: int = 10_000, champion: float = 0.8) -> Measured:
    return Measured("auc", name, rows, champion + middle, champion, around(middle, width))


@pytest.mark.parametrize(
    ("middle", "width", "finding"),
    [
        (0.0, 0.005, "good"),
        (0.5, 0.4, "good"),
        (-0.009, 0.0005, "worse, within the tolerance"),
        (-0.004, 0.003, "worse, within the tolerance"),
        (-0.004, 0.005, "good"),
        (-0.02, 0.005, "worse"),
        (-0.011, 0.0005, "worse"),
        (0.0, 0.02, "undecided"),
        (-0.01, 0.001, "undecided"),
        (-0.02, 0.03, "undecided"),
    ],
)
def test_an_interval_is_held_against_the_tolerance(middle: float, width: float, finding: str) -> None:
    for rule, sign in ((UP, 1), (DOWN, -1)):  # where less is better, all of it is the other way round
        difference = judged(pair(sign * middle, width), rule=rule).differences[0]
        assert difference.finding == finding
        assert difference.low == pytest.approx(middle - width, abs=1e-4)
        assert difference.high == pytest.approx(middle + width, abs=1e-4)


def test_a_model_that_is_worse_beyond_doubt_is_not_called_good_though_it_is_let_through() -> None:
    comparison = judged(pair(-0.006, 0.003))
    assert (comparison.promote, comparison.is_tolerated) == (True, True)
    assert comparison.reason == "worse than version 14, within the tolerance: auc 0.794 against 0.8"
    assert not judged(pair(0.001, 0.003)).is_tolerated
    assert not judged(pair(0.001, 0.003), pair(-0.006, 0.003, name="country=de")).is_tolerated


def test_an_interval_ends_where_so_many_differences_lie_outside() -> None:
    assert interval(np.arange(1001.0), 0.9) == pytest.approx((50.0, 950.0))
    assert interval(np.array([1.0, math.nan, 3.0]), 0.99)[0] == pytest.approx(1.0, abs=0.02)
    assert interval(np.full(3, math.nan), 0.95) == (-math.inf, math.inf)
    assert found(-math.inf, math.inf, 0.01) == "undecided"


@pytest.mark.parametrize(("undecided", "promote"), [("promote", True), ("keep", False)])
def test_what_is_undecided_the_configuration_decides_and_the_rows_that_would_have_are_told(
    undecided: str, promote: bool
) -> None:
    comparison = judged(pair(0.0, 0.02), undecided=undecided)
    assert comparison.promote is promote
    needed = comparison.differences[0].rows_needed
    assert needed == pytest.approx(40_000, rel=0.01)  # the interval has to be half as wide
    assert f"some {needed:,} rows like these would decide it, and there are 10,000" in comparison.reason
    assert f"gate.undecided: {undecided}" in comparison.reason


@pytest.mark.parametrize("middle", [0.004, -0.003, -0.015, -0.03])
def test_with_the_rows_that_are_needed_it_is_decided(middle: float) -> None:
    rows = rows_needed(1_000, middle, middle - 0.05, middle + 0.05, 0.01)
    assert rows is not None
    for more, decided in ((1.02, True), (0.98, False)):
        width = 0.05 * math.sqrt(1_000 / (rows * more))
        assert (found(middle - width, middle + width, 0.01) != "undecided") is decided
    assert rows_needed(1_000, -0.01, -0.05, 0.05, 0.01) is None  # exactly on the bound, however many there are


@pytest.mark.parametrize(
    ("asked", "value", "promote"),
    [
        ({"min": 0.7}, 0.7, True),
        ({"min": 0.7}, 0.699, False),
        ({"max": 0.7}, 0.7, True),
        ({"max": 0.7}, 0.701, False),
        ({"min": 0.7, "tolerance": 0.1}, 0.65, False),  # better than the champion, and not good enough
        ({"min": 0.7}, math.nan, False),
        ({"tolerance": 0.1}, math.nan, False),
    ],
)
def test_bounds_hold_whatever_the_champion_is(asked: dict[str, float], value: float, promote: bool) -> None:
    measured = Measured("auc", "", 10_000, value, 0.6, around(value - 0.6, 0.001))
    comparison = judged(measured, asked=asked)
    assert comparison.promote is promote
    if not promote:
        assert comparison.differences[0].finding in ("out of bounds", "worse")
        assert comparison.reason.startswith("auc ")


def test_a_champion_that_gives_no_number_is_beaten_by_any() -> None:
    assert judged(Measured("auc", "", 10, 0.5, math.nan, np.full(100, math.nan))).promote


def test_without_a_champion_bounds_alone_decide() -> None:
    alone = Measured("auc", "", 10_000, 0.8)
    for asked, promote in (({"min": 0.7, "tolerance": 0.01}, True), ({"min": 0.9}, False), ({"tolerance": 0.01}, True)):
        comparison = judged(alone, opponent=Opponent(), asked=asked)
        assert comparison.promote is promote
        assert comparison.champion == ""
        assert comparison.champion_metrics == {}


@pytest.mark.parametrize(("lost", "promote"), [("promote", True), ("keep", False)])
def test_a_champion_that_cannot_be_evaluated_is_told_and_the_configuration_decides(lost: str, promote: bool) -> None:
    opponent = Opponent("version 14", 14, "it needs the input plan, which data.inputs does not have any more")
    comparison = judged(Measured("auc", "", 10, 0.8), opponent=opponent, champion_lost=lost)
    assert comparison.promote is promote
    assert "version 14 cannot be compared with: it needs the input plan" in comparison.reason
    assert f"gate.champion_lost: {lost}" in comparison.reason
    out = judged(Measured("auc", "", 10, 0.8), opponent=opponent, champion_lost=lost, asked={"min": 0.9})
    assert not out.promote


def test_a_slice_on_which_it_is_worse_is_enough_to_keep_the_champion() -> None:
    good = pair(0.01, 0.005)
    comparison = judged(good, pair(-0.1, 0.02, name="country=nl"), pair(0.02, 0.5, name="country=fr"))
    assert not comparison.promote
    assert comparison.reason.startswith("auc on country=nl is worse: 0.7 against 0.8 of version 14")
    assert "country=fr" not in comparison.reason


def test_slices_that_are_small_or_undecided_decide_nothing() -> None:
    small, wide = pair(-0.5, 0.02, name="country=nl", rows=99), pair(-0.02, 0.5, name="country=fr", rows=100)
    comparison = judged(pair(0.0, 0.005), small, wide, min_rows=100, undecided="keep")
    assert comparison.promote
    assert [d.finding for d in comparison.differences] == ["good", "too few rows", "undecided"]


def test_bounds_are_those_of_all_rows() -> None:
    comparison = judged(
        pair(0.0, 0.005), pair(0.0, 0.005, name="a=1", champion=0.2), asked={"min": 0.7, "tolerance": 1}
    )
    assert comparison.promote


def test_the_more_slices_there_are_the_wider_their_intervals() -> None:
    spread = np.random.default_rng(0).normal(size=100_000) * 0.01
    one, many = (
        judged(*(Measured("auc", f"plan={i}", 2_000, 0.8, 0.8, spread) for i in range(count))).differences[0].low
        for count in (1, 40)
    )
    assert one == pytest.approx(-0.0196, rel=0.02)
    assert many == pytest.approx(-0.0323, rel=0.03)  # 0.05 / 40 of a normal distribution lies beyond 3.23 deviations


def test_a_metric_that_nothing_is_asked_of_is_shown_alone() -> None:
    comparison = judged(pair(-0.5, 0.01), asked={})
    assert comparison.promote
    assert comparison.differences[0].finding == "not compared"
    assert comparison.differences[0].low == pytest.approx(-0.51, abs=1e-3)


# ---- how often it is wrong ----

ROWS, TOLERANCE = 20_000, 0.01


@dataclasses.dataclass(frozen=True)
class Pair:
    """Rows on which one model is right, and another."""

    challenger: Floats
    champion: Floats

    @classmethod
    def of(cls, draw: np.random.Generator, worse_by: float) -> Pair:
        """Returns two models that are right on some 80 % of the rows, mostly on the same ones."""
        same = draw.random(ROWS) < 0.9
        champion = draw.random(ROWS) < 0.8
        # On a tenth of the rows they are right apart from each other, and there one is less often.
        other = draw.random(ROWS) < 0.8 - worse_by / 0.1
        return cls(np.where(same, champion, other).astype(float), champion.astype(float))

    def measured(self, draw: np.random.Generator, weights: Floats) -> Measured:
        """Returns the accuracies from sums by bucket, as a trainer's states of them are."""
        buckets = draw.permutation(np.arange(ROWS) % BUCKETS)
        counts = weights @ np.bincount(buckets)
        sums = [weights @ np.bincount(buckets, right) / counts for right in (self.challenger, self.champion)]
        return Measured("auc", "", ROWS, float(self.challenger.mean()), float(self.champion.mean()), sums[0] - sums[1])


@pytest.mark.parametrize(("worse_by", "never"), [(0.0, "worse"), (2 * TOLERANCE, "good")])
def test_of_200_pairs_at_most_one_in_twenty_is_called_what_it_is_not(worse_by: float, never: str) -> None:
    weights, draw = draws(BUCKETS, seed=0), np.random.default_rng(1)
    found = [judged(Pair.of(draw, worse_by).measured(draw, weights)).differences[0] for _ in range(200)]
    assert all(d.high - d.low < TOLERANCE for d in found if d.low is not None and d.high is not None)
    findings: list[str] = [d.finding for d in found]
    assert findings.count(never) <= 10, findings
    assert findings.count("undecided") < 100, "the rows do not tell models apart that are so far from each other"


def test_an_interval_over_buckets_holds_the_truth_as_often_as_it_says() -> None:
    weights, draw = draws(BUCKETS, seed=0), np.random.default_rng(2)
    inside = 0
    for _ in range(400):
        d = judged(Pair.of(draw, 0.005).measured(draw, weights)).differences[0]
        assert d.low is not None
        assert d.high is not None
        inside += d.low < -0.005 < d.high
    assert 0.92 <= inside / 400 <= 0.98


# ---- many nights ----


@pytest.mark.parametrize("anchor", [0, 7])
@pytest.mark.parametrize(("rule", "sign"), [(UP, 1), (DOWN, -1)])
def test_what_is_lost_bit_by_bit_is_held_by_the_best_of_the_last_versions(
    rule: KeepRule, sign: int, anchor: int
) -> None:
    """Sixty nights, each of which trains a model that is worse by a third of the tolerance than what is published."""
    draw, tolerance, lost = np.random.default_rng(3), 0.03, 0.01
    quality, versions, kept = {1: 0.0}, [Levelled(1, {"auc": 0.8})], 0
    for _ in range(60):
        current = versions[-1].number
        mine = quality[current] - lost
        rows = draw.normal(0, 0.05)  # nights differ: a model's value says little beside that of another night

        def beside(number: int, mine: float = mine, rows: float = rows) -> Measured:
            by = sign * (mine - quality[number]) + draw.normal(0, 0.001)
            return Measured("auc", "", 10_000, 0.8 + rows + by, 0.8 + rows, around(by, 0.004))

        best = best_version(versions[-anchor:], rule) if anchor else None
        against = None if best in (None, current) else Beside(Opponent(f"version {best}", best), [beside(best)])
        asked = Question(rule, GatedMetric(tolerance=tolerance))
        comparison = judge([beside(current)], {"auc": asked}, gate(), Opponent(f"version {current}", current), against)
        kept += not comparison.promote
        if comparison.promote:
            assert comparison.is_tolerated, "worse beyond doubt, each night"
            versions.append(Levelled(current + 1, levels_after(versions[-1].levels, comparison)))
            quality[current + 1] = mine
    if anchor:
        assert quality[versions[-1].number] >= -tolerance - 1e-9
        assert kept > 50
    else:
        assert quality[versions[-1].number] == pytest.approx(-60 * lost)


def test_beside_the_anchor_the_tolerance_is_the_same_and_bounds_are_asked_once() -> None:
    asked = {"auc": Question(UP, GatedMetric(tolerance=0.01, min=0.79)), "loss": Question(DOWN, GatedMetric(max=1.0))}
    loss = Measured("loss", "", 10_000, 0.4, 0.3, around(0.1, 0.01))
    measured = [pair(0.0, 0.002), loss]

    def beside(middle: float, width: float = 0.002, **settings: Any) -> Comparison:
        anchor = Beside(Opponent("version 9, the best of the last 7", 9), [pair(middle, width), loss])
        return judge(measured, asked, gate(**settings), CHAMPION, anchor)

    good = beside(0.002)
    assert good.promote
    assert good.reason.endswith("; good enough beside version 9, the best of the last 7: auc 0.802 against 0.8")
    assert good.anchor is not None
    assert [(d.metric, d.least) for d in good.anchor.differences] == [("auc", None)]
    tolerated = beside(-0.005)
    assert (tolerated.promote, tolerated.is_tolerated) == (True, True)
    assert "worse than version 9, the best of the last 7, within the tolerance: auc" in tolerated.reason
    worse = beside(-0.02)
    assert not worse.promote
    assert worse.reason.startswith(
        "auc is worse: 0.78 against 0.8 of version 9, the best of the last 7, better by -0.02"
    )
    assert [beside(-0.01, 0.005, undecided=what).promote for what in ("keep", "promote")] == [False, True]


def test_an_anchor_that_cannot_be_evaluated_stands_in_nobodys_way() -> None:
    gone = Beside(Opponent("version 9, the best of the last 7", 9, "its files are gone"))
    comparison = judge([pair(0.0, 0.002)], {"auc": Question(UP, GatedMetric(tolerance=0.01))}, gate(), CHAMPION, gone)
    assert comparison.promote
    assert "version 9" not in comparison.reason
    assert comparison.anchor is not None
    assert comparison.anchor.problem == "its files are gone"


def test_a_level_is_on_the_scale_of_the_versions_before_it() -> None:
    first = judged(Measured("auc", "", 10, 0.8), opponent=Opponent())
    assert levels_after({}, first) == {"auc": 0.8}
    second = judged(Measured("auc", "", 10, 0.62, 0.6, around(0.02, 0.001)), pair(0.5, 0.1, name="country=de"))
    assert levels_after({"auc": 0.8}, second) == pytest.approx({"auc": 0.82})
    assert levels_after({}, second) == pytest.approx({"auc": 0.62}), "published before levels were kept"
    assert levels_after({"auc": 0.8}, judged(Measured("auc", "", 10, math.nan))) == {}
    versions = [Levelled(1, {}), Levelled(2, {"auc": 0.7}), Levelled(3, {"auc": 0.8}), Levelled(4, {"auc": 0.8})]
    assert (best_version(versions, UP), best_version(versions, DOWN), best_version(versions[:1], UP)) == (4, 2, None)


# ---- the configuration ----


def config(**sections: Any) -> JobConfig:
    data = {"path": "lake", "inputs": {"x": "x"}, "targets": {"y": "y"}, "validation": {"fraction": 0.1}}
    keys: dict[str, Any] = {"name": "t", "model": "m:build", "data": data, "output": {"path": "runs"}, "publish": {}}
    return JobConfig.model_validate({**keys, "gate": {"metrics": {"auc": {"tolerance": 0.1}}}, **sections})


def test_a_gate_is_configured() -> None:
    assert config().gate == gate(metrics={"auc": {"tolerance": 0.1}})


@pytest.mark.parametrize(
    ("sections", "complaint"),
    [
        ({"publish": None}, "gate needs publish, which it decides on"),
        ({"data": {"path": "l", "inputs": {"x": "x"}, "targets": {"y": "y"}}}, "gate needs held-out rows"),
        ({"gate": {"metrics": {}}}, "gate.metrics"),
        ({"gate": {"metrics": {"auc": {}}}}, "no metric has a bound"),
        ({"gate": {"metrics": {"auc": {"min": 2, "max": 1}}}}, r"gate.metrics.auc.*min: 2(\.0)? is more than max: 1"),
        ({"gate": {"metrics": {"auc": {"tolerance": -1}}}}, "gate.metrics.auc.tolerance"),
        ({"gate": {"metrics": {"auc": {"min": 1}}, "slices": ["plan"]}}, "slices need a metric with a tolerance"),
        ({"gate": {"metrics": {"auc": {"tolerance": 1}}, "slices": ["a", "a"]}}, "gate.slices.*a is given twice"),
        ({"gate": {"metrics": {"auc": {"tolerence": 1}}}}, "gate.metrics.auc.tolerence.*tolerance"),
        ({"gate": {"metrics": {"auc": {"tolerance": 1}}, "undecided": "maybe"}}, "gate.undecided"),
    ],
)
def test_a_gate_that_cannot_decide_is_refused_by_name(sections: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){complaint}"):
        config(**sections)
