"""A Python or a Spark that sparktf does not run on is refused with 2, before an import fails."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from sparktf.config.load import parse_config
from sparktf.driver.spark.differences import check_spark, first_java, spark_complaint
from sparktf.errors import ConfigError, PreflightError
from sparktf.process.supported import python_complaint, servers_complaint
from sparktf.process.verdict_file import VARIABLE, told_verdict
from sparktf.submit.environment import Programs
from sparktf.submit.preflight import check_java, check_python

ROOT = Path(__file__).parents[2]
OLD_PYTHON = """\
import runpy, sys
sys.version_info = (3, 10, 9, "final", 0)
runpy.run_path(sys.argv[1], run_name="__main__")
"""
CONFIG = """\
name: t
model: m:build
data: {path: /lake, inputs: {x: x}, targets: {y: y}}
output: {path: /runs}
"""
SCRIPTS = ("jobs/train.py", "jobs/predict.py", "sparktf/submit/driver_script.py")


@pytest.mark.parametrize(
    ("version", "supported"), [((3, 10), False), ((3, 11), True), ((3, 13), True), ((3, 14), False)]
)
def test_pythons(version: tuple[int, int], *, supported: bool) -> None:
    assert (python_complaint(version) is None) == supported


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("3.4.4", False),
        ("3.5.0", False),
        ("3.5.1", True),
        ("4.0.1", True),
        ("4.10.0.dev1", True),
        ("5.0.0", False),
        ("?", False),
    ],
)
def test_sparks(version: str, *, supported: bool) -> None:
    assert (spark_complaint(version) is None) == supported


@pytest.mark.parametrize(("version", "supported"), [("2.20.0", False), ("2.21.0", True), ("2.21.1", True)])
def test_tensorflows_of_parameter_servers(version: str, *, supported: bool) -> None:
    assert (servers_complaint(version) is None) == supported


def run(*arguments: str, path: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(path), str(ROOT))), **variables}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_old_python_is_refused_before_it_stumbles_over_our_code(script: str) -> None:
    done = run("-c", OLD_PYTHON, script)
    assert done.returncode == 2
    assert done.stderr.startswith(f"PreflightError: {sys.executable} is Python 3.10, and sparktf runs on 3.11, 3.12")


@pytest.mark.parametrize("script", SCRIPTS)
def test_so_is_one_without_our_packages(script: str, tmp_path: Path) -> None:
    (tmp_path / "pydantic.py").write_text("raise ModuleNotFoundError(\"No module named 'pydantic'\")", encoding="utf-8")
    done = run(script, path=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"PreflightError: {sys.executable} cannot run sparktf: No module named 'pydantic': ")


def test_a_wrong_command_line_is_no_verdict(tmp_path: Path) -> None:
    done = run("jobs/train.py", "--no-such", path=ROOT, **{VARIABLE: str(tmp_path / "told")})
    assert (done.returncode, told_verdict(tmp_path / "told")) == (2, None)


def spark_of(version: str, text: str, folder: Path) -> Path:
    """Writes a package that gives itself out as Spark's; returns a configuration beside it."""
    (folder / "pyspark").mkdir()
    (folder / "pyspark/version.py").write_text(f"__version__: str = '{version}'\n", encoding="utf-8")
    (folder / "pyspark/__init__.py").write_text(text, encoding="utf-8")
    config = folder / "t.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    return config


def test_so_is_an_old_spark_and_the_verdict_is_told(tmp_path: Path) -> None:
    config, told = spark_of("3.5.0", "raise RuntimeError('imported')\n", tmp_path), tmp_path / "told"
    said = "this is Spark 3.5.0, but sparktf needs 3.5.1"
    done = run("jobs/train.py", "--config", str(config), path=tmp_path, **{VARIABLE: str(told)})
    assert (done.returncode, told_verdict(told)) == (2, 2)
    assert said in done.stderr.splitlines()[-1]
    checked = run("-m", "sparktf.commands.cli", "check", str(config), path=tmp_path)
    assert checked.returncode == 2
    assert said in checked.stderr.splitlines()[-1]
    assert said in run("-c", "from sparktf import train", path=tmp_path).stderr


