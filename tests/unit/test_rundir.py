"""Run ids: what may name a folder, and that nothing is touched below any other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lakes import plan_lake, write_lake
from pretend import PretendDriver, pretend_config

from sparktf.commands.cli import main
from sparktf.config.load import parse_config
from sparktf.driver.run import Run
from sparktf.errors import ConfigError
from sparktf.main import parse
from sparktf.results.result import Application
from sparktf.rundir import RunDirectory

BAD = [
    "",
    " ",
    ".",
    "..",
    "../../x",
    "a/b",
    "/etc",
    "a/../b",
    "a:b",
    "_tmp",
    ".hidden",
    "-x",
    "a b",
    "ä",
    "a\n",
    "x" * 201,
]
GOOD = [
    "2026-11-20",
    "r",
    "r..2",
    "application_1700000000000_0001",
    "local-1700000000000-2",
    "app-20261120101010-0000",
    "spark-0a1b2c3d",
    "x" * 200,
]

CONFIG = """\
name: digits
model: models.digits:build
data: {path: lake, inputs: {x: x}, targets: {y: y}}
output: {path: runs}
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("run_id", GOOD)
def test_an_id_that_can_name_a_folder_is_taken(config: str, run_id: str) -> None:
    assert RunDirectory("/runs", "digits", run_id).path == f"/runs/digits/{run_id}"
    assert parse(["--config", config, "--run-id", run_id])[1] == run_id


@pytest.mark.parametrize("run_id", BAD)
def test_any_other_is_refused_before_spark_starts_or_anything_is_shipped(
    config: str, capsys: pytest.CaptureFixture[str], run_id: str
) -> None:
    with pytest.raises(ConfigError, match=r"^--run-id .* cannot name a folder: give up to 200 letters, digits"):
        parse(["--config", config, f"--run-id={run_id}"])
    assert main(["submit", config, f"--run-id={run_id}", "--dry-run"]) == 2
    shown, errors = capsys.readouterr()
    assert (shown, errors.partition(" ")[0]) == ("", "--run-id")
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize("run_id", BAD)
def test_and_by_the_api_before_anything_is_touched(tmp_path: Path, run_id: str) -> None:
    lake = write_lake(tmp_path / "lake", [2])
    (tmp_path / "runs" / "t").mkdir(parents=True)
    driver = PretendDriver(Application("app"), pretend_config(lake, tmp_path / "runs"), plan_lake(lake))
    before = sorted(os.walk(tmp_path))
    with pytest.raises(ConfigError, match="cannot name a folder"):
        Run(driver.gang, driver.config, run_id)
    assert sorted(os.walk(tmp_path)) == before


def test_a_date_is_an_id(config: str) -> None:
    assert parse(["--config", config, "--date", "2026-11-20"])[1] == "2026-11-20"
    assert parse(["--config", config])[1] is None


@pytest.mark.parametrize("date", ["", "2026-11-20/..", "tomorrow"])
def test_but_only_a_day_of_the_calendar(config: str, date: str) -> None:
    with pytest.raises(ConfigError, match="must be a day of the calendar"):
        parse(["--config", config, "--date", date])


def test_a_name_that_no_folder_can_have_is_refused_with_the_configuration() -> None:
    with pytest.raises(ConfigError, match="must be text of at most 200 characters"):
        parse_config(CONFIG.replace("digits", "d" * 201, 1))
