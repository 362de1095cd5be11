"""Programs of TensorFlowOnSpark on sparktf's agents and feeds: what they rely on stays, and their pains go."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from integration.application import Application
from integration.cases.guests import SIZES
from integration.rows import job
from integration.sandbox import Sandbox
from integration.stranger import Trap, listeners, look
from integration.watch import Watch

from sparktf.compat.tensorflowonspark import tf_gpus, tf_util
from sparktf.errors import PreflightError

ROWS = sum(SIZES)


def told(folder: Path) -> list[Any]:
    """Returns what the nodes have written down, by their numbers."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


@pytest.mark.more(
    "integration/test_tensorflowonspark_scripts.py::test_the_same_rows_come_to_the_same_nodes_from_uneven_partitions",
)
def test_every_row_comes_once_an_epoch_as_it_was_and_workers_get_as_many(local: Application, tmp_path: Path) -> None:
    [[said]] = local.collect("cases.guests:feeding", folder=str(tmp_path))
    nodes = told(tmp_path)
    assert [(node["job"], node["index"], node["workers"]) for node in nodes] == [("chief", 0, 2), ("worker", 0, 2)]
    assert len({node["pid"] for node in nodes}) == 2
    assert abs(len(nodes[0]["rows"]) - len(nodes[1]["rows"])) <= 1
    rows = [row for node in nodes for row in node["rows"]]
    assert Counter(row[0] for row in rows) == dict.fromkeys(range(ROWS), 2)
    assert all(row == [row[0], [row[0] / 2, row[0]], f"é{row[0]}", None if row[0] % 3 else row[0]] for row in rows)
    info = json.loads(said)
    addresses = {
        name: [f"127.0.0.1:{n['port']}" for n in info if n["job_name"] == name] for name in ("chief", "worker")
    }
    for i, name in enumerate(("chief", "worker")):
        assert nodes[i]["config"]["cluster"] == addresses
        assert nodes[i]["config"]["task"] == {"type": name, "index": 0}
        assert nodes[i]["path"].startswith("file://")
    assert not local.family.trainers()


def test_workers_that_train_together_on_a_streams_rows_end_together_however_the_partitions_are(
    local: Application, tmp_path: Path
) -> None:
    """TensorFlowOnSpark's own waits for ever here: the worker with fewer rows leaves, and the other's update hangs."""
    [[said]] = local.collect("cases.guests:synchronous", folder=str(tmp_path))
    row = "row 1 of partition 0 of the RDD, which trained gets: a value of type pathlib.PosixPath at [1]['at']; "
    assert said.startswith(row)
    first, second = told(tmp_path)
    assert first["steps"] == second["steps"] == ROWS // 2 // 25
    assert first["weights"] == second["weights"] != [0, 0]


@pytest.mark.more("integration/test_tensorflowonspark_scripts.py::test_results_of_rows_are_the_same_in_the_same_order")
def test_results_come_back_in_the_order_of_the_rows(local: Application) -> None:
    found = local.collect("cases.guests:inference")
    assert found == [[i, i * i, f"é{i}"] for i in range(ROWS)]


@pytest.mark.more(
    "integration/test_tensorflowonspark_scripts.py::test_parameter_servers_beside_the_driver_serve_until_the_others_are_done",
)
def test_a_parameter_server_is_there_as_long_as_others_work(local: Application, tmp_path: Path) -> None:
    [[said]] = local.collect("cases.guests:servers", folder=str(tmp_path))
    assert (tmp_path / "total").read_text() == "20.0"
    assert [node["job_name"] for node in json.loads(said)] == ["ps", "chief", "worker"]
    assert not local.family.trainers()


