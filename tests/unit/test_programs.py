"""Functions of programs as modules, and configurations from keywords."""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import subprocess
import sys
import traceback
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparktf.api.cluster import AskedTraining, train
from sparktf.api.edge import with_short_traceback
from sparktf.api.keras_words import INSTEAD
from sparktf.api.program import fields_of, program_config
from sparktf.api.trained import TrainedRun
from sparktf.config.data_section import DataConfig
from sparktf.config.job import JobConfig
from sparktf.config.nodes import ClusterConfig
from sparktf.config.train import TrainConfig
from sparktf.driver.code.code_files import code_files
from sparktf.driver.code.function_module import name_functions
from sparktf.errors import ConfigError, Verdict
from sparktf.results.result import RunResult
from sparktf.storage.file_systems import open_storage


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


def test_a_module_that_goes_by_two_names_goes_along_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "helper_of_two_names.py").write_text("def triple(x):\n    return 3 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    helper = importlib.import_module("helper_of_two_names")
    monkeypatch.setitem(sys.modules, "name_of_old", helper)
    named = name_functions({"f": lambda x: helper.triple(x + 0)}, tmp_path)
    assert imported(named["f"].partition(":")[0], tmp_path).f(5) == 15


def test_what_sparks_home_brings_is_on_each_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = ModuleType("pyspark.of_the_home")  # as SPARK_HOME/python has them, where none is installed
    home.__file__ = str(tmp_path / "spark/python/pyspark/of_the_home.py")
    exec("def asked():\n    return 'a word of Spark itself'\n", home.__dict__)
    monkeypatch.setitem(sys.modules, home.__name__, home)
    asked = home.asked
    name_functions({"f": lambda: asked() + "!"}, tmp_path / "made")
    (pickled,) = (tmp_path / "made").glob("*.pickle")
    assert b"of_the_home" in pickled.read_bytes()
    assert b"a word of Spark itself" not in pickled.read_bytes()


def test_what_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    with (
        (tmp_path / "open").open("w") as file,
        pytest.raises(ConfigError, match=r"f: .*is sent to other processes"),
    ):
        name_functions({"f": lambda: file.name}, tmp_path)
    with pytest.raises(ConfigError, match="f must be a function"):
        name_functions({"f": 3}, tmp_path)  # type: ignore[dict-item]


CELL = """
def deep(params):
    return 1 / params["zero"]


class Layer:
    def call(self, params):
        return deep(params)


def build(params):
    return Layer().call(params)
"""


def test_errors_of_a_cell_show_its_lines_in_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = "<ipython-input-3-5f0c>"
    monkeypatch.setitem(linecache.cache, file, (len(CELL), None, CELL.splitlines(keepends=True), file))
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(CELL, file, "exec"), cell)
    named = name_functions({"build": cell["build"]}, tmp_path)
    module = named["build"].partition(":")[0]
    code = (
        f"import {module} as m; from sparktf.process.sent_sources import label_of;"
        "print(label_of(m.build.__code__.co_filename), label_of('else'))\n"
        "import traceback\ntry:\n    m.build({'zero': 0})\nexcept ZeroDivisionError:\n    traceback.print_exc()"
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.stdout.split() == ["cell", "None"]
    lines = [line.strip() for line in told.stderr.splitlines()]
    assert 'return 1 / params["zero"]' in lines
    assert "return Layer().call(params)" in lines
    [called] = [line for line in lines if line.endswith(", line 8, in call")]
    assert called.startswith('File "<cell ')


def test_of_a_cell_the_text_of_its_functions_travels_and_they_are_the_same_whatever_else_stands_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password may stand beside them, and a cell is run again and again."""
    named = set()
    for number, beside in enumerate(('password = "hunter2"', "train(build, epochs=3)", "train(build, epochs=5)")):
        text, file = f"def build(params): return 3\n{beside}\n", f"<ipython-input-{number}>"
        monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(keepends=True), file))
        notebook: dict[str, Any] = {"__name__": "__main__", "train": lambda *args, **kwargs: None}
        exec(compile(text, file, "exec"), notebook)
        named.add(name_functions({"build": notebook["build"]}, tmp_path)["build"])
    [name] = named
    module = name.partition(":")[0]
    assert imported(module, tmp_path).build({}) == 3
    content = (tmp_path / f"{module}.pickle").read_bytes()
    assert b"def build" in content
    assert b"hunter2" not in content


def config(tmp_path: Path, *, master: str = "local[2]", model: Any = "m:build", **keywords: Any) -> Any:
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_temp_dir=str(tmp_path), master=master))
    said: list[str] = []
    given = {"inputs": {"x": ["a"]}, "targets": {"y": "y"}, **keywords}
    made = program_config(spark, model, given, said.append, prepare=given.pop("prepare", None))
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
        ({"validation_split": 0.2}, r"'validation_split', as Keras has it: write validation=\{'fraction': 0.2\}"),
        ({"steps_per_epoch": 9}, "'steps_per_epoch', as Keras has it: an epoch is all rows"),
        ({"optimizer": "adam"}, "'optimizer', as Keras has it: compile the model with it"),
        ({"batch_size": 0}, "train.batch_size"),
        ({"prepare": print}, "prepare: a model that is given by name"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, **keywords)


class Frame:
    """A DataFrame of pandas', by all that is looked at."""


Frame.__name__ = "DataFrame"


def asked(*given: Any, **keywords: Any) -> Any:
    """Returns the arguments of `train()` by their meaning."""
    config, data = (*given, None, None)[:2]
    named = {name: keywords.pop(name, None) for name in ("model", "prepare")}
    return AskedTraining.of("train()", config, data, **named, keywords=keywords)


@pytest.mark.parametrize("module", ["pandas.core.frame", "pandas"])
def test_a_first_try_is_taken_where_its_meaning_is_clear(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Frame, "__module__", module)  # of pandas 2, and of pandas 3
    rows: Any = Frame()
    assert asked(rows, model=print).rows is rows
    assert asked(None, rows, model=print).rows is rows
    assert asked({"train": {"epochs": 3}, "seed": 4}, rows, model=print, seed=5).settings == {
        "train": {"epochs": 3},
        "seed": 5,
    }
    assert asked({"model": "m:build"}).model == "m:build"
    assert asked(None, {"path": "/lake"}, model=print).settings == {"data": {"path": "/lake"}}
    written = tmp_path / "nightly.yaml"
    written.write_text(
        "name: churn\nmodel: m:build\noutput: {path: /runs}\ndata: {path: /lake, inputs: [a, b], targets: y}\n"
    )
    for named in (written, str(written)):
        found = asked(named, rows)
        assert (found.given.name, found.rows) == ("churn", rows)
        assert found.given.data.inputs["inputs"].columns == ("a", "b")
    with pytest.raises(ConfigError, match="already has all settings: remove model, epochs"):
        asked(written, rows, model=print, epochs=3)
    with pytest.raises(ConfigError, match="the data is given twice"):
        asked(rows, rows, model=print)


def test_a_cluster_lends_its_settings_to_a_training_that_says_nothing_of_them() -> None:
    cluster = {"workers": 2, "model": "m:build", "epochs": 1}
    found = asked(epochs=3).or_of_cluster(None, cluster)
    assert (found.model, found.settings) == ("m:build", {"workers": 2, "epochs": 3})
    found = asked(model=print).or_of_cluster(None, cluster)
    assert (found.model, found.settings) == (print, {"workers": 2, "epochs": 1})
    given: Any = object()
    assert asked().or_of_cluster(given, {}).given is given
    assert asked(model=print).or_of_cluster(given, {}).given is None


@pytest.mark.parametrize(
    ("inputs", "targets", "found"),
    [
        (["a", "b"], "y", {"inputs": ("a", "b"), "y": "y"}),
        ("features", ["y"], {"features": "features", "y": "y"}),
        ({"x": ["a"]}, {"out": ["y", "z"]}, {"x": ("a",), "out": ("y", "z")}),
    ],
)
def test_columns_alone_are_those_of_the_only_input_and_the_only_output(
    inputs: Any, targets: Any, found: dict[str, Any], tmp_path: Path
) -> None:
    made, _ = config(tmp_path, inputs=inputs, targets=targets)
    assert {name: feature.columns for name, feature in {**made.data.inputs, **made.data.targets}.items()} == found


def test_several_targets_without_names_may_be_one_output_or_several(tmp_path: Path) -> None:
    said = (
        r"data.targets: a list of 2 columns .* write {y: y, z: z} for an output each, or {<output>: \[y, z\]} for one"
    )
    with pytest.raises(ConfigError, match=said):
        config(tmp_path, targets=["y", "z"])


def test_what_a_run_has_made_is_what_the_next_one_begins_from(tmp_path: Path) -> None:
    result = RunResult(run_id="r", name="n", verdict=Verdict.DONE, model="/runs/n/r/model")
    run = TrainedRun.of(result, open_storage(str(tmp_path)))
    made, _ = config(tmp_path, init_from=run)
    assert (made.train.init_from, made.train.init_optimizer) == ("/runs/n/r/model", True)
    made, _ = config(tmp_path, train={"init_from": run, "init_optimizer": False})
    assert (made.train.init_from, made.train.init_optimizer) == ("/runs/n/r/model", False)
    made, _ = config(tmp_path, init_from=run.model)
    assert (made.train.init_from, made.train.init_optimizer) == ("/runs/n/r/model", False)
    with pytest.raises(ConfigError, match="init_from: the run has no model"):
        config(tmp_path, init_from=TrainedRun.of(result.model_copy(update={"model": ""}), open_storage(str(tmp_path))))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (({"name": "m"},), "there is no configuration: give one, or model="),
        (({"x": [1]},), "there is no setting 'x'"),
        (("rows.parquet",), r"not a str: name a configuration file as \*\.yaml, and data files by path="),
        ((Path("rows.parquet"),), r"not a pathlib\S*Path: name a configuration file"),
        (("there-is-none.yaml",), "there-is-none.yaml"),
        ((np.zeros((2, 2)),), r"not a numpy.ndarray: make a DataFrame of it, by pandas or by spark.createDataFrame"),
        ((None, {"x": [1]}), r"train\(\) takes a DataFrame of Spark's or pandas', or an RDD, as data, not a dict"),
        ((len,), "give a function as model="),
    ],
)
def test_what_is_neither_a_configuration_nor_data_is_refused_at_the_door(given: tuple[Any, ...], message: str) -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_temp_dir="", master="local"))  # nobody looks at it
    model = (lambda params, assets: None) if "setting" in message else None
    with pytest.raises(ConfigError, match=message) as refused:
        train(session, *given, model=model)
    assert refused.value.__suppress_context__
    told = traceback.extract_tb(refused.value.__traceback__)
    assert [Path(frame.filename).name for frame in told] == ["test_programs.py", "edge.py"]


