"""How often a run calls the function that names its rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from integration.application import Application
from integration.processes import wait_for
from integration.rows import job
from integration.watch import Watch

CASES = Path(__file__).parent / "cases"
ROWS = 400


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """The folder where the function leaves a file for each call."""
    folder = tmp_path / "calls"
    folder.mkdir()
    return folder


def named_job(application: Application, calls: Path, model: str, **sections: Any) -> dict[str, Any]:
    sections["params"] = {"calls": str(calls), "rows": ROWS, **sections["params"]}
    sections["data"] = {"path": None, "source": "cases.sources:noted"}
    return job(Path(), application.sandbox.runs, model, **sections)


def test_it_is_called_once_to_plan_to_prepare_and_to_feed(local: Application, calls: Path, tmp_path: Path) -> None:
    # Under a name of their own: executors have not been sent these modules yet.
    shutil.copytree(CASES, tmp_path / "unsent", ignore=shutil.ignore_patterns("__pycache__"))
    model, params = "unsent.prepared:build", {"columns": ["a", "b"]}
    sections = {"train": {"epochs": 2}, "name": "called", "cluster": {"workers": 1}}
    config = named_job(local, calls, model, params=params, **sections)
    config["data"]["source"] = "unsent.sources:noted"
    outcome = local.train(config, "r", beside=tmp_path, own_gang=True)
    assert outcome.done.rows_trained == 2 * ROWS
    assert "data: read through Spark" in outcome.output
    assert len(list(calls.iterdir())) == 1


@pytest.mark.more(
    "integration/test_source_calls.py::test_it_is_called_once_to_plan_to_prepare_and_to_feed",
    "integration/test_dataframe_feed.py::TestResume::test_an_interrupted_run_goes_on_inside_the_epoch_with_more_workers",
)
def test_a_resumed_run_calls_it_once_more_to_feed(local: Application, calls: Path, watch: Watch) -> None:
    config = named_job(
        local,
        calls,
        "cases.watched:build",
        name="called-again",
        params=watch.params(hold_at=8),
        checkpoint={"every_steps": 5},
        train={"batch_size": 20, "steps_per_call": 1},
    )
    watch.hold()
    local.begin(config, "r")
    watch.held(2)
    wait_for("a commit", local.run(config, "r").committed, within_s=60)
    local.interrupt()
    assert local.outcome().error == "KeyboardInterrupt"
    assert len(list(calls.iterdir())) == 1
    watch.release()

    resumed = local.train(config, "r").done

    assert resumed.attempts[0].from_step == 5
    assert [(e.planned, e.trained) for e in resumed.rows] == [(ROWS, ROWS)]
    assert len(list(calls.iterdir())) == 2
