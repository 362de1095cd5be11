"""Asynchronous training in real processes: a coordinator, workers and parameter servers."""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from split import only
from trainer import lake, reference
from trainer.local_gang import LocalGang, updates_of
from trainer.results import accounts, steps_saved
from trainer.told import rows_by_epoch, updates_of_attempt

from sparktf.config.job import JobConfig
from sparktf.errors import ModelError, Verdict
from sparktf.results.result import RunResult
from sparktf.results.usage import Made, Staleness
from sparktf.trainer.node.plateau import by_epoch

FLAVOURS = ("keras", "tf_keras")
TOLERANCE = 1e-5


def served(folder: Path, model: str, *, workers: int = 2, ps: int = 1, **sections: Any) -> JobConfig:
    """Returns the configuration of an asynchronous run."""
    cluster = {"strategy": "parameter_server", "workers": workers, "ps": ps}
    return lake.job(folder, model, **sections, cluster=cluster)


def told(rows: int, flavour: str = "keras", *, data: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    """Returns parameters and data of a model that says which rows it trains; each row group is a shuffle block."""
    return {
        "model": "everything",
        "params": {"flavour": flavour, "rows": rows, "told": True, **params},
        "data": {**lake.EVERYTHING, "shuffle_rows": 1, **(data or {})},
    }


def log_of(result: RunResult, trainer: str) -> str:
    """Returns what a trainer of the last attempt has said."""
    return Path(result.path, "logs", f"{result.attempts[-1].attempt:03d}-{trainer}.log").read_text()


@pytest.mark.parametrize("flavour", only("keras", of=FLAVOURS))
def test_a_run_goes_on_exactly_under_another_strategy_and_on_other_numbers_of_nodes(
    flavour: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [200, 100, 0, 60, 1, 39])
    lake.write(tmp_path / "held-out", [150, 40], seed=7)
    validation = {"path": str(tmp_path / "held-out")}
    given = told(400, flavour, data={"validation": validation}, optimizer="Adam", learning_rate=0.005)

    def train(config: JobConfig) -> RunResult:
        result = gang.train(config)
        Path(result.path, "result.json").unlink()  # as if the driver had been killed before its end
        return result

    first = train(served(tmp_path, workers=1, **given, train={"batch_size": 32, "max_steps": 3}))
    made = [list(update.rows) for update in updates_of_attempt(first)]
    assert [len(rows) for rows in made] == [32] * 3
    (alone,) = [node.made for node in first.attempts[0].nodes if node.made is not None]
    assert alone.staleness == Staleness(median=0, p99=0)
    cursor = steps_saved(first)[3]
    assert cursor.rows == 96

    together = lake.job(tmp_path, workers=2, **given, train={"batch_size": 64, "max_steps": 5})
    second = train(together)
    made += updates_of(together, cursor)[:2]
    exported = f"{second.model}/model.keras"
    compared = elsewhere.submit(reference.compare_training, together, made, exported).result()
    assert compared.difference <= TOLERANCE  # one worker alone makes the very updates of one process
    assert compared.moved > 100 * TOLERANCE

    # Each evaluation takes longer than that: a checkpoint by time is due where nothing is trained.
    often = {"every_seconds": 0.02, "keep": 50}
    last = served(tmp_path, workers=2, ps=2, **given, train={"batch_size": 16, "epochs": 2}, checkpoint=often)
    third = train(last)
    updates = updates_of_attempt(third)
    assert {update.trainer for update in updates} == {"worker-0", "worker-1"}
    rows = [*(row for update in made for row in update), *(row for update in updates for row in update.rows)]
    assert sorted(rows[:400]) == sorted(rows[400:]) == list(range(400))
    assert accounts(third) == [(400, 400, 400, True)] * 2
    assert [rows.replayed for rows in third.rows] == [0] * 2
    for node in third.attempts[0].nodes:
        own = [update for update in updates if update.trainer == node.node.replace(" ", "-")]
        told_of = node.made or Made()
        assert (told_of.steps, told_of.rows) == (len(own), sum(len(update.rows) for update in own))
        assert own or told_of.staleness is None
    # It is told of in heartbeats: of the updates after a worker's last one nothing is known.
    assert any(node.made is not None and node.made.staleness is not None for node in third.attempts[0].nodes)
    assert third.attempts[0].from_step == 5
    assert third.steps == 5 + len(updates)
    assert steps_saved(third)[third.steps].epoch == 2
    assert elsewhere.submit(reference.iterations, third.checkpoint).result() == third.steps
    held = [int(nbytes) for nbytes in re.findall(r"ps \d holds (\d+) bytes", log_of(third, "chief-0"))]
    assert len(held) == 2
    assert max(held) == 3 * 400 * 2 * 4  # the largest table with its two slots, and nothing beside them

    exported = f"{third.model}/model.keras"
    # The second run's own is there, too, if it was told before that run's last commit was made.
    assert [found.epoch for found in by_epoch(third.validation)] == [0, 1]
    expected = elsewhere.submit(reference.evaluate, last, str(tmp_path / "held-out"), exported).result()
    assert third.metrics["validation"] == pytest.approx(expected, abs=TOLERANCE)
    shapes, difference = elsewhere.submit(reference.compare_exports, last, third.model).result()
    assert shapes == {"price": [400, 1], "label": [400, lake.CLASSES]}
    assert difference <= 1e-6


def test_three_workers_share_less_blocks_than_they_are_and_the_run_is_saved_and_ends_at_the_very_updates(
    tmp_path: Path, gang: LocalGang
) -> None:
    lake.write(tmp_path / "lake", [130])
    config = served(
        tmp_path,
        workers=3,
        **told(130),
        train={"batch_size": 8, "max_steps": 43, "epochs": 3},
        checkpoint={"every_steps": 5, "every_seconds": None, "keep": 20},
    )
    result = gang.train(config)
    updates = updates_of_attempt(result)
    assert result.steps == len(updates) == 43
    *whole, begun = rows_by_epoch(updates, 130)
    assert whole == [list(range(130))] * 2
    assert 0 < len(set(begun)) == len(begun) < 130
    assert accounts(result) == [(130, 130, 130, True)] * 2 + [(130, len(begun), len(begun), False)]
    cursors = steps_saved(result)
    ends = {step for step, cursor in cursors.items() if cursor.rows == 0}
    assert set(cursors) == {*range(5, 43, 5), 43, *ends}
    assert {step: 130 * cursor.epoch + cursor.rows for step, cursor in cursors.items()} == {
        step: sum(len(update.rows) for update in updates[:step]) for step in cursors
    }


def test_what_the_model_fails_with_on_a_worker_ends_the_run_as_the_models_failure(
    tmp_path: Path, gang: LocalGang
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    data = {"inputs": {"row": "row"}, "targets": {"label": "label"}}
    config = served(tmp_path, "fails_later", params={"flavour": "keras", "row": 250}, data=data)
    with pytest.raises(ModelError, match="a row that nobody wants") as failure:
        gang.train(config)
    assert failure.value.result.verdict is Verdict.MODEL_FAILED
    assert len(failure.value.result.attempts) == 1