def test_whoever_waits_for_a_function_that_ends_badly_is_told_which_and_why(local: Application) -> None:
    said = {(how, call): text for how, call, text in local.collect("cases.guests:ends")}
    refused = "PreflightError: 7 nodes need as many slots, but local[6] has 6: use --master 'local[7]'; or lower"
    assert said["run", "refused"].startswith(refused)
    left_out = (
        "ModelError: leaving on worker 0 has given 20 results for the 25 rows of partition 0, and asks for more rows"
    )
    gone = "NodeLostError: worker 0 on "
    for how, begin, cause in (("leaves out", left_out, left_out), ("exits", gone, "exited with 3")):
        assert begin in said[how, "collect"]
        assert cause in said[how, "collect"]
        assert said[how, "shutdown"].startswith(begin)
    late = "ModelError: leaving on worker 0 has taken 0 of the 25 rows of partition 0, and none within 1 s "
    assert said["takes nothing", "train"].startswith(late)
    assert said["takes nothing", "shutdown"].startswith(late)
    assert said["stays", "collect"] == ""
    assert said["stays", "shutdown"].startswith("NodeLostError: worker 0 on ")
    assert said["stays", "shutdown"].endswith(" have not returned within 1 s")
    for how, cause in (
        ("SIGTERM", "exited with -15 (SIGTERM)"),
        ("SIGKILL", "exited with -9 (SIGKILL)"),
        ("SIGSTOP", "was silent for 6 s (spark.sparktf.timeouts.heartbeat)"),
    ):
        assert said[how, "shutdown"].startswith(gone)
        for call in ("collect", "shutdown"):
            assert gone in said[how, call]
            assert cause in said[how, call]
    assert said["stays on", "collect"] == ""
    stays = (
        "ModelError: leaving on worker 0 has not returned within 1 s (spark.sparktf.timeouts.after_feed) of its rows' "
    )
    assert said["stays on", "shutdown"].startswith(stays)
    place = r" of its rows' end; it is at line \d+ of .*guests.py.*, in leaving$"
    assert re.search(place, said["stays on", "shutdown"])
    for how in ("leaves out", "exits", "stays"):
        assert said[how, "again"] == ""
        for call in ("train", "inference"):
            assert said[how, call].startswith(f"ConfigError: TFCluster.{call}() comes after shutdown()")
        assert "the cluster has ended: collect what inference() returns before shutdown()" in said[how, "late"]
    assert not local.family.trainers()


def test_a_stream_ends_with_the_function_that_takes_its_rows(local: Application) -> None:
    said = {(call, how): texts for call, how, *texts in local.collect("cases.guests:streams")}
    assert {state for *_, state in said.values()} == {"STOPPED"}
    for call in ("train", "inference"):
        assert said[call, "raises"][1].startswith("ModelError: ValueError: no luck with a stream")
    assert said["train", "exits"][1].startswith("NodeLostError: worker 0 on ")
    assert "exited with 3" in said["train", "exits"][1]
    assert said["train", "returns"][1] == said["train alone", "returns"][1] == ""
    assert "no function takes the stream's rows any more, for all have returned" in said["train alone", "returns"][0]


@pytest.mark.more(
    "integration/test_tensorflowonspark_scripts.py::test_what_a_function_raises_fails_the_script",
)
@pytest.mark.parametrize(
    ("when", "stages"),
    [("before", ("run", "train")), ("during", ("train",)), ("after", ("shutdown",))],
)
def test_what_a_function_raises_ends_the_program_with_its_traceback(
    when: str, stages: tuple[str, ...], local: Application
) -> None:
    [[stage, kind, message, notes]] = local.collect("cases.guests:failure", when=when)
    assert stage in stages
    assert kind == "ModelError"
    assert f"ValueError: no luck {when}" in message
    assert "Traceback" in notes
    assert "in failing" in notes
    assert not local.family.trainers()


@pytest.mark.more("integration/test_tensorflowonspark_scripts.py::test_a_feed_is_ended_by_who_has_enough")
def test_rows_that_nobody_wants_any_more_are_dropped(local: Application, tmp_path: Path) -> None:
    local.collect("cases.guests:terminated", folder=str(tmp_path))
    assert told(tmp_path) == [30, 30]


@pytest.mark.more("integration/test_tensorflowonspark_scripts.py::test_instances_beside_each_other_are_told_the_same")
def test_instances_beside_each_other_are_alone(local: Application, tmp_path: Path) -> None:
    local.collect("cases.guests:parallel", folder=str(tmp_path))
    found = told(tmp_path)
    assert [(number, workers, has) for number, workers, _, has in found] == [(i, 3, False) for i in range(3)]
    assert len({pid for _, _, pid, _ in found}) == 3


@pytest.mark.more(
    "integration/test_tensorflowonspark_scripts.py::test_an_estimator_and_its_model_give_the_same_columns",
)
def test_an_estimator_learns_columns_and_its_saved_model_scores_them(local: Application, tmp_path: Path) -> None:
    found = local.collect("cases.guests:pipeline", folder=str(tmp_path))
    expected = [2.0 * (i % 7) - (i % 5) for i in range(500)]
    assert [fitted for _, fitted in found] == pytest.approx(expected, abs=1e-4)
    assert [twice for [twice], _ in found] == pytest.approx([2 * value for value in expected], abs=1e-4)


