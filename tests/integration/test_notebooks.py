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
given = dict(inputs={"x": ["a", "b"]}, targets={"y": "y"}, batch_size=100)
rate = 0.2
"""

MODEL = """
def layer():
    return keras.layers.Dense(1, name="y")

def build(params, assets):
    if params.get("fails"):
        raise ValueError("no such model")
    x = keras.Input((2,), name="x")
    model = keras.Model(x, layer()(x))
    model.compile(keras.optimizers.SGD(rate), "mse", metrics=["mae"])
    return model
"""

TRAIN = """
result = train(spark, df, model=build, epochs=3, validation={"fraction": 0.25}, **given)
result.plot()
"""

LOOK = """
history = result.history
assert list(history["epoch"]) == [1, 2, 3], history
assert {"loss", "val_loss", "val_mae"} <= set(history.columns), history
assert history["val_loss"].iloc[-1] < history["val_loss"].iloc[0]
kernel = result.keras_model().get_weights()[0][:, 0]
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
    second = cluster.train(df, model=build, epochs=1, **given)
    third = cluster.train(df, model=lambda params, assets: build(params, assets), epochs=1, **given)
assert first.run_id != second.run_id
assert len(first.attempts[0].nodes) == 2
losses = [float(run.history["loss"].iloc[0]) for run in (first, second, third)]
assert losses[0] < losses[1] and abs(losses[2] - losses[1]) < 0.2, losses
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
        assert "looked at" in shown(cells.run(LOOK)), shown(notebook.cells[-1])

        refused = cells.run(FAILS)
        assert failed(refused) == "ModelError"
        assert "no such model" in shown(refused)

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
