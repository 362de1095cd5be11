"""Runs whose output is in a store of objects: checkpoints, ownership, and what a killed driver leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration.processes import wait_for
from integration.rows import job
from integration.sandbox import Sandbox
from integration.store_readers import StoreReaders
from integration.submit import Submit
from integration.watch import Watch
from object_stores import S3Server

from sparktf import Verdict
from sparktf.commands.cli import main
from sparktf.hadoop import HadoopConf
from sparktf.published.serving import Serving
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.checkpoints import CheckpointStore

ROWS = 600
EVERY = 10
RUNS = "s3a://bucket/runs"
HOLD_AT = 13  # of 20 updates in an epoch


@pytest.fixture
def server(s3_store: S3Server) -> S3Server:
    return s3_store


def systems_of(server: S3Server) -> FileSystems:
    return FileSystems(HadoopConf(properties=server.hadoop()))


def storage_of(server: S3Server) -> Storage:
    return systems_of(server).open_runs(RUNS)


def submit(sandbox: Sandbox, server: S3Server, config: dict[str, Any]) -> Submit:
    conf = {f"spark.hadoop.{key}": value for key, value in server.hadoop().items()}
    return Submit(sandbox, "local[2]", config, "--run-id", "r", conf=conf)


def steps(server: S3Server, run: RunDirectory) -> tuple[int, ...]:
    return CheckpointStore(storage_of(server), run, 1).list()


def test_a_night_whose_driver_and_server_are_killed_and_which_is_submitted_twice(
    tmp_path: Path, server: S3Server, rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watch, run = Watch(tmp_path / "watch"), RunDirectory(RUNS, "t", "r")
    config = job(
        rows,
        RUNS,
        "cases.watched:build",
        params=watch.params(hold_at=HOLD_AT),
        train={"epochs": 2, "batch_size": 30},
        checkpoint={"every_steps": EVERY},
        output={"history": True},
        timeouts={"owner": 10},
        publish={},
    )
    one, two, three = (Sandbox(tmp_path / name) for name in ("one", "two", "three"))
    serving = Serving(storage_of(server), RUNS, "t")
    try:
        with StoreReaders(systems_of(server), RUNS) as readers:
            watch.hold()
            killed = submit(one, server, config)
            held = [node.pid for node in watch.held(2)]
            wait_for("a commit", lambda: steps(server, run), within_s=60)
            refused = submit(two, server, config)
            assert refused.wait(within_s=120) == int(Verdict.OWNED), two.report()
            assert "run t/r is owned by application " in "\n".join(refused.output())
            one.family.kill()
            killed.wait(within_s=60)
            server.kill()
            server.start()
            watch.release()
            again = submit(three, server, config)
            assert again.wait(within_s=300) == int(Verdict.DONE), three.report()
        result = RunResult.model_validate_json(storage_of(server).read_bytes(run.result))
        assert (result.steps, result.rows_trained, result.attempts[0].from_step) == (40, 2 * ROWS, EVERY)
        later = [pid for pid in watch.pids() if pid not in held]
        trained = watch.ids(held, updates=EVERY) + watch.ids(later)
        assert trained == dict.fromkeys(range(1, ROWS + 1), 2)
        assert (result.extra["published"], serving.current()) == (1, 1)
        assert readers.wrong == []
        assert readers.looks > 10
        assert_shown(server, tmp_path, monkeypatch, capsys)
    finally:
        for sandbox in (one, two, three):
            sandbox.family.kill()


def assert_shown(
    server: S3Server, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asks sparktf's commands what a person would."""
    properties = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>" for key, value in server.hadoop().items()
    )
    (folder / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
    for command, told in ((["runs", "t"], "done"), (["show", "t/r"], "done"), (["models", "t"], "current")):
        assert main([*command, "--output", RUNS]) == 0
        assert told in capsys.readouterr().out
