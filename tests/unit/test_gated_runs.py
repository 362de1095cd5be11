"""What becomes of a run's model once the gate has compared it: published, kept back, or to be compared again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lakes import lake_config, plan_lake, write_lake
from pretend import PretendDriver, pretend_config, unmeasured

from sparktf.commands.cli import main
from sparktf.errors import GatedError, NotComparedError, StorageError, Verdict
from sparktf.knobs import KNOBS
from sparktf.nightly.foreknowledge import date_of
from sparktf.nightly.history import read_history
from sparktf.nightly.night import Night
from sparktf.published.serving import Serving
from sparktf.results.comparison import Comparison, Difference
from sparktf.results.result import Application, RunResult
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.local import LocalStorage
from sparktf.wire.trainer_spec import Training

GATE = {"metrics": {"auc": {"tolerance": 0.01}}}


def compared(spec: Training, *, promote: bool = True) -> Comparison:
    """Returns what a node finds that is given a champion, or none."""
    champion = spec.champion
    version = None if champion is None else champion.version
    difference = Difference(
        metric="auc", rows=1234, challenger=0.75, champion=None if version is None else 0.5, finding="good"
    )
    return Comparison(
        promote=promote,
        reason="auc is worse" if not promote else "good enough",
        champion="" if champion is None else champion.label,
        champion_version=version,
        differences=(difference,),
    )


def kept(spec: Training) -> Comparison:
    return compared(spec, promote=False)


class Nights:
    """Submissions of run `r` of training `t`, which has a gate; others publish beside it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "runs"
        self.lake = write_lake(folder / "lake", [20])
        self.serving = Serving(LocalStorage(), str(self.root), "t")
        self._data = lake_config(self.lake, validation={"path": str(self.lake)}).data
        self._plan = plan_lake(self.lake, validation={"path": str(self.lake)})

    def driver(self, app: str = "app", gate: Any = GATE, **sections: Any) -> PretendDriver:
        data = self._data.model_dump(exclude_unset=True)
        output = {"path": str(self.root), "history": True}
        publish = {"date": "2026-11-20"}
        config = pretend_config(
            self.lake, self.root, **{"data": data, "gate": gate, "publish": publish, "output": output, **sections}
        )
        driver = PretendDriver(Application(app), config, self._plan)
        driver.hooks = Night(FileSystems(), driver.site.clock, unmeasured)
        driver.compare = compared
        return driver

    def another(self, date: str = "2026-11-20") -> None:
        """Publishes the model of another run, as what has no gate does."""
        driver = self.driver("other", gate=None, publish={"date": date})
        driver.run_id = f"other-{len(self.versions())}"
        driver.train()

    def versions(self) -> dict[int, str]:
        return {v.number: self.serving.manifest(v).run_id for v in self.serving.versions()}

    def stored(self) -> RunResult:
        return RunResult.model_validate_json((self.root / "t/r/result.json").read_bytes())


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)
    return Nights(tmp_path)


def test_the_first_model_is_published_and_the_next_is_compared_with_it(nights: Nights) -> None:
    nights.another()
    driver, given = nights.driver(), []
    driver.compare = lambda spec: given.append(spec.champion) or compared(spec)  # type: ignore[func-returns-value]
    result = driver.train()
    (champion,) = given
    assert champion is not None
    assert (champion.label, champion.version, champion.run_id) == ("version 1", 1, "other-0")
    assert champion.path == f"{nights.serving.path}/1"
    assert "weights" in champion.files
    assert (result.verdict, result.extra["published"]) == (Verdict.DONE, 2)
    said = driver.said.getvalue()
    assert re.search(r"auc +│ 1,234 │ +0\.7500 │ +0\.5000 │ .* good", said), said
    assert nights.serving.current() == 2