def test_so_is_half_of_a_spark_and_the_verdict_is_told(tmp_path: Path) -> None:
    config, told = spark_of("3.5.1", "", tmp_path), tmp_path / "told"
    done = run("jobs/train.py", "--config", str(config), path=tmp_path, **{VARIABLE: str(told)})
    assert (done.returncode, told_verdict(told)) == (2, 2)
    assert "cannot import name" in done.stderr.splitlines()[-1]


def test_parameter_servers_on_another_tensorflow_are_refused_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "tensorflow-2.20.0.dist-info").mkdir()
    (tmp_path / "tensorflow-2.20.0.dist-info/METADATA").write_text("Name: tensorflow\nVersion: 2.20.0\n")
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark/__init__.py").write_text("raise RuntimeError('imported')\n", encoding="utf-8")
    config = tmp_path / "t.yaml"
    config.write_text(f"{CONFIG}cluster: {{strategy: parameter_server, ps: 1}}\n", encoding="utf-8")
    done = run("jobs/train.py", "--config", str(config), path=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr == (
        "PreflightError: cluster.strategy: parameter_server needs TensorFlow 2.21.x to replace lost workers, and "
        "2.20.0 is installed: install 2.21.x, or choose another strategy\n"
    )


# --- what `sparktf submit` looks at before it submits ---


def java(folder: Path, version: str) -> str:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/java").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "bin/java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n', encoding="utf-8")
    return str(folder)


def programs(java_home: str | None, *, sets_java: bool = False) -> Programs:
    return Programs(Path("/spark"), "python", "python", java_home=java_home, sets_java=sets_java)


def test_a_java_that_is_not_there_or_too_old_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PreflightError, match=r"^JAVA_HOME=/nowhere has no bin/java; Spark needs Java 17 or newer"):
        check_java(programs("/nowhere"))
    for version, number in (("11.0.2", 11), ("1.8.0_392", 8)):
        home = java(tmp_path / version, version)
        with pytest.raises(PreflightError, match=rf"is Java {number}, and Spark needs 17 or newer"):
            check_java(programs(home))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PreflightError, match=r"^no Java: JAVA_HOME is not set, and there is none in PATH"):
        check_java(programs(None))


def test_one_that_will_do_or_that_spark_itself_chooses_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_java(programs(java(tmp_path / "21", "21.0.1")))
    check_java(programs("/nowhere", sets_java=True))
    monkeypatch.setenv("PATH", f"{tmp_path}/21/bin")
    check_java(programs(None))


def test_a_python_without_our_packages_is_refused(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    with pytest.raises(PreflightError, match=r"^PYSPARK_PYTHON=.*bare/bin/python lacks numpy, pyarrow, pydantic"):
        check_python(str(tmp_path / "bare/bin/python"), "PYSPARK_PYTHON")
    with pytest.raises(PreflightError, match=r"^PYSPARK_PYTHON=/nowhere/python cannot be run: .*No such file"):
        check_python("/nowhere/python", "PYSPARK_PYTHON")
    check_python(sys.executable, "PYSPARK_PYTHON")


def test_an_old_spark_is_refused_by_its_jars(tmp_path: Path) -> None:
    check_spark(tmp_path)  # which says nothing
    (tmp_path / "jars").mkdir()
    jar = tmp_path / "jars/spark-core_2.12-3.5.0.jar"
    jar.touch()
    with pytest.raises(PreflightError, match=r"is Spark 3\.5\.0, but sparktf needs 3\.5\.1"):
        check_spark(tmp_path)
    assert first_java(tmp_path) == 8
    jar.rename(tmp_path / "jars/spark-core_2.13-4.0.0.jar")
    check_spark(tmp_path)
    assert first_java(tmp_path) == 17


@pytest.mark.parametrize("master", ["yran", "local[x]", "spark:", "yarn-client", ""])
def test_what_is_no_master_is_refused_by_the_configuration(master: str) -> None:
    with pytest.raises(ConfigError, match=r"submit\.master: .* is no master of Spark's: write yarn"):
        parse_config(CONFIG, [f"submit.master='{master}'"])


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4, 2]", "local-cluster[2,1,1024]", "spark://a:1,b:1"])
def test_what_is_one_is_not(master: str) -> None:
    assert parse_config(CONFIG, [f"submit.master='{master}'", "submit.deploy_mode=client"]).submit.master == master
