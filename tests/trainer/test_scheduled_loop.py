"""Loops of the user's own over parameter servers: `train(node)` on the coordinator, whose functions workers run."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trainer import lake, reference
from trainer.local_gang import LocalGang
from trainer.losing import LosingRun
from trainer.results import accounts, steps_saved
from trainer.told import updates_of_attempt

import sparktf
from sparktf.config.job import JobConfig
from sparktf.errors import ModelContractError, ModelError, Verdict

JOBS = Path(sparktf.__file__).parents[1] / "jobs"
DIGITS = 1797
LARGE = 2_200_000


def scheduling(
    folder: Path,
    rows: int,
    *,
    workers: int = 2,
    ps: int = 1,
    flavour: str = "keras",
    leave_at: int | None = None,
    **sections: Any,
) -> JobConfig:
    """Returns the configuration of `zoo.scheduled`; each row group is a shuffle block."""
    params = {"flavour": flavour, "rows": rows, "diary": str(folder / "diary")}
    return lake.job(
        folder,
        "scheduled",
        params=params if leave_at is None else {**params, "leave_at": leave_at},
        data={"inputs": {"row": "row", "numbers": lake.NUMBERS}, "targets": {"label": "label"}, "shuffle_rows": 1},
        cluster={"strategy": "parameter_server", "workers": workers, "ps": ps},
        **sections,
    )


def test_the_example_learns_the_digits(tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor) -> None:
    subprocess.run([sys.executable, str(JOBS / "digits_lake.py"), str(tmp_path / "digits")], check=True)
    changed = {
        "model": "jobs.models.digits_async:train",
        "data.path": tmp_path / "digits",
        "output.path": tmp_path / "runs",
    }
    config = sparktf.load_config(JOBS / "conf/digits_async.yaml", [f"{key}={value}" for key, value in changed.items()])
    result = gang.train(config)
    assert accounts(result) == [(DIGITS, DIGITS, DIGITS, True)] * 5
    assert steps_saved(result)[result.steps].epoch == 5
    assert elsewhere.submit(reference.accuracy, str(tmp_path / "digits"), result.model).result() >= 0.8


def test_rows_and_updates_are_exact_also_where_a_worker_is_lost_and_after_a_resume(
    tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [60] * 20)
    train = {"batch_size": 4, "steps_per_call": 4}
    often = {"every_steps": 5, "every_seconds": None, "keep": 100}
    first = gang.train(scheduling(tmp_path, 1200, train={**train, "max_steps": 33}, checkpoint=often))
    made = updates_of_attempt(first)
    assert first.steps == len(made) == 33
    assert {update.trainer for update in made} == {"worker-0", "worker-1"}
    assert accounts(first) == [(1200, 132, 132, False)]
    told = [int(rows) for rows in (tmp_path / "diary").read_text().split()]
    assert 0 < sum(told) <= 132
    saved = {step: cursor.rows for step, cursor in steps_saved(first).items()}
    assert saved == {step: sum(len(update.rows) for update in made[:step]) for step in saved}
    assert len(saved) > 1
    Path(first.path, "result.json").unlink()  # as if the driver had been killed before its end

    seldom = {**often, "every_steps": 100}
    run = LosingRun(gang, scheduling(tmp_path, 1200, ps=2, train={**train, "epochs": 2}, checkpoint=seldom))
    run.kill(f"{first.attempts[-1].attempt + 1:03d}-worker-1")
    result = run.result()
    (attempt,) = result.attempts
    assert (attempt.from_step, [lost.node for lost in attempt.losses]) == (33, ["worker 1"])
    assert accounts(result) == [(1200, 1200, 1200, True)] * 2
    made += updates_of_attempt(result)
    counts = Counter(row for update in made for row in update.rows)
    assert set(counts) == set(range(1200))
    assert min(counts.values()) == 2
    assert 0 <= counts.total() - 2400 <= 2 * 4 * 4  # of the execution that was under way, and of one whose receipt was
    iterations = elsewhere.submit(reference.iterations, result.checkpoint).result()
    assert (
        600 <= result.steps <= iterations <= len(made) <= iterations + 1
    )  # the killed one may only have said so of one
    assert Path(result.model, "model.keras").is_file()


def test_a_loop_that_leaves_its_epochs_early_is_done(tmp_path: Path, gang: LocalGang) -> None:
    lake.write(tmp_path / "lake", [60] * 20)
    result = gang.train(
        scheduling(tmp_path, 1200, flavour="tf_keras", leave_at=5, train={"batch_size": 4, "epochs": 2})
    )
    updates = updates_of_attempt(result)
    assert result.verdict is Verdict.DONE
    assert 5 <= result.steps == len(updates) < 300
    rows = sum(len(update.rows) for update in updates)
    assert accounts(result) == [(1200, rows, rows, False)]
    assert Path(result.checkpoint).name == f"step-{result.steps:012}"
    assert Path(result.model, "model.keras").is_file()


def test_rows_that_are_left_untrained_are_the_models_failure_and_a_large_table_is_told_of(
    tmp_path: Path, gang: LocalGang
) -> None:
    lake.write(tmp_path / "lake", [40])
    with pytest.raises(ModelError, match=r"train\(node\) left 40 rows of epoch 0 untrained: call") as failure:
        gang.train(scheduling(tmp_path, LARGE, workers=1, leave_at=0, train={"batch_size": 4, "epochs": 2}))
    result = failure.value.result
    assert result.verdict is Verdict.MODEL_FAILED
    (said,) = result.warnings
    assert said.startswith("model: Embedding 'of_row' is a table of 16.8 MiB on one parameter server, ")
    assert said.endswith("sparktf.layers.ShardedEmbedding touches only the rows in use")


def test_a_synchronous_loop_is_told_what_to_call_instead(tmp_path: Path, gang: LocalGang) -> None:
    lake.write(tmp_path / "lake", [40])
    config = lake.job(
        tmp_path,
        "leaves",
        params={"how": "in the end"},
        data=lake.NUMBERS_TO_LABEL,
        cluster={"strategy": "parameter_server", "workers": 1, "ps": 1},
    )
    with pytest.raises(
        ModelContractError,
        match=r"node\.dataset\('train'\) is not available on a coordinator.*node\.coordinator\.schedule",
    ):
        gang.train(config)
