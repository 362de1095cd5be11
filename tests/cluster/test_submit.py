"""`sparktf submit` on a real YARN: the run's own verdict, and what stands in its way."""

from __future__ import annotations

import getpass
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from cluster.submission import SPARK, Submission, digits_config, in_each_mode, put_digits, tags

from minihadoop import MiniHadoop
from minihadoop.waiting import wait_for
from minihadoop.web import request
from sparktf_airflow.resource_manager import ResourceManager, run_tag

pytestmark = pytest.mark.timeout(600)

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
        120,
    )


@pytest.mark.more("cluster/test_yarn_eight_nights.py::test_two_nights_and_the_morning_after")
def test_a_run_that_is_done_in_client_mode_returns_0(hadoop: MiniHadoop, tmp_path: Path, lake: str) -> None:
    # In cluster mode, test_yarn_locality asks the same of a run that it needs anyway.
    config = digits_config(tmp_path, lake, cluster={"workers": 1}, submit={"deploy_mode": "client"})
    with Submission(hadoop, tmp_path, config, "--run-id", "night", *tags("digits")) as submission:
        submission.assert_is_done("client", "night", epochs=2)


class Failed(NamedTuple):
    """Runs in cluster mode that have ended badly: one whose model raises, and one that is refused."""

    raising: Submission
    raising_code: int
    refused: Submission
    refused_code: int


@pytest.fixture(scope="module")
def failed(shared_cluster: MiniHadoop, lake: str, tmp_path_factory: pytest.TempPathFactory) -> Failed:
    """They run at once, for each waits more than it computes."""
    folder = tmp_path_factory.mktemp("raising")
    (folder / "raising.py").write_text(RAISES, encoding="utf-8")
    (folder / "says.txt").write_text("no such layer", encoding="utf-8")
    raising = {**digits_config(folder, lake, cluster={"workers": 1}), "model": "raising:build"}
    once = ("--set", "submit.max_app_attempts=1")
    too_small = ("--set", "submit.conf.spark.executor.memoryOverhead=512m")
    beside = tmp_path_factory.mktemp("refused")
    with (
        shared_cluster.inside(),
        Submission(shared_cluster, folder, raising) as raised,
        Submission(shared_cluster, beside, digits_config(beside, lake), *once, *too_small) as refused,
    ):
        return Failed(raised, raised.wait(), refused, refused.wait())


def test_a_model_that_raises_returns_1_and_is_failed_in_yarn(hadoop: MiniHadoop, failed: Failed) -> None:
    submission = failed.raising
    said = submission.output()
    assert failed.raising_code == 1, said
    assert "ValueError: no such layer" in said
    assert "model failed" in said
    assert "org.apache.spark" not in said
    application = submission.ended_application()
    assert (application.state, application.final_status) == ("FINISHED", "FAILED")
    result = submission.result(application.id)
    # The second ApplicationMaster, which YARN starts after any failure, has repeated the verdict.
    assert (len(result.attempts), result.application_attempt) == (1, 1)
    assert ResourceManager([hadoop.yarn.url], application.user).exit_code(application.id) == 1
    logs = hadoop.aggregated_logs(application.id)
    assert f"run {application.id} is decided already: its result stands" in logs
    assert logs.count("attempt 1: 1 worker") == 1
    assert len(set(re.findall(r"^Container: (\S+) on ", logs, re.MULTILINE))) > 1, (
        "those of the executors are there, too"
    )


def test_a_run_that_preflight_refuses_returns_2(hadoop: MiniHadoop, failed: Failed) -> None:
    said = failed.refused.output()
    assert failed.refused_code == 2, said
    assert "memoryOverhead is 512 MiB: use --conf spark.executor.memoryOverhead=1664m" in said
    assert "org.apache.spark" not in said
    application = failed.refused.ended_application()
    assert application.final_status == "FAILED"
    assert ResourceManager([hadoop.yarn.url], application.user).exit_code(application.id) == 2