def test_the_package_itself_reserves_executors_for_a_training_of_ours_and_nobody_else_is_listened_to(
    sandbox: Sandbox, rows: Path, watch: Watch, tmp_path: Path
) -> None:
    """In an application of its own: the package leaves sockets of its managers in the executors' folders.

    Another user sends a pickle to all that listens meanwhile, framed as the package's reservation server takes one,
    and reads all files that are there.
    """
    config = job(rows, sandbox.runs, "cases.watched:build", name="engine", params=watch.params(hold_at=2))
    config["cluster"] = {"workers": 2, "engine": "tensorflowonspark"}
    application = Application(sandbox, "local-cluster[2,1,1024]")
    trap = Trap(tmp_path / "caught")
    try:
        watch.hold()
        application.begin(config, "r")
        watch.held(2)
        processes = application.family.processes()
        sparks = {process.pid for process in processes if process.name() == "java"}
        tcp = [where for where in listeners(processes) if where.kind == "tcp"]
        looked = look(sandbox, [(where.host, where.port) for where in tcp], trap.says(framed=True))
        assert looked.answered, "Spark listens, if nobody else does"
        assert not looked.called
        assert {Path(path).name for path in looked.read} <= {"executor_id"}, "a number, by the package itself"
        watch.release()
        done = application.outcome().done
        assert not trap.has_caught
        # Beside Spark's own JVMs, nobody listens beyond loopback: docs/cluster/security.md says so.
        assert not {where.pid for where in tcp if where.host != "127.0.0.1"} - sparks
        assert len(done.attempts[0].nodes) == 2
        assert watch.ids(watch.pids()) == dict.fromkeys(range(1, 601), 1)
        assert not application.family.trainers()
    finally:
        left = application.close()
    assert not left


SCRIPT = """
import sys
from pyspark.sql import SparkSession
from tensorflowonspark import TFCluster

def main_fun(args, ctx):
    from tensorflowonspark import TFNode
    feed = TFNode.DataFeed(ctx.mgr, True)
    total = 0
    while not feed.should_stop():
        total += sum(feed.next_batch(7))
    open(f"{args[1]}/{ctx.executor_id}", "w").write(str(total))

if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    sc = spark.sparkContext
    mode = TFCluster.InputMode.SPARK
    cluster = TFCluster.run(sc, main_fun, sys.argv, 2, num_ps=0, tensorboard=False, input_mode=mode)
    cluster.train(sc.parallelize(range(1000), 3), num_epochs=2, feed_timeout=100)
    cluster.shutdown()
    print("it has run")
"""


def test_a_script_runs_unchanged_by_spark_submit_where_there_is_room_for_as_many_tasks_as_nodes(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """With `--py-files`. Scripts on executors, each with room for one task, are in test_tensorflowonspark_scripts."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    shim = tmp_path / "tensorflowonspark.zip"
    write = [sys.executable, "-m", "sparktf.compat.tensorflowonspark", "--write-py-file", str(shim)]
    subprocess.run(write, check=True, capture_output=True, env=sandbox.environment())
    conf = {**sandbox.settings("local[4]", {}), "spark.task.cpus": "2"}
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    command = [str(Path(sys.executable).with_name("spark-submit")), *options, "--py-files", str(shim), str(script)]
    whole = [*command, str(tmp_path)]
    kept: dict[str, Any] = {"cwd": sandbox.cwd, "env": sandbox.environment(), "capture_output": True, "text": True}
    done = subprocess.run(whole, check=False, timeout=120, **kept)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "it has run" in done.stdout
    assert sum(int((tmp_path / name).read_text()) for name in "01") == 2 * sum(range(1000))
    assert not sandbox.family.wait()


NVIDIA_SMI = """#!/bin/sh
case "$1" in
  --list-gpus) printf 'GPU 0: A (UUID: GPU-a)\\nGPU 1: A (UUID: GPU-b)\\nGPU 2: A (UUID: GPU-c)\\n';;
  --query-gpu=index,uuid) printf '0, GPU-a\\n1, GPU-b\\n2, GPU-c\\n';;
  --query-compute-apps=gpu_uuid) printf 'GPU-b\\n';;
esac
"""


def test_free_graphics_processors_are_found_as_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a program in the place of nvidia-smi, since there are none here."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not tf_gpus.is_gpu_available()
    with pytest.raises(PreflightError, match="nvidia-smi does not work on"):
        tf_gpus.get_gpus()
    tf_util.single_node_env()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    (tmp_path / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert tf_gpus.is_gpu_available()
    assert tf_gpus.get_gpus(2, format=tf_gpus.AS_STRING) in ("0,2", "2,0")
    assert [tf_gpus.get_gpus(1, worker, tf_gpus.AS_LIST) for worker in range(3)] == [["0"], ["2"], ["0"]]
    with pytest.raises(PreflightError, match="3 graphics processors are wanted, and 2 of 3 are free on"):
        tf_gpus.get_gpus(3)
    tf_util.single_node_env(1, 2, ["a:1", "b:1", "a:2"])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2", "the second node of its machine gets the second free one"
