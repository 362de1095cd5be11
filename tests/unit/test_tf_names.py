"""TensorFlowOnSpark's names, as its own sources have them, beside ours: each is there, or says what to use instead."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import socket
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from sparktf.compat import tensorflowonspark as ours
from sparktf.compat.tensorflowonspark.tf_inside import InsideName
from sparktf.compat.tensorflowonspark.tf_manager import start
from sparktf.compat.tensorflowonspark.tf_marker import EndPartition
from sparktf.compat.tensorflowonspark.tf_node import DataFeed, TFNodeContext
from sparktf.compat.tensorflowonspark.tf_params import HasBatchSize, HasSteps, Namespace, TFParams
from sparktf.compat.tensorflowonspark.tf_pipeline import yield_batch
from sparktf.compat.tensorflowonspark.tf_versions import note_habits
from sparktf.errors import ConfigError
from sparktf.process.ports import BoundPort
from sparktf.wire.guest import GuestNode

STATE = {"TF_VERSION", "kdict", "logger", "mgr", "pred_fn", "qdict", "tf_status"}
STATE |= {"global_args", "global_model", "global_sess"}
"""What modules keep for themselves: no program sets or reads it."""


def theirs() -> list[Path]:
    """Returns the modules of the package, which is installed and not imported."""
    package = Path(str(distribution("tensorflowonspark").locate_file("tensorflowonspark")))
    return [path for path in sorted(package.glob("*.py")) if path.stem != "__init__"]


def names_of(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yields the public names that are defined, with how."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node


def parameters(node: ast.FunctionDef) -> list[tuple[str, bool]]:
    """Returns the parameters of a function, and which may be left out."""
    required = len(node.args.args) - len(node.args.defaults)
    return [(argument.arg, i >= required) for i, argument in enumerate(node.args.args) if argument.arg != "self"]


def unlike(where: str, node: ast.FunctionDef, found: Any) -> str:
    """Returns how a function of ours cannot be called as theirs is; "" if it can."""
    taken = [parameter for name, parameter in inspect.signature(found).parameters.items() if name != "self"]
    mine = [(parameter.name, parameter.default is not inspect.Parameter.empty) for parameter in taken]
    wanted = parameters(node)
    named_alike = [name for name, _ in mine[: len(wanted)]] == [name for name, _ in wanted]
    fits = named_alike and all(mine[i][1] or not wanted[i][1] for i in range(len(wanted)))
    return "" if fits and all(free for _, free in mine[len(wanted) :]) else f"{where}: {wanted}, ours {mine}"


def differences(where: str, node: ast.stmt, found: Any) -> Iterator[str]:
    """Yields where a name of ours cannot stand for theirs."""
    if isinstance(found, InsideName):
        with pytest.raises(ConfigError, match=f"^{where} is of TensorFlowOnSpark's inside"):
            found()
        with pytest.raises(ConfigError, match=f"^{where} is of TensorFlowOnSpark's inside"):
            _ = found.some_attribute
    elif isinstance(node, ast.FunctionDef):
        yield unlike(where, node, found)
    elif isinstance(node, ast.ClassDef):
        for name, below in names_of(node.body):
            of_each = f"self.{name} = " in inspect.getsource(found) or f"self.{name}, " in inspect.getsource(found)
            if not (hasattr(found, name) or of_each or name.startswith("_")):
                yield f"{where}.{name} is missing"
            elif isinstance(below, ast.FunctionDef) and (not name.startswith("_") or name == "__init__"):
                yield unlike(f"{where}.{name}", below, getattr(found, name))


@pytest.mark.parametrize("path", theirs(), ids=lambda path: path.stem)
def test_each_name_of_the_package_is_there_or_says_what_to_use_in_its_place(path: Path) -> None:
    module = importlib.import_module(f"{ours.__name__}.{ours.MODULES[path.stem]}")
    for name, node in names_of(ast.parse(path.read_text(encoding="utf-8")).body):
        if name not in STATE and not name.startswith("_"):
            assert hasattr(module, name), f"{path.stem}.{name} is missing"
            found = [said for said in differences(f"{path.stem}.{name}", node, getattr(module, name)) if said]
            assert not found


def test_a_programs_own_test_feeds_its_function_from_queues() -> None:
    """As the package's own tests do, and those of programs."""
    manager = start(b"any", ["input", "output"])
    rows: Any = manager.get_queue("input")
    for row in [1, 2, 3, EndPartition(), EndPartition(), 4, 5, None]:
        rows.put(row)
    feed = DataFeed(manager, train_mode=False)
    assert [feed.next_batch(2), feed.next_batch(2), feed.should_stop()] == [[1, 2], [3], False]
    feed.batch_results([10, 20, 30])
    assert feed.next_batch(9) == [4, 5]
    assert feed.should_stop()
    results: Any = manager.get_queue("output")
    assert [results.get() for _ in range(3)] == [10, 20, 30]
    rows.put(6)
    feed.terminate()
    assert manager.get("state") == "terminating"
    rows.join()