def test_the_best_of_the_last_versions_is_the_anchor_unless_it_is_the_champion(nights: Nights) -> None:
    """Values of one scale: 0.75, then worse by 0.02, better by 0.01, worse by 0.01."""
    anchors: list[str | None] = []

    def night(run_id: str, better_by: float, **gate: Any) -> None:
        driver = nights.driver(run_id, gate={**GATE, **gate})
        driver.run_id = run_id

        def compare(spec: Training) -> Comparison:
            anchors.append(None if spec.anchor is None else spec.anchor.label)
            found = compared(spec)
            (difference,) = found.differences
            if difference.champion is not None:
                difference = difference.model_copy(update={"challenger": difference.champion + better_by})
            return found.model_copy(update={"differences": (difference,)})

        driver.compare = compare
        driver.train()

    for run_id, better_by in (("1", 0.0), ("2", -0.02), ("3", 0.01), ("4", -0.01)):
        night(run_id, better_by)
    assert anchors == [None, None, "version 1, the best of the last 7", "version 1, the best of the last 7"]
    levels = [nights.serving.manifest(v).levels for v in nights.serving.versions()]
    assert [level["auc"] for level in levels] == pytest.approx([0.75, 0.73, 0.74, 0.73])
    night("5", 0.03, anchor=2)
    night("6", 0.0)
    night("7", 0.0, anchor=0)
    assert anchors[4:] == ["version 3, the best of the last 2", None, None]
    nights.serving.rollback(4)
    night("8", 0.0, anchor=3)
    assert anchors[7:] == ["version 3, the best of the last 3"], "what was rolled back is nobody's measure"


@pytest.mark.parametrize(("date", "warns"), [("2026-11-20", False), ("2026-11-23", True)])
def test_a_champion_of_a_later_day_knows_rows_that_the_run_has_not_seen(nights: Nights, date: str, warns: bool) -> None:
    nights.another(date)
    result = nights.driver().train()
    said = f"this run of 2026-11-20 is compared with version 1, which is of {date}: it knows later rows"
    assert (said in result.warnings) is warns
    assert date_of(LocalStorage(), f"{nights.root}/t/r/model") == result.started[:10], "it has no --date"


def test_so_does_an_anchor_of_a_later_day(nights: Nights) -> None:
    def worse(spec: Training) -> Comparison:
        found = compared(spec)
        (difference,) = found.differences
        if difference.champion is not None:
            difference = difference.model_copy(update={"challenger": difference.champion - 0.02})
        return found.model_copy(update={"differences": (difference,)})

    for run_id, date in (("1", "2026-11-24"), ("2", "2026-11-25")):
        driver = nights.driver(publish={"date": date})
        driver.run_id, driver.compare = run_id, worse
        driver.train()
    result = nights.driver().train()
    for told in ("version 2, which is of 2026-11-25", "version 1, the best of the last 7, which is of 2026-11-24"):
        assert f"this run of 2026-11-20 is compared with {told}: it knows later rows" in result.warnings


def test_a_model_that_is_not_let_through_ends_the_run_with_5_and_changes_nothing(nights: Nights) -> None:
    nights.another()
    driver = nights.driver()
    driver.compare = kept
    with pytest.raises(GatedError, match="the gate keeps version 1: auc is worse") as error:
        driver.train()
    assert error.value.result.verdict is Verdict.GATED
    assert (nights.serving.current(), nights.versions()) == (1, {1: "other-0"})
    assert nights.stored().comparison == error.value.result.comparison
    said = driver.said.getvalue()
    assert "this model against version 1" in said
    assert "t / r: gated" in said
    assert "log" not in said.rpartition("gated")[2], "there is no node to blame"


def test_a_kept_champion_stands_in_the_history_with_what_it_was(nights: Nights) -> None:
    nights.another()
    driver = nights.driver()
    driver.compare = kept
    with pytest.raises(GatedError):
        driver.train()
    records = {r.run_id: r for r in read_history(LocalStorage(), str(nights.root), ["t"])}
    mine = records["r"]
    assert (mine.verdict, mine.version, mine.champion_version, mine.champion_metrics) == (5, None, 1, {"auc": 0.5})
    assert mine.cause == "the gate keeps version 1: auc is worse"
    first = records["other-0"]
    assert (first.version, first.champion_version, first.champion_metrics) == (1, None, {})


