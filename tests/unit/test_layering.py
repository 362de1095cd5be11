"""The architecture, held over the syntax trees: imports run downhill, and each runtime stays in its folder.

    jobs -> driver -> executor -> feed -> storage -> root
    submit -> driver   trainer -> feed -> storage -> root        nobody imports trainer

Third-party runtimes: pyspark in driver, executor and jobs; TensorFlow in trainer and jobs/models.
yarn/minihadoop stands alone: the cluster that tests sparktf shares no code, and so no mistake, with it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Layer -> layers of sparktf that it may import besides itself. `entry` is what stands above all: the lazy public names
# and the console script.
MAY_IMPORT = {
    "root": set(),
    "storage": {"root"},
    "feed": {"root", "storage"},
    "executor": {"root", "storage", "feed"},
    "driver": {"root", "storage", "feed", "executor"},
    "trainer": {"root", "storage", "feed"},
    "submit": {"root", "storage", "driver"},
    "entry": {"root", "storage", "feed", "executor", "driver", "submit"},
    "jobs": {"root", "storage", "feed", "executor", "driver", "entry"},
}
ENTRY_MODULES = {"sparktf", "sparktf.cli"}

SPARK = {"pyspark", "py4j"}
TENSORFLOW = {"tensorflow", "keras", "tf_keras"}

# Files that may end the process, take signals or set up logging: each is the first code of a process.
ENTRY_POINTS = {
    "sparktf/cli.py",
    "sparktf/config/page.py",
    "sparktf/driver/main.py",
    "sparktf/trainer/__main__.py",
    "jobs/train.py",
    "jobs/digits_lake.py",
    "yarn/minihadoop/__main__.py",
}
PROCESS_CALLS = {"sys.exit", "os._exit", "exit", "quit", "signal.signal", "logging.basicConfig", "SystemExit"}
# A thread that watches its process can end it in no other way; in the trainer, the process is ours.
WATCH_CALLS = {"os._exit"}


@dataclass(frozen=True)
class Import:
    """One imported module; `typing_only` if it stands under `if TYPE_CHECKING`."""

    module: str
    line: int
    typing_only: bool


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer_of(module: str) -> str:
    """Returns the layer of a module of sparktf or jobs."""
    top, *below = module.split(".")
    if top == "jobs":
        return "jobs"
    if module in ENTRY_MODULES:
        return "entry"
    return below[0] if below and below[0] in MAY_IMPORT else "root"


def imports(path: Path) -> Iterator[Import]:
    """Yields every import of a file, also those in functions and under `if TYPE_CHECKING`."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        for module in imported_modules(node, path):
            yield Import(module, node.lineno, id(node) in typing_only)  # type: ignore[attr-defined]


def imported_modules(node: ast.AST, path: Path) -> list[str]:
    """Returns what one statement imports; `from sparktf import feed` counts as sparktf.feed."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        package = module_of(path).split(".")[: len(path.relative_to(ROOT).parts) - node.level]
        base = ".".join([*package, *([base] if base else [])])
    return [submodule(base, alias.name) for alias in node.names]


def submodule(base: str, name: str) -> str:
    path = ROOT / Path(*base.split(".")) / name
    return f"{base}.{name}" if path.is_dir() or path.with_suffix(".py").is_file() else base


def is_in(module: str, packages: set[str]) -> bool:
    return module.partition(".")[0] in packages


@pytest.mark.parametrize("path", sources("sparktf", "jobs"), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_downhill(path: Path) -> None:
    layer = layer_of(module_of(path))
    allowed = MAY_IMPORT[layer] | {layer}
    uphill = [
        f"line {found.line}: {layer} imports {found.module}"
        for found in imports(path)
        if is_in(found.module, {"sparktf", "jobs"}) and layer_of(found.module) not in allowed
    ]
    assert not uphill


@pytest.mark.parametrize("path", sources("sparktf", "jobs"), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_runtime_stays_in_its_folder(path: Path) -> None:
    layer, models = layer_of(module_of(path)), "models" in path.parts
    forbidden = set() if layer in ("driver", "executor", "jobs") and not models else set(SPARK)
    if layer != "trainer" and not models:
        forbidden |= TENSORFLOW
    strangers = [
        f"line {found.line}: {found.module}"
        for found in imports(path)
        if is_in(found.module, forbidden) and not found.typing_only
    ]
    assert not strangers


@pytest.mark.parametrize("path", sources("yarn"), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_mini_cluster_stands_alone(path: Path) -> None:
    allowed = {"minihadoop", "rich", *sys.stdlib_module_names}
    assert not [f"line {found.line}: {found.module}" for found in imports(path) if not is_in(found.module, allowed)]


@pytest.mark.parametrize("path", sources("sparktf", "jobs", "yarn"), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_entry_points_rule_their_process(path: Path) -> None:
    if str(path.relative_to(ROOT)) in ENTRY_POINTS:
        return
    forbidden = PROCESS_CALLS - WATCH_CALLS if layer_of(module_of(path)) == "trainer" else PROCESS_CALLS
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    calls = [
        f"line {node.lineno}: {ast.unparse(node.func)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in forbidden
    ]
    assert not calls


def test_an_uphill_import_is_seen_wherever_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_layering.ROOT", tmp_path)
    (tmp_path / "sparktf" / "trainer").mkdir(parents=True)
    (tmp_path / "sparktf" / "feed").mkdir()
    source = tmp_path / "sparktf" / "feed" / "x.py"
    source.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from sparktf.driver import run\n"
        "def f():\n    from .. import trainer\n    import pyspark.sql\n",
        encoding="utf-8",
    )
    assert [(found.module, found.typing_only) for found in imports(source)] == [
        ("typing", False),
        ("sparktf.driver", True),
        ("sparktf.trainer", False),
        ("pyspark.sql", False),
    ]
    assert [layer_of(found.module) for found in imports(source)][1:3] == ["driver", "trainer"]
