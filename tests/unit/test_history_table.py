"""The result of `train()` and its history, as programs and notebooks see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparktf.api.history_table import history_of, in_digits
from sparktf.api.trained import TrainedRun
from sparktf.errors import ModelContractError, Verdict
from sparktf.results.events import MetricsSeen
from sparktf.results.result import RunResult
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage
from sparktf.topology import NodeId, Role


def seen(stream: Stream, epoch: int, step: int, **values: float) -> MetricsSeen:
    return MetricsSeen(
        attempt=1, node=NodeId(role=Role.CHIEF, index=0), stream=stream, epoch=epoch, step=step, rows=7, values=values
    )


HISTORY = (
    seen(Stream.VALIDATION, -1, 0, loss=9.0, mae=3.0),
    seen(Stream.TRAIN, 0, 1200, loss=2.5, mae=1.25, learning_rate=0.1),
    seen(Stream.VALIDATION, 0, 1200, loss=2.0, mae=1.0),
    seen(Stream.TRAIN, 1, 2400, loss=0.000012345, mae=12345.678, learning_rate=0.1),
    seen(Stream.VALIDATION, 1, 2400, loss=float("nan"), mae=0.5),
)


def test_a_history_has_keras_names_and_the_metrics_of_training_before_those_of_held_out_rows() -> None:
    history = history_of(HISTORY)
    assert list(history.columns) == ["epoch", "step", "loss", "mae", "learning_rate", "val_loss", "val_mae"]
    assert list(history["epoch"]) == [0, 1, 2]
    assert list(history["loss"])[1:] == [2.5, 0.000012345]
    assert type(history[["loss"]]).__name__ == "DataFrame"
    assert history_of([]).empty


def test_a_history_shows_digits_that_count_and_no_index() -> None:
    history = history_of(HISTORY)
    lines = repr(history).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["0", "0", "9", "3"],
        ["1", "1,200", "2.5", "1.25", "0.1", "2", "1"],
        ["2", "2,400", "1.234e-05", "12,346", "0.1", "0.5"],
    ]
    shown = history._repr_html_()
    assert shown.count("<tr") == 4
    assert "<th>val_mae</th>" in shown
    assert "<td>2,400</td>" in shown


@pytest.mark.parametrize(("value", "told"), [(0.123456, "0.1235"), (1e9, "1,000,000,000"), (float("nan"), "")])
def test_a_metric_has_four_digits(value: float, told: str) -> None:
    assert in_digits(value) == told


def run(tmp_path: Path, **fields: Any) -> TrainedRun:
    result = RunResult(run_id="r-1", name="<churn>", verdict=Verdict.DONE, duration_s=12.3, steps=1, epochs=2, **fields)
    return TrainedRun.of(result, open_storage(str(tmp_path)))


def test_a_result_shows_what_one_looks_for_first(tmp_path: Path) -> None:
    metrics = {"validation": {"loss": 0.5}, "train": {"loss": 0.25, "mae": 0.125}}
    found = run(tmp_path, metrics=metrics, model="/runs/churn/r-1/model", rows_trained=4000, warnings=("w",))
    assert repr(found) == (
        "<TrainedRun <churn> / r-1: done in 12.3 s; loss 0.25, mae 0.125, val_loss 0.5, trained 2 epochs, 1 update, "
        "4,000 rows, warnings 1, model /runs/churn/r-1/model>"
    )
    shown = found._repr_html_()
    assert "&lt;churn&gt; / r-1: done in 12.3 s" in shown
    assert "<th>training</th><th>validation</th>" in shown
    assert "<tr><th>mae</th><td>0.125</td><td></td></tr>" in shown
    assert "<churn>" not in shown


def test_a_result_of_another_program_is_not_evaluated(tmp_path: Path) -> None:
    with pytest.raises(ModelContractError, match=r"evaluate needs the result of a train\(\) of this program"):
        run(tmp_path, model="/m").evaluate(None)