def test_an_interrupt_and_an_error_end_at_the_edge_and_a_defect_keeps_its_frames() -> None:
    def raises(error: BaseException) -> None:
        try:
            raise ValueError("a cause")
        except ValueError as cause:
            raise error from cause

    for error, frames in ((ConfigError("wrong"), 2), (KeyboardInterrupt(), 2), (IndexError("a defect"), 3)):
        with pytest.raises(type(error)) as raised:
            with_short_traceback(raises)(error)
        assert len(traceback.extract_tb(raised.value.__traceback__)) == frames
        assert (raised.value.__cause__ is None) is (frames == 2)


class Dense:
    """A layer of the program's own."""


class Functional:
    """A model of Keras's, by all that is looked at before it is written."""

    __module__ = "keras.src.models.functional"
    compiled = built = True
    loss, optimizer = "mse", None

    def save(self, path: str) -> None:
        if self.loss == "none":
            raise ValueError("cannot be written\nand more")
        Path(path).write_bytes(b"written")

    def _flatten_layers(self) -> list[Any]:
        return [Dense()]


Functional.__mro__[0].__name__ = "Model"


def test_a_compiled_model_in_the_place_of_its_function_travels_with_its_weights_and_classes(tmp_path: Path) -> None:
    made, _ = config(tmp_path, model=Functional())
    assert made.name == "model"
    module, _, function = made.model.partition(":")
    told = imported(module, tmp_path / "functions")
    found = getattr(told, function)
    assert (found.flavour, found.content, list(found.objects)) == ("keras", b"written", ["Dense"])
    for change, message in (
        ({"compiled": False}, "model is not compiled: call model.compile"),
        ({"built": False}, "model has no weights yet: begin it with keras.Input"),
        (
            {"loss": "none"},
            r"written by Keras \(ValueError: cannot be written\): give model= a function",
        ),
    ):
        model = Functional()
        vars(model).update(change)
        with pytest.raises(ConfigError, match=message):
            config(tmp_path, model=model)


