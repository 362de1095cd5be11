"""`sparktf init`: the files of the tutorial, which lose nobody's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from integration.page import Page
from source_trees import ROOT

from sparktf.commands.cli import main
from sparktf.errors import ConfigError
from sparktf.submit.beginning import FIRST_NIGHT
from sparktf.submit.new_files import write_new


def test_the_files_are_those_that_the_page_shows() -> None:
    assert Page(ROOT / "docs/nights/first-night.md").files == FIRST_NIGHT


def test_a_folder_gets_the_files_and_what_to_type_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "my nights/first"]) == 0
    folder = Path("my nights/first")
    *paths, begin, go, _, submit = capsys.readouterr().out.splitlines()
    assert [Path(path) for path in paths] == [folder / name for name in (*FIRST_NIGHT, "nightly.sh")]
    assert (begin, go) == ("Begin with:", "  cd 'my nights/first'")
    assert submit == "  sparktf submit churn.yaml --date 2026-11-02"
    assert (folder / "churn.yaml").read_text("utf-8") == FIRST_NIGHT["churn.yaml"]
    assert (folder / "nightly.sh").read_text("utf-8") == (ROOT / "yarn/schedules/nightly.sh").read_text("utf-8")
    assert os.access(folder / "nightly.sh", os.X_OK)
    monkeypatch.chdir(folder)
    assert main(["check", "churn.yaml", "--no-deep", "--date", "2026-11-02"]) == 0


def test_no_file_is_replaced_and_none_is_written_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "churn.py").write_text("mine", "utf-8")
    assert main(["init", str(tmp_path)]) == 2
    assert (
        capsys.readouterr().err == f"{tmp_path}/churn.py is there already, and is not replaced: name another folder\n"
    )
    assert [(path.name, path.read_text("utf-8")) for path in tmp_path.iterdir()] == [("churn.py", "mine")]
    assert main(["init", str(tmp_path / "churn.py/below")]) == 2
    assert "Not a directory: name another folder" in capsys.readouterr().err


def test_where_one_file_cannot_be_written_none_is_left(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match="mine: File exists: name another folder"):
        write_new({tmp_path / "one": b"1", tmp_path / "mine/two": b"2"}, "name another folder")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
