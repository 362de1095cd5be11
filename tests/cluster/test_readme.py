"""The commands of README.md that want a Hadoop, as they stand there, in a fresh copy without an active environment.

`make` is told the name of the tests' own cluster, and takes it for one that an earlier command has started: that the
command line starts one from nothing is shown by test_lifecycle.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import readme
from cluster.submission import SMALL_CONF
from integration.sandbox import QUICK_START

from minihadoop import MiniHadoop
from sparktf.results.result import RunResult

README = readme.read_readme()
THERE = [command for command in README.commands if readme.needs_hadoop(command)]
SUBMITS = [command for command in THERE if "sparktf submit" in command]
MAKES = [command for command in THERE if command not in SUBMITS]

pytestmark = pytest.mark.timeout(600)


def spark_conf(folder: Path) -> str:
    """Returns a SPARK_CONF_DIR as those who run a cluster have it.

    Without jars that are on the hosts, each submission brings 460 MB along. Without options for a quick start, which
    containers have from here alone, a JVM in one takes three times as much of a processor.
    """
    folder.mkdir()
    lines = [f"{name} {value}\n" for name, value in SMALL_CONF.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return str(folder)


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Returns what a command that succeeds prints."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=readme.bare_environment({"SPARK_SUBMIT_OPTS": QUICK_START, **environment}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.more(
    "cluster/test_readme.py::test_it_trains_on_the_cluster_of_this_machine",
    "integration/test_readme.py::test_a_command_does_what_it_says",
)
@pytest.mark.parametrize("command", SUBMITS)
def test_a_submission_to_a_cluster_publishes_a_model(hadoop: MiniHadoop, tmp_path: Path, command: str) -> None:
    copy = readme.fresh_copy(tmp_path)
    lake = copy / "customers"
    readme.write_customers(lake)
    home = "/user/root"
    for file in lake.rglob("*.parquet"):
        hadoop.hdfs.put(f"{home}/lake/customers/{file.relative_to(lake)}", file.read_bytes())
    run(command, copy, {**hadoop.environment(), "SPARK_CONF_DIR": spark_conf(tmp_path / "spark")})
    result = RunResult.model_validate_json(hadoop.hdfs.get(f"{home}/runs/churn/{readme.DAY}/result.json"))
    assert (result.verdict, result.model) == (0, f"{result.path}/model")


@pytest.mark.parametrize("command", MAKES)
def test_it_trains_on_the_cluster_of_this_machine(shared_cluster: MiniHadoop, tmp_path: Path, command: str) -> None:
    name = shared_cluster.config.name
    environment = f"SPARK_CONF_DIR={spark_conf(tmp_path / 'spark')} PYTHON=.venv/bin/python"
    minihadoop = f"{environment} yarn/minihadoop.sh --name {name}".replace(" ", r"\ ")
    # What three workers learn, test_yarn_locality and `make train` show.
    flags = rf"MINIHADOOP={minihadoop} ARGS=--set\ train.epochs=2\ --set\ cluster.workers=1"
    said = run(command, readme.fresh_copy(tmp_path), {"MAKEFLAGS": flags})
    assert f"cluster {name} is up" in said
    assert "done" in said
    assert "on the reader's own host" in said
