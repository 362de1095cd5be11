"""Runs whose output is in a store of objects: checkpoints, ownership, and what a killed driver leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.processes import wait_for
from integration.rows import job
from integration.sandbox import Sandbox
from integration.submit import Submit
from integration.watch import Watch
from object_stores import ACCESS_KEY, SECRET_KEY, S3Server, s3_server

from sparktf import Verdict
from sparktf.hadoop import HadoopConf
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.checkpoints import CheckpointStore

ROWS = 600
RUNS = "s3a://bucket/runs"
HOLD_AT = 13  # of 20 updates in an epoch


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        FileSystems(HadoopConf(properties=server.hadoop())).open(RUNS).write_bytes("s3a://bucket/made", b"")
        yield server


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nodes know the store by."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


def storage_of(server: S3Server) -> Storage:
    return FileSystems(HadoopConf(properties=server.hadoop())).open_runs(RUNS)


def submit(sandbox: Sandbox, server: S3Server, config: dict[str, Any], *arguments: str) -> Submit:
    conf = {f"spark.hadoop.{key}": value for key, value in server.hadoop().items()}
    return Submit(sandbox, "local[2]", config, *arguments, conf=conf)


def steps(server: S3Server, run: RunDirectory) -> tuple[int, ...]:
    return CheckpointStore(storage_of(server), run, 1).list()


def test_a_run_whose_driver_was_killed_goes_on_inside_the_epoch(
    tmp_path: Path, server: S3Server, keys: None, rows: Path
) -> None:
    watch, run = Watch(tmp_path / "watch"), RunDirectory(RUNS, "t", "killed")
    config = job(
        rows,
        RUNS,  # type: ignore[arg-type]
        "cases.hand_written:train",
        params=watch.params(hold_at=HOLD_AT),
        train={"epochs": 2, "batch_size": 30},
        checkpoint={"every_steps": 10},
    )
    first = Sandbox(tmp_path / "first")
    second = Sandbox(tmp_path / "second")
    try:
        watch.hold()
        killed = submit(first, server, config, "--run-id", "killed")
        held = watch.held(2)
        wait_for("a commit", lambda: steps(server, run), within_s=60)
        first.family.kill()
        killed.wait(within_s=60)
        watch.release()
        again = submit(second, server, config, "--run-id", "killed")
        code = again.wait(within_s=240)
        assert code == 0, second.report()
        result = RunResult.model_validate_json(storage_of(server).read_bytes(run.result))
        assert (result.verdict, result.steps, result.rows_trained) == (Verdict.DONE, 40, 2 * ROWS)
        assert result.resumed_from == 10 if hasattr(result, "resumed_from") else True
        trained = watch.ids([h.pid for h in held], updates=10) + watch.ids(
            [pid for pid in watch.pids() if pid not in {h.pid for h in held}]
        )
        assert set(trained.values()) == {2} and len(trained) == ROWS
    finally:
        first.family.kill()
        second.family.kill()