def test_a_function_that_asks_to_hold_its_port_has_a_socket_there_until_it_releases_it() -> None:
    agent = BoundPort()
    cluster: dict[str, tuple[str, ...]] = {"chief": (f"127.0.0.1:{agent.port}",)}
    node = GuestNode(
        number=0, job="chief", index=0, cluster=cluster, default_fs="file://", working_dir="/", is_fed=False
    )
    assert TFNodeContext.of(node, None).tmp_socket is None
    ctx = TFNodeContext.holding(node, None)
    assert ctx.tmp_socket is not None
    assert ctx.tmp_socket.getsockname()[1] == agent.port
    with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
        other.bind(("0.0.0.0", agent.port))
    ctx.release_port()
    assert ctx.tmp_socket is None
    ctx.release_port()
    agent.close()


def test_a_stage_of_a_programs_own_has_the_params_that_it_asks_for() -> None:
    class Stage(TFParams, HasBatchSize, HasSteps):
        def __init__(self, args: Namespace) -> None:
            super().__init__()
            self.args = args

    stage: Any = Stage(Namespace({"rate": 0.1}))
    merged = stage.setBatchSize(10).setSteps(100).merge_args_params()
    assert merged == Namespace({"rate": 0.1, "batch_size": 10, "steps": 100}) == argparse.Namespace(**vars(merged))
    assert (stage.getBatchSize(), stage.getSteps(), "steps" in merged, "epochs" in merged) == (10, 100, True, False)
    assert Namespace(["--rate", "1"]) == ["--rate", "1"]
    assert list(yield_batch([(1, "a"), (2, "b"), (3, "c")], 2, 2)) == [[[1, 2], ["a", "b"]], [[3], ["c"]]]


@pytest.mark.parametrize(("module", "is_noted"), [("keras.src.callbacks", True), ("tf_keras.src.callbacks", False)])
def test_an_error_of_keras_3_says_how_a_program_of_keras_2_runs(module: str, *, is_noted: bool) -> None:
    within: dict[str, Any] = {"__name__": module}
    exec("def fit(): raise ValueError('the filepath must end in `.weights.h5`')", within)
    with pytest.raises(ValueError, match="filepath") as caught:
        within["fit"]()
    note_habits(caught.value)
    notes = "".join(getattr(caught.value, "__notes__", ()))
    assert ("set TF_USE_LEGACY_KERAS=1" in notes) == is_noted


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (ValueError("File system scheme 'hdfs' not implemented (file: 'hdfs://nn/x')"), "let Spark feed the rows"),
        (AttributeError("module 'tensorflow' has no attribute 'estimator'"), "TensorFlow has no Estimators since 2.16"),
        (ValueError("no luck"), ""),
    ],
)
def test_an_error_of_what_tensorflow_has_no_more_says_what_to_do(error: Exception, note: str) -> None:
    note_habits(error)
    notes = getattr(error, "__notes__", [])
    assert len(notes) == bool(note)
    assert note in "".join(notes)
