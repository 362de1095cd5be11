"""`sparktf check --deep`: the model is built in a process of its own, and compared with what it would be fed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lakes import write_file

from sparktf.cli import main

CONFIG = "name: n\nmodel: leaf:build\ndata: {path: LAKE, inputs: {x: x}, targets: {y: y}}\noutput: {path: RUNS}\n"
MODEL = """
import keras

def build(params, assets):
    x = keras.Input((), name=params.get("input", "x"))
    h = keras.Input((), name="h")
    y = keras.layers.Dense(1, name="y")(keras.ops.stack([x, h], axis=-1))
    model = keras.Model({x.name: x, "h": h}, {"y": y})
    model.compile("sgd", {"y": params["loss"]})
    return model
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("SPARK_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    write_file(tmp_path / "lake/part-0.parquet", pa.table({"x": [1.0, 2.0], "h": [1.0, 2.0], "y": [0.0, 1.0]}))
    (tmp_path / "leaf.py").write_text(MODEL, encoding="utf-8")
    text = CONFIG.replace("LAKE", str(tmp_path / "lake")).replace("RUNS", str(tmp_path / "runs"))
    (tmp_path / "c.yaml").write_text(text.replace("{x: x}", "{x: x, h: h}"), encoding="utf-8")
    return str(tmp_path / "c.yaml")


def test_a_model_is_built_and_its_names_are_compared(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["check", config, "--deep", "--master", "local[4]", "--set", "params.loss=mse"]
    assert main(line) == 0
    assert "# model: it is built, takes x, h and learns y" in capsys.readouterr().out
    assert main([*line, "--set", "params.input=z"]) == 2
    assert capsys.readouterr().err == "model: no column feeds the model's input 'z': add data.inputs.z\n"


def test_metrics_that_the_configuration_names_are_compared_with_the_models(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = ("params.loss=mse", "data.validation={fraction: 0.5}", "publish={}", "train.init_from=published")
    line = ["check", config, "--deep", "--master", "local[4]", *(word for text in sets for word in ("--set", text))]
    assert main([*line, "--set", "gate.metrics={loss: {max: 1}}"]) == 0
    out = capsys.readouterr().out
    assert "takes x, h and learns y; its validation metrics are loss" in out
    assert "# not checked before a run: whether train.init_from: published exists and fits the model" in out
    for wrong in ("gate.metrics={auc: {max: 1}}", "train.keep_metric=auc", "train.early_stopping={metric: auc}"):
        also = ["--set", "train.keep=best"] if "keep" in wrong else []
        assert main([*line, *also, "--set", wrong]) == 2
        assert "auc is not a validation metric of the model: name one of loss" in capsys.readouterr().err


def test_what_the_models_code_raises_is_its_error_unless_it_waits_for_what_prepare_returns(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["check", config, "--deep", "--master", "local[4]"]
    assert main(line) == 1
    assert capsys.readouterr().err == "model: KeyError: 'loss'\n"
    (tmp_path / "leaf.py").write_text(f"{MODEL}\ndef prepare(df, params): ...\n", encoding="utf-8")
    assert main(line) == 0
    left = "whether the model takes data.inputs and learns data.targets"
    why = "the model was not built, since prepare did not run"
    assert f"# not checked before a run: {left} ({why}: model: KeyError: 'loss')" in capsys.readouterr().out
