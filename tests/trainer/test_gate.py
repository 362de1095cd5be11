"""What the gate finds of two models, beside what plain Keras says of each."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from split import only
from trainer import champions, lake, reference
from trainer.local_gang import LocalGang

from sparktf.clock import SystemClock
from sparktf.config.job import JobConfig
from sparktf.driver.plan.plan import Plan
from sparktf.errors import GatedError
from sparktf.hadoop import HadoopConf
from sparktf.nightly.night import Night
from sparktf.results.comparison import Difference
from sparktf.statistics.column_statistics import TableStatistics
from sparktf.storage.file_systems import FileSystems

HELD_OUT = [350, 20]
"""Rows of the files that are held out: of two workers one gets little."""

ALONE = {"strategy": "single"}
TWO_WORKERS = {"strategy": "multi_worker_mirrored", "workers": 2}
SERVED = {"strategy": "parameter_server", "workers": 1, "ps": 1}


@pytest.fixture
def night() -> Night:
    """What a run does beside training, on this machine's file system."""

    def measure(config: JobConfig, plan: Plan) -> TableStatistics:
        raise NotImplementedError

    return Night(FileSystems(HadoopConf.from_environment()), SystemClock(), measure)


def gated(folder: Path, flavour: str, cluster: dict[str, Any], gate: dict[str, Any], **train: Any) -> JobConfig:
    """Returns the configuration of a model with metrics of several kinds on two outputs, and penalties."""
    return lake.job(
        folder,
        "metered",
        cluster=cluster,
        params={"flavour": flavour},
        data={**lake.METERED, "validation": {"path": str(folder / "held-out")}},
        train={"batch_size": 64, "epochs": 1, "validation_batch_size": 100, **train},
        publish={},
        gate=gate,
    )


def sliced(folder: Path, column: str, value: int) -> str:
    """Writes the held-out rows that have a value apart, and returns where."""
    rows = pq.read_table(folder / "held-out")
    target = folder / f"{column}-{value}"
    target.mkdir()
    pq.write_table(rows.filter(pc.equal(rows[column], pa.scalar(value))), target / "rows.parquet")
    return str(target)


@pytest.mark.parametrize(
    ("flavour", "cluster"), only(("keras", TWO_WORKERS), of=[("keras", TWO_WORKERS), ("tf_keras", SERVED)])
)
def test_models_are_what_keras_says_of_them_on_all_rows_and_on_slices_and_one_out_of_bounds_is_kept_back(
    flavour: str,
    cluster: dict[str, Any],
    tmp_path: Path,
    gang: LocalGang,
    elsewhere: ProcessPoolExecutor,
    night: Night,
) -> None:
    lake.write(tmp_path / "lake", [300, 100])
    lake.write(tmp_path / "held-out", HELD_OUT, seed=7)
    # An evaluator compares the last weights, which the chief exports.
    config = gated(tmp_path, flavour, {**ALONE, "evaluator": True}, {"metrics": {"click_auc": {"min": 0.01}}})
    first = gang.train(config, night, "1")
    assert first.comparison is not None
    assert first.comparison.reason == "nothing is published to compare with, and the model is within its bounds"
    (difference,) = first.comparison.differences
    assert (first.extra["published"], difference.finding, difference.rows) == (1, "good", sum(HELD_OUT))
    held_out = str(tmp_path / "held-out")
    said = elsewhere.submit(reference.evaluate, config, held_out, f"{first.model}/model.keras").result()
    assert difference.challenger == pytest.approx(said["click_auc"], abs=1e-5)

    metrics = {"loss": {"max": 100}, "val_click_auc": {"tolerance": 1}, "label_accuracy": {}, "click_mse": {}}
    # Of the slices one alone has rows enough to be resampled, which takes long.
    commonest, few, alone = commonest_slice(tmp_path)
    gate = {"metrics": metrics, "slices": ["label"], "min_rows": pq.read_table(alone).num_rows}
    # The weights of the best epoch are exported, so that the gate looks at the rows apart from what is evaluated.
    config = gated(tmp_path, flavour, cluster, gate, epochs=2, keep="best")
    result = gang.train(config, night, "2")
    found = result.comparison
    assert found is not None
    assert (found.promote, found.champion, found.champion_problem) == (True, "version 1", "")
    assert result.extra["published"] == 2
    models = [f"{result.model}/model.keras", str(first_version(tmp_path) / "model.keras")]
    evaluated = elsewhere.submit(reference.evaluate_each, config, [held_out, alone], models).result()
    for name, where, (ours, theirs) in zip(("", commonest), (held_out, alone), evaluated, strict=True):
        rows = pq.read_table(where).num_rows
        shown = {d.metric: d for d in found.differences if d.slice == name}
        assert {d.rows for d in shown.values()} == {rows}
        for metric in ("click_auc", "label_accuracy", "click_mse"):
            assert shown[metric].challenger == pytest.approx(ours[metric], abs=1e-5), (name, metric)
            assert shown[metric].champion == pytest.approx(theirs[metric], abs=1e-5), (name, metric)
        assert shown["loss"].challenger == pytest.approx(ours["loss"], abs=1e-5)
        assert surrounds(shown["click_auc"])
    told = [(d.slice, d.finding == "too few rows") for d in found.differences if d.metric == "loss"]
    assert told[1:] == [(commonest, False), *((name, True) for name in few)]

    # Version 1 is made the better of the two: it is looked at besides, on the same rows. The model is out of bounds.
    auc = next(d for d in found.differences if d.metric == "click_auc")
    assert auc.champion is not None
    mode = "max" if auc.champion > auc.challenger else "min"
    gate = {"metrics": {"val_click_auc": {"tolerance": 1, "mode": mode, "min": 1.0}}}
    says = r"click_auc 0\.\d+ is not within gate.metrics.click_auc: min: 1"
    for _ in range(2):  # submitted again, it says the same
        with pytest.raises(GatedError, match=says) as error:
            gang.train(gated(tmp_path, flavour, ALONE, gate, epochs=3), night, "3")
    assert "out of bounds" in gang.output.getvalue()
    assert sorted(path.name for path in first_version(tmp_path).parent.iterdir() if path.is_dir()) == ["1", "2"]
    # Of the last epoch the gate's pass is the evaluation: nothing is evaluated twice.
    gated_run = error.value.result
    assert [(e.epoch, e.rows) for e in gated_run.validation] == [(epoch, sum(HELD_OUT)) for epoch in range(3)]
    third = gated_run.comparison
    assert third.differences[0].challenger == gated_run.validation[-1].values["click_auc"]
    assert (third.champion, third.anchor and third.anchor.label) == ("version 2", "version 1, the best of the last 7")
    assert third.differences[0].champion == pytest.approx(auc.challenger, abs=1e-5)
    (beside,) = third.anchor.differences
    assert (beside.challenger, beside.rows) == (third.differences[0].challenger, sum(HELD_OUT))
    assert beside.champion == pytest.approx(auc.champion, abs=1e-5)
    assert surrounds(beside, -1 if mode == "min" else 1)


