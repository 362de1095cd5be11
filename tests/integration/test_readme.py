"""Every command of README.md, as it stands there, typed into a fresh copy without an active environment."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import readme
from integration.digits import EPOCHS, TRAINED, assert_is_a_whole_result
from integration.processes import MARK, Family
from integration.sandbox import QUICK_START, RunFolder

from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory

README = readme.read_readme()
HERE = [c for c in README.commands if c not in readme.SUITES and not readme.needs_hadoop(c)]
MOST_INFO_LINES = 5
RESULTS = {"make train": "runs/digits/*/result.json", "spark-submit": "runs/churn/2026-11-20/result.json"}
DIGITS = "make train"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = readme.fresh_copy(tmp_path_factory.mktemp("readme"))
    readme.write_customers(folder / "lake/customers")
    return folder


@pytest.fixture
def family() -> Iterator[Family]:
    made = Family()
    try:
        yield made
    finally:
        made.kill()


@pytest.mark.parametrize("command", HERE)
def test_a_command_does_what_it_says(copy: Path, family: Family, command: str) -> None:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=copy,
        env=readme.bare_environment({MARK: family.mark, "SPARK_SUBMIT_OPTS": QUICK_START}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert not family.wait()
    assert "Warning" not in said
    for part, path in RESULTS.items():
        if part in command:
            (found,) = copy.glob(path)
            assert RunResult.model_validate_json(found.read_bytes()).verdict == 0
            assert "starting Spark" in said
            # Spark's first words come before it looks at its log level.
            assert said.count(" INFO ") <= MOST_INFO_LINES
            if command == DIGITS:
                assert_are_trained(copy, RunFolder(RunDirectory(str(copy / "runs"), "digits", found.parent.name)), said)


def assert_are_trained(copy: Path, run: RunFolder, said: str) -> None:
    """Asserts that a run on the digits is whole, and that it was shown."""
    assert_is_a_whole_result(run)
    rows = f"{EPOCHS * TRAINED:,}"
    assert f"epoch {EPOCHS}/{EPOCHS}" in said
    assert str(run.model.relative_to(copy)) in said
    assert f"{rows} planned, {rows} fed, {rows} trained" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", readme.SUITES)
def test_the_suites_are_what_it_calls_them(copy: Path, command: str) -> None:
    assert command in README.commands
    done = subprocess.run(
        [*command.split(), "--dry-run"], cwd=copy, env=readme.bare_environment({}), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
