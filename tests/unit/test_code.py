"""What is known of the model's code without importing it."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from sparktf.driver.code import defines

SOURCE = "import not_installed\n\ndef prepare(df, params):\n    return {}\n\nclass Other:\n    def build(self): ...\n"


@pytest.fixture
def beside_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that modules are imported from."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_function_is_found_without_importing_its_module(beside_the_script: Path) -> None:
    (beside_the_script / "known_model.py").write_text(SOURCE, encoding="utf-8")
    assert defines("known_model", "prepare")
    assert not defines("known_model", "build")
    assert "known_model" not in sys.modules


def test_a_function_is_found_in_a_zip_as_py_files_ship_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as code:
        code.writestr("shipped_models/__init__.py", "")
        code.writestr("shipped_models/zipped.py", SOURCE)
    monkeypatch.syspath_prepend(tmp_path / "code.zip")
    assert defines("shipped_models.zipped", "prepare")


def test_what_cannot_be_read_is_left_to_the_trainer(beside_the_script: Path) -> None:
    (beside_the_script / "broken_model.py").write_text("def prepare(:\n", encoding="utf-8")
    assert not defines("broken_model", "prepare")
    assert not defines("no_such_model", "prepare")
    assert not defines("no_such_package.model", "prepare")
    assert not defines("math", "prepare")