def test_the_verdict_is_final_and_a_person_may_promote_the_model_all_the_same(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    nights.another()
    driver = nights.driver()
    driver.compare = kept
    with pytest.raises(GatedError):
        driver.train()
    again = nights.driver("again")  # whose node would let it through
    with pytest.raises(GatedError, match="auc is worse"):
        again.train()
    assert "its result stands" in again.said.getvalue()
    assert main(["promote", "t/r", "--output", str(nights.root)]) == 0
    assert "2" in capsys.readouterr().out
    assert (nights.serving.current(), nights.versions()) == (2, {1: "other-0", 2: "r"})


@pytest.mark.parametrize("find", [compared, kept])
def test_a_version_that_came_since_the_comparison_is_compared_with_next_time(
    nights: Nights, find: Callable[[Training], Comparison]
) -> None:
    nights.another()
    driver = nights.driver()

    def overtaken(spec: Training) -> Comparison:
        nights.another()
        return find(spec)

    driver.compare = overtaken
    with pytest.raises(NotComparedError, match="compared with version 1, but version 2 is published now") as error:
        driver.train()
    assert error.value.result.verdict is Verdict.INFRASTRUCTURE
    assert nights.serving.current() == 2
    again = nights.driver("again")
    assert again.train().extra["published"] == 3
    assert nights.stored().comparison == compared_with(2)


def compared_with(version: int) -> Comparison:
    difference = Difference(metric="auc", rows=1234, challenger=0.75, champion=0.5, finding="good")
    return Comparison(
        promote=True,
        reason="good enough",
        champion=f"version {version}",
        champion_version=version,
        differences=(difference,),
    )


def test_a_rollback_between_comparison_and_publishing_is_noticed_at_the_last_moment(nights: Nights) -> None:
    nights.another()
    nights.another()

    class Slow(Night):
        def after_training(self, *arguments: Any) -> dict[str, Any]:
            config, rundir, result, voice, check_owner = arguments

            def rolled_back() -> None:  # called when all is copied, right before it is to be seen
                nights.serving.rollback(1)
                check_owner()

            return super().after_training(config, rundir, result, voice, rolled_back)

    driver = nights.driver()
    driver.hooks = Slow(FileSystems(), driver.site.clock, unmeasured)
    with pytest.raises(NotComparedError, match="compared with version 2, but version 1 is published now"):
        driver.train()
    assert nights.serving.current() == 1
    assert "r" not in nights.versions().values()


def test_a_later_days_model_stays_whatever_the_gate_says(nights: Nights) -> None:
    nights.another(date="2026-11-21")
    driver = nights.driver()
    driver.compare = kept
    result = driver.train()
    assert (result.verdict, result.extra["published"]) == (Verdict.DONE, None)


def test_a_run_that_ended_after_it_published_is_compared_with_the_one_before_and_stays(nights: Nights) -> None:
    class Dying(Night):
        def after_training(self, *arguments: Any) -> dict[str, Any]:
            super().after_training(*arguments)
            raise StorageError("the power is cut")

    nights.another()
    driver = nights.driver()
    driver.hooks = Dying(FileSystems(), driver.site.clock, unmeasured)
    with pytest.raises(StorageError, match="the power is cut"):
        driver.train()
    again, given = nights.driver("again"), []
    again.compare = lambda spec: given.append(spec.champion) or compared(spec)  # type: ignore[func-returns-value]
    assert again.train().extra["published"] == 2
    assert [champion.version for champion in given if champion is not None] == [1]
    assert nights.versions() == {1: "other-0", 2: "r"}


def test_what_was_not_compared_is_not_published_and_may_be_submitted_again(nights: Nights) -> None:
    driver = nights.driver()
    driver.compare = lambda spec: None
    with pytest.raises(NotComparedError, match="the model was not compared; submit the same run id again"):
        driver.train()
    assert nights.versions() == {}
    assert nights.driver("again").train().extra["published"] == 1
    assert nights.stored().comparison == compared_with_nothing()


def compared_with_nothing() -> Comparison:
    difference = Difference(metric="auc", rows=1234, challenger=0.75, finding="good")
    return Comparison(promote=True, reason="good enough", differences=(difference,))


def test_a_champion_that_is_not_whole_has_no_files_and_is_there(nights: Nights) -> None:
    nights.another()
    (nights.root / "t/serving/1/MANIFEST.json").write_bytes(b"{")
    driver, given = nights.driver(), []
    driver.compare = lambda spec: given.append(spec.champion) or compared(spec)  # type: ignore[func-returns-value]
    driver.train()
    (champion,) = given
    assert champion is not None
    assert (champion.version, champion.files) == (1, ())
