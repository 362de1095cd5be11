"""A real notebook: functions of its cells train, a cell that fails or is interrupted leaves the others usable."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from typing import Any

import nbformat
import pytest
from integration.sandbox import Sandbox
from nbclient import NotebookClient

SESSION = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
import keras
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from sparktf import Cluster, train
builder = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false")
spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
numbers = spark.range(2000).select((f.col("id") % 7 / 7).alias("a"), (f.col("id") % 5 / 5).alias("b"))
df = numbers.withColumn("y", 2 * f.col("a") - f.col("b") + 1)
given = dict(inputs=["a", "b"], targets="y", batch_size=100)
rate = 0.2
"""

MODEL = """
def layer():
    return keras.layers.Dense(1, name="y")

def build(params, assets):
    if params.get("fails"):
        raise ValueError("no such model")
    print("built at", rate)
    x = keras.Input((2,), name="x")
    model = keras.Model(x, layer()(x))
    model.compile(keras.optimizers.SGD(rate), "mse", metrics=["mae"])
    return model
"""

TRAIN = """
callbacks = [
    keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2 if epoch else rate),
    keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: print("heard of", sorted(logs))),
]
settings = {"train": {"epochs": 9, "seed": 1}, "validation": {"fraction": 0.25}}
result = train(spark, settings, df, model=build, epochs=3, callbacks=callbacks, **given)
result.plot()
"""

SHOWN = ("result", "result.history", "print(repr(result), result.history)")

LOOK = """
history = result.history
assert list(history["epoch"]) == [1, 2, 3], history
assert list(history.columns) == ["epoch", "step", "loss", "mae", "learning_rate", "val_loss", "val_mae"], history
assert [round(rate, 6) for rate in history["learning_rate"]] == [0.2, 0.1, 0.05], history
assert history["mae"].iloc[-1] < history["mae"].iloc[0]
assert history["val_loss"].iloc[-1] < history["val_loss"].iloc[0]
trained = result.keras_model()
kernel = trained.get_weights()[0][:, 0]
rows = df.toPandas()
told = trained.evaluate(rows[["a", "b"]].to_numpy(), rows[["y"]].to_numpy(), verbose=0, return_dict=True)
for data in (df, rows):
    found = result.evaluate(data)
    assert found.keys() == told.keys(), found
    assert all(abs(found[name] - told[name]) < 1e-5 for name in told), (found, told)
try:
    result.evaluate(df.drop("a"))
except LookupError as error:
    assert "input inputs" in str(error), error
first = result.model.transform(df).orderBy("a", "b").first()
assert abs(float(first.prediction) - 1) < 0.5, first
print("looked at", [round(float(w), 1) for w in kernel])
"""

FAILS = """train(spark, df, model=build, params={"fails": True}, **given)"""
LONG = """train(spark, df, model=build, epochs=100_000, **given)"""

AGAIN = """
with Cluster(spark, workers=2) as cluster:
    first = cluster.train(df, model=build, epochs=1, **given)
    rate = 0.01
    second = cluster.train(df, model=lambda params, assets: build(params, assets), epochs=1, **given)
    third = cluster.train(df, model=build, init_from=first, epochs=1, **given)
    rows["c"] = (rows["y"] > 1).astype(int)
    x = keras.Input((2,), name="numbers")
    compiled = keras.Model(x, keras.layers.Dense(2, "softmax")(x))
    compiled.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    fourth = cluster.train(rows, model=compiled, class_weight={1: 0.0}, inputs=["a", "b"], targets="c", epochs=1)
assert first.run_id != second.run_id
assert len(first.attempts[0].nodes) == 2
losses = [float(run.history["loss"].iloc[0]) for run in (first, second, third)]
assert losses[0] < losses[1] and losses[2] < losses[0], losses
assert third.carried.optimizer and not third.carried.left, third.carried
share = (rows["c"] == 0).mean()
before = compiled.evaluate(rows[rows["c"] == 0][["a", "b"]].to_numpy(), rows[rows["c"] == 0]["c"], verbose=0)
assert abs(fourth.history["loss"].iloc[0] - share * before[0]) < 0.05, (fourth.history, share, before)
spark.stop()
"""


