"""The commands of README.md that want a Hadoop, as they stand there, in a fresh copy without an active environment."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import readme

from minihadoop import MiniHadoop
from minihadoop.jars import distribution
from sparktf.result import RunResult

README = readme.read_readme()
THERE = [command for command in README.commands if readme.needs_hadoop(command)]
SUBMITS = [command for command in THERE if "sparktf submit" in command]
OWN_CLUSTER = [command for command in THERE if command not in SUBMITS]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return readme.fresh_copy(tmp_path)


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Returns what a command that succeeds prints."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=readme.bare_environment(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("command", SUBMITS)
def test_a_submission_to_a_cluster_publishes_a_model(hadoop: MiniHadoop, copy: Path, command: str) -> None:
    lake = copy / "customers"
    readme.write_customers(lake)
    home = "/user/root"
    for file in lake.rglob("*.parquet"):
        hadoop.hdfs.put(f"{home}/lake/customers/{file.relative_to(lake)}", file.read_bytes())
    run(command, copy, hadoop.environment())
    result = RunResult.model_validate_json(hadoop.hdfs.get(f"{home}/runs/churn/{readme.DAY}/result.json"))
    assert (result.verdict, result.model) == (0, f"{result.path}/model")


@pytest.mark.parametrize("command", OWN_CLUSTER)
def test_it_trains_on_a_cluster_that_it_starts(copy: Path, tmp_path: Path, command: str) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / distribution().path.name).symlink_to(distribution().path)  # the jars alone: the cluster is its own
    environment = {"SPARKTF_CACHE": str(cache)}
    try:
        said = run(command, copy, environment)
        assert "done" in said
        assert "on the reader's own host" in said
    finally:
        run("make hadoop-down", copy, environment)
    assert not list(cache.glob("clusters/*"))
