"""Functions of programs as modules, and configurations from keywords."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparktf.api.cluster import Cluster, train
from sparktf.api.program import program_config
from sparktf.driver.code.code_files import code_files
from sparktf.driver.code.function_module import name_functions
from sparktf.errors import ConfigError


def imported(name: str, folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_closure_is_a_module_of_its_own_that_other_processes_import(tmp_path: Path) -> None:
    rate = 0.5

    def scaled(params: dict[str, float]) -> float:
        return rate * params["x"]

    named = name_functions({"scaled": scaled, "twice": lambda params: 2 * scaled(params)}, tmp_path)
    module, _, function = named["twice"].partition(":")
    assert (named["scaled"], function) == (f"{module}:scaled", "twice")
    code = f"import sys; import {module} as m; print(m.twice({{'x': 8}}), 'pyspark' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["8.0", "False"]
    assert sorted(code_files({"model": module}, [str(tmp_path)])) == [f"{module}.pickle", f"{module}.py"]
    assert (
        name_functions({"scaled": scaled, "twice": lambda params: 2 * scaled(params)}, tmp_path).keys() == named.keys()
    )
    rate = 3
    assert name_functions({"scaled": scaled}, tmp_path)["scaled"] != named["scaled"]


def test_what_a_module_beside_the_program_defines_goes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "helper_of_mine.py").write_text("FACTOR = 3\ndef triple(x):\n    return FACTOR * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import helper_of_mine  # type: ignore[import-not-found]

    named = name_functions({"f": lambda x: helper_of_mine.triple(x + 0)}, tmp_path / "made")
    module = named["f"].partition(":")[0]
    code = f"import {module} as m; print(m.f(5))"
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "made", capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "15"
    # A function that can be imported is named by its module.
    assert name_functions({"f": helper_of_mine.triple}, tmp_path)["f"] == "helper_of_mine:triple"


def test_what_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    with (
        (tmp_path / "open").open("w") as file,
        pytest.raises(ConfigError, match=r"f: .*is sent to other processes"),
    ):
        name_functions({"f": lambda: file.name}, tmp_path)
    with pytest.raises(ConfigError, match="f must be a function"):
        name_functions({"f": 3}, tmp_path)  # type: ignore[dict-item]


def config(tmp_path: Path, *, master: str = "local[2]", model: Any = "m:build", **keywords: Any) -> Any:
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_temp_dir=str(tmp_path), master=master))
    said: list[str] = []
    given = {"inputs": {"x": ["a"]}, "targets": {"y": "y"}, **keywords}
    made = program_config(spark, model, given, said.append)
    return made, said


def test_keywords_are_settings_of_sections_and_sections(tmp_path: Path) -> None:
    made, said = config(
        tmp_path, epochs=3, batch_size=64, train={"seed": 5}, workers=2, validation={"fraction": 0.2}, params={"a": 1},
        checkpoint={"every_steps": 7}, output="/runs",
    )  # fmt: skip
    assert (made.train.epochs, made.train.batch_size, made.train.seed) == (3, 64, 5)
    assert (made.cluster.workers, made.data.validation.fraction, made.params) == (2, 0.2, {"a": 1})
    assert (made.checkpoint.every_steps, made.output.path, made.name, made.model) == (7, "/runs", "build", "m:build")
    assert not said


def test_where_nothing_is_said_of_the_output_it_is_a_temporary_folder_that_all_nodes_reach(tmp_path: Path) -> None:
    made, said = config(tmp_path, model=lambda params, assets: None)
    assert Path(made.output.path).parent == tmp_path
    assert said == [
        f"output.path is not set: the run is written to {made.output.path}, which is deleted at the end of the session"
    ]
    assert made.name == "model"
    assert made.code_folder == tmp_path / "functions"
    with pytest.raises(ConfigError, match="name a folder that executors on all machines can reach"):
        config(tmp_path, master="yarn")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"epoch": 3}, "there is no setting 'epoch'; did you mean 'epochs'?"),
        ({"batch_size": 0}, "train.batch_size"),
        ({"callbacks": print}, "callbacks that are given by name"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, **keywords)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ({"name": "m"},),
            r"train\(\) takes .*, not a dict: make a configuration of a mapping by JobConfig.model_validate",
        ),
        (("nightly.yaml",), r"not a str: read a configuration file by load_config"),
        (
            (Path("rows.parquet"),),
            r"not a pathlib\S*Path: read a configuration file by load_config, and name data files by path=",
        ),
        ((np.zeros((2, 2)),), r"not a numpy.ndarray: make a DataFrame of it by spark.createDataFrame"),
        ((None, {"x": [1]}), r"train\(\) takes a DataFrame or an RDD as data, not a dict"),
    ],
)
def test_what_is_neither_a_configuration_nor_data_of_spark_is_refused_at_the_door(
    given: tuple[Any, ...], message: str
) -> None:
    session: Any = SimpleNamespace()  # nobody looks at it
    for model in (None, lambda params, assets: None):
        with pytest.raises(ConfigError, match=message):
            train(session, *given, model=model)
    with pytest.raises(ConfigError, match=r"Cluster\(\) takes a JobConfig, not a dict"):
        Cluster(session, {"name": "m"})  # type: ignore[arg-type]
