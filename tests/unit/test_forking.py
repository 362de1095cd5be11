"""What a nursery imports for some models, and not for the others."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from sparktf.executor.forking import named_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "legacy.py").write_text("import tf_keras as keras\n")
    (tmp_path / "other.py").write_text("import keras\n")
    (tmp_path / "package").mkdir()
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as code:
        code.writestr("zipped.py", "import tf_keras\n")
    return tmp_path


@pytest.mark.parametrize(
    ("module", "named"),
    [("legacy", ("tf_keras",)), ("other", ()), ("package", ()), ("zipped", ()), ("missing", ()), ("sys", ())],
)
def test_what_a_models_file_names_is_imported_for_it_and_anything_else_by_itself(
    folder: Path, module: str, named: tuple[str, ...]
) -> None:
    assert named_in(module, [str(folder), str(folder / "code.zip")]) == named
