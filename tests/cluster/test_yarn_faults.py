"""A run on YARN while HDFS fails around it, and while YARN takes its containers away."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cluster.click_run import ClickRun
from cluster.clicks import GROUPS_PER_FILE, ROWS_PER_GROUP, click_job, put_clicks
from cluster.containers import hosts_in_use, processes_of

from minihadoop import DataNodeState, MiniHadoop
from minihadoop.config import MIB
from minihadoop.waiting import wait_for
from sparktf.hadoop import HadoopConf
from sparktf.rundir import RunDirectory
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.checkpoints import CheckpointStore

FILES = 8
ROWS = FILES * GROUPS_PER_FILE * ROWS_PER_GROUP
BATCH = 4096
"""A hundred updates make an epoch: with pauses it takes five seconds."""


@pytest.fixture(scope="module")
def few_clicks(shared_cluster: MiniHadoop) -> str:
    with shared_cluster.inside():
        put_clicks(shared_cluster, "/lake/few", files=FILES)
    return "/lake/few"


@pytest.mark.more(
    "cluster/test_hdfs_storage.py::TestNameNode::test_one_that_stays_away_is_said_at_the_deadline_and_a_restart_is_waited_out_by_whatever_is_under_way",
    "cluster/test_hdfs_commit.py::test_a_reader_never_sees_half_a_checkpoint_while_datanodes_die",
    "cluster/test_hdfs_training.py::test_a_checkpoint_that_hdfs_does_not_take_is_a_warning_and_the_last_must_arrive",
)
@pytest.mark.timeout(900)
def test_training_outlives_what_hdfs_suffers_and_the_last_commit_stays_whole(
    hadoop: MiniHadoop, few_clicks: str, tmp_path: Path
) -> None:
    job = click_job(
        few_clicks,
        "/runs",
        name="faults",
        model="click_model:unhurried",
        cluster={"workers": 2, "placement": "any"},  # no spare executors: one host is to be idle
        train={"epochs": 100_000, "batch_size": BATCH},
        checkpoint={"every_seconds": 2},
        submit={"deploy_mode": "client"},  # in cluster mode, what the driver says comes by way of HDFS
    )
    with ClickRun(hadoop, tmp_path, job, run_id="r") as run:
        run.wait_for_line(r"epoch \d+/")
        run.wait_for_commit()
        suffer(hadoop, run)
    assert run.wait() == 130  # by Ctrl-C, which in client mode the driver takes itself
    assert run.ended_application().state == "FINISHED"
    result = run.result("r")
    assert len(result.attempts) == 1
    done = [epoch for epoch in result.rows if epoch.complete]
    assert [epoch.epoch for epoch in done] == list(range(len(done)))
    assert all(epoch.planned == epoch.fed == epoch.trained == ROWS for epoch in done)

    torn: list[tuple[str, str]] = []
    storage = FileSystems(HadoopConf.from_folder(hadoop.conf_dir())).open(run.run_path)
    store = CheckpointStore(storage, RunDirectory("/runs", "faults", "r"), 3, on_torn=lambda *said: torn.append(said))
    found = store.latest()  # reads its files, and compares checksums
    assert found is not None
    manifest, _ = found
    assert (torn, manifest.step) == ([], max(run.steps()))
    assert manifest.rows_trained > (len(done) - 1) * ROWS


def suffer(hadoop: MiniHadoop, run: ClickRun) -> None:
    """Breaks HDFS in one way after the other, mends it, and sees that checkpoints are committed."""
    hadoop.kill("datanode", "host1")
    run.wait_for_commit()
    run.wait_for_commit()
    hadoop.restart("datanode", "host1")

    hadoop.freeze("datanode", "host2")
    run.wait_for_commit()
    run.wait_for_commit()
    hadoop.thaw("datanode", "host2")
    hadoop.wait_for_datanode("host2", DataNodeState.LIVE)

    used = hosts_in_use(run.application().id)
    idle = next(host.name for host in hadoop.config.workers if host.name not in used)
    hadoop.cut(idle)
    hadoop.wait_for_datanode(idle, DataNodeState.STALE)
    run.wait_for_commit()
    hadoop.mend(idle)
    hadoop.wait_for_datanode(idle, DataNodeState.LIVE)

    hadoop.kill("namenode")
    hadoop.start("namenode")
    hadoop.wait_until_up()
    run.wait_for_commit()

    hadoop.tool("dfsadmin", "-safemode", "enter")
    committed = run.steps()
    run.wait_for_line(rf"epoch {run.epoch() + 1}/")  # which takes longer than it is from one checkpoint to the next
    assert run.steps() == committed
    hadoop.tool("dfsadmin", "-safemode", "leave")
    run.wait_for_commit()

    folder = f"{run.run_path}/checkpoints"
    hadoop.hdfs.set_quota(folder, space_nbytes=MIB)
    run.wait_for_line(r"warning: .*not committed.*quota")
    hadoop.hdfs.set_quota(folder)
    run.wait_for_commit()


class Stopped(NamedTuple):
    """Runs that have ended before their time: by YARN's command, by Ctrl-C, and since one outgrew its container."""

    killed: ClickRun
    interrupted: ClickRun
    greedy: ClickRun