def test_a_run_that_nobody_waits_for_is_found_by_its_tag_and_ended_over_yarns_rest_api(
    hadoop: MiniHadoop, tmp_path: Path, lake: str
) -> None:
    place = f"{tmp_path.name}.2026-11-20"
    tag, name = run_tag(place, str(tmp_path / "job.yaml"), ()), f"sparktf {place}"
    manager = ResourceManager([hadoop.yarn.url], getpass.getuser())
    assert manager.under_way(tag, name) is None
    sets = (f"submit.conf.spark.yarn.tags=sparktf,{tag}", f"submit.conf.spark.app.name={name}")
    arguments = ("--detach", *(word for value in sets for word in ("--set", value)))
    with Submission(hadoop, tmp_path, digits_config(tmp_path, lake), *arguments) as submission:
        assert submission.wait() == 0, submission.output()
    application = submission.application().id
    assert f"submitted as {application} to YARN" in submission.output()
    assert manager.under_way(tag, name) == application
    assert manager.under_way(tag, "another job") is None
    assert ResourceManager([hadoop.yarn.url], "mallory").under_way(tag, name) is None
    assert manager.exit_code(application) is None
    manager.kill(application)
    assert submission.ended_application().final_status == "KILLED"
    assert (manager.under_way(tag, name), manager.exit_code(application)) == (None, 130)
    manager.kill(application)  # once more: it has ended, and that is as well


REFUSALS = {
    "cluster.trainer_memory_mib=4096": "YARN's queue default gives a container at most 4,096 MiB: lower "
    "cluster.trainer_memory_mib or submit.executor_memory_mib, or raise yarn.scheduler.maximum-allocation-mb",
    "submit.queue=nigth": "submit.queue: nigth does not exist in YARN: name one of default",
    "train.epoch=3": "train.epoch is unknown: did you mean train.epochs?",
    "model=models.digit:build": "model: there is no module models.digit in ",
}
NO_FOLDERS = ("../../x", "morning:1")


def test_what_yarn_would_refuse_is_never_submitted(hadoop: MiniHadoop, tmp_path: Path, lake: str) -> None:
    before = len(hadoop.yarn.applications())
    hadoop.hdfs.make_folder("/runs")
    said = {("--set", override): message for override, message in REFUSALS.items()}
    said |= {("--run-id", run_id): run_id for run_id in NO_FOLDERS}
    with ExitStack() as stack:
        submissions = {}
        for number, arguments in enumerate(said):
            folder = tmp_path / f"{tmp_path.name}-{number}"
            folder.mkdir()
            config = digits_config(folder, lake)
            submissions[arguments] = stack.enter_context(Submission(hadoop, folder, config, *arguments))
        for arguments, submission in submissions.items():
            assert submission.wait() == 2, submission.output()
            assert said[arguments] in submission.output()
    assert len(hadoop.yarn.applications()) == before
    touched = hadoop.hdfs.names("/runs")
    assert not [n for n, (option, _) in enumerate(said) if option == "--run-id" and f"{tmp_path.name}-{n}" in touched]


def test_a_dry_run_only_prints(hadoop: MiniHadoop, tmp_path: Path, lake: str) -> None:
    before = len(hadoop.yarn.applications())
    with Submission(hadoop, tmp_path, digits_config(tmp_path, lake), "--dry-run") as submission:
        assert submission.wait() == 0
    assert submission.output().startswith(f"{SPARK}/bin/spark-submit \\\n  --master yarn \\\n")
    assert len(hadoop.yarn.applications()) == before


@pytest.mark.more("unit/test_submit_yarn.py::test_a_resource_manager_that_is_down_is_waited_for_and_then_named")
def test_a_resource_manager_that_is_down_is_waited_for(hadoop: MiniHadoop, tmp_path: Path, lake: str) -> None:
    hadoop.kill("resourcemanager")
    too_large = ("--set", "cluster.trainer_memory_mib=4096")
    with Submission(hadoop, tmp_path, digits_config(tmp_path, lake), *too_large) as submission:
        until_it_says(submission, "waiting for the ResourceManager")
        hadoop.start("resourcemanager")
        assert submission.wait() == 2, submission.output()
    assert "gives a container at most 4,096 MiB" in submission.output()
    hadoop.wait_until_up()


