"""Training that ends before its last epoch."""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trainer import lake, reference
from trainer.local_gang import LocalGang
from trainer.results import accounts

from sparktf.config.job import JobConfig
from sparktf.config.patience import EarlyStoppingConfig
from sparktf.errors import PreflightError
from sparktf.keep import Evaluation, KeepRule
from sparktf.plateau import is_enough
from sparktf.result import RunResult

STEPS = 7
"""Updates of an epoch."""
EPOCHS = 8
PATIENCE = 2

TWO_WORKERS = {"strategy": "multi_worker_mirrored", "workers": 2}
SERVED = {"strategy": "parameter_server", "workers": 1, "ps": 2}


def test_a_training_ends_where_keras_ends_it(elsewhere: ProcessPoolExecutor) -> None:
    draw = random.Random(0)
    # Few values, which a float32 has, too: many of them are alike, or differ by just `min_delta`.
    histories = [[draw.randrange(12) / 8 for _ in range(12)] for _ in range(800)]
    settings = [
        {
            "patience": draw.randrange(4),
            "min_delta": draw.randrange(3) / 8,
            "mode": draw.choice(("min", "max")),
            "baseline": draw.choice((None, None, 0.5, 1.0)),
        }
        for _ in histories
    ]
    expected = elsewhere.submit(reference.epochs_to_train, histories, settings).result()
    decided = [epochs_to_train(*pair) for pair in zip(histories, settings, strict=True)]
    assert decided == expected
    assert len(set(expected)) > 8, "the cases are all alike"


def epochs_to_train(history: list[float], settings: dict[str, Any]) -> int:
    rule = KeepRule(metric="loss", mode=settings["mode"])
    config = EarlyStoppingConfig.model_validate(settings)
    known = [Evaluation(epoch=i, step=i, rows=1, values={"loss": value}) for i, value in enumerate(history)]
    lengths = range(1, len(known) + 1)
    return next((length for length in lengths if is_enough(rule, config, known[:length])), len(known))


def spoiled(folder: Path, cluster: dict[str, Any], train: dict[str, Any], **data: Any) -> JobConfig:
    """Returns the configuration of a model that is spoiled after the second epoch."""
    early_stopping = {"patience": PATIENCE}
    return lake.job(
        folder,
        "spoiled",
        cluster=cluster,
        params={"flavour": "keras", "until": 2 * STEPS},
        data={**lake.NUMBERS_TO_LABEL, **data},
        train={"batch_size": 64, "epochs": EPOCHS, "early_stopping": early_stopping, **train},
    )


def assert_stopped(result: RunResult, best: int, metric: str, value: float) -> None:
    last = best + PATIENCE
    assert result.stopped is not None
    assert (result.stopped.reason, result.stopped.epoch, result.stopped.step) == (
        "early_stopping",
        last,
        (last + 1) * STEPS,
    )
    assert result.stopped.text == (
        f"stopped after epoch {last + 1}: {metric} has not improved for {PATIENCE} epochs; "
        f"best {value:.6g} at epoch {best + 1}"
    )
    assert (result.steps, result.epochs) == ((last + 1) * STEPS, last + 1)


def test_a_run_stops_where_it_would_have_although_it_was_resumed_under_another_strategy(
    tmp_path: Path, gang: LocalGang
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    lake.write(tmp_path / "held-out", [150], seed=7)
    held_out = {"validation": {"path": str(tmp_path / "held-out")}}
    begun = gang.train(spoiled(tmp_path, SERVED, {"epochs": 2, "keep": "best"}, **held_out))
    assert begun.stopped is None, "two epochs are too few to be out of patience"
    for attempt in range(2):
        Path(begun.path, "result.json").unlink()  # as if the driver had been killed before its end
        said = gang.output.tell()
        result = gang.train(spoiled(tmp_path, TWO_WORKERS, {"keep": "best"}, **held_out))
        best = min(result.validation, key=lambda e: e.values["loss"])
        assert_stopped(result, best.epoch, "val_loss", best.values["loss"])
        assert [e.epoch for e in result.validation] == list(range(best.epoch + PATIENCE + 1))
        assert result.kept is not None
        assert result.kept.epoch == best.epoch
        assert result.attempts[0].from_step == (2 * STEPS if attempt == 0 else result.steps)
        gang.output.seek(said)
        assert "has not improved for 2 epochs" in gang.output.read()


def test_without_validation_parameter_servers_stop_by_the_exact_loss_of_training(
    tmp_path: Path, gang: LocalGang
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    result = gang.train(spoiled(tmp_path, SERVED, {}))
    assert result.stopped is not None
    assert result.stopped.text.startswith(f"stopped after epoch {result.stopped.epoch + 1}: loss has not improved")
    assert result.stopped.epoch + 1 < EPOCHS
    assert accounts(result) == [(400, 400, 400, True)] * (result.stopped.epoch + 1)
    assert result.metrics["train"]["loss"] > 1.5, "the last epoch's is that of a spoiled model"
    assert result.validation == ()


def test_a_run_that_has_little_time_ends_inside_an_epoch_and_publishes_what_it_has(
    tmp_path: Path, gang: LocalGang
) -> None:
    rows = 300_000
    lake.write(tmp_path / "lake", [rows])
    lake.write(tmp_path / "held-out", [150], seed=7)
    held_out = {"validation": {"path": str(tmp_path / "held-out")}}

    def limited(seconds: float, reserve: float) -> JobConfig:
        times = {"max_seconds": seconds, "reserve": reserve, "batch_size": 2, "epochs": 1}
        return spoiled(tmp_path, TWO_WORKERS, times, **held_out)

    with pytest.raises(PreflightError, match=r"train\.max_seconds: 600 leaves no time to train") as refused:
        gang.train(limited(600, 600))
    start_s = refused.value.result.duration_s
    result = gang.train(limited(2 * start_s + 5, start_s / 2))
    assert result.stopped is not None
    assert (result.stopped.reason, result.stopped.step) == ("max_seconds", result.steps)
    assert "in epoch 1: train.max_seconds: " in result.stopped.text
    assert 0 < result.steps < rows // 2
    assert accounts(result) == [(rows, 2 * result.steps, 2 * result.steps, False)]
    assert [(e.epoch, e.step, e.rows) for e in result.validation] == [(0, result.steps, 150)]
    assert (Path(result.model) / "model.keras").exists()

    Path(result.path, "result.json").unlink()
    again = gang.train(limited(600, 600))
    assert again.attempts[0].from_step == again.steps == result.steps
    assert again.stopped is not None
    assert again.stopped.reason == "max_seconds"
    assert again.validation == result.validation
    assert (Path(again.model) / "model.keras").exists()
