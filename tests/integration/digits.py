"""The example on handwritten digits: its configurations, and what a run of it must come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import yaml
from integration.sandbox import REPO, RunFolder
from integration.serving import predict

from sparktf import Verdict
from sparktf.results.events import MetricsSeen

EPOCHS = 20
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


def assert_is_a_whole_result(run: RunFolder, epochs: int = EPOCHS) -> None:
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
    seen = run.events(MetricsSeen)
    assert [event.rows for event in seen if event.stream == "train"] == [TRAINED] * epochs
    assert [event.rows for event in seen if event.stream == "validation"] == [HELD_OUT] * epochs
