"""Which weights are the best, and which checkpoints therefore stay."""

from __future__ import annotations

import math

import pytest

from sparktf.config.train import TrainConfig
from sparktf.errors import ModelContractError
from sparktf.results.keep import Evaluation, KeepRule, keep_rule, merged_evaluations

METRICS = ("loss", "label_loss", "label_accuracy", "click_auc", "churn", "error_accuracy")


def evaluation(step: int, **values: float) -> Evaluation:
    return Evaluation(epoch=step // 10, step=step, rows=100, values=values)


@pytest.mark.parametrize(
    ("metric", "mode", "meant"),
    [
        ("loss", "auto", ("loss", "min")),
        ("val_loss", "auto", ("loss", "min")),
        ("val_label_accuracy", "auto", ("label_accuracy", "max")),
        ("click_auc", "auto", ("click_auc", "max")),
        ("error_accuracy", "auto", ("error_accuracy", "max")),
        ("click_auc", "min", ("click_auc", "min")),
        ("churn", "max", ("churn", "max")),
    ],
)
def test_the_metric_and_its_direction_are_those_that_keras_takes(
    metric: str, mode: str, meant: tuple[str, str]
) -> None:
    config = TrainConfig.model_validate({"keep": "best", "keep_metric": metric, "keep_mode": mode})
    rule = keep_rule(config, METRICS)
    assert rule is not None
    assert (rule.metric, rule.mode) == meant


def test_without_keep_there_is_no_rule() -> None:
    assert keep_rule(TrainConfig(keep_metric="whatever"), METRICS) is None


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (
            "val_acuracy",
            "train.keep_metric: val_acuracy is not a validation metric of the model: name one of loss, label_loss",
        ),
        ("churn", "train.keep_mode: auto cannot tell whether churn should be small or large: set min or max"),
    ],
)
def test_a_metric_that_cannot_be_compared_by_is_refused(metric: str, message: str) -> None:
    with pytest.raises(ModelContractError, match=message):
        keep_rule(TrainConfig(keep="best", keep_metric=metric), METRICS)


def test_the_best_is_the_first_of_the_best_values_and_never_nan() -> None:
    least, most = KeepRule(metric="loss", mode="min"), KeepRule(metric="loss", mode="max")
    found = [
        evaluation(10, loss=math.nan),
        evaluation(20, loss=0.5),
        evaluation(30, loss=0.5),
        evaluation(40, loss=0.7),
    ]
    assert least.best(found) == found[1]
    assert most.best(reversed(found)) == found[3]
    assert least.best(found[:1]) is None
    assert least.best([evaluation(10, accuracy=1.0)]) is None


def test_what_is_evaluated_again_counts_as_it_was_the_last_time() -> None:
    first, again, later = evaluation(10, loss=0.5), evaluation(10, loss=0.4), evaluation(20, loss=0.3)
    assert merged_evaluations([first, later, again]) == (again, later)
    assert merged_evaluations([later, first], until_step=10) == (first,)
    restored = Evaluation.model_validate_json(evaluation(10, loss=math.nan).model_dump_json())
    assert math.isnan(restored.values["loss"])
