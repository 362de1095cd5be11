"""Whose a run is on a cluster with Kerberos: another user's, or somebody's whose ticket is renewed all the time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster.submission import (
    SMALL_CONF,
    SPARKTF,
    Submission,
    digits_config,
    environment_of,
    plain_line,
    put_digits,
    ticket_of,
)

from minihadoop import MiniHadoop
from sparktf.results.result import RunResult

pytestmark = pytest.mark.timeout(500)

RUNS = "/user/alice/others"
ETL = "etl-svc"
"""A principal whose short name is etl, and who may act as alice."""


def job(folder: Path, lake: str, **sections: Mapping[str, Any]) -> dict[str, Any]:
    config = digits_config(folder, lake, **sections)
    config["output"]["path"] = RUNS
    config["submit"] |= {"conf": SMALL_CONF, "deploy_mode": "client"}
    return config


def result_of(secured: MiniHadoop, run: str) -> RunResult:
    return RunResult.model_validate_json(secured.hdfs.get(f"{RUNS}/digits/{run}/result.json", user="alice"))


def owners(secured: MiniHadoop, folder: str) -> set[str]:
    listed = secured.tool("fs", "-ls", "-R", folder, user="alice").splitlines()
    return {line.split()[2] for line in listed}


def test_commands_act_as_the_user_whom_the_tickets_owner_stands_for(secured: MiniHadoop) -> None:
    secured.login(ETL)

    def asked(act_as: str | None) -> tuple[int, str]:
        variables = {} if act_as is None else {"HADOOP_PROXY_USER": act_as}
        known = {**environment_of(secured), **ticket_of(secured, ETL), **variables}
        done = secured.run([*SPARKTF, "runs", "--output", "/user/alice/none"], check=False, env=known)
        return done.returncode, done.stderr

    with ThreadPoolExecutor(3) as pool:
        alice, bob, itself = pool.map(asked, ("alice", "bob", None))
    assert alice[0] == 2, alice
    assert "/user/alice/none" in alice[1]  # which is not there: she may look
    assert (bob[0], "who has the ticket may not act as another user: have it allowed" in bob[1]) == (2, True), bob
    assert (itself[0], "Permission denied: user=etl, " in itself[1]) == (4, True), itself  # no etl-svc


@pytest.mark.more("cluster/test_secure_users.py::test_commands_act_as_the_user_whom_the_tickets_owner_stands_for")
def test_a_run_of_another_users_outlives_her_tokens_and_all_of_it_is_hers(secured: MiniHadoop, tmp_path: Path) -> None:
    secured.login(ETL)
    with secured.inside():
        lake = put_digits(secured, tmp_path / "digits")
        config = job(tmp_path, lake, train={"epochs": 100_000, "max_seconds": 90, "reserve": 20})
        config["submit"]["proxy_user"] = "alice"
        with Submission(
            secured, tmp_path, config, "--run-id", "hers", environment=ticket_of(secured, ETL)
        ) as submission:
            assert submission.wait() == 0, submission.output()
        assert len(result_of(secured, "hers").attempts) == 1
    assert owners(secured, f"{RUNS}/digits/hers") == {"alice"}


@pytest.mark.more(
    "cluster/test_secure_training.py::test_without_yarn_a_driver_renews_its_tokens_by_the_ticket_of_its_user"
)
def test_scoring_on_a_local_master_has_tokens_by_the_ticket_of_who_acts_as_alice(
    secured: MiniHadoop, tmp_path: Path
) -> None:
    secured.login(ETL)
    scores = "/user/alice/local-scores"
    known = {**ticket_of(secured, ETL), "PYSPARK_PYTHON": sys.executable}
    with secured.inside():
        lake = put_digits(secured, tmp_path / "digits")
        predict = {"source": {"path": lake}, "output": {"path": scores}, "model": "run:scored", "keep": ["label"]}
        config = job(tmp_path, lake, predict=predict)
        for script, options in (("train", ("--run-id", "scored")), ("predict", ("--date", "2026-11-20"))):
            first, *rest = plain_line(f"jobs/{script}.py", {"spark.ui.enabled": "false"}, "local[3]")
            program = (first, "--proxy-user", "alice", *rest, "--config")
            with Submission(secured, tmp_path, config, *options, program=program, environment=known) as submission:
                assert submission.wait() == 0, submission.output()
    assert owners(secured, scores) == {"alice"}


@contextmanager
def renewed(secured: MiniHadoop, user: str, life: str, each_s: float) -> Iterator[list[str]]:
    """Renews a user's ticket as `kinit` in a loop does; yields a list that grows by each."""
    ended, tickets = threading.Event(), list[str]()

    def renew() -> None:
        while not ended.is_set():
            secured.login(user, life)
            tickets.append(life)
            ended.wait(each_s)

    secured.login(user, life)
    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield tickets
    finally:
        ended.set()
        thread.join()
        secured.login(user)


@pytest.mark.more(
    "cluster/test_secure_training.py::test_without_yarn_a_driver_renews_its_tokens_by_the_ticket_of_its_user"
)
def test_tickets_that_are_renewed_carry_a_run_without_a_keytab(secured: MiniHadoop, tmp_path: Path) -> None:
    with secured.inside():
        lake = put_digits(secured, tmp_path / "digits")
        config = job(tmp_path, lake, train={"epochs": 100_000, "max_seconds": 125, "reserve": 20})
        config["submit"]["conf"] = {**SMALL_CONF, "spark.kerberos.renewal.credentials": "ccache"}
        with (
            renewed(secured, "alice", "30s", 10) as tickets,
            Submission(
                secured, tmp_path, config, "--run-id", "ccache", environment=ticket_of(secured, "alice")
            ) as submission,
        ):
            assert submission.wait() == 0, submission.output()
        assert len(tickets) >= 6  # each lived shorter than the run
        assert len(result_of(secured, "ccache").attempts) == 1
