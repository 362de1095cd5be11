"""`sparktf submit` on a real YARN: the run's own verdict, in both modes, and what stands in its way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cluster.submission import SMALL_CONF, SPARK, Submission, digits_config, put_digits

from minihadoop import MiniHadoop
from minihadoop.waiting import wait_for

MODES = ("cluster", "client")
RAISES = """
from pathlib import Path

def build(params, assets):
    raise ValueError((Path(__file__).parent / "says.txt").read_text())
"""


@pytest.fixture(scope="module")
def lake(shared_cluster: MiniHadoop, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The lake of `make train`, in HDFS."""
    with shared_cluster.inside():
        return put_digits(shared_cluster, tmp_path_factory.mktemp("digits") / "lake")


@pytest.fixture(autouse=True)
def _nothing_is_left(hadoop: MiniHadoop) -> Iterator[None]:
    """After a submission no application is under way."""
    yield
    wait_for(
        "every application has ended",
        lambda: ", ".join(a.id for a in hadoop.yarn.applications() if not a.has_ended),
        30,
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_is_done_returns_0(hadoop: MiniHadoop, tmp_path: Path, lake: str, mode: str) -> None:
    config = digits_config(tmp_path, lake)
    # An option that looks like a password travels apart from the line: Spark must find it, and nobody see it.
    settings = (f"submit.deploy_mode={mode}", "submit.conf.spark.yarn.tags=sparktf,digits,password=hunter2")
    options = [part for setting in settings for part in ("--set", setting)]
    with Submission(hadoop, tmp_path, config, "--run-id", "night", *options) as submission:
        assert submission.wait() == 0, submission.output()
    said = submission.output()
    assert "hunter2" not in said
    assert "spark.authenticate" not in said.replace("--conf spark.authenticate=true", ""), "there is nothing to warn of"
    assert f"--deploy-mode {mode}" in said
    assert "epoch 2/2" in said
    assert "digits / night: done" in said
    application = submission.ended_application()
    assert (application.final_status, set(application.tags)) == (
        "SUCCEEDED",
        {"sparktf", "digits", "password=hunter2"},
    )
    assert application.name == "sparktf digits"
    result = submission.result("night")
    assert (result.application, result.application_attempt) == (application.id, 1 if mode == "cluster" else 0)
    hosts = {host.fqdn for host in hadoop.config.workers}
    assert {host for attempt in result.attempts for host in attempt.hosts} <= hosts


@pytest.mark.parametrize("mode", MODES)
def test_a_model_that_raises_returns_1_and_is_failed_in_yarn(
    hadoop: MiniHadoop, tmp_path: Path, lake: str, mode: str
) -> None:
    (tmp_path / "raising.py").write_text(RAISES, encoding="utf-8")
    (tmp_path / "says.txt").write_text("no such layer", encoding="utf-8")
    config = {**digits_config(tmp_path, lake), "model": "raising:build"}
    with Submission(hadoop, tmp_path, config, "--set", f"submit.deploy_mode={mode}") as submission:
        assert submission.wait() == 1, submission.output()
    said = submission.output()
    assert "ValueError: no such layer" in said
    assert "model failed" in said
    assert "org.apache.spark" not in said
    application = submission.ended_application()
    assert (application.state, application.final_status) == ("FINISHED", "FAILED")
    result = submission.result(application.id)
    # The second ApplicationMaster, which YARN starts after any failure, has repeated the verdict.
    assert (len(result.attempts), result.application_attempt) == (1, 1 if mode == "cluster" else 0)
    if mode == "cluster":
        logs = hadoop.aggregated_logs(application.id)
        assert f"run {application.id} is decided already: its result stands" in logs
        assert logs.count("attempt 1: 2 worker(s)") == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_preflight_refuses_returns_2(hadoop: MiniHadoop, tmp_path: Path, lake: str, mode: str) -> None:
    config = digits_config(tmp_path, lake)
    arguments = ("--set", f"submit.deploy_mode={mode}", "--set", "submit.conf.spark.executor.memoryOverhead=512m")
    with Submission(hadoop, tmp_path, config, *arguments) as submission:
        assert submission.wait() == 2, submission.output()
    assert "memoryOverhead is 512 MiB: --conf spark.executor.memoryOverhead=1664m" in submission.output()
    assert submission.ended_application().final_status == "FAILED"


def test_what_yarn_would_refuse_is_never_submitted(hadoop: MiniHadoop, tmp_path: Path, lake: str) -> None:
    before = len(hadoop.yarn.applications())
    refusals = {
        "cluster.trainer_memory_mib=4096": "YARN's queue default gives a container at most 4,096 MiB: lower "
        "cluster.trainer_memory_mib or submit.executor_memory_mib, or have yarn.scheduler.maximum-allocation-mb raised",
        "submit.queue=nigth": "submit.queue: YARN has no queue nigth; there are: default",
        "train.epoch=3": "train.epoch is unknown: did you mean train.epochs?",
        "model=models.digit:build": "model: there is no module models.digit in ",
    }
    for override, message in refusals.items():
        with Submission(hadoop, tmp_path, digits_config(tmp_path, lake), "--set", override) as submission:
            assert submission.wait() == 2
        assert message in submission.output()
    assert len(hadoop.yarn.applications()) == before


@pytest.mark.parametrize("run_id", ["../../x", "morning:1"])
def test_a_run_id_that_names_no_folder_touches_nothing(
    hadoop: MiniHadoop, tmp_path: Path, lake: str, run_id: str
) -> None:
    before = len(hadoop.yarn.applications())
    hadoop.hdfs.make_folder("/runs")
    config = digits_config(tmp_path, lake)
    with Submission(hadoop, tmp_path, config, "--run-id", run_id) as submission:
        assert submission.wait() == 2, submission.output()
    assert run_id in submission.output()
    assert len(hadoop.yarn.applications()) == before
    assert tmp_path.name not in hadoop.hdfs.names("/runs")


def test_a_dry_run_only_prints(hadoop: MiniHadoop, tmp_path: Path, lake: str) -> None:
    before = len(hadoop.yarn.applications())
    with Submission(hadoop, tmp_path, digits_config(tmp_path, lake), "--dry-run") as submission:
        assert submission.wait() == 0
    assert submission.output().startswith(f"{SPARK}/bin/spark-submit \\\n  --master yarn \\\n")
    assert len(hadoop.yarn.applications()) == before


def test_a_resource_manager_that_is_down_is_said_within_a_minute(hadoop: MiniHadoop, tmp_path: Path, lake: str) -> None:
    hadoop.kill("resourcemanager")
    with Submission(hadoop, tmp_path, digits_config(tmp_path, lake)) as submission:
        code = submission.wait(within_s=60)
    hadoop.start("resourcemanager")
    wait_for("all hosts are back", lambda: "" if _active_hosts(hadoop) == hadoop.config.hosts else "not yet", 60)
    assert code == 4
    assert f"ResourceManager at {hadoop.config.master.fqdn}:8032 (Connection refused) cannot be reached" in (
        submission.output()
    )


def application_masters(application: str) -> list[psutil.Process]:
    """Returns the JVMs of an application's drivers."""
    found = []
    for process in psutil.process_iter(["cmdline", "name"]):
        line = " ".join(process.info["cmdline"] or ())
        if process.info["name"] == "java" and application in line and "deploy.yarn.ApplicationMaster" in line:
            found.append(process)
    return found


def _active_hosts(hadoop: MiniHadoop) -> int:
    try:
        return int(hadoop.yarn.metrics()["activeNodes"])
    except OSError:
        return 0


@pytest.fixture
def full_queue(hadoop: MiniHadoop, tmp_path: Path) -> Iterator[None]:
    """Applications that hold 9,708 MiB of the 9,856 that the queue gives to ApplicationMasters."""
    program = tmp_path / "sleep.py"
    program.write_text(
        "import time\nfrom pyspark import SparkContext\nSparkContext()\ntime.sleep(600)\n", encoding="utf-8"
    )
    for heap, overhead in (("2048m", "1900m"), ("2048m", "1900m"), ("512m", "1300m")):
        conf = {
            **SMALL_CONF,
            "spark.driver.memory": heap,
            "spark.driver.memoryOverhead": overhead,
            "spark.yarn.submit.waitAppCompletion": "false",
            "spark.executor.instances": "1",
            "spark.executor.memory": "512m",
            "spark.pyspark.python": sys.executable,
        }
        options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
        command = [str(SPARK / "bin/spark-submit"), "--master", "yarn", "--deploy-mode", "cluster"]
        hadoop.run([*command, *options, str(program)], env={"SPARK_HOME": str(SPARK)})
    yield
    for application in hadoop.yarn.applications():
        if application.name == "sleep.py" and application.state in ("ACCEPTED", "RUNNING"):
            hadoop.tool("application", "-kill", application.id)


@pytest.mark.usefixtures("full_queue")
def test_a_full_queue_is_waited_for_until_the_reservation_ends(hadoop: MiniHadoop, tmp_path: Path, lake: str) -> None:
    config = digits_config(tmp_path, lake, timeouts={"reserve": 8})
    for mode in MODES:
        with Submission(hadoop, tmp_path, config, "--set", f"submit.deploy_mode={mode}") as submission:
            assert submission.wait() == 4, submission.output()
        said = submission.output()
        assert "waiting for YARN: queue default, 8 s left" in said
        assert "waiting for YARN: queue default, 2 s left" in said
        application = submission.ended_application()
        assert f"YARN's queue default did not start {application.id} within 8 s (timeouts.reserve)" in said
        assert "AM resource limit exceeded" in said
        assert application.state == "KILLED"


def until_it_says(submission: Submission, text: str) -> None:
    wait_for(
        f"it says {text!r}", lambda: "" if text in submission.output() else f"it says {submission.output()[-300:]}", 150
    )


@pytest.mark.parametrize("mode", MODES)
def test_ctrl_c_stops_the_application(hadoop: MiniHadoop, tmp_path: Path, lake: str, mode: str) -> None:
    config = digits_config(tmp_path, lake, train={"epochs": 10_000})
    with Submission(hadoop, tmp_path, config, "--set", f"submit.deploy_mode={mode}") as submission:
        until_it_says(submission, "epoch 1/10000  step")
        submission.press_ctrl_c()
        assert submission.wait() == 130, submission.output()
    assert submission.ended_application().state == ("KILLED" if mode == "cluster" else "FINISHED")


def test_a_driver_that_is_lost_is_replaced_and_the_run_goes_on(hadoop: MiniHadoop, tmp_path: Path, lake: str) -> None:
    config = digits_config(tmp_path, lake, train={"epochs": 60})
    with Submission(hadoop, tmp_path, config) as submission:
        until_it_says(submission, "epoch 3/60")
        application = submission.application().id
        for process in application_masters(application):
            process.kill()
        assert submission.wait(240) == 0, submission.output()
    result = submission.result(application)
    assert result.application_attempt == 2
    assert result.attempts[0].from_step > 0
