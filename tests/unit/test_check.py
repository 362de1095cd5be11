"""`sparktf check`: what it finds without Spark, and what it says that it has not looked at."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lakes import write_file

from sparktf.commands.cli import main
from sparktf.config.load import load_config, parse_config

CONFIG = "name: n\nmodel: leaf:build\ndata: {path: LAKE, inputs: {x: x}, targets: {y: y}}\noutput: {path: RUNS}\n"
TAKES = "whether the model takes data.inputs and learns data.targets"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A configuration that is right, with its model beside it; nothing on this machine names a master."""
    for name in ("SPARK_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for day in (1, 2):
        write_file(tmp_path / f"lake/day={day}/part-0.parquet", pa.table({"x": [1.0, 2.0], "y": [0.0, 1.0]}))
    (tmp_path / "leaf.py").write_text(
        "def prepare(df, params): ...\ndef build(params, assets): ...\n", encoding="utf-8"
    )
    text = CONFIG.replace("LAKE", str(tmp_path / "lake")).replace("RUNS", str(tmp_path / "runs"))
    (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
    return str(tmp_path / "c.yaml")


def test_what_is_found_follows_the_configuration(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", config, "--master", "local[4]"]) == 0
    shown, errors = capsys.readouterr()
    assert shown.splitlines()[-5:] == [
        f"# model: build of {tmp_path}/leaf.py, with prepare",
        "# nodes: 2 on local[4], which has 4 slots",
        "# data: 4 rows of train in 2 row groups",
        "# not checked without --deep: output.path can be written; " + TAKES,
        "ok",
    ]
    assert parse_config(shown.rpartition("\n")[0].removesuffix("ok")) == load_config(config)
    assert errors == ""
    assert not (tmp_path / "runs").exists()


def test_the_roles_of_a_gang_are_counted(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["cluster.strategy=parameter_server", "cluster.ps=1"]
    line = ["check", config, *(part for set_ in asked for part in ("--set", set_))]
    assert main([*line, "--master", "local[4]"]) == 0
    nodes = "# nodes: 4 (2 workers, 1 ps and a coordinator) on local[4], which has 4 slots"
    assert nodes in capsys.readouterr().out.splitlines()
    assert main([*line, "--master", "local[3]"]) == 2
    assert capsys.readouterr().err.startswith("cluster.workers: 2, cluster.ps: 1 and a coordinator: 4 nodes need")


def test_all_that_is_wrong_is_said_and_the_exit_code_is_the_runs(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ["model=leaf:bild", "cluster.workers=50", f"data.path={tmp_path}/lak"]
    assert main(["check", config, "--master", "local[4]", *(part for set_ in wrong for part in ("--set", set_))]) == 2
    shown, errors = capsys.readouterr()
    assert shown == ""
    code, room, data = errors.splitlines()
    assert code == "model: module 'leaf' has no function 'bild' (it has: build, prepare)"
    assert room.startswith("cluster.workers: 50 nodes need as many slots, but local[4] has 4: use --master 'local[50]'")
    assert data == f"data.path: {tmp_path}/lak does not exist"


@pytest.mark.parametrize(
    ("override", "code", "said"),
    [
        ("data.inputs.x=z", 3, "data.inputs.x: there is no column 'z'"),
        ("data.targets.y.dtype=float", 2, "data.targets.y"),
        ("model=lief:build", 2, "model: there is no module lief in "),
        ("data={source: 'leaf:rows', inputs: {x: x}, targets: {y: y}}", 2, "data.source: module 'leaf' has no"),
    ],
)
def test_what_a_run_would_refuse_is_refused(
    config: str, capsys: pytest.CaptureFixture[str], override: str, code: int, said: str
) -> None:
    for more in ([], ["--set", "data.where=day = 1"]):
        if more and override.startswith("data={"):
            continue
        assert main(["check", config, "--set", override, *more]) == code
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "unknown"),
    [
        ("data.where=day = 2", "data.where, which Spark evaluates, and the other files"),
        ("data.validation.where=day = 2", "data.validation.where, which Spark evaluates, and the other files"),
        ("data={table: sales.orders, inputs: {x: x}, targets: {y: y}}", "data.table, which Spark reads"),
        ("data.mode=spark", "data.path, which Spark reads"),
    ],
)
def test_what_takes_spark_is_said_not_to_be_checked(
    config: str, capsys: pytest.CaptureFixture[str], override: str, unknown: str
) -> None:
    assert main(["check", config, "--master", "local[3]", "--set", override]) == 0
    assert (
        f"# not checked without --deep: output.path can be written; {unknown}; {TAKES}\nok\n" in capsys.readouterr().out
    )


def test_slots_that_spark_surely_takes_are_counted(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config, "--master", "local[2]", "--set", "data.mode=spark"]) == 2
    assert "2 nodes need as many slots and one more for Spark to feed them" in capsys.readouterr().err


def test_a_hadoop_configuration_that_cannot_be_read_refuses_the_run(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-site.xml").write_text("<configuration>", encoding="utf-8")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert main(["check", config, "--master", "local[4]"]) == 2
    assert f"{tmp_path}/core-site.xml" in capsys.readouterr().err


def test_what_fails_once_is_said_once(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config, "--set", "cluster.workers=50", "--master", "local[4]"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_without_depth_the_file_alone_is_checked(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config, "--no-deep", "--set", "cluster.workers=50", "--set", "data.path=nowhere"]) == 0
    assert "#" not in capsys.readouterr().out


def test_a_run_here_takes_the_master_that_submit_hadoop_or_spark_say(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nodes(*arguments: str) -> str:
        assert main(["check", config, *arguments]) == 0
        return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("# nodes"))

    (tmp_path / "spark-defaults.conf").write_text("# mine\nspark.master  local[7]\n", encoding="utf-8")
    assert nodes() == "# nodes: 2 on local[7], which has 7 slots"
    assert nodes("--set", "submit.queue=nightly") == "# nodes: 2 on yarn"
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert nodes() == "# nodes: 2 on yarn"
    assert nodes("--master", "local-cluster[3,2,1024]") == "# nodes: 2 on local-cluster[3,2,1024], which has 6 slots"


def test_updates_that_are_made_together_are_not_of_rows_that_spark_feeds(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lake/_spark_metadata").mkdir()
    asked = ["cluster.strategy=parameter_server", "cluster.ps=1", "train.replicas_to_aggregate=1"]
    line = ["check", config, "--master", "local[5]", *(part for set_ in asked for part in ("--set", set_))]
    assert main(line) == 2
    said = capsys.readouterr().err
    assert said.startswith("train.replicas_to_aggregate needs rows that workers read from files themselves, ")
    assert "but data.path is read through Spark, " in said


def test_a_lake_that_spark_alone_reads_has_no_validation_path(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lake/_spark_metadata").mkdir()
    validation = f"data.validation.path={tmp_path}/lake"
    assert main(["check", config, "--master", "local[5]", "--set", validation]) == 2
    assert "data.validation.path needs files that trainers read themselves, but " in capsys.readouterr().err


def test_predictions_that_would_replace_the_lake_are_refused(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scores").symlink_to(tmp_path / "lake")
    line = ["check", config, "--master", "local[4]", "--set"]
    assert main([*line, f"predict.output.path={tmp_path}/scores"]) == 2
    assert f"predict.output.path: {tmp_path}/scores is data.path: {tmp_path}/lake" in capsys.readouterr().err
    assert main([*line, f"predict.output.path={tmp_path}/scores-of-mine"]) == 0


def test_all_keys_that_are_wrong_are_said(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["train.epochs=0", "data.pth=x", "cluster.workers=many"]
    assert main(["check", config, *(part for set_ in wrong for part in ("--set", set_))]) == 2
    shown, errors = capsys.readouterr()
    assert shown == ""
    assert errors.splitlines() == [
        "--set data.pth=x: data.pth is unknown: did you mean data.path?",
        "--set cluster.workers=many: cluster.workers is 'many': must be a whole number",
        "--set train.epochs=0: train.epochs is 0: must be more than 0",
    ]


def test_what_only_a_run_sees_is_said(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "train.init_from=run:before",
        "publish={}",
        "data.validation={fraction: 0.5}",
        "gate.metrics={auc: {min: 0.5}}",
    ]
    line = ["check", config, *(part for set_ in asked for part in ("--set", set_))]
    assert main(line) == 0
    said = (
        "# not checked before a run: whether the model has the gate's metrics auc; whether train.init_from: run:before"
    )
    assert said in capsys.readouterr().out