class Callback:
    """A callback of Keras's, by all that is looked at."""

    __module__ = "keras.src.callbacks.callback"


@pytest.mark.parametrize("model", ["m:build", lambda params, assets: None])
def test_a_list_of_callbacks_travels_as_the_function_that_returns_it(model: Any, tmp_path: Path) -> None:
    for given in ([Callback(), Callback()], Callback()):
        made, _ = config(tmp_path, model=model, callbacks=given)
        module, _, function = made.train.callbacks.partition(":")
        assert (tmp_path / "functions" / f"{module}.py").exists()
        assert made.code_folder == tmp_path / "functions"
        assert function == "callbacks"
    best = Callback()
    best.__dict__.update(restore_best_weights=True, monitor="val_mae", mode="min")
    validation = {"fraction": 0.2}
    kept = config(tmp_path, model=model, callbacks=[Callback(), best], validation=validation)[0].train
    assert (kept.keep, kept.keep_metric, kept.keep_mode) == ("best", "val_mae", "min")
    kept = config(tmp_path, model=model, callbacks=best, keep="last", validation=validation)[0].train
    assert kept.keep == "last"
    wrong: Any
    for wrong, said in (([3], "3 is not a Keras callback"), ([Callback], "is not a Keras callback: give a list")):
        with pytest.raises(ConfigError, match=f"callbacks: .*{said}"):
            config(tmp_path, model=model, callbacks=wrong)


def test_what_keras_calls_otherwise_is_no_setting_of_a_run() -> None:
    settings = {
        *JobConfig.model_fields,
        *(key for kind in (DataConfig, TrainConfig, ClusterConfig) for key in fields_of(kind)),
    }
    assert not settings & set(INSTEAD)
