"""What is refused, each with one line that says what to change: settings, places, data, models."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import yaml
from integration.application import Application
from integration.rows import job, write_rows
from integration.sandbox import REPO, Sandbox
from integration.submit import Submit
from lakes import write_file
from split import only

from sparktf import Verdict

SINGLE = {"strategy": "single", "workers": 1}
NO_TENSORFLOW = {"nursery": "off"}
"""It would be imported while Spark starts, for trainers that are never started."""


def columns(**changed: Any) -> pa.Table:
    """Returns eight good rows, with some columns replaced."""
    numbers = np.arange(1, 9, dtype=np.float32)
    return pa.table({"id": np.arange(1, 9), "a": numbers, "b": numbers, "y": numbers, **changed})


def one_file(**changed: Any) -> Callable[[Path], Path]:
    """Returns what writes a lake of one file."""
    return lambda folder: write_file(folder / "part-0.parquet", columns(**changed)).parent


def no_folder(folder: Path) -> Path:
    return folder


def empty_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def file_without_rows(folder: Path) -> Path:
    return write_file(folder / "part-0.parquet", columns().slice(0, 0)).parent


def torn_footer(folder: Path) -> Path:
    """A whole file, and one whose end is missing."""
    write_file(folder / "part-0.parquet", columns())
    torn = write_file(folder / "part-1.parquet", columns())
    torn.write_bytes(torn.read_bytes()[:-20])
    return folder


def torn_page(folder: Path) -> Path:
    """A whole file, and one whose footer is right, but not its pages."""
    write_file(folder / "part-0.parquet", columns())
    torn = write_file(folder / "part-1.parquet", columns())
    content = bytearray(torn.read_bytes())
    content[4:400] = bytes(396)
    torn.write_bytes(content)
    return folder


class Bad(NamedTuple):
    """A bad source, or a bad choice of its columns.

    Attributes:
        data: Changes of the data section.
        says: What the message must say, as a regular expression.
    """

    lake: Callable[[Path], Path]
    data: dict[str, Any]
    error: str
    says: str


BAD_DATA = {
    "a missing source": Bad(no_folder, {}, "SourceNotFoundError", r"data\.path: .*lake does not exist"),
    "a source without files": Bad(
        empty_folder, {}, "EmptySourceError", r"data\.path: there are no data files in .*lake"
    ),
    "a source without rows": Bad(file_without_rows, {}, "EmptySourceError", r"data\.path: .* have no rows"),
    "an unknown column": Bad(
        one_file(),
        {"targets": {"y": "yy"}},
        "ColumnError",
        r"data\.targets\.y: there is no column 'yy' in .*; did you mean 'y'",
    ),
    "a string where a number is needed": Bad(
        one_file(b=["1"] * 8),
        {},
        "BadValueError",
        r"data\.inputs\.x: column 'b' is of type string, but a number is needed",
    ),
    "a null": Bad(
        one_file(b=pa.array([1.0, 2, 3, None, 5, 6, 7, 8], pa.float32())), {}, "BadValueError", r"part-0.*'b'.*null"
    ),
    "a label that is NaN": Bad(
        one_file(y=[1.0, 2, 3, 4, 5, float("nan"), 7, 8]), {}, "BadValueError", r"part-0.*'y', row 5: nan"
    ),
    "a ragged list": Bad(
        one_file(v=[[1.0, 2.0]] * 7 + [[1.0]]),
        {"inputs": {"id": "id", "x": {"columns": "v", "shape": [2]}}},
        "BadValueError",
        r"part-0.*'v'",
    ),
    "a file without its footer": Bad(torn_footer, {}, "CorruptFileError", r"part-1\.parquet"),
    "a file with a broken page": Bad(torn_page, {}, "CorruptFileError", r"part-1\.parquet"),
}

OF_EACH_PLACE = ("a missing source", "an unknown column", "a null", "a file with a broken page")
"""Found by the driver's listing, by its plan, and by trainers, in a value and in a page; unit tests have them all."""

BAD_MODELS = {
    "no such function": ("cases.odd:bild", r"module 'cases\.odd' has no function 'bild' \(it has: .*not_compiled"),
    "not a model": ("cases.odd:nothing", r"cases\.odd:nothing .*compiled"),
    "a model that is not compiled": ("cases.odd:not_compiled", r"compile"),
    "an input that no column feeds": ("cases.odd:not_fed", r"'?age'?"),
}


@pytest.mark.parametrize("name", only(*OF_EACH_PLACE, of=[*BAD_DATA]))
def test_bad_data_is_refused(local: Application, tmp_path: Path, name: str) -> None:
    bad = BAD_DATA[name]
    config = job(bad.lake(tmp_path / "lake"), tmp_path / "runs", "cases.watched:build", cluster=SINGLE)
    config["data"] |= bad.data
    outcome = local.train(config)
    assert (outcome.error, outcome.verdict) == (bad.error, Verdict.DATA_REFUSED), outcome.message
    assert re.search(bad.says, outcome.message), outcome.message
    assert "\n" not in outcome.message
    assert outcome.failed.verdict is Verdict.DATA_REFUSED
    assert not local.family.trainers()


