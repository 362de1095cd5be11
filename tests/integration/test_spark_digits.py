"""The whole path on real data: what `make train` does, through spark-submit and on executors of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import yaml
from integration.application import Application
from integration.sandbox import REPO, RunFolder, Sandbox
from integration.serving import predict
from integration.submit import Submit

from sparktf import Verdict
from sparktf.events import MetricsSeen

TRAINED, HELD_OUT = 1438, 359


def digits_job(lake: Path, runs: Path, example: str = "digits.yaml", **sections: dict[str, Any]) -> dict[str, Any]:
    """Returns the configuration of an example over another lake; `sections` are merged into its own."""
    config: dict[str, Any] = yaml.safe_load((REPO / "jobs/conf" / example).read_text())
    config["data"]["path"], config["output"]["path"] = str(lake), str(runs)
    return {**config, **{name: {**config[name], **section} for name, section in sections.items()}}


def accuracy_in_a_fresh_process(model: Path, lake: Path, folder: Path) -> float:
    """Returns the share of all digits that an exported model names rightly, by both of its forms."""
    table = ds.dataset(lake, partitioning="hive").to_table()
    pixels = np.stack([table.column(f"pixel_{i}").to_numpy() for i in range(64)], axis=1)
    named = predict(model, folder, pixels=pixels)["label"].argmax(axis=1)
    return float((named == table.column("label").to_numpy()).mean())


def assert_is_a_whole_result(run: RunFolder, epochs: int) -> None:
    """Asserts that result.json says what happened, and that all it names is there."""
    result = run.result()
    assert result.verdict is Verdict.DONE
    assert result.error is None
    assert result.epochs == epochs
    assert [(e.epoch, e.planned, e.fed, e.trained, e.complete) for e in result.rows] == [
        (epoch, TRAINED, TRAINED, TRAINED, True) for epoch in range(epochs)
    ]
    assert result.rows_trained == epochs * TRAINED
    assert len(result.attempts) == 1
    assert result.metrics["validation"]["accuracy"] >= 0.95
    assert result.model == str(run.model)
    assert run.committed()[-1] == result.steps
    assert len(run.committed()) == 3
    assert result.checkpoint.endswith(f"step-{result.steps:012d}")
    assert {"tensorflow", "keras", "python"} <= result.versions.keys()
    assert list(run.tensorboard.rglob("events.out.tfevents.*"))
    assert [event.rows for event in run.events(MetricsSeen)] == [HELD_OUT] * epochs


def test_digits_train_through_spark_submit_and_the_model_predicts_in_a_fresh_process(
    sandbox: Sandbox, digits: Path, tmp_path: Path
) -> None:
    submit = Submit(sandbox, "local[4]", digits_job(digits, sandbox.runs), "--date", "2026-11-20")
    assert submit.wait(within_s=120) == 0
    run = submit.run("2026-11-20")
    assert_is_a_whole_result(run, epochs=20)
    shown = "\n".join(submit.output())
    assert "epoch 20/20" in shown
    assert str(run.model) in shown
    assert f"{20 * TRAINED:,} planned, {20 * TRAINED:,} fed, {20 * TRAINED:,} trained" in shown
    assert "Traceback" not in shown
    assert accuracy_in_a_fresh_process(run.model, digits, tmp_path) >= 0.95
    assert not sandbox.family.wait()
    assert not sandbox.leftovers()


def test_the_example_of_a_hand_written_loop_trains(local: Application, digits: Path, tmp_path: Path) -> None:
    config = digits_job(digits, local.sandbox.runs, "digits_loop.yaml", train={"epochs": 4})
    result = local.train(config, "r", own_gang=True).done
    assert [(e.planned, e.fed, e.trained) for e in result.rows] == [(TRAINED + HELD_OUT,) * 3] * 4
    assert accuracy_in_a_fresh_process(Path(result.model), digits, tmp_path) >= 0.8


def test_digits_train_on_three_executors(cluster: Application, digits: Path) -> None:
    config = digits_job(digits, cluster.sandbox.runs, cluster={"workers": 3})
    outcome = cluster.train(config, "three")
    assert len(set(outcome.done.attempts[0].hosts)) == 1
    assert outcome.done.attempts[0].workers == 3
    assert_is_a_whole_result(cluster.run(config, "three"), epochs=20)
    assert not cluster.family.trainers()
