"""What a run learns from those of its name that have ended before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lakes import no_filter, write_lake
from pretend import PretendDriver, pretend_config, unmeasured

from sparktf.driver.gang.gang import Gang
from sparktf.driver.plan.planner import plan_source
from sparktf.errors import Verdict
from sparktf.knobs import KNOBS
from sparktf.nightly.earlier_runs import earlier_runs, ending_s
from sparktf.nightly.night import Night
from sparktf.results.result import Application, RunResult
from sparktf.results.time_limit import Ending
from sparktf.rundir import RunDirectory
from sparktf.storage.file_systems import FileSystems, open_storage
from sparktf.storage.local import LocalStorage
from sparktf.wire.trainer_spec import Training

STORAGE = LocalStorage()


def keep(root: Path, run_id: str, *, name: str = "t", **changed: Any) -> RunResult:
    """Keeps the result of a run that is done."""
    result = RunResult.model_validate({"run_id": run_id, "name": name, "verdict": Verdict.DONE, **changed})
    STORAGE.write_bytes(RunDirectory(str(root), name, run_id).result, result.model_dump_json().encode())
    return result


def ids(root: Path, **chosen: Any) -> list[str]:
    return [run.run_id for run in earlier_runs(STORAGE, str(root), "t", **chosen)]


def test_the_last_runs_that_have_trained_are_asked(tmp_path: Path) -> None:
    assert ids(tmp_path) == []
    for day in range(8, 13):
        keep(tmp_path, f"night-{day}")
    keep(tmp_path, "night-13", verdict=Verdict.GATED)
    keep(tmp_path, "night-14", verdict=Verdict.DATA_REFUSED)
    keep(tmp_path, "night-15", name="other")
    (tmp_path / "t/serving/3").mkdir(parents=True)
    (tmp_path / "t/night-16").mkdir()
    STORAGE.write_bytes(str(tmp_path / "t/night-17/result.json"), b'{"verdict": "of another version"}')
    assert ids(tmp_path) == ["night-13", "night-12", "night-11", "night-10", "night-9"]
    assert ids(tmp_path, but="night-13", most=2) == ["night-12", "night-11"]


def test_the_slowest_end_counts_with_what_the_driver_did_after_it(tmp_path: Path) -> None:
    keep(tmp_path, "1", ending=Ending(total_s=20.0), seconds={"train": 90.0, "publish": 300.0})
    keep(tmp_path, "2", ending=Ending(total_s=200.0), seconds={"publish": 5.0})
    keep(tmp_path, "3", seconds={"publish": 9000.0})  # a loop of the user's own, or an earlier version
    assert ending_s(earlier_runs(STORAGE, str(tmp_path), "t")) == 320.0
    assert ending_s([]) == 0.0


@pytest.mark.parametrize(
    ("train", "before_s"), [({"max_seconds": "2h"}, 320.0), ({"max_seconds": "2h", "reserve": "1m"}, 0.0), ({}, None)]
)
def test_a_run_with_little_time_is_told_what_its_end_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: dict[str, Any], before_s: float | None
) -> None:
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)
    keep(tmp_path / "runs", "a", ending=Ending(total_s=20.0), seconds={"publish": 300.0})
    config = pretend_config(write_lake(tmp_path / "lake", [40]), tmp_path / "runs", train=train)
    driver = PretendDriver(Application("app"), config, plan_source(config, open_storage, no_filter))
    driver.hooks = Night(FileSystems(), driver.site.clock, unmeasured)
    told: list[Training] = []
    begin = Gang.begin

    def watched(gang: Gang, attempt: Any, specs: list[tuple[str, Training]]) -> None:
        told.extend(spec for _, spec in specs)
        begin(gang, attempt, specs)

    monkeypatch.setattr(Gang, "begin", watched)
    driver.train()
    limits = [spec.time_limit.before_s if spec.time_limit else None for spec in told]
    assert limits == [before_s]
