"""Asynchronous training in real processes: a coordinator, workers and parameter servers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from integration.processes import wait_for
from trainer import lake, reference
from trainer.local_gang import LocalGang, updates_of
from trainer.results import accounts, steps_saved
from trainer.told import rows_by_epoch, updates_of_attempt

from sparktf.config.job import JobConfig
from sparktf.errors import ModelContractError, ModelError, Verdict
from sparktf.result import RunResult

FLAVOURS = ("keras", "tf_keras")
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalGang]:
    """A gang of up to five nodes."""
    any_job = lake.job(Path(tmp_path_factory.mktemp("none")), "everything", data=lake.EVERYTHING)
    gang = LocalGang(any_job, 5)
    yield gang
    gang.close()


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


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_each_row_is_trained_once_in_every_epoch_by_the_workers_alone(
    flavour: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [300, 37, 0, 1, 200])
    lake.write(tmp_path / "held-out", [150, 40], seed=7)
    validation = {"path": str(tmp_path / "held-out")}
    given = told(538, flavour, data={"validation": validation}, optimizer="Adam", learning_rate=0.005)
    config = served(tmp_path, **given, train={"batch_size": 32, "epochs": 3})
    result = gang.train(config)

    updates = updates_of_attempt(result)
    assert rows_by_epoch(updates, 538) == [list(range(538))] * 3
    assert {update.trainer for update in updates} == {"worker-0", "worker-1"}
    assert accounts(result) == [(538, 538, 538, True)] * 3
    assert [rows.replayed for rows in result.rows] == [0] * 3
    assert result.steps == len(updates)
    assert steps_saved(result)[result.steps].epoch == 3
    assert elsewhere.submit(reference.iterations, result.checkpoint).result() == len(updates)

    exported = f"{result.model}/model.keras"
    assert len(result.validation) == 3
    expected = elsewhere.submit(reference.evaluate, config, str(tmp_path / "held-out"), exported).result()
    assert result.metrics["validation"] == pytest.approx(expected, abs=TOLERANCE)
    shapes, difference = elsewhere.submit(reference.compare_exports, config, result.model).result()
    assert shapes == {"price": [538, 1], "label": [538, lake.CLASSES]}
    assert difference <= 1e-6


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_run_goes_on_exactly_under_another_strategy_and_on_other_numbers_of_nodes(
    flavour: str, tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [200, 100, 60, 40])
    given = told(400, flavour, optimizer="Adam", learning_rate=0.005)

    def train(config: JobConfig) -> RunResult:
        result = gang.train(config)
        Path(result.path, "result.json").unlink()  # as if the driver had been killed before its end
        return result

    first = train(served(tmp_path, workers=1, **given, train={"batch_size": 32, "max_steps": 3}))
    made = [list(update.rows) for update in updates_of_attempt(first)]
    assert [len(rows) for rows in made] == [32] * 3
    cursor = steps_saved(first)[3]
    assert cursor.rows == 96

    together = lake.job(tmp_path, workers=2, **given, train={"batch_size": 64, "max_steps": 5})
    second = train(together)
    made += updates_of(together, cursor)[:2]
    exported = f"{second.model}/model.keras"
    compared = elsewhere.submit(reference.compare_training, together, made, exported).result()
    assert compared.difference <= TOLERANCE  # one worker alone makes the very updates of one process
    assert compared.moved > 100 * TOLERANCE

    third = train(served(tmp_path, workers=2, ps=2, **given, train={"batch_size": 16, "epochs": 2}))
    updates = updates_of_attempt(third)
    rows = [*(row for update in made for row in update), *(row for update in updates for row in update.rows)]
    assert sorted(rows[:400]) == sorted(rows[400:]) == list(range(400))
    assert accounts(third) == [(400, 400, 400, True)] * 2
    assert third.attempts[0].from_step == 5
    assert third.steps == 5 + len(updates)
    assert elsewhere.submit(reference.iterations, third.checkpoint).result() == third.steps
    held = [int(nbytes) for nbytes in re.findall(r"ps \d holds (\d+) bytes", log_of(third, "chief-0"))]
    assert len(held) == 2
    assert max(held) == 3 * 400 * 2 * 4  # the largest table with its two slots, and nothing beside them


def test_three_workers_share_less_blocks_than_they_are(tmp_path: Path, gang: LocalGang) -> None:
    lake.write(tmp_path / "lake", [130])
    result = gang.train(served(tmp_path, workers=3, **told(130), train={"batch_size": 8, "epochs": 3}))
    assert rows_by_epoch(updates_of_attempt(result), 130) == [list(range(130))] * 3
    assert accounts(result) == [(130, 130, 130, True)] * 3


def test_checkpoints_and_the_end_come_at_their_very_updates(tmp_path: Path, gang: LocalGang) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    config = served(
        tmp_path,
        **told(400),
        train={"batch_size": 16, "max_steps": 17, "epochs": 3},
        checkpoint={"every_steps": 5, "every_seconds": None, "keep": 10},
    )
    result = gang.train(config)
    updates = updates_of_attempt(result)
    assert result.steps == len(updates) == 17
    rows = [sum(len(update.rows) for update in updates[:step]) for step in (5, 10, 15, 17)]
    assert accounts(result) == [(400, rows[-1], rows[-1], False)]
    cursors = steps_saved(result)
    assert {step: (cursor.epoch, cursor.rows) for step, cursor in cursors.items()} == {
        step: (0, done) for step, done in zip((5, 10, 15, 17), rows, strict=True)
    }


def test_training_goes_on_when_a_worker_is_killed_and_its_successor_joins(
    tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [60] * 20)
    config = served(tmp_path, **told(1200), train={"batch_size": 4, "epochs": 2, "steps_per_call": 4})
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(gang.train, config)
        wait_for("updates by worker 1", partial(training, gang, "worker-1", 5), within_s=60)[0].kill()
        result = running.result()
    assert len(result.attempts) == 1
    (lost,) = result.attempts[0].losses
    assert (lost.node, lost.exit_code) == ("worker 1", -9)
    updates = updates_of_attempt(result)
    assert {update.trainer for update in updates} == {"worker-0", "worker-1", "worker-1.1"}
    assert accounts(result) == [(1200, 1200, 1200, True)] * 2
    counts = Counter(row for update in updates for row in update.rows)
    assert set(counts) == set(range(1200))
    again = sum(counts.values()) - 2 * 1200
    assert min(counts.values()) == 2
    assert 0 <= again <= 2 * 4 * 4  # of the execution that was under way, and of one whose receipt was
    assert result.steps == elsewhere.submit(reference.iterations, result.checkpoint).result()
    assert 0 <= len(updates) - result.steps <= 1  # the killed one may have said so of an update that it did not make


def test_a_lost_parameter_server_costs_an_attempt_which_goes_on_from_the_last_checkpoint(
    tmp_path: Path, gang: LocalGang
) -> None:
    lake.write(tmp_path / "lake", [60] * 20)
    train = {"batch_size": 4, "steps_per_call": 4}
    config = served(tmp_path, **told(1200), train=train, checkpoint={"every_steps": 40, "every_seconds": None})
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(gang.train, config)
        wait_for("a checkpoint", lambda: list(tmp_path.glob("runs/**/step-*/MANIFEST.json")), within_s=60)
        training(gang, "ps-0", 0)[0].kill()
        result = running.result()
    first, second = result.attempts
    assert first.root_cause is not None
    assert (first.root_cause.node, first.root_cause.exit_code) == ("ps 0", -9)
    assert second.from_step >= 40
    kept = updates_of_attempt(result, first)[: second.from_step]
    updates = [*kept, *updates_of_attempt(result, second)]
    assert rows_by_epoch(updates, 1200) == [list(range(1200))]
    assert accounts(result) == [(1200, 1200, 1200, True)]
    assert result.steps == len(updates)


def training(gang: LocalGang, trainer: str, updates: int) -> list[psutil.Process]:
    """Returns the process of a trainer, once it has made so many updates."""
    if gang.agents is None:
        return []
    logs = [log for log in gang.agents.folder.rglob(f"*-{trainer}.log") if log.read_text().count("trained") >= updates]
    every = [child for agent in gang.agents.pids() for child in psutil.Process(agent).children()]
    return [child for child in every if Path(f"/proc/{child.pid}/fd/1").resolve() in logs]


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


def test_a_loop_of_the_users_own_is_refused_by_name(tmp_path: Path, gang: LocalGang) -> None:
    lake.write(tmp_path / "lake", [40])
    config = served(tmp_path, "loop", params={"flavour": "keras"}, data=lake.NUMBERS_TO_LABEL)
    with pytest.raises(ModelContractError, match=r"parameter_server trains what build\(params, assets\) returns"):
        gang.train(config)
