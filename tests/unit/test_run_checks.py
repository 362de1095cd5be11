"""The one list of what a run is refused for: the run, `sparktf check` and `sparktf plan` go through it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from lakes import write_file

from sparktf.commands.cli import main
from sparktf.config.load import load_config
from sparktf.driver import run_checks
from sparktf.driver.plan.paths import normalised
from sparktf.driver.run_checks import CHECKS, Basis, Findings, RunCheck, Scene, due, look_at_run, refuse_run
from sparktf.driver.spark.masters import master_of
from sparktf.errors import SparkTFError
from sparktf.storage.file_systems import FileSystems

CONFIG = "name: n\nmodel: leaf:build\ndata: {path: LAKE, inputs: {x: x}, targets: {y: y}}\noutput: {path: RUNS}\n"
MASTER = "local[4]"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    write_file(tmp_path / "lake/part-0.parquet", pa.table({"x": [1.0, 2.0], "y": [0.0, 1.0]}))
    (tmp_path / "leaf.py").write_text("def build(params, assets): ...\n", encoding="utf-8")
    text = CONFIG.replace("LAKE", str(tmp_path / "lake")).replace("RUNS", str(tmp_path / "runs"))
    (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
    return str(tmp_path / "c.yaml")


def scene(config: str, sets: Sequence[str] = (), *has: Basis, master: str = MASTER, **known: bool) -> Scene:
    systems = FileSystems()
    loaded = normalised(load_config(config, sets), systems.normalise)
    slots = master_of(master).slots(loaded.submit.executor_cores)
    return Scene(loaded, slots, systems, has=has, **known)  # type: ignore[arg-type]


def test_every_check_is_in_the_list_once() -> None:
    looks = [
        function
        for _, function in inspect.getmembers(run_checks, inspect.isfunction)
        if function.__module__ == run_checks.__name__
        and [*inspect.signature(function).parameters] == ["scene", "found"]
    ]
    assert len(looks) > 1
    listed = [check.look for check in CHECKS]
    assert sorted(listed, key=str) == sorted(looks, key=str)


@pytest.mark.parametrize(
    ("line", "has"),
    [
        (["check"], set()),
        (["check", "--deep"], {Basis.WRITING}),
        (["plan"], {Basis.LISTING}),
    ],
    ids=str,
)
def test_each_command_runs_the_checks_whose_needs_it_has(
    config: str, line: list[str], has: set[Basis], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []

    def noted(check: RunCheck) -> RunCheck:
        def noting(scene: Scene, found: Findings) -> None:
            done.append(check)
            check.look(scene, found)

        return RunCheck(noting, check.needs)

    monkeypatch.setattr(run_checks, "CHECKS", [noted(check) for check in CHECKS])
    # A model that is not there: no process is started to build it, and all other checks are done all the same.
    command, *options = line
    assert main([command, config, *options, "--master", MASTER, "--set", "model=leaf:bild"]) == 2
    assert done == [check for check in CHECKS if check.needs <= has]


def test_a_second_look_does_what_was_not_due_before() -> None:
    everything = tuple(Basis)
    for before in ((), (Basis.SPARK,), (Basis.LISTING,), (Basis.WRITING,)):
        again = due(everything, before)
        assert not set(again) & set(due(before))
        assert set(again) | set(due(before)) == set(CHECKS)


WRONG = [
    (["model=leaf:bild"], MASTER),
    (["model=lief:build"], MASTER),
    (["cluster.workers=50"], MASTER),
    (["cluster.workers=4", "data.mode=spark"], MASTER),
    (["predict={output: {path: LAKE}}"], MASTER),
    (["data.mode=spark"], "local-cluster[2,1,1024]"),
]


@pytest.mark.parametrize(("sets", "master"), WRONG, ids=str)
def test_what_check_finds_the_run_is_refused_for_with_the_same_words(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], sets: list[str], master: str
) -> None:
    sets = [text.replace("LAKE", f"{tmp_path}/lake") for text in sets]
    line = [config, "--master", master, *(word for text in sets for word in ("--set", text))]
    code = main(["check", *line])
    (told,) = capsys.readouterr().err.splitlines()
    with pytest.raises(SparkTFError) as refused:
        refuse_run(scene(config, sets, Basis.SPARK, master=master), pytest.fail)
    assert (str(refused.value), int(refused.value.verdict)) == (told, code)
    if "data.mode=spark" not in sets:  # for which plan starts Spark
        assert main(["plan", *line, "--json"]) == code
        assert told in capsys.readouterr().out.replace('\\"', '"')


def test_the_run_is_refused_for_the_first_and_check_tells_all(config: str) -> None:
    sets = ["model=leaf:bild", "cluster.workers=50"]
    found = Findings()
    look_at_run(scene(config, sets), found)
    assert len(found.errors) == 2
    with pytest.raises(type(found.errors[0])) as refused:
        refuse_run(scene(config, sets, Basis.SPARK), pytest.fail)
    assert str(refused.value) == str(found.errors[0])


def test_feeders_are_refused_where_nodes_hold_all_slots(config: str) -> None:
    fed = (Basis.SPARK, Basis.FED)
    refuse_run(scene(config, (), *fed), pytest.fail, (Basis.SPARK,))
    refuse_run(scene(config, (), *fed, Basis.AGENTS), pytest.fail, (Basis.SPARK,))
    with pytest.raises(SparkTFError, match="this cluster's nodes hold all cores of their executors"):
        refuse_run(scene(config, (), *fed, Basis.AGENTS, leaves_slots=False), pytest.fail, (Basis.SPARK,))


def test_a_network_that_spark_leaves_open_is_warned_of(config: str) -> None:
    warned: list[str] = []
    refuse_run(scene(config, (), Basis.SPARK, master="spark://there:7077"), warned.append)
    assert len(warned) == 1
    assert "spark.authenticate" in warned[0]
    refuse_run(scene(config, (), Basis.SPARK), pytest.fail)
