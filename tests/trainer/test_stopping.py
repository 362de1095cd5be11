"""Training that ends before its last epoch."""

from __future__ import annotations

import itertools
import json
import random
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trainer import heard, lake, reference
from trainer.local_gang import LocalGang
from trainer.results import accounts

from sparktf.config.job import JobConfig
from sparktf.config.patience import EarlyStoppingConfig, ReduceLrConfig
from sparktf.errors import TimeUpError
from sparktf.results.keep import Evaluation, KeepRule
from sparktf.results.result import RunResult
from sparktf.trainer.node.plateau import is_enough, is_reduction_due

STEPS = 7
"""Updates of an epoch."""
EPOCHS = 8
PATIENCE = 2

ONE_PROCESS: dict[str, Any] = {"strategy": "single"}
TWO_WORKERS: dict[str, Any] = {"strategy": "multi_worker_mirrored", "workers": 2}
SERVED = {"strategy": "parameter_server", "workers": 1, "ps": 1}


def histories(draw: random.Random) -> list[list[float]]:
    """Returns few values, which a float32 has, too: many of them are alike, or differ by just `min_delta`."""
    return [[draw.randrange(12) / 8 for _ in range(12)] for _ in range(400)]


def known(history: list[float]) -> list[list[Evaluation]]:
    """Returns what is known after each epoch."""
    found = [Evaluation(epoch=i, step=i, rows=1, values={"loss": value}) for i, value in enumerate(history)]
    return [found[:length] for length in range(1, len(found) + 1)]


def test_a_training_ends_where_keras_ends_it(elsewhere: ProcessPoolExecutor) -> None:
    draw = random.Random(0)
    cases = [
        (
            history,
            {
                "patience": draw.randrange(4),
                "min_delta": draw.randrange(3) / 8,
                "mode": draw.choice(("min", "max")),
                "baseline": draw.choice((None, None, 0.5, 1.0)),
            },
        )
        for history in histories(draw)
    ]

    def decided(history: list[float], settings: dict[str, Any]) -> int:
        rule = KeepRule(metric="loss", mode=settings["mode"])
        config = EarlyStoppingConfig.model_validate(settings)
        ends = (len(past) for past in known(history) if is_enough(rule, config, past))
        return next(ends, len(history))

    expected = elsewhere.submit(reference.epochs_to_train, *map(list, zip(*cases, strict=True))).result()
    assert [decided(*case) for case in cases] == expected
    assert len(set(expected)) > 5, "the cases are all alike"


def test_the_learning_rate_is_lowered_when_keras_lowers_it(elsewhere: ProcessPoolExecutor) -> None:
    draw = random.Random(1)
    cases = [
        (
            history,
            {
                "patience": draw.randrange(4),
                "min_delta": draw.randrange(3) / 8,
                "mode": draw.choice(("min", "max")),
                "cooldown": draw.randrange(4),
                "factor": 0.5,
                "min_lr": draw.choice((0.0, 0.0, 0.125)),
            },
        )
        for history in histories(draw)
    ]

    def decided(history: list[float], settings: dict[str, Any]) -> list[float]:
        rule = KeepRule(metric="loss", mode=settings["mode"])
        config = ReduceLrConfig.model_validate(settings)
        lowered = itertools.accumulate(int(is_reduction_due(rule, config, past)) for past in known(history))
        return [max(0.5**count, config.min_lr) for count in lowered]

    expected = elsewhere.submit(reference.learning_rates, *map(list, zip(*cases, strict=True))).result()
    assert [decided(*case) for case in cases] == expected
    assert len({tuple(rates) for rates in expected}) > 50, "the cases are all alike"


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