@pytest.mark.parametrize("name", only("an input that no column feeds", of=[*BAD_MODELS]))
def test_a_bad_model_is_refused(local: Application, rows: Path, tmp_path: Path, name: str) -> None:
    model, says = BAD_MODELS[name]
    config = job(rows, tmp_path / "runs", model, cluster=SINGLE)
    config["data"]["inputs"] = {"x": ["a", "b"]}
    outcome = local.train(config)
    assert (outcome.error, outcome.verdict) == ("ModelContractError", Verdict.REFUSED), outcome.message
    assert re.search(says, outcome.message), outcome.message
    assert "\n" not in outcome.message


def test_too_few_slots_are_refused_before_anything_is_held(local: Application, rows: Path, tmp_path: Path) -> None:
    outcome = local.train(job(rows, tmp_path / "runs", "cases.watched:build", cluster={"workers": 7}))
    assert (outcome.error, outcome.verdict) == ("PreflightError", Verdict.REFUSED)
    assert "local[6] has 6: use --master 'local[7]', or 'local[8]' if Spark feeds the nodes" in outcome.message


def test_a_model_module_that_executors_cannot_import_is_refused(local: Application, rows: Path, tmp_path: Path) -> None:
    outcome = local.train(job(rows, tmp_path / "runs", "not_there.model:build"))
    assert (outcome.error, outcome.verdict) == ("ConfigError", Verdict.REFUSED)
    assert "model: there is no module not_there.model in the working folder" in outcome.message


def test_an_output_that_cannot_be_written_is_refused(local: Application, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = local.train(job(rows, tmp_path / "file/runs", "cases.watched:build"))
    assert (outcome.error, outcome.verdict) == ("PreflightError", Verdict.REFUSED)
    assert "output.path" in outcome.message
    assert "\n" not in outcome.message


@pytest.mark.more(
    "integration/test_spark_refusals.py::test_executors_whose_python_has_no_packages_are_told_at_the_first_try",
    "integration/test_dynamic_allocation.py::test_a_gang_keeps_its_executors_outlives_one_and_gives_all_back",
    "integration/test_first_night.py::test_the_first_night_is_as_its_page_says",
)
@pytest.mark.parametrize(
    ("conf", "sections", "code", "says"),
    [
        pytest.param(
            *({}, {"train": {"batch_sise": 3}}, 2, "train.batch_sise is unknown: did you mean train.batch_size?"),
            id="an unknown key",
        ),
        pytest.param(
            *({}, {"data": {"path": "/nowhere"}}, 3, "data.path: /nowhere does not exist"), id="a missing source"
        ),
    ],
)
def test_spark_submit_ends_with_the_verdict_and_one_line(
    sandbox: Sandbox, tmp_path: Path, conf: dict[str, str], sections: dict[str, Any], code: int, says: str
) -> None:
    lake = write_rows(tmp_path / "lake", (8,))
    config = job(lake, sandbox.runs, "cases.watched:build", cluster=NO_TENSORFLOW, **sections)
    submit = Submit(sandbox, "local[2]", config, conf=conf)
    assert submit.wait(within_s=60) == code
    output = submit.output()
    assert says in output[-1]
    assert re.match(r"\w+Error: ", output[-1])
    assert "Traceback" not in "\n".join(output)
    assert not sandbox.family.wait()


def test_executors_whose_python_has_no_packages_are_told_at_the_first_try(sandbox: Sandbox, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    sandbox.bring_zip()
    bare = tmp_path / "bare/bin/python"
    conf = {"spark.pyspark.python": str(bare), "spark.pyspark.driver.python": sys.executable}
    lake = write_rows(tmp_path / "lake", (8,))
    config = job(lake, sandbox.runs, "cases.watched:build", cluster=NO_TENSORFLOW)
    submit = Submit(sandbox, "local[2]", config, conf=conf)
    assert submit.wait(within_s=60) == 2
    output = submit.output()
    assert output[-1].startswith(f"PreflightError: the executors' Python, {bare} on ")
    assert f" (executor driver), has no module 'pydantic'; PYSPARK_PYTHON is {bare}: set it to " in output[-1]
    assert sum("ERROR TaskSetManager" in line for line in output) == 1
    assert not sandbox.family.wait()


def test_what_fails_before_the_drivers_own_code_is_not_the_models_failure(sandbox: Sandbox, tmp_path: Path) -> None:
    lake = write_rows(tmp_path / "lake", (8,))
    config = job(lake, sandbox.runs, "cases.watched:build", submit={"master": "local[1]", "deploy_mode": "client"})
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    too_much = "submit.driver_memory_mib=999999999"
    command = [sys.executable, "-m", "sparktf.commands.cli", "submit", str(tmp_path / "job.yaml"), "--set", too_much]
    environment = {**sandbox.environment(), "PYTHONPATH": f"{REPO}:{REPO / 'tests/integration'}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 4, done.stderr
    assert "the driver left no verdict: spark-submit ended with exit code 1; its last lines are above" in done.stdout
