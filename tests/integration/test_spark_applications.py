"""Several runs, one after the other, in one application; test_spark_resume has two applications at the same time."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from integration.application import Application
from integration.rows import job
from split import only

from sparktf import Verdict

SINGLE = {"strategy": "single", "workers": 1}


def test_a_cluster_trains_again_on_the_agents_it_has_with_more_where_a_run_asks_for_them_also_after_one_that_failed(
    local: Application, rows: Path
) -> None:
    wide = job(rows, local.sandbox.runs, "cases.watched:build", name="wide")
    bad = job(rows, local.sandbox.runs, "cases.failing:build", name="bad")
    narrow = {**wide, "cluster": SINGLE}
    first, second, failed, third, fourth = local.train_together(narrow, wide, bad, wide, narrow)
    assert (failed.error, failed.verdict) == ("ModelError", Verdict.MODEL_FAILED)
    good = (first, second, third, fourth)
    assert [[attempt.workers for attempt in outcome.done.attempts] for outcome in good] == [[1], [2], [2], [1]]
    assert [outcome.done.rows_trained for outcome in good] == [600] * 4
    assert len({outcome.done.run_id for outcome in good}) == 4
    waited = ["waiting for nodes" in outcome.output for outcome in (first, second, failed, third, fourth)]
    assert waited == [True, True, False, False, False], "there are enough"
    assert not local.family.trainers()


@pytest.mark.parametrize("shipped", only("by --py-files", of=["beside the script", "by --py-files"]))
def test_prepare_makes_assets_that_reach_the_model_and_its_export(
    local: Application, rows: Path, tmp_path: Path, shipped: str
) -> None:
    model, name = "cases.prepared:build", shipped.replace(" ", "-")
    if shipped == "by --py-files":
        with zipfile.ZipFile(tmp_path / "code.zip", "w") as code:
            code.write(Path(__file__).parent / "cases/prepared.py", "zipped_model.py")
        local.add_py_file(tmp_path / "code.zip")
        model = "zipped_model:build"
    config = job(rows, local.sandbox.runs, model, name=name, params={"columns": ["a", "b"]}, cluster=SINGLE)
    done = local.train(config, "r", own_gang=shipped == "by --py-files").done
    run = local.run(config, done.run_id)
    assets = json.loads((run.path / "assets.json").read_bytes())
    table = pq.read_table(rows)
    a, b = (table.column(name).to_numpy().astype(np.float64) for name in "ab")
    assert assets["rows"] == len(table)
    np.testing.assert_allclose(assets["mean"], [a.mean(), b.mean()], rtol=1e-6)
    np.testing.assert_allclose(assets["deviation"], [a.std(), b.std()], rtol=1e-6)
    assert json.loads((run.model / "assets.json").read_bytes()) == assets
    with zipfile.ZipFile(run.model / "model.keras") as archive:
        layers = json.loads(archive.read("config.json"))["config"]["layers"]
    (normalization,) = (layer["config"] for layer in layers if layer["class_name"] == "Normalization")
    np.testing.assert_allclose(normalization["mean"], assets["mean"], rtol=1e-6)


WORDS = """
from pathlib import Path

def words():
    return (Path(__file__).parent / "words.txt").read_text().split()
"""

WORDY = """
import keras
from wordy_words import words

def prepare(df, params):
    from pyspark.sql import functions as f

    count = f.udf(lambda _: len(words()), "int")
    return {"here": words(), "on_executors": df.agg(f.min(count("id"))).first()[0]}

def build(params, assets):
    if words() != assets["here"]:
        raise ValueError(f"other words: {words()}")
    inputs = {"id": keras.Input((), dtype="int64", name="id"), "x": keras.Input((2,), name="x")}
    model = keras.Model(inputs, keras.layers.Dense(1, name="y")(inputs["x"]))
    model.compile("sgd", "mse")
    return model
"""


def test_code_beside_the_configuration_brings_its_modules_and_data_files_to_executors_and_trainers(
    cluster: Application, rows: Path, tmp_path: Path
) -> None:
    for name, text in {"wordy.py": WORDY, "wordy_words.py": WORDS, "words.txt": "b a c"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    config = job(rows, cluster.sandbox.runs, "wordy:build", name="wordy", cluster=SINGLE)
    run = cluster.run(config, cluster.train(config, "r", beside=tmp_path).done.run_id)
    assert json.loads((run.path / "assets.json").read_bytes()) == {"here": ["b", "a", "c"], "on_executors": 3}
    nowhere = cluster.train(config, "s")
    assert (nowhere.error, nowhere.verdict) == ("ConfigError", Verdict.REFUSED)
    assert "model: there is no module wordy in the working folder" in nowhere.message
