"""Where the user's modules are found, and what is known of them without importing them."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from sparktf.config.job import JobConfig
from sparktf.config.load import load_config
from sparktf.driver.code.code_files import code_files
from sparktf.driver.code.module import (
    binds,
    check_code,
    importable,
    load_module,
    require_module,
    search_path,
)
from sparktf.errors import ConfigError, ModelContractError
from sparktf.process.module_search import find_module

SOURCE = "import not_installed\n\ndef prepare(df, params):\n    return {}\n\nclass Other:\n    def build(self): ...\n"
CONFIG = "name: n\nmodel: MODULE\ndata: {path: lake, inputs: {x: x}, targets: {y: y}}\noutput: {path: runs}\n"


def put(file: Path, text: str = "def build(params, assets): ...\n") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def config_in(folder: Path, model: str) -> JobConfig:
    """Returns a configuration that lies in a folder."""
    return load_config(put(folder / "c.yaml", CONFIG.replace("MODULE", model)))


def zip_of(archive: Path, **files: str) -> Path:
    with zipfile.ZipFile(archive, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name.replace("__in__", "/") + ".py", text)
    return archive


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


class TestSearch:
    def test_beside_the_configuration_comes_before_the_working_folder_and_pythonpath(
        self, tmp_path: Path, working_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        places = [tmp_path / "conf", working_folder, tmp_path / "path"]
        monkeypatch.syspath_prepend(places[2])
        files = [put(place / "sought_model.py") for place in places]
        for file in files:
            found = find_module("sought_model", search_path(tmp_path / "conf"))
            assert found is not None
            assert found.origin == str(file)
            file.unlink()
        with pytest.raises(ConfigError) as caught:
            require_module("model", "sought_model", tmp_path / "conf")
        assert str(caught.value) == (
            f"model: there is no module sought_model in {places[0]}, in the working folder {working_folder}, on "
            "PYTHONPATH or in --py-files (submit.py_files)"
        )

    def test_a_configuration_knows_its_folder_and_is_equal_to_the_same_elsewhere(self, tmp_path: Path) -> None:
        one, other = (config_in(tmp_path / name, "m:build") for name in ("one", "other"))
        assert one.code_folder == tmp_path / "one"
        assert one.model_copy(update={"name": "x"}).code_folder == tmp_path / "one"
        assert one == other

    def test_packages_around_a_module_are_not_imported(self, tmp_path: Path) -> None:
        put(tmp_path / "heavy_package/__init__.py", "raise RuntimeError('imported')\n")
        put(tmp_path / "heavy_package/below/model.py")
        found = find_module("heavy_package.below.model", [str(tmp_path)])
        assert found is not None
        assert found.origin == str(tmp_path / "heavy_package/below/model.py")

    def test_what_is_importable_during_a_run_is_not_after_it(self, tmp_path: Path) -> None:
        put(tmp_path / "passing_model.py")
        before = sys.path.copy()
        with importable(tmp_path):
            assert load_module("model", "passing_model", tmp_path).__file__ == str(tmp_path / "passing_model.py")
        assert sys.path == before

    def test_a_module_of_the_same_name_from_another_folder_is_not_mistaken_for_it(self, tmp_path: Path) -> None:
        for name in ("first", "second"):
            put(tmp_path / name / "twice_model.py")
        with importable(tmp_path / "first"):
            load_module("model", "twice_model", tmp_path / "first")
        with importable(tmp_path / "second"), pytest.raises(ConfigError, match=r"twice_model from .*first"):
            load_module("model", "twice_model", tmp_path / "second")


class TestCallbacks:
    CONFIG = CONFIG + "train: {callbacks: 'heard_model:callbacks'}\n"

    def test_their_module_is_looked_for_and_travels_as_the_model_s_does(self, tmp_path: Path) -> None:
        put(tmp_path / "told_model.py")
        put(tmp_path / "heard_model.py", "def callbacks(params): ...\n")
        config = load_config(put(tmp_path / "c.yaml", self.CONFIG.replace("MODULE", "told_model:build")))
        check_code(config)
        assert sorted(code_files(config.modules, [str(tmp_path)])) == ["heard_model.py", "told_model.py"]

    def test_a_function_that_is_not_there_is_refused_by_its_key(self, tmp_path: Path) -> None:
        put(tmp_path / "told_model.py")
        put(tmp_path / "heard_model.py", "def callback(params): ...\n")
        config = load_config(put(tmp_path / "c.yaml", self.CONFIG.replace("MODULE", "told_model:build")))
        with pytest.raises(ConfigError, match=r"^train\.callbacks: module 'heard_model' has no function 'callbacks'"):
            check_code(config)


class TestNames:
    @pytest.mark.parametrize(
        ("text", "answer"),
        [
            (SOURCE, True),
            ("async def prepare(df, params): ...\n", True),
            ("try:\n    import tensorflow\nexcept ImportError:\n    pass\nelse:\n    def prepare(df, p): ...\n", True),
            ("from other import prepare\n", True),
            ("from other import make as prepare\n", True),
            ("from functools import partial\nprepare = partial(print)\n", True),
            ("from helping_module import *\n", True),
            ("from tensorflow.keras.layers import *\n", False),
            ("def build(params, assets):\n    def prepare(): ...\n    prepare = 1\n", False),
            ("class Prepare:\n    def prepare(self): ...\n", False),
            ("from not_installed_anywhere import *\n", None),
            ("globals()['prepare'] = print\n", None),
            ("def __getattr__(name): ...\n", None),
            ("def prepare(:\n", None),
        ],
    )
    def test_a_name_is_known_by_the_text_or_not_at_all(self, tmp_path: Path, text: str, answer: bool | None) -> None:
        put(tmp_path / "known_model.py", text)
        put(tmp_path / "helping_module.py", SOURCE)
        assert binds("known_model", "prepare", [str(tmp_path)]) is answer
        assert "known_model" not in sys.modules

    def test_relative_stars_are_followed(self, tmp_path: Path) -> None:
        put(tmp_path / "starred/__init__.py", "from .inner import *\n")
        put(tmp_path / "starred/inner.py", "from . import common\nfrom .common import *\n")
        put(tmp_path / "starred/common.py", SOURCE)
        assert binds("starred", "prepare", [str(tmp_path)]) is True
        assert binds("starred.inner", "bild", [str(tmp_path)]) is False

    def test_a_function_is_found_in_a_zip_as_py_files_ship_it(self, tmp_path: Path) -> None:
        code = zip_of(tmp_path / "code.zip", shipped_models__in____init__="", shipped_models__in__zipped=SOURCE)
        assert binds("shipped_models.zipped", "prepare", [str(code)]) is True
        assert binds("shipped_models.zipped", "build", [str(code)]) is False

    def test_what_has_no_text_is_not_known(self) -> None:
        assert binds("math", "prepare", sys.path) is None
        assert binds("no_such_model", "prepare", sys.path) is None


class TestPreflight:
    def test_a_module_that_the_driver_does_not_find_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=f"there is no module only.on_nodes in {tmp_path}, "):
            check_code(config_in(tmp_path, "only.on_nodes:build"))

    def test_a_module_in_a_zip_of_py_files_will_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(zip_of(tmp_path / "code.zip", brought="def build(params, assets): ...\n"))
        check_code(config_in(tmp_path, "brought:build"))

    def test_a_function_that_is_not_there_is_refused_with_those_that_are(self, tmp_path: Path) -> None:
        put(tmp_path / "mistyped.py", "def build(params, assets): ...\ndef other(): ...\n")
        with pytest.raises(ModelContractError) as caught:
            check_code(config_in(tmp_path, "mistyped:bild"))
        assert str(caught.value) == "model: module 'mistyped' has no function 'bild' (it has: build, other)"


def test_looking_for_a_module_finds_what_has_come_since_and_reads_no_zip_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = zip_of(tmp_path / "spark.zip", zipped__in____init__="", zipped__in__part="")
    path = [str(archive), str(tmp_path / "later")]
    assert find_module("zipped.part", path) is not None
    assert find_module("late_model", path) is None
    monkeypatch.setattr("zipimport.zipimporter.invalidate_caches", lambda importer: pytest.fail("read again"))

    put(tmp_path / "later/late_model.py")
    assert find_module("late_model", path) is not None
    put(tmp_path / "later/later_model.py")
    assert find_module("later_model", path) is not None
