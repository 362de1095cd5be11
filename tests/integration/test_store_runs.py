"""Runs whose output is in a store of objects: checkpoints, ownership, and what a killed driver leaves."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from integration.application import Application
from integration.processes import wait_for
from integration.rows import job
from integration.sandbox import Sandbox
from integration.store_readers import StoreReaders
from integration.submit import Submit
from integration.watch import Watch
from object_stores import StoreServer

from sparktf import Verdict
from sparktf.commands.cli import main
from sparktf.hadoop import HadoopConf
from sparktf.published.serving import Serving
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.checkpoints import CheckpointStore

ROWS = 600
EVERY = 10
DAY = "2026-11-20"
PAUSE_S = 0.1  # of each reader: without, they would take the processors from the night
HOLD_AT = 13  # of 20 updates in an epoch


def systems_of(server: StoreServer) -> FileSystems:
    return FileSystems(HadoopConf(properties=server.hadoop()))


def runs_of(server: StoreServer) -> str:
    return f"{server.root}/runs"


def storage_of(server: StoreServer) -> Storage:
    return systems_of(server).open_runs(runs_of(server))


def conf_of(server: StoreServer) -> dict[str, str]:
    return {f"spark.hadoop.{key}": value for key, value in server.hadoop().items()}


def submit(sandbox: Sandbox, server: StoreServer, config: dict[str, Any]) -> Submit:
    return Submit(sandbox, "local[2]", config, "--run-id", "r", conf=conf_of(server))


def steps(server: StoreServer, run: RunDirectory) -> tuple[int, ...]:
    return CheckpointStore(storage_of(server), run, 1).list()


def test_a_night_whose_driver_and_server_are_killed_and_the_next_one_which_scores_and_is_rolled_back(
    tmp_path: Path, server: StoreServer, rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, lake, scores = (f"{server.root}/{name}" for name in ("runs", "lake", "scores"))
    watch, run = Watch(tmp_path / "watch"), RunDirectory(runs, "t", "r")
    for file in sorted(rows.iterdir()):
        systems_of(server).open(lake).upload(file, f"{lake}/{file.name}")
    config = job(
        lake,
        runs,
        "cases.watched:build",
        params=watch.params(hold_at=HOLD_AT),
        train={"epochs": 2, "batch_size": 30},
        checkpoint={"every_steps": EVERY},
        output={"history": True},
        timeouts={"owner": 10},
        publish={},
    )
    one, two = (Sandbox(tmp_path / name) for name in ("one", "two"))
    serving = Serving(storage_of(server), runs, "t")
    try:
        with StoreReaders(systems_of(server), runs, f"{scores}/date={DAY}", PAUSE_S) as readers:
            watch.hold()
            killed = submit(one, server, config)
            held = [node.pid for node in watch.held(2)]
            wait_for("a commit", lambda: steps(server, run), within_s=60)
            again = Application(two, "local[2]", conf_of(server))
            refused = again.train(config, "r")
            assert refused.verdict == int(Verdict.OWNED), refused
            assert "run t/r is owned by application " in refused.message
            one.family.kill()
            killed.wait(within_s=60)
            server.kill()
            server.start()
            watch.release()
            result = again.train(config, "r").done
            assert (result.steps, result.rows_trained, result.attempts[0].from_step) == (40, 2 * ROWS, EVERY)
            later = [pid for pid in watch.pids() if pid not in held]
            trained = watch.ids(held, updates=EVERY) + watch.ids(later)
            assert trained == dict.fromkeys(range(1, ROWS + 1), 2)
            assert (result.extra["published"], serving.current()) == (1, 1)
            tomorrow = {**config, "params": {}, "train": {"batch_size": 30}}
            assert again.train(tomorrow, "s").done.extra["published"] == 2
            predict = {"source": {"path": lake}, "output": {"path": scores}, "keep": ["id"]}
            scored = {**tomorrow, "predict": predict}
            assert again.score(scored, DAY) == (ROWS, "2", f"{scores}/date={DAY}")
            ask(server, tmp_path, monkeypatch)
            assert main(["rollback", "t", "--output", runs]) == 0
            assert serving.current() == 1
            with ThreadPoolExecutor(1) as pool:
                second = pool.submit(again.score, scored, DAY)
                server.kill()
                server.start()
                assert second.result() == (ROWS, "1", f"{scores}/date={DAY}")
            wait_for("readers see them", lambda: len(readers.scores) > 1, within_s=30)
            again.close()
        assert readers.wrong == []
        assert readers.looks > 10
        assert readers.scores == [("2", ROWS), ("1", ROWS)]
        for command, told in ((["runs", "t"], "done"), (["show", "t/r"], "done"), (["models", "t"], "withdrawn")):
            assert main([*command, "--output", runs]) == 0
            assert told in capsys.readouterr().out
    finally:
        for sandbox in (one, two):
            sandbox.family.kill()


def ask(server: StoreServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has sparktf's commands find the server, as a person's do."""
    properties = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>" for key, value in server.hadoop().items()
    )
    (folder / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
