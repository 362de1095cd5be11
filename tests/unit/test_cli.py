"""The console script, called as its entry point calls it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pretend import PretendClock

import sparktf
from sparktf.commands.cli import main
from sparktf.config.job import JobConfig
from sparktf.config.load import load_config, parse_config
from sparktf.errors import Verdict
from sparktf.results.result import Application
from sparktf.rundir import RunDirectory
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.ownership import Ownership
from sparktf.submit import command

CONFIG = """\
name: digits
model: models.digits:build
data: {path: "lake/{{date}}", inputs: {x: x}, targets: {y: y}}
output: {path: runs}
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return str(path)


def test_check_shows_the_resolved_configuration_and_ok(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["check", config, "--no-deep", "--date", "2026-11-20", "--set", "train.epochs=3", "--set", "params.a=1"])
        == 0
    )
    shown, errors = capsys.readouterr()
    yaml, ok = shown.rstrip("\n").rsplit("\n", 1)
    assert ok == "ok"
    assert parse_config(yaml) == load_config(config, ["train.epochs=3", "params.a=1"], "2026-11-20")
    assert "path: lake/2026-11-20" in yaml
    assert errors == ""


def test_check_says_what_is_wrong_in_one_line_and_returns_2(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config, "--date", "2026-11-20", "--set", "train.epoch=3"]) == 2
    shown, errors = capsys.readouterr()
    assert shown == ""
    assert errors == "--set train.epoch=3: train.epoch is unknown: did you mean train.epochs?\n"


def test_check_returns_2_for_a_template_without_a_date(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config]) == 2
    assert capsys.readouterr().err == f"{config}: data.path: {{{{date}}}} needs --date YYYY-MM-DD\n"


