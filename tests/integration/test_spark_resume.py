"""Runs that are interrupted, and what the same run id does next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration.application import Application
from integration.processes import wait_for
from integration.rows import job
from integration.sandbox import Sandbox
from integration.submit import Submit
from integration.watch import Watch
from meant import RUNS_SERVERS
from stored_runs import StoredRuns

from sparktf import Verdict

ROWS = 600
EVERY = 10
SINGLE = {"strategy": "single", "workers": 1}
HOLD_AT = 13  # of 20 updates in an epoch


def interrupted_job(rows: Path, runs: Path, watch: Watch, **sections: Any) -> dict[str, Any]:
    """Returns a configuration of two epochs whose trainers wait in the first one, after a commit."""
    return job(
        rows,
        runs,
        "cases.hand_written:train",
        params=watch.params(hold_at=HOLD_AT),
        train={"epochs": 2, "batch_size": 30},
        checkpoint={"every_steps": EVERY},
        **sections,
    )


def test_ctrl_c_stops_everything_and_the_run_id_goes_on_inside_the_epoch_with_more_workers(
    sandbox: Sandbox, local: Application, rows: Path, watch: Watch
) -> None:
    config = interrupted_job(rows, sandbox.runs, watch)
    watch.hold()
    submit = Submit(sandbox, "local[2]", config, "--run-id", "r")
    run = submit.run("r")
    first = [held.pid for held in watch.held(2)]
    wait_for("a commit", run.committed, within_s=60)
    beside = local.train(job(rows, local.sandbox.runs, "cases.watched:build", name="beside")).done
    assert (len(beside.attempts), beside.rows_trained) == (1, ROWS), "two applications train at the same time"
    submit.press_ctrl_c()
    assert submit.wait(within_s=60) == 130
    assert submit.output()[-1] == "interrupted"
    assert "Traceback" not in "\n".join(submit.output())
    assert not sandbox.family.wait()
    assert not sandbox.leftovers()
    result = run.result()
    assert result.error is not None
    assert (result.verdict, result.error.type) == (Verdict.INFRASTRUCTURE, "RunInterruptedError")
    assert "interrupted" in "".join(submit.output())
    assert result.steps == EVERY
    assert run.committed() == [EVERY]

    watch.release()
    resumed = local.train({**config, "cluster": {"workers": 3}}, "r").done
    assert (resumed.attempts[0].workers, resumed.attempts[0].from_step) == (3, EVERY)
    assert resumed.steps == 10 + 10 + 20
    assert [(e.planned, e.fed, e.trained, e.complete) for e in resumed.rows] == [(ROWS, ROWS, ROWS, True)] * 2
    assert resumed.rows_trained == 2 * ROWS
    second = watch.pids()[len(first) :]
    trained = watch.ids(first, updates=EVERY) + watch.ids(second)
    assert trained == dict.fromkeys(range(1, ROWS + 1), 2)


def test_sigterm_to_spark_submit_stops_everything(sandbox: Sandbox, rows: Path, watch: Watch) -> None:
    config = interrupted_job(rows, sandbox.runs, watch, cluster=SINGLE)
    watch.hold()
    submit = Submit(sandbox, "local[2]", config, "--run-id", "r")
    watch.held(1)
    submit.terminate()
    assert submit.wait(within_s=60) == 143
    assert not sandbox.family.wait()
    assert not sandbox.leftovers()
    error = submit.run("r").result().error
    assert error is not None
    assert error.type == "RunInterruptedError"


@pytest.mark.more(
    "integration/test_notebooks.py::test_cells_train_their_functions_and_outlive_what_fails_and_what_is_interrupted",
)
def test_ctrl_c_in_a_notebook_stops_the_run_and_leaves_the_session(
    local: Application, rows: Path, watch: Watch
) -> None:
    config = interrupted_job(rows, local.sandbox.runs, watch, name="notebook", cluster=SINGLE)
    watch.hold()
    local.begin(config, "r", own_gang=True)
    watch.held(1)
    local.interrupt()
    assert local.outcome().error == "KeyboardInterrupt"
    assert not local.family.trainers()
    error = local.run(config, "r").result().error
    assert error is not None
    assert error.type == "RunInterruptedError"
    watch.release()
    assert local.train(config, "r").done.rows_trained == 2 * ROWS


@pytest.mark.more(
    "unit/test_history.py::test_a_result_that_is_repeated_is_not_kept_again",
    "unit/test_gated_runs.py::test_the_verdict_is_final_and_a_person_may_promote_the_model_all_the_same",
)
def test_a_run_that_is_done_repeats_its_result_without_training(local: Application, rows: Path, watch: Watch) -> None:
    config = job(
        rows, local.sandbox.runs, "cases.watched:build", name="repeated", params=watch.params(), cluster=SINGLE
    )
    first = local.train(config, "r").done
    trained = watch.pids()
    again = local.train(config, "r")
    assert again.done == first
    assert "run r is done already" in again.output
    assert watch.pids() == trained


def test_a_run_id_with_another_plan_is_refused(local: Application, rows: Path, watch: Watch) -> None:
    config = job(rows, local.sandbox.runs, "cases.failing:build", name="replanned", cluster=SINGLE)
    assert local.train(config, "r").error == "ModelError"
    outcome = local.train({**config, "train": {"seed": 5}}, "r")
    assert (outcome.error, outcome.verdict) == ("ConfigError", Verdict.REFUSED)
    assert "use another --run-id" in outcome.message


@pytest.mark.parametrize("name", ["sync", "async"])
def test_a_run_that_the_version_before_began_goes_on_from_its_checkpoint(
    name: str, local: Application, tmp_path: Path
) -> None:
    stored = StoredRuns(tmp_path / "stored")
    watch = Watch(stored.books / name)
    before = watch.pids()
    config = stored.configuration(name, params=watch.params(), timeouts={"owner": 2})
    if name == "async" and not RUNS_SERVERS:
        refused = local.train(config, "r")
        assert (refused.error, refused.verdict) == ("PreflightError", Verdict.REFUSED)
        assert "needs TensorFlow 2.21.x to replace lost workers" in refused.message
        return
    resumed = local.train(config, "r").done
    assert resumed.attempts[0].from_step == EVERY
    assert [(e.planned, e.fed, e.trained, e.complete) for e in resumed.rows] == [(240, 240, 240, True)] * 2
    after = [pid for pid in watch.pids() if pid not in before]
    assert watch.ids(before, updates=EVERY) + watch.ids(after) == dict.fromkeys(range(1, 240 + 1), 2)
