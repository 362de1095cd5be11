"""The public surface: what `sparktf` offers, and what importing it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sparktf
from sparktf import errors

PACKAGE = Path(sparktf.__file__).parent


def test_all_is_the_real_surface() -> None:
    typed = {
        name.asname or name.name
        for node in ast.walk(ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sparktf")
        for name in node.names
    }
    assert set(sparktf.__all__) == typed | {"__version__"}
    assert sparktf.__all__ == sorted(sparktf.__all__)


@pytest.mark.parametrize("name", sparktf.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(sparktf, name) is not None


def test_the_whole_error_tree_is_public() -> None:
    tree = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert tree | {"Verdict"} <= set(sparktf.__all__)


def test_the_error_tree_in_the_docstring_is_the_real_one() -> None:
    drawn = {
        line.split("──")[-1].split()[0]: line.rstrip()
        for line in (errors.__doc__ or "").splitlines()
        if "Error" in line and ("──" in line or line.strip() == "SparkTFError")
    }
    for name, line in drawn.items():
        kind = getattr(errors, name)
        tail = line.split()[-1]
        assert issubclass(kind, errors.SparkTFError), f"{name} ({tail})"
    assert set(drawn) == {
        name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)
    }


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        sparktf.trian  # noqa: B018


def test_dir_lists_the_public_names() -> None:
    assert set(sparktf.__all__) <= set(dir(sparktf))


@pytest.mark.parametrize(
    "statement",
    [
        "import sparktf",
        "from sparktf import JobConfig, load_config, ConfigError",
        "import sparktf.commands.cli",
        "import sparktf.layers",
    ],
)
def test_importing_it_imports_neither_spark_nor_tensorflow(statement: str) -> None:
    heavy = "{'pyspark', 'py4j', 'tensorflow', 'keras', 'tf_keras', 'pyarrow', 'numpy', 'pandas'}"
    code = f"import sys; {statement}; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