@pytest.fixture(scope="module")
def stopped(shared_cluster: MiniHadoop, few_clicks: str, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """They run at once, for each waits more than it computes."""
    folder = tmp_path_factory.mktemp("stopped")

    def submit(name: str, model: str, **sections: Any) -> ClickRun:
        # So small that all have room.
        cluster = {"workers": 1, "trainer_memory_mib": 1024, "placement": "any"}
        train = {"max_attempts": 1, "epochs": 100_000}
        job = click_job(few_clicks, "/runs", name=name, model=model, cluster=cluster, train=train, **sections)
        return ClickRun(shared_cluster, folder / name, job, run_id=name)

    once = {"max_app_attempts": 1}
    with (
        shared_cluster.inside(),
        submit("killed", "click_model:unhurried") as killed,
        submit("interrupted", "click_model:unhurried") as interrupted,
        submit("greedy", "click_model:greedy", params={"mib": 3000}, submit=once) as greedy,
    ):
        for run in (killed, interrupted):
            run.wait_for_line(r"epoch \d+/")
            assert any("sparktf.trainer" in command for command in processes_of(run.application().id))
        interrupted.press_ctrl_c()
        shared_cluster.tool("application", "-kill", killed.application().id)
        for run in (killed, interrupted, greedy):
            run.wait()
    return Stopped(killed, interrupted, greedy)


@pytest.mark.timeout(600)
def test_an_application_that_is_stopped_leaves_nothing_on_any_host(hadoop: MiniHadoop, stopped: Stopped) -> None:
    killed, interrupted, _ = stopped
    assert killed.wait() == 4, killed.output()
    assert interrupted.wait() == 130, interrupted.output()
    assert hadoop.yarn.ended_application(killed.application().id).final_status == "KILLED"
    assert interrupted.ended_application().state == "KILLED"
    assert "killed" in killed.output().lower()

    def left() -> str:
        return "; ".join(command[:80] for run in stopped for command in processes_of(run.application().id))

    wait_for("every process of the applications has ended", left, 120)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("hadoop")
def test_a_container_killed_for_its_memory_names_the_setting(stopped: Stopped) -> None:
    run = stopped.greedy
    assert run.wait() == 4, run.output()
    cause = run.result("greedy").error
    assert cause is not None
    assert "physical memory" in cause.message
    assert "cluster.trainer_memory_mib" in cause.message
    assert "containerlogs" in cause.log


@pytest.mark.more(
    "integration/test_spark_refusals.py::test_an_output_that_cannot_be_written_is_refused",
    "cluster/test_hdfs_storage.py::TestRefusals::test_another_users_file_is_named_with_its_cluster",
)
def test_an_output_that_may_not_be_written_is_found_before_anything_is_held(
    hadoop: MiniHadoop, few_clicks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hadoop.hdfs.make_folder("/private", permission="700")
    hadoop.hdfs.make_folder("/user/alice", permission="777")
    monkeypatch.setenv("HADOOP_USER_NAME", "alice")
    job = click_job(few_clicks, "/private", name="refused", submit={"max_app_attempts": 1})
    with ClickRun(hadoop, tmp_path, job, run_id="r") as run:
        assert run.wait() == 2, run.output()
    assert "output.path cannot be written" in run.output()
    assert "user=alice" in run.output()
