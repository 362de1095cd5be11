"""The commands of README.md that want a Hadoop, as they stand there, in a fresh copy without an active environment."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
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

pytestmark = pytest.mark.timeout(600)


class Beside:
    """A command that runs beside other tests, with a cluster of its own, in a fresh copy."""

    def __init__(self, command: str, folder: Path) -> None:
        self._copy = readme.fresh_copy(folder)
        self.cache = folder / "cache"
        self.cache.mkdir()
        (self.cache / distribution().path.name).symlink_to(distribution().path)  # the jars alone
        self._environment = {"SPARKTF_CACHE": str(self.cache)}
        self._log = folder / "said.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", command],
                cwd=self._copy,
                env=readme.bare_environment(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    def outcome(self) -> str:
        """Waits until it has succeeded; returns what it printed."""
        code = self._process.wait()
        said = self._log.read_text(encoding="utf-8", errors="replace")
        assert code == 0, said
        return said

    def close(self) -> None:
        """Ends it, where it has not ended, and its cluster."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
            self._process.wait()
        run("make hadoop-down", self._copy, self._environment)


@pytest.fixture(scope="module")
def own_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Beside]]:
    """What the README's commands do that start a cluster: each is under way from here on, for they wait much."""
    with ExitStack() as stack:
        started = {}
        for command in OWN_CLUSTER:
            started[command] = Beside(command, tmp_path_factory.mktemp("copy"))
            stack.callback(started[command].close)
        yield started


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


@pytest.mark.timeout(600)  # two clusters, and a run on each, beside another suite: it has taken 260 s
@pytest.mark.usefixtures("own_clusters")
@pytest.mark.parametrize("command", SUBMITS)
def test_a_submission_to_a_cluster_publishes_a_model(hadoop: MiniHadoop, tmp_path: Path, command: str) -> None:
    copy = readme.fresh_copy(tmp_path)
    lake = copy / "customers"
    readme.write_customers(lake)
    home = "/user/root"
    for file in lake.rglob("*.parquet"):
        hadoop.hdfs.put(f"{home}/lake/customers/{file.relative_to(lake)}", file.read_bytes())
    run(command, copy, hadoop.environment())
    result = RunResult.model_validate_json(hadoop.hdfs.get(f"{home}/runs/churn/{readme.DAY}/result.json"))
    assert (result.verdict, result.model) == (0, f"{result.path}/model")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", OWN_CLUSTER)
def test_it_trains_on_a_cluster_that_it_starts(own_clusters: dict[str, Beside], command: str) -> None:
    beside = own_clusters[command]
    said = beside.outcome()
    assert "done" in said
    assert "on the reader's own host" in said
    beside.close()
    assert not list(beside.cache.glob("clusters/*"))
