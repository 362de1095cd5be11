"""When a metric that gets no better ends the training; tests/trainer compares it with Keras's own callback."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sparktf.config.job import JobConfig
from sparktf.config.patience import EarlyStoppingConfig, ReduceLrConfig
from sparktf.errors import ConfigError, ModelContractError
from sparktf.results.keep import EpochLoss, Evaluation, KeepRule, metric_rule
from sparktf.trainer.node.plateau import by_epoch, is_enough, is_reduction_due, plateau_text, standstill

LEAST = KeepRule(metric="loss", mode="min")
MOST = KeepRule(metric="loss", mode="max")


def history(*values: float) -> list[Evaluation]:
    return [Evaluation(epoch=i, step=7 * (i + 1), rows=9, values={"loss": v}) for i, v in enumerate(values)]


def last_epoch(values: tuple[float, ...], rule: KeepRule = LEAST, **settings: Any) -> int | None:
    """Returns the epoch, from 1 on, after which the training ends."""
    config = EarlyStoppingConfig(**settings)
    ends = (n for n in range(1, len(values) + 1) if is_enough(rule, config, history(*values[:n])))
    return next(ends, None)


def test_training_ends_when_patience_is_used_up_and_each_better_value_renews_it() -> None:
    values = (0.9, 0.8, 0.85, 0.7, 0.75, 0.7, 0.71, 0.6)
    assert last_epoch(values, patience=1) == 3
    assert last_epoch(values, patience=3) == 7
    assert last_epoch(values, patience=4) is None
    assert last_epoch(values, MOST, patience=3) == 4


def test_no_patience_is_that_of_one_epoch_and_the_first_epoch_never_ends_it() -> None:
    assert last_epoch((0.5, 0.5), patience=0) == 2
    assert last_epoch((math.nan, math.nan), patience=0) == 2
    assert last_epoch((math.nan,), patience=0) is None


def test_better_by_no_more_than_min_delta_is_no_better() -> None:
    assert last_epoch((0.5, 0.25, 0.125), patience=1, min_delta=0.25) == 2
    assert last_epoch((0.5, 0.125), patience=1, min_delta=0.25) is None
    assert last_epoch((0.5, 0.75, 1.0), MOST, patience=1, min_delta=0.25) == 2


def test_what_has_not_passed_the_baseline_goes_on_using_up_patience() -> None:
    values = (0.9, 0.8, 0.7, 0.75, 0.4)
    assert last_epoch(values, patience=3, baseline=0.5) == 4, "the third is better than the second: it does not end it"
    assert last_epoch(values, patience=3, baseline=0.85) is None


def test_a_value_that_is_no_number_is_never_better_and_any_number_is_better_than_it() -> None:
    assert last_epoch((0.5, math.nan, math.nan), patience=2) == 3
    assert last_epoch((math.nan, math.nan, 0.9, 0.8, 0.7), patience=3) is None


def test_of_an_epoch_that_was_evaluated_twice_the_last_weights_count() -> None:
    first, second = history(0.5, 0.6)
    inside = second.model_copy(update={"step": 10, "values": {"loss": 0.1}})
    assert by_epoch([second, first, inside]) == [first, second]


@pytest.mark.parametrize(
    ("settings", "values", "said"),
    [
        (
            {"min_delta": 0.001},
            (0.5, 0.41, 0.4095, 0.6),
            "val_loss has not improved by 0.001 for 2 epochs; best 0.41 at epoch 2",
        ),
        ({}, (0.5, 0.6), "val_loss has not improved for 1 epoch; best 0.5 at epoch 1"),
        ({"baseline": 0.2}, (0.5, 0.6), "val_loss has not improved beyond 0.2 for 2 epochs; best 0.5 at epoch 1"),
        ({}, (math.nan, math.nan), "val_loss has not improved for 2 epochs; it was never a number"),
    ],
)
def test_the_reason_names_what_was_waited_for_and_what_was_best(
    settings: dict[str, Any], values: tuple[float, ...], said: str
) -> None:
    config, found = EarlyStoppingConfig(**settings), history(*values)
    text = plateau_text("val_loss", config, standstill(LEAST, config, found), len(values) - 1)
    assert text == f"stopped after epoch {len(values)}: {said}"


def test_the_loss_of_an_epoch_is_the_mean_over_its_rows() -> None:
    loss = EpochLoss().add(0.5, 30).add(2.0, 10)
    assert (loss.mean, loss.rows) == (0.875, 40)
    assert math.isnan(EpochLoss().mean)


def reductions(values: tuple[float, ...], **settings: Any) -> list[int]:
    """Returns after which epochs, from 1 on, the learning rate is lowered."""
    config = ReduceLrConfig(**settings)
    return [n for n in range(1, len(values) + 1) if is_reduction_due(LEAST, config, history(*values[:n]))]


def test_the_learning_rate_is_lowered_whenever_patience_is_used_up_anew() -> None:
    assert reductions((0.5,) * 8, patience=2) == [3, 5, 7]
    assert reductions((0.5, 0.6, 0.4, 0.5, 0.5, 0.3), patience=2) == [5]
    assert reductions((0.9, 0.8, 0.7), patience=1) == []
    assert reductions((0.5, 0.375, 0.375), patience=1, min_delta=0.125) == [2, 3]


def test_epochs_of_a_cooldown_use_up_no_patience() -> None:
    assert reductions((0.5,) * 8, patience=1, cooldown=2) == [2, 4, 6, 8]
    assert reductions((0.5,) * 9, patience=2, cooldown=3) == [3, 7]


# ---- the configuration ----


def config(train: dict[str, Any], *, validates: bool = True, **cluster: Any) -> JobConfig:
    held_out = {"validation": {"fraction": 0.1}} if validates else {}
    sections = {"data": {"path": "lake", "inputs": {"x": "x"}, "targets": {"y": "y"}, **held_out}, "cluster": cluster}
    fixed = {"name": "job", "model": "models:build", "output": {"path": "runs"}}
    return JobConfig.model_validate({**fixed, **sections, "train": train})


def test_without_validation_there_is_the_training_loss_alone() -> None:
    assert config({"early_stopping": {"patience": 2}}, validates=False).train.watched().keys() == {
        "train.early_stopping"
    }
    with pytest.raises(ConfigError, match=r"train\.early_stopping\.metric: val_loss is a validation metric: give data"):
        config({"early_stopping": {"metric": "val_loss"}}, validates=False)


def test_an_evaluator_of_its_own_is_refused_because_training_does_not_wait_for_it() -> None:
    with pytest.raises(ConfigError, match=r"train\.early_stopping needs metrics .* set cluster\.evaluator: false"):
        config({"early_stopping": {}}, evaluator=True)


@pytest.mark.parametrize("wrong", [{"factor": 1}, {"factor": 0}, {"min_lr": -1}, {"cooldown": -1}])
def test_a_factor_that_lowers_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"train\.reduce_lr_on_plateau\.{next(iter(wrong))}"):
        config({"reduce_lr_on_plateau": wrong})


@pytest.mark.parametrize("wrong", [{"patience": -1}, {"min_delta": -0.1}, {"min_delta": math.inf}, {"patients": 3}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"train\.early_stopping\.{next(iter(wrong))}"):
        config({"early_stopping": wrong})


def test_a_metric_that_the_model_does_not_have_is_refused_by_its_key() -> None:
    keys = ("train.early_stopping.metric", "train.early_stopping.mode")
    with pytest.raises(ModelContractError, match=r"train\.early_stopping\.metric: val_auc is not a validation metric"):
        metric_rule("val_auc", "auto", ["loss"], keys)
    with pytest.raises(ModelContractError, match=r"train\.early_stopping\.mode: auto cannot tell whether churn"):
        metric_rule("churn", "auto", ["loss", "churn"], keys)


def test_what_a_loop_of_the_users_own_does_not_do_is_known_by_its_keys() -> None:
    train = {"keep": "best", "early_stopping": {}, "reduce_lr_on_plateau": {}, "max_seconds": 60, "callbacks": "m:f"}
    train["init_from"] = "published"
    assert config(train).train.only_for_built_models() == (
        "train.keep: best",
        "train.early_stopping",
        "train.reduce_lr_on_plateau",
        "train.callbacks",
        "train.max_seconds",
        "train.init_from",
    )
    assert config({"epochs": 3, "max_steps": 7}).train.only_for_built_models() == ()