def test_a_run_stops_where_it_would_have_although_it_was_resumed_under_another_strategy_and_exports_its_best_weights(
    tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    lake.write(tmp_path / "held-out", [150], seed=7)
    held_out = {"validation": {"path": str(tmp_path / "held-out")}}
    begun = gang.train(spoiled(tmp_path, SERVED, {"epochs": 2, "keep": "best"}, **held_out))
    assert begun.stopped is None, "two epochs are too few to be out of patience"
    for attempt, cluster in enumerate((TWO_WORKERS, ONE_PROCESS)):
        Path(begun.path, "result.json").unlink()  # as if the driver had been killed before its end
        said = gang.output.tell()
        config = spoiled(tmp_path, cluster, {"keep": "best"}, **held_out)
        result = gang.train(config)
        best = min(result.validation, key=lambda e: e.values["loss"])
        assert_stopped(result, best.epoch, "val_loss", best.values["loss"])
        assert [e.epoch for e in result.validation] == list(range(best.epoch + PATIENCE + 1))
        assert result.kept is not None
        assert result.kept.epoch == best.epoch < 2, "the model was not spoiled"
        exported = elsewhere.submit(
            reference.evaluate, config, str(tmp_path / "held-out"), f"{result.model}/model.keras"
        ).result()
        assert best.values == pytest.approx(exported, abs=1e-5)
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

    with pytest.raises(TimeUpError, match=r"train\.max_seconds: 600 leaves no time to train") as refused:
        gang.train(limited(600, 600))
    assert "train" not in refused.value.result.seconds, "the driver looks before it asks for nodes"
    once = spoiled(tmp_path, TWO_WORKERS, {"max_steps": 1, "batch_size": 2, "epochs": 1})
    start_s = gang.train(once, run_id="once").duration_s
    result = gang.train(limited(2 * start_s + 3, start_s / 2))
    assert result.stopped is not None
    assert (result.stopped.reason, result.stopped.step) == ("max_seconds", result.steps)
    assert "in epoch 1: train.max_seconds: " in result.stopped.text
    assert 0 < result.steps < rows // 2
    assert accounts(result) == [(rows, 2 * result.steps, 2 * result.steps, False)]
    assert [(e.epoch, e.step, e.rows) for e in result.validation] == [(0, result.steps, 150)]
    assert (Path(result.model) / "model.keras").exists()
    assert result.ending is not None
    assert 0 < result.ending.evaluation_s < result.ending.total_s < result.seconds["train"]
    assert 0 < result.ending.checkpoint_s < result.ending.total_s

    Path(result.path, "result.json").unlink()
    again = gang.train(limited(600, 600))
    assert again.attempts[0].from_step == again.steps == result.steps
    assert again.stopped is not None
    assert again.stopped.reason == "max_seconds"
    assert again.validation == result.validation
    assert (Path(again.model) / "model.keras").exists()


def test_a_lower_learning_rate_is_in_force_at_once_and_after_a_resume_and_callbacks_hear_of_each_epoch(
    tmp_path: Path, gang: LocalGang, elsewhere: ProcessPoolExecutor
) -> None:
    """Under another strategy, too. The callbacks are called on the chief alone, and end the training."""
    lake.write(tmp_path / "lake", [300, 100])
    lake.write(tmp_path / "held-out", [150], seed=7)
    never_better = {"metric": "loss", "patience": 1, "min_delta": 1e6, "factor": 1e-6}

    def lowering(epochs: int, cluster: dict[str, Any]) -> JobConfig:
        heard = {"heard": str(tmp_path / "heard"), "last": 3}
        return lake.job(
            tmp_path,
            "everything",
            cluster=cluster,
            params={"flavour": "keras", "rows": 400, "learning_rate": 0.2, **heard},
            data={**lake.EVERYTHING, "validation": {"path": str(tmp_path / "held-out")}},
            train={
                "batch_size": 64,
                "epochs": epochs,
                "reduce_lr_on_plateau": never_better,
                "callbacks": "trainer.heard:telling",
            },
        )

    def assert_its_loss_is_that_of_its_weights(config: JobConfig, result: RunResult) -> None:
        """By now training does not move the weights: the loss of its rows is the same whenever it is looked at."""
        lake, exported = str(tmp_path / "lake"), f"{result.model}/model.keras"
        expected = elsewhere.submit(reference.evaluate, config, lake, exported).result()
        assert result.metrics["train"]["loss"] == pytest.approx(expected["loss"], abs=1e-4)

    def heard() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in (tmp_path / "heard").read_text(encoding="utf-8").splitlines()]
        (tmp_path / "heard").unlink()
        assert lines[::2] == lines[1::2], "two callbacks are told the same, whatever one does with it"
        return lines[::2]

    begun = gang.train(lowering(3, SERVED))
    assert_its_loss_is_that_of_its_weights(lowering(3, SERVED), begun)
    assert begun.metrics["train"]["learning_rate"] == pytest.approx(0.2e-6)
    first, second, third = (e.values["loss"] for e in begun.validation)
    assert abs(first - second) > 1e-3
    assert third == pytest.approx(second, abs=1e-4)
    assert begun.stopped is None
    before = heard()
    epochs = [f"{when} {epoch}" for epoch in range(3) for when in ("begin", "end")]
    assert [line["what"] for line in before] == ["begin", *epochs, "end"]

    Path(begun.path, "result.json").unlink()
    config = lowering(6, TWO_WORKERS)
    result = gang.train(config)
    assert_its_loss_is_that_of_its_weights(config, result)
    assert result.attempts[0].from_step == 3 * STEPS
    assert result.metrics["train"]["learning_rate"] == pytest.approx(0.2e-12)
    assert result.validation[3].values["loss"] == pytest.approx(third, abs=1e-4)
    again = heard()
    assert [line["what"] for line in again] == ["begin", "end 2", "begin 3", "end 3", "end"]
    assert again[1]["logs"] == pytest.approx(before[6]["logs"], abs=1e-5)
    assert again[3]["logs"] == again[4]["logs"]
    validated = {f"val_{name}": value for name, value in result.validation[3].values.items()}
    assert again[3]["logs"] == pytest.approx({**result.metrics["train"], **validated}, abs=1e-6)
    weights = elsewhere.submit(reference.weights_of, config, f"{result.model}/model.keras").result()
    assert again[3]["weight"] == pytest.approx(sum(float(abs(weight).sum()) for weight in weights), rel=1e-5)
    assert result.stopped is not None
    assert (result.stopped.reason, result.stopped.epoch, result.steps) == ("callbacks", 3, 4 * STEPS)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("no list", "trainer.heard:refused returned CSVLogger, not a list of Keras callbacks"),
        ("no callback", "builtin_function_or_method is not a Keras callback"),
        ("schedule", ""),
        ("plateau", "ReduceLROnPlateau changes the training; use instead: train.reduce_lr_on_plateau"),
        ("restores", "restores the best weights, as train.keep: best does: set it too, with keep_metric: loss"),
        ("batches", "ProgbarLogger has on_train_batch_end, which is never called"),
        (
            "checkpoints",
            "ModelCheckpoint is called for batches, and callbacks are called for epochs only: leave it out",
        ),
        ("board", "leave it out, the run writes its metrics to the folder tensorboard"),
        ("accepted", ""),
    ],
)
def test_callbacks_that_would_not_be_heeded_are_refused(
    what: str, said: str, tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    for flavour in ("keras", "tf_keras"):
        params = {"flavour": flavour, "what": what}
        train = {"callbacks": "trainer.heard:refused"}
        config = lake.job(tmp_path, "metered", params=params, data=lake.METERED, train=train)
        answer = elsewhere.submit(heard.answer, config).result()
        assert said in answer
        assert answer.startswith("train.callbacks: ") if said else not answer


@pytest.mark.parametrize(
    ("stopping", "kept", "said"),
    [
        ({}, {}, ""),
        ({"monitor": "val_click_auc", "mode": "max"}, {"keep_metric": "click_auc"}, ""),
        ({"monitor": "loss"}, {}, "its monitor loss is of training"),
        ({"monitor": "val_click_auc"}, {}, "its monitor is val_click_auc, and train.keep_metric is loss"),
        ({"min_delta": 0.01}, {}, "its min_delta is 0.01, and the best of all epochs is kept"),
        ({"start_from_epoch": 3}, {}, "its start_from_epoch is 3, and the best of all epochs is kept"),
        ({"mode": "min"}, {"keep_mode": "max"}, "its mode is min, and that of train.keep_mode for loss is max"),
    ],
)
def test_the_weights_that_a_callback_restores_are_those_that_the_run_keeps_or_it_is_refused(
    stopping: dict[str, Any], kept: dict[str, Any], said: str, tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    for flavour in ("keras", "tf_keras") if "mode" not in stopping else ("keras",):
        params = {"flavour": flavour, "what": "restores", "stopping": stopping}
        train = {"callbacks": "trainer.heard:refused", "keep": "best", **kept}
        data = {**lake.METERED, "validation": {"fraction": 0.5}}
        config = lake.job(tmp_path, "metered", params=params, data=data, train=train)
        answer = elsewhere.submit(heard.answer, config).result()
        assert said in answer
        assert answer.startswith("train.callbacks: EarlyStopping restores the best weights, as") if said else not answer
