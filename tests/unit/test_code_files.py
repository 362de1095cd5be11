"""What of the user's code travels to other machines."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from sparktf.config.load import load_config
from sparktf.driver.code import code_files as module
from sparktf.driver.code.code_files import archive_files, code_files, digest_of, package_files
from sparktf.errors import ConfigError
from sparktf.submit.environment import Programs
from sparktf.submit.shipment import stage

CONFIG = "name: n\nmodel: trees.forest:build\ndata: {path: l, inputs: {x: x}, targets: {y: y}}\noutput: {path: runs}\n"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder of everything that a model may have beside it."""
    files = {
        "alone.py": "import json\nimport numpy\nfrom helpers import deep\nAT = ('vocab.txt', 'data/a.csv', 'x')\n",
        "helpers.py": "def deep():\n    import deeper.still\n",
        "deeper/still.py": "import alone\n",
        "json.py": "",
        "numpy/data.bin": "",
        "unrelated.py": "",
        "vocab.txt": "a b",
        "data/a.csv": "1",
        "data/b.csv": "2",
        "lake/part-0.parquet": "3",
        "models/__init__.py": "",
        "models/net.py": "import common\nfrom models import words\n",
        "models/words/list.json": "[]",
        "models/.git/config": "",
        "models/__pycache__/net.cpython-311.pyc": "",
        "common/__init__.py": "",
        "common/shapes.py": "",
        "trees/forest.py": "def build(params, assets): ...\n",
        "trees/leaves.csv": "green",
    }
    for name, text in files.items():
        file = tmp_path / "code" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path / "code"


def travelling(code: Path, *modules: str) -> list[str]:
    """Returns the files that travel, which are where their names say."""
    files = code_files({str(i): module for i, module in enumerate(modules)}, [str(code)])
    assert all(file == code / name for name, file in files.items())
    return sorted(files)


def test_a_package_travels_whole_with_the_packages_that_it_imports_beside_it(code: Path) -> None:
    package = ["models/__init__.py", "models/net.py", "models/words/list.json"]
    assert travelling(code, "models.net") == ["common/__init__.py", "common/shapes.py", *package]
    assert travelling(code, "trees.forest") == ["trees/forest.py", "trees/leaves.csv"]


def test_a_module_travels_with_what_it_imports_and_names_of_the_files_beside_it(code: Path) -> None:
    assert travelling(code, "alone") == ["alone.py", "data/a.csv", "deeper/still.py", "helpers.py", "vocab.txt"]
    assert travelling(code, "unrelated", "common") == ["common/__init__.py", "common/shapes.py", "unrelated.py"]


def test_what_is_installed_or_nowhere_does_not_travel(code: Path, tmp_path: Path) -> None:
    code.rename(tmp_path / "site-packages")
    assert code_files({"model": "models.net"}, [str(tmp_path / "site-packages")]) == {}
    assert code_files({"model": "no_such_model", "data.source": "math"}, []) == {}


def test_what_is_too_large_for_code_is_refused_by_its_name(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT_NBYTES", 1 << 20)
    (code / "trees/rows.parquet").write_bytes(bytes(2_000_000))
    with pytest.raises(ConfigError) as caught:
        travelling(code, "trees.forest")
    assert f"the code in {code} is larger than the 1 MiB that can be sent to every node" in str(caught.value)
    assert f"the largest file is {code}/trees/rows.parquet, 2 MB: move" in str(caught.value)


def test_an_archive_has_the_files_and_another_digest_when_one_changes(code: Path, tmp_path: Path) -> None:
    files = code_files({"model": "trees.forest"}, [str(code)])
    with zipfile.ZipFile(archive_files(files, tmp_path / "code.zip")) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            name: file.read_bytes() for name, file in files.items()
        }
    before = digest_of(files)
    assert digest_of(files) == before
    (code / "trees/leaves.csv").write_text("brown", encoding="utf-8")
    assert digest_of(files) != before


def test_a_submission_ships_the_code_beside_its_configuration(code: Path, tmp_path: Path) -> None:
    (code / "job.yaml").write_text(CONFIG, encoding="utf-8")
    folder = tmp_path / "stage"
    folder.mkdir()
    shipment = stage(load_config(code / "job.yaml"), folder, code, Programs(tmp_path, "python3", "python3"))
    job = load_config(shipment.config)
    assert job == load_config(code / "job.yaml")
    assert sorted(code_files(job.modules, [str(job.code_folder)])) == ["trees/forest.py", "trees/leaves.csv"]
    with zipfile.ZipFile(shipment.archive) as archive:
        assert sorted(archive.namelist()) == ["sparktf-job.yaml", "trees/forest.py", "trees/leaves.csv"]


def test_nobody_else_reads_an_archive_nor_what_is_unpacked_of_it(tmp_path: Path) -> None:
    """Spark keeps both where all users of a host may look, and unpacks files with the modes that the archive says."""
    (tmp_path / "model.py").write_text("")
    (tool := tmp_path / "tool.sh").write_text("")
    tool.chmod(0o755)
    archive = archive_files({"model.py": tmp_path / "model.py", "tool.sh": tool}, tmp_path / "code.zip")
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    with zipfile.ZipFile(archive) as zipped:
        modes = {entry.filename: stat.S_IMODE(entry.external_attr >> 16) for entry in zipped.infolist()}
    assert modes == {"model.py": 0o600, "tool.sh": 0o700}


def test_of_a_source_tree_all_of_sparktf_travels_and_of_an_installation_nothing(tmp_path: Path) -> None:
    sparktf = Path(__file__).parents[2] / "sparktf"
    travels = {f"sparktf/{path.relative_to(sparktf)}" for path in sparktf.rglob("*") if path.is_file()}
    files = package_files("sparktf", [str(sparktf.parent)])
    assert set(files) == {name for name in travels if "__pycache__" not in name}
    assert {"sparktf/submit/driver_script.py", "sparktf/driver/spark/log4j2.properties"} <= set(files)
    installed = tmp_path / "site-packages/sparktf"
    installed.mkdir(parents=True)
    (installed / "__init__.py").touch()
    assert package_files("sparktf", [str(installed.parent)]) == {}