def application_masters(application: str) -> list[psutil.Process]:
    """Returns the JVMs of an application's drivers."""
    found = []
    for process in psutil.process_iter(["cmdline", "name"]):
        line = " ".join(process.info["cmdline"] or ())
        if process.info["name"] == "java" and application in line and "deploy.yarn.ApplicationMaster" in line:
            found.append(process)
    return found


def idle_master(hadoop: MiniHadoop, memory_mib: int) -> str:
    """Submits an application whose master holds so much memory and does nothing; returns its id."""
    url = f"{hadoop.yarn.url}/ws/v1/cluster/apps"
    application: str = json.loads(request("POST", f"{url}/new-application?user.name=root"))["application-id"]
    wanted = {
        "application-id": application,
        "application-name": "idle",
        "application-type": "idle",
        "am-container-spec": {"commands": {"command": "sleep 600"}},
        "resource": {"memory": memory_mib, "vCores": 1},
    }
    request("POST", f"{url}?user.name=root", json.dumps(wanted).encode(), content_type="application/json")
    return application


def end_master(hadoop: MiniHadoop, application: str) -> None:
    url = f"{hadoop.yarn.url}/ws/v1/cluster/apps/{application}/state?user.name=root"
    request("PUT", url, b'{"state": "KILLED"}', content_type="application/json")


@pytest.fixture
def full_queue(hadoop: MiniHadoop) -> Iterator[None]:
    """Applications that hold 9,728 MiB of the 9,856 that the queue gives to ApplicationMasters."""
    with ExitStack() as stack:
        applications = [idle_master(hadoop, memory_mib) for memory_mib in (3968, 3968, 1792)]
        for application in applications:
            stack.callback(end_master, hadoop, application)

        def waiting() -> str:
            return ", ".join(a for a in applications if hadoop.yarn.application(a).memory_mib == 0)

        wait_for("every master has its container", waiting, 120)
        yield


@pytest.mark.usefixtures("full_queue")
def test_a_full_queue_is_waited_for_until_the_reservation_ends(hadoop: MiniHadoop, tmp_path: Path, lake: str) -> None:
    with in_each_mode(hadoop, tmp_path, lambda own: digits_config(own, lake, timeouts={"reserve": 8})) as submissions:
        codes = {mode: submission.wait() for mode, submission in submissions.items()}
    for mode, submission in submissions.items():
        said = submission.output()
        assert codes[mode] == 4, said
        assert len(re.findall(r"waiting for YARN: queue default, \d s left", said)) == 1, said  # not each second of it
        application = submission.ended_application()
        assert f"YARN's queue default did not start {application.id} within 8 s (timeouts.reserve)" in said
        assert "AM resource limit exceeded" in said
        assert application.state == "KILLED"


def until_it_says(submission: Submission, text: str) -> None:
    wait_for(
        f"it says {text!r}", lambda: "" if text in submission.output() else f"it says {submission.output()[-300:]}", 300
    )


@pytest.mark.more("cluster/test_yarn_eight_nights.py::test_two_nights_and_the_morning_after")
def test_a_driver_that_is_lost_is_replaced_and_the_run_goes_on(hadoop: MiniHadoop, tmp_path: Path, lake: str) -> None:
    config = digits_config(tmp_path, lake, cluster={"workers": 1}, train={"epochs": 40})
    with Submission(hadoop, tmp_path, config) as submission:
        until_it_says(submission, "epoch 3/40")
        application = submission.application().id
        for process in application_masters(application):
            process.kill()
        assert submission.wait(240) == 0, submission.output()
    result = submission.result(application)
    assert result.application_attempt == 2
    assert result.attempts[0].from_step > 0