def test_a_dry_run_shows_the_line_and_ships_the_model(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    beside = Path(config).parent / "trees"
    beside.mkdir()
    (beside / "forest.py").write_text("def build(params, assets): ...\n", encoding="utf-8")
    arguments = [
        "--date",
        "2026-11-20",
        "--set",
        "submit.conf.spark.executor.cores=2",
        "--set",
        "model=trees.forest:build",
        "--set",
        "submit.conf.spark.ssl.keyPassword=hunter2",
    ]
    assert main(["submit", config, "--dry-run", *arguments]) == 0
    shown = capsys.readouterr().out
    assert shown.split()[0].endswith("/bin/spark-submit")
    assert ".zip#sparktf-job'" in shown
    assert "--conf spark.executor.cores=2 \\\n" in shown
    *line, private = shown.splitlines()
    told = ("--config sparktf-job/sparktf-job.yaml \\", "--date 2026-11-20 \\", "--run-id 2026-11-20")
    assert line[-3:] == [f"  {option}" for option in told]
    assert private.endswith("/private.conf: spark.ssl.keyPassword=*********(redacted)")
    assert "hunter2" not in shown


def test_a_model_that_is_nowhere_is_refused_before_anything_is_submitted(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", config, "--date", "2026-11-20", "--set", "model=no_such.place:build"]) == 2
    assert capsys.readouterr().err.startswith(
        f"model: there is no module no_such.place in {Path(config).parent}, in the"
    )


def test_a_run_that_nobody_waits_for_is_left_to_yarn(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    (Path(config).parent / "shrubs.py").write_text("def build(params, assets): ...\n", encoding="utf-8")
    arguments = ["submit", config, "--date", "2026-11-20", "--set", "model=shrubs:build", "--dry-run", "--detach"]
    waits = ["--set", "submit.conf.spark.yarn.submit.waitAppCompletion=true"]
    assert main([*arguments, *waits]) == 0
    assert capsys.readouterr().out.count("--conf spark.yarn.submit.waitAppCompletion=false") == 1
    for where in ("submit.deploy_mode=client", "submit.master=local[2]"):
        assert main([*arguments, "--set", "submit.deploy_mode=client", "--set", where]) == 2
        assert capsys.readouterr().err.startswith(
            "--detach needs a driver that the cluster runs, and this one would run here: set submit.master to yarn "
        )


def test_a_job_that_scores_is_submitted_from_here_whatever_training_does(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs no code of the model, which is exported whole."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    arguments = ["submit", config, "--dry-run", "--set", "model=no_such.code:build", "--set", "data.path=/lake"]
    where = ["--set", "predict.output.path=/scores", "--predict"]
    assert main([*arguments, *where, "--date", "2026-11-20", "--model", "run:7"]) == 0
    shown = capsys.readouterr().out
    assert "--deploy-mode client" in shown
    assert "  predict \\\n" in shown
    assert shown.endswith("  --model run:7\n")
    assert "--run-id" not in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--predict"], "the configuration has no section predict"),
        (["--predict", "--set", "predict.output.path=/scores"], "predictions need a day: give --date"),
        (["--predict", "--run-id", "7"], "--predict submits a scoring job, not a run: leave out --run-id"),
        (["--model", "run:7"], "--model needs --predict"),
    ],
)
def test_what_no_job_that_scores_can_be_is_refused(
    options: list[str], said: str, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", config, "--dry-run", "--set", "data.path=/lake", *options]) == 2
    assert capsys.readouterr().err.startswith(said)


def test_a_source_function_that_is_nowhere_is_refused_too(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(config).parent / "shrubs.py").write_text("def build(params, assets): ...\n", encoding="utf-8")
    sources = ["--set", "model=shrubs:build", "--set", "data.path=", "--set", "data.source=no_such.hedge:rows"]
    assert main(["submit", config, *sources]) == 2
    assert capsys.readouterr().err.startswith("data.source: there is no module no_such.hedge in ")


def test_a_configuration_without_a_source_is_for_train_alone(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config, "--no-deep", "--set", "data.path="]) == 0
    assert capsys.readouterr().out.endswith("\nok, for train(spark, config, data): data names no source\n")
    assert main(["submit", config, "--set", "data.path="]) == 2
    assert capsys.readouterr().err == (
        "data names nothing to read: give data.path, data.table, data.sql or data.source\n"
    )


def test_version_is_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"sparktf {sparktf.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["chek"], ["check"], ["check", "c.yaml", "--unknown"]])
def test_a_wrong_command_line_ends_with_the_usage_and_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert capsys.readouterr().err.startswith("usage: sparktf")


def test_a_run_that_another_submission_trains_is_not_submitted(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark/bin").mkdir(parents=True)
    spark = tmp_path / "spark/bin/spark-submit"
    spark.write_text(f"#!/bin/sh\ntouch {tmp_path}/submitted\n", encoding="utf-8")
    spark.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    (Path(config).parent / "oaks.py").write_text("def build(params, assets): ...\n", encoding="utf-8")
    sets = ("model=oaks:build", f"output.path={tmp_path}/runs", "data.path=/lake")
    here = ("submit.master=local[1]", "submit.deploy_mode=client")
    line = ["submit", config, "--date", "2026-11-20", *(word for key in (*sets, *here) for word in ("--set", key))]

    storage, clock = LocalStorage(), PretendClock()
    monkeypatch.setattr(command, "SystemClock", lambda: clock)
    rundir = RunDirectory(str(tmp_path / "runs"), load_config(config, date="2026-11-20").name, "2026-11-20")
    owner = Ownership(storage, storage, rundir, Application("application_1_0042"), clock, 60.0)
    owner.acquire(lambda line: None, wait=False)
    try:
        assert main(line) == 7
        captured = capsys.readouterr()
        assert "is owned by application application_1_0042 of " in captured.err
        assert "the run was taken by application application_1_0042 of " in captured.out
        assert not (tmp_path / "submitted").exists()
        assert main([*line, "--wait"]) == 4  # this Spark comes to no verdict
        assert (tmp_path / "submitted").exists()
    finally:
        owner.release()
    (tmp_path / "submitted").unlink()
    assert main(line) == 4
    assert (tmp_path / "submitted").exists()


def test_words_that_look_like_options_reach_a_job_as_they_were_given(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str | None, bool | None]] = []

    def trains(config: JobConfig, run_id: str | None, wait: bool) -> int:
        asked.append((run_id, wait))
        return 3

    def scores(config: JobConfig, model: str | None) -> int:
        asked.append((model, None))
        return 1

    monkeypatch.setattr("sparktf.main.run_training", trains)
    monkeypatch.setattr("sparktf.main.run_scoring", scores)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.chdir(tmp_path)
    Path(config).rename("-c.yaml")
    day = ["--date", "2026-11-20"]
    assert main(["train", *day, "--wait", "--", "-c.yaml"]) == 3
    assert main(["predict", *day, "--model=-mine", "--", "-c.yaml"]) == 1
    assert asked == [("2026-11-20", True), ("-mine", None)]
    assert main(["train", "--run-id=-7", "--", "-c.yaml"]) == 2
    assert capsys.readouterr().err.startswith("--run-id '-7' cannot name a folder")


@pytest.mark.parametrize(
    "line",
    ["runs --config", "models --config", "show r --config", "suggest-checks r --config", "check", "plan", "submit",
     "backfill --from 2026-11-01 --to 2026-11-02"],
)  # fmt: skip
def test_what_an_application_would_know_of_storage_its_commands_know(
    line: str, config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who has no HADOOP_CONF_DIR, as on Kubernetes, gives `spark.hadoop.*`, and gives them once."""
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    (tmp_path / "models").mkdir()
    (tmp_path / "models/digits.py").write_text("def build(): ...\n", encoding="utf-8")
    hadoop = "{spark.hadoop.fs.defaultFS: 'hdfs://lake', spark.hadoop.dfs.nameservices: lake}"
    submit = f"submit: {{master: 'local[1]', deploy_mode: client, conf: {hadoop}}}\n"
    Path(config).write_text(CONFIG + submit, encoding="utf-8")
    day = ["--date", "2026-11-20"] if line in ("check", "plan", "submit") else []
    assert main([*line.split(), config, *day]) == Verdict.REFUSED
    told = capsys.readouterr()
    assert "hdfs://lake: the Hadoop configuration has no dfs.namenode.rpc-address.lake" in told.out + told.err