def first_version(folder: Path) -> Path:
    return folder / "runs/job/serving/1"


def test_a_champion_that_does_not_fit_is_told_of_by_name(tmp_path: Path, elsewhere: ProcessPoolExecutor) -> None:
    found = elsewhere.submit(
        champions.problems,
        str(tmp_path),
        {
            "the same": {},
            "an input that it does not know": {"inputs": {**champions.INPUTS, "z": ("float32", (1,))}},
            "an input less": {"inputs": {"x": ("float32", (2,))}},
            "an input of another shape": {"inputs": {**champions.INPUTS, "x": ("float32", (3,))}},
            "an input of another type": {"inputs": {**champions.INPUTS, "x": ("int64", (2,))}},
            "more classes": {"outputs": 3},
            "a file that is torn": {"damage": "saved_model.pb"},
        },
    ).result()
    assert found.pop("a file that is torn").startswith("it does not load: ")
    assert found == {
        "the same": "",
        "an input that it does not know": "",
        "an input less": "it needs the input colour, which data.inputs does not have any more",
        "an input of another shape": "its input x is float32 [batch, 2], and data.inputs brings float32 [batch, 3]",
        "an input of another type": "its input x is float32 [batch, 2], and data.inputs brings int64 [batch, 2]",
        "more classes": "its output y has the shape (1,), and the new model's has (3,)",
    }


def surrounds(difference: Difference, sign: int = 1) -> bool:
    """Whether the interval has the difference that was seen in it, and is not a point.

    Args:
        sign: -1 where less is better.
    """
    assert difference.low is not None
    assert difference.high is not None
    assert difference.champion is not None
    return difference.low < sign * (difference.challenger - difference.champion) < difference.high


def commonest_slice(folder: Path) -> tuple[str, list[str], str]:
    """Returns the commonest label of the held-out rows, the others by their rows, and where its rows are."""
    labels = pq.read_table(folder / "held-out")["label"].value_counts().to_pylist()
    first, *others = (found["values"] for found in sorted(labels, key=lambda found: -found["counts"]))
    return f"label={first}", [f"label={other}" for other in others], sliced(folder, "label", first)