class Notebook:
    """A notebook's kernel, cell by cell."""

    def __init__(self, client: NotebookClient, notebook: Any) -> None:
        self._client = client
        self._notebook = notebook

    def run(self, source: str) -> Any:
        """Returns the cell, executed, whether or not it has failed."""
        new_cell: Any = nbformat.v4.new_code_cell
        cell = new_cell(source)
        self._notebook.cells.append(cell)
        return self._client.execute_cell(cell, len(self._notebook.cells) - 1)

    def interrupt(self) -> None:
        """Does what the button does: the signal goes to the kernel's process group, and so to the JVM too."""
        kernel: Any = self._client.km
        os.killpg(os.getpgid(kernel.provisioner.process.pid), signal.SIGINT)


def shown(cell: Any) -> str:
    """Returns all that a cell shows, as text."""
    parts = []
    for output in cell.outputs:
        data: Mapping[str, str] = output.get("data", {})
        parts += [output.get("text", ""), data.get("text/plain", ""), "\n".join(output.get("traceback", []))]
    return "\n".join(parts)


def failed(cell: Any) -> str:
    """Returns the name of what a cell has raised; "" for nothing."""
    return next((str(output.ename) for output in cell.outputs if output.output_type == "error"), "")


@pytest.mark.timeout(300)
def test_cells_train_their_functions_and_outlive_what_fails_and_what_is_interrupted(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"JUPYTER_RUNTIME_DIR": sandbox.folder, "IPYTHONDIR": sandbox.folder / "ipython"}
    for name, value in {**sandbox.environment(), **kept}.items():
        monkeypatch.setenv(name, str(value))
    new_notebook: Any = nbformat.v4.new_notebook
    notebook = new_notebook()
    client = NotebookClient(
        notebook, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(sandbox.cwd)}}
    )
    with client.setup_kernel():
        cells = Notebook(client, notebook)
        for source in (SESSION, MODEL):
            assert not failed(cells.run(source)), shown(notebook.cells[-1])

        trained = cells.run(TRAIN)
        assert not failed(trained), shown(trained)
        assert "output.path is not set: the run is written to" in shown(trained)
        assert trained.outputs[-1].data["image/png"]
        assert "built at 0.2" in shown(trained)
        assert "heard of ['learning_rate', 'loss', 'mae', 'val_loss', 'val_mae']" in shown(trained)
        assert "looked at" in shown(cells.run(LOOK)), shown(notebook.cells[-1])
        card, table, text = (cells.run(source) for source in SHOWN)
        for cell, words in ((card, "3 epochs"), (table, "val_mae")):
            assert words in cell.outputs[-1].data["text/html"]
        assert "<TrainedRun build / " in shown(text)

        refused = cells.run(FAILS)
        assert failed(refused) == "ModelError"
        [told] = [output for output in refused.outputs if output.output_type == "error"]
        assert 'no such model (cell:6 in build: raise ValueError("no such model"))' in told.evalue
        assert shown(refused).count('raise ValueError("no such model")') >= 2, "the line stands in the traceback, too"
        assert len("\n".join(told.traceback).splitlines()) < 30, "\n".join(told.traceback)
        assert "sparktf/driver" not in shown(refused)

        stop = threading.Event()

        def interrupt() -> None:
            while not stop.wait(0.2):
                said = shown(notebook.cells[-1])
                if "epoch 2/" in said or "epoch 3/" in said:
                    cells.interrupt()
                    return

        watcher = threading.Thread(target=interrupt)
        watcher.start()
        interrupted = cells.run(LONG)
        stop.set()
        watcher.join()
        assert failed(interrupted) == "KeyboardInterrupt", shown(interrupted)
        assert not sandbox.family.trainers()

        again = cells.run(AGAIN)
        assert not failed(again), shown(again)
    assert not sandbox.family.wait()
