"""A run on YARN while HDFS fails around it, and while YARN takes its containers away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from cluster.clicks import GROUPS_PER_FILE, ROWS_PER_GROUP, click_job, put_clicks
from cluster.submission import Submission

from minihadoop import DataNodeState, MiniHadoop
from minihadoop.waiting import wait_for

FILES = 8
ROWS = FILES * GROUPS_PER_FILE * ROWS_PER_GROUP


@pytest.fixture(scope="module")
def few_clicks(shared_cluster: MiniHadoop) -> str:
    with shared_cluster.inside():
        put_clicks(shared_cluster, "/lake/few", files=FILES)
    return "/lake/few"


@pytest.fixture
def submit(hadoop: MiniHadoop, tmp_path: Path) -> Iterator[Callable[..., Submission]]:
    """Makes submissions, and ends what is left of them."""
    made: list[Submission] = []

    def submitted(*arguments: Any, **options: Any) -> Submission:
        made.append(Submission(hadoop, tmp_path / str(len(made)), *arguments, **options))
        return made[-1]

    yield submitted
    for submission in made:
        submission.close()


def wait_for_commit(hadoop: MiniHadoop, run: Submission, within_s: float = 90) -> None:
    """Waits for a checkpoint that is newer than those there are now."""
    before = max(run.steps(), default=0)

    def missing() -> str:
        assert run.process.poll() is None, run.output
        return "" if max(run.steps(), default=0) > before else f"the newest is still that at step {before}"

    wait_for("a new checkpoint is committed", missing, within_s, lambda: run.output[-3000:])


def hosts_in_use(hadoop: MiniHadoop, application: str) -> set[str]:
    return {log.host for log in hadoop.yarn.container_logs(application)}


def processes_of(application: str) -> list[str]:
    """Returns the processes that belong to an application's containers, on all hosts."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        environ = process.info["environ"] or {}
        container = environ.get("CONTAINER_ID", "")
        if application.removeprefix("application_") in container:
            found.append(" ".join(process.info["cmdline"] or [process.name()]))
    return found


def test_training_outlives_what_hdfs_suffers_and_the_last_commit_stays_whole(
    hadoop: MiniHadoop, few_clicks: str, submit: Callable[..., Submission]
) -> None:
    job = click_job(
        few_clicks,
        "/runs",
        name="faults",
        cluster={"workers": 2},
        train={"epochs": 100_000, "batch_size": 512},
        checkpoint={"every_seconds": 2},
    )
    run = submit(job, run_id="r")
    run.wait_for_line(r"epoch 1/")
    wait_for_commit(hadoop, run)

    hadoop.kill("datanode", "host1")
    wait_for_commit(hadoop, run)
    wait_for_commit(hadoop, run)
    hadoop.restart("datanode", "host1")

    hadoop.freeze("datanode", "host2")
    wait_for_commit(hadoop, run)
    wait_for_commit(hadoop, run)
    hadoop.thaw("datanode", "host2")
    hadoop.wait_for_datanode("host2", DataNodeState.LIVE)

    idle = next(host.name for host in hadoop.config.workers if host.name not in hosts_in_use(hadoop, run.application))
    hadoop.cut(idle)
    hadoop.wait_for_datanode(idle, DataNodeState.STALE)
    wait_for_commit(hadoop, run)
    hadoop.mend(idle)
    hadoop.wait_for_datanode(idle, DataNodeState.LIVE)

    hadoop.kill("namenode")
    hadoop.start("namenode")
    hadoop.wait_until_up()
    wait_for_commit(hadoop, run)

    hadoop.tool("dfsadmin", "-safemode", "enter")
    run.wait_for_line(r"warning: .*not committed.*safe mode")
    hadoop.tool("dfsadmin", "-safemode", "leave")
    wait_for_commit(hadoop, run)

    folder = f"{run.run_path}/checkpoints"
    hadoop.tool("dfsadmin", "-setSpaceQuota", "1m", folder)
    run.wait_for_line(r"warning: .*not committed.*quota")
    hadoop.tool("dfsadmin", "-clrSpaceQuota", folder)
    wait_for_commit(hadoop, run)

    run.close()
    assert run.process.returncode == 130
    left = max(run.steps())
    epochs = left * 512 // ROWS + 2
    again = submit({**job, "train": {**job["train"], "epochs": epochs}}, run_id="r")
    assert again.wait() == 0, again.output
    result = again.result()
    assert result.attempts[0].from_step == left
    assert all(epoch.planned == epoch.fed == epoch.trained == ROWS for epoch in result.rows)
    assert result.rows[-1].epoch == epochs - 1


def test_a_container_killed_for_its_memory_names_the_setting(
    hadoop: MiniHadoop, few_clicks: str, submit: Callable[..., Submission]
) -> None:
    job = click_job(
        few_clicks,
        "/runs",
        name="greedy",
        model="click_model:greedy",
        params={"mib": 3000},
        cluster={"workers": 1, "trainer_memory_mib": 1024},
        train={"max_attempts": 1},
    )
    run = submit(job)
    assert run.wait() == 4, run.output
    cause = run.result().error
    assert cause is not None
    assert "physical memory" in cause.message
    assert "cluster.trainer_memory_mib" in cause.message
    assert "containerlogs" in cause.log


def test_an_application_that_is_killed_leaves_nothing_on_any_host(
    hadoop: MiniHadoop, few_clicks: str, submit: Callable[..., Submission]
) -> None:
    job = click_job(few_clicks, "/runs", name="killed", cluster={"workers": 2}, train={"epochs": 100_000})
    run = submit(job)
    run.wait_for_line(r"epoch 1/")
    assert any("sparktf.trainer" in command for command in processes_of(run.application))
    hadoop.tool("application", "-kill", run.application)
    assert run.wait(60) == 4, run.output
    assert hadoop.yarn.application(run.application).final_status == "KILLED"
    assert "killed" in run.output.lower()

    def left() -> str:
        return "; ".join(command[:80] for command in processes_of(run.application))

    wait_for("every process of the application has ended", left, 30)


def test_an_output_that_may_not_be_written_is_found_before_anything_is_held(
    hadoop: MiniHadoop, few_clicks: str, submit: Callable[..., Submission], monkeypatch: pytest.MonkeyPatch
) -> None:
    hadoop.hdfs.make_folder("/private", permission="700")
    hadoop.hdfs.make_folder("/user/alice", permission="777")
    monkeypatch.setenv("HADOOP_USER_NAME", "alice")
    run = submit(click_job(few_clicks, "/private", name="refused"), run_id="r")
    assert run.wait() == 2, run.output
    assert "output.path cannot be written" in run.output
    assert "user=alice" in run.output
