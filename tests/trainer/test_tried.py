"""`sparktf check --deep`: the model is built in a process of its own, and compared with what it would be fed."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import write_file
from trainer import lake

from sparktf.commands.cli import main
from sparktf.config.load import dump_config
from sparktf.driver.plan.planner import plan_source
from sparktf.errors import ModelContractError
from sparktf.storage.file_systems import open_storage
from sparktf.trainer.tried import known

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
    sets = ("params.loss=mse", "data.validation={fraction: 0.5}", "publish={}", "train.init_from=published")
    line = ["check", config, "--deep", "--master", "local[4]", *(word for text in sets for word in ("--set", text))]
    assert main([*line, "--set", "gate.metrics={loss: {max: 1}}"]) == 0
    out = capsys.readouterr().out
    assert "# model: it is built, takes x, h and learns y; its validation metrics are loss" in out
    assert "# not checked before a run: whether train.init_from: published exists and fits the model" in out
    assert main([*line, "--set", "params.input=z"]) == 2
    assert capsys.readouterr().err == "model: no column feeds the model's input 'z': add data.inputs.z\n"


@pytest.mark.parametrize(
    "sections",
    [
        {"publish": {}, "gate": {"metrics": {"auc": {"max": 1}}}},
        {"train": {"keep": "best", "keep_metric": "auc"}},
        {"train": {"early_stopping": {"metric": "auc"}}},
    ],
    ids=["gate", "keep", "early stopping"],
)
def test_metrics_that_the_configuration_names_are_compared_with_the_models(
    sections: dict[str, Any], tmp_path: Path, elsewhere: ProcessPoolExecutor
) -> None:
    lake.write(tmp_path / "lake", [20])
    data = {**lake.NUMBERS_TO_LABEL, "validation": {"fraction": 0.5}}
    config = lake.job(tmp_path, "normalised", params={"flavour": "keras"}, data=data, **sections)
    spec = plan_source(config, open_storage, None).spec  # type: ignore[arg-type]
    told = {"config": dump_config(config), "spec": spec.model_dump(mode="json")}
    with pytest.raises(ModelContractError, match="auc is not a validation metric of the model: name one of loss, acc"):
        elsewhere.submit(known, told).result()


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
