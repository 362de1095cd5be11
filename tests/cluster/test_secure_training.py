"""Runs on a cluster with Kerberos, whose tokens live a minute: they outlive them, and others do not read them."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from cluster.containers import containers_of
from cluster.submission import REPO, SMALL_CONF, SPARKTF, Submission, digits_config, plain_line, put_digits, ticket_of

from minihadoop import MiniHadoop
from minihadoop.waiting import wait_for
from sparktf.results.result import RunResult

pytestmark = pytest.mark.timeout(700)

RUNS = "/user/alice/runs"
TOKENS = 3
"""A run is to outlive as many: Spark gets one each 45 s."""

TOKEN_S = 75
"""The life of one."""

ROWS = 1797
"""Of the digits."""


@pytest.fixture(scope="module")
def lake(secured: MiniHadoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The digits on the secured cluster, with the test inside its network."""
    with secured.inside():
        yield put_digits(secured, tmp_path_factory.mktemp("secured") / "digits")


@pytest.fixture(scope="module")
def on_one_machine(secured: MiniHadoop, lake: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submission]:
    """A run on a local master, by alice's ticket, which goes on beside another test: both wait for tokens to end."""
    folder = tmp_path_factory.mktemp("local")
    config = digits_config(folder, lake, train={"epochs": 100_000, "max_seconds": TOKEN_S + 20, "reserve": 15})
    config["data"]["mode"] = "spark"
    config["output"]["path"] = RUNS
    secured.login("alice")
    program = (*plain_line("jobs/train.py", {"spark.ui.enabled": "false"}, "local[3]"), "--config")
    ticket = {**ticket_of(secured, "alice"), "PYSPARK_PYTHON": sys.executable}
    with Submission(secured, folder, config, "--run-id", "local", program=program, environment=ticket) as submission:
        yield submission


def by_keytab(secured: MiniHadoop, folder: Path, lake: str, **sections: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a short run of alice's, whose tokens come by her keytab."""
    found = digits_config(folder, lake, **sections)
    keytab = secured.folder.keytab("alice")
    found["output"]["path"] = RUNS
    found["submit"] |= {"principal": "alice@MINIHADOOP.TEST", "keytab": str(keytab), "conf": SMALL_CONF}
    return found


def tokens_given(secured: MiniHadoop) -> int:
    """Returns how many tokens the active NameNode has given so far."""
    name = "Hadoop:service=NameNode,name=RpcDetailedActivityForPort8020"
    return int(secured.jmx(name, "namenode", secured.hdfs.active()).get("GetDelegationTokenNumOps", 0))


def trained(submission: Submission) -> str:
    """Returns what is missing until the second epoch is trained; "" for nothing."""
    assert submission.is_running, submission.output()
    return "" if "epoch 2/" in submission.output() else "it is not said"


def result_of(secured: MiniHadoop, run: str) -> RunResult:
    return RunResult.model_validate_json(secured.hdfs.get(f"{RUNS}/digits/{run}/result.json", user="alice"))


@pytest.mark.usefixtures("on_one_machine")
def test_a_run_outlives_its_tokens_and_a_lost_executor_and_is_alices_alone(
    secured: MiniHadoop, lake: str, tmp_path: Path
) -> None:
    train = {"epochs": 100_000, "max_seconds": 120, "reserve": 20, "max_attempts": 3}
    config = by_keytab(secured, tmp_path, lake, train=train)
    secured.login("alice")
    before = tokens_given(secured)
    alice = ticket_of(secured, "alice")
    options = ("--set", "submit.deploy_mode=client", "--run-id", "long")
    with Submission(secured, tmp_path, config, *options, environment=alice) as submission:
        wait_for("two epochs are trained", lambda: trained(submission), 300, submission.output)
        trainers = [
            process
            for process in containers_of(submission.application().id)
            if "sparktf.trainer" in " ".join(process.cmdline())
        ]
        trainers[0].kill()
        assert submission.wait() == 0, submission.output()
    result = result_of(secured, "long")
    first, *others = result.attempts
    assert (len(first.losses), others) == (1, []), "it costs no attempt"
    assert all(rows.trained == rows.planned for rows in result.rows if rows.complete), result.rows
    assert sum(rows.complete for rows in result.rows) > 1
    assert tokens_given(secured) - before >= TOKENS
    for user, code, says in (
        ("bob", 4, "Permission denied: user=bob"),
        (None, 2, "HDFS gives no token: there is no ticket"),
    ):
        done = secured.run(
            [*SPARKTF, "show", "--output", RUNS, "digits"], user=user, check=False, env={"PYTHONPATH": str(REPO)}
        )
        assert (done.returncode, says in done.stderr) == (code, True), done.stderr


def test_without_yarn_a_driver_renews_its_tokens_by_the_ticket_of_its_user(
    secured: MiniHadoop, on_one_machine: Submission
) -> None:
    """Spark gets tokens on YARN alone. The rows are fed by Spark, whose own Python workers read no HDFS."""
    assert on_one_machine.wait() == 0, on_one_machine.output()
    result = result_of(secured, "local")
    assert len(result.attempts) == 1
    assert result.rows[0].trained == result.rows[0].fed > 0
    assert result.duration_s > TOKEN_S


def test_an_asynchronous_run_in_cluster_mode_is_scored_with(secured: MiniHadoop, lake: str, tmp_path: Path) -> None:
    """Scoring has no agents that are handed tokens: its tasks have young ones in their closure."""
    nodes = {"strategy": "parameter_server", "workers": 1, "ps": 1}
    scores = "/user/alice/scores"
    predict = {"source": {"path": lake}, "output": {"path": scores}, "columns": {"label": "digit"}, "keep": ["label"]}
    config = by_keytab(secured, tmp_path, lake, params={"learning_rate": 0.2}, cluster=nodes, predict=predict)
    config["model"] = "models.digits_async:train"
    secured.login("alice")
    alice = ticket_of(secured, "alice")
    with Submission(secured, tmp_path, config, "--run-id", "async", environment=alice) as submission:
        assert submission.wait() == 0, submission.output()
    result = result_of(secured, "async")
    assert [(rows.trained, rows.complete) for rows in result.rows] == [(result.rows[0].planned, True)] * 2
    options = ("--predict", "--date", "2026-11-20", "--model", "run:async")
    with Submission(secured, tmp_path, config, *options, environment=alice) as submission:
        assert submission.wait() == 0, submission.output()
    day = f"{scores}/date=2026-11-20"
    parts = [name for name in secured.hdfs.names(day, user="alice") if name.endswith(".parquet")]
    found = [secured.hdfs.get(f"{day}/{part}", user="alice") for part in parts]
    nrows = sum(pq.read_metadata(io.BytesIO(content)).num_rows for content in found)
    assert nrows == ROWS
