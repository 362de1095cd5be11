"""The product as pip installs it, with nothing of the sources beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from source_trees import ROOT

from sparktf.commands.command_line import SCHEDULERS

_MODEL = """\
import keras


def build(params, assets):
    x = keras.Input((), name="x")
    model = keras.Model(x, keras.layers.Dense(1, name="y")(keras.layers.Reshape((1,))(x)))
    model.compile("sgd", "mse")
    return model
"""
_CONFIG = """\
name: line
model: line:build
data: {path: lake, inputs: {x: x}, targets: {y: y}}
cluster: {workers: 1}
train: {batch_size: 64}
output: {path: runs}
"""
_LIMIT_S = 300

Says = Callable[..., str]


@pytest.fixture
def installed(tmp_path: Path) -> Says:
    """Returns a function that runs `python -m sparktf` of a wheel in a folder of its own, and returns its output."""
    sources, packages, cwd = tmp_path / "sources", tmp_path / "packages", tmp_path / "cwd"
    kept = shutil.ignore_patterns("__pycache__", "tests", "docs", "benchmarks", ".*")
    shutil.copytree(ROOT, sources, ignore=kept)  # whoever builds in a source tree leaves a folder there
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*wheel, "--no-build-isolation", "--wheel-dir", tmp_path, sources], check=True, timeout=_LIMIT_S)
    (made,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(made).extractall(packages)
    cwd.mkdir()
    kept_variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
    environment = {**kept_variables, "PYTHONPATH": str(packages), "TMPDIR": str(tmp_path)}

    def says(*words: str) -> str:
        command = [sys.executable, "-P", "-m", "sparktf", *words]
        done = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
        assert not done.returncode, done.stderr
        return done.stdout

    return says


def test_it_trains_shows_and_brings_the_files_for_schedulers(installed: Says, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    cwd = tmp_path / "cwd"
    (cwd / "lake").mkdir()
    values = [i / 64 for i in range(256)]
    pq.write_table(pa.table({"x": values, "y": values}), cwd / "lake/part-0.parquet")
    (cwd / "line.py").write_text(_MODEL, encoding="utf-8")
    (cwd / "line.yaml").write_text(_CONFIG, encoding="utf-8")
    assert "256 planned, 256 fed, 256 trained" in installed("train", "line.yaml", "--run-id", "first")
    assert "line / first: done" in installed("show", "runs/line/first")
    for scheduler in SCHEDULERS:
        assert "put your names in place of churn" in installed("schedule", scheduler, "--to", scheduler)
    assert "<coordinator-app" in (cwd / "oozie/coordinator.xml").read_text(encoding="utf-8")
