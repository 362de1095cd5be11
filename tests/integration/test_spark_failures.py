"""What breaks while a run goes on, and how the run ends: the model's own code, trainers, agents, executors."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from integration.application import Application
from integration.counts import counts_of
from integration.disk import Disk
from integration.processes import executor_of, wait_for
from integration.rows import job
from integration.sandbox import Sandbox
from integration.stranger import listeners
from integration.submit import Submit
from integration.watch import Held, Watch
from split import only

from sparktf import Verdict

ROWS = 600
BATCH = 30
EVERY = 4
EPOCHS = 60  # Long enough for three successors to start meanwhile, an update at a time
HOLD_AT = 6  # updates of one trainer process

CAUSE = "ValueError: the number of classes is not known"


def watched_job(rows: Path, runs: Path, watch: Watch, **sections: Any) -> dict[str, Any]:
    """Returns a configuration of one epoch of 20 updates, whose trainers wait in their sixth one after a commit."""
    return job(
        rows,
        runs,
        "cases.watched:build",
        params=watch.params(hold_at=HOLD_AT),
        train={"batch_size": BATCH, **sections.pop("train", {})},
        checkpoint={"every_steps": EVERY},
        **sections,
    )


def agent_of(held: Held) -> psutil.Process:
    """Returns the Python worker that a trainer belongs to."""
    return psutil.Process(held.pid).parents()[0]


def assert_gone(*trainers: Held, within_s: float = 60) -> None:
    """Asserts that trainers end."""
    wait_for("the trainers end", lambda: not any(_runs(held) for held in trainers), within_s=within_s)


def _runs(held: Held) -> bool:
    with suppress(psutil.NoSuchProcess):  # it may go between any two looks
        return psutil.Process(held.pid).status() != psutil.STATUS_ZOMBIE
    return False


def test_a_models_error_is_the_root_cause_within_seconds_and_nothing_is_left(sandbox: Sandbox, rows: Path) -> None:
    submit = Submit(sandbox, "local[2]", job(rows, sandbox.runs, "cases.failing:build"), "--run-id", "r")
    wait_for("a trainer starts", sandbox.family.trainers, within_s=60)
    started_s = time.monotonic()
    last = f"ModelError: {CAUSE} (failing.py:"
    wait_for("the cause is shown", lambda: submit.output()[-1].startswith(last), within_s=60)
    assert submit.wait(within_s=60) == 1
    assert time.monotonic() - started_s < 60, "nothing was waited for"
    output = submit.output()
    assert sum(line.startswith("Traceback") for line in output) == 1
    assert "This second line says more." in output
    assert any("in build" in line and "failing.py" in line for line in output)
    assert not [line for line in output if "WARN" in line or "py4j" in line or "ERROR" in line]
    assert not sandbox.family.wait()
    assert not sandbox.leftovers()
    error = submit.run("r").result().error
    assert error is not None
    assert (error.verdict, error.type, error.exit_code) == (Verdict.MODEL_FAILED, "ModelError", 1)
    assert CAUSE in error.traceback
    assert CAUSE in Path(error.log).read_text()


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("build_bad_call", "KeyError: half (failing.py:"),
        pytest.param("build_bad_loss", "NameError: name 'missing_name' is not defined", marks=pytest.mark.more),
    ],
)
def test_an_error_inside_of_training_is_told_by_the_line_that_raised_it(
    local: Application, rows: Path, function: str, cause: str
) -> None:
    outcome = local.train(job(rows, local.sandbox.runs, f"cases.failing:{function}", name=function))
    assert (outcome.error, outcome.verdict) == ("ModelError", Verdict.MODEL_FAILED)
    assert outcome.message.startswith(cause)
    assert "failing.py:" in outcome.message
    assert "\x1b" not in outcome.output
    assert len(outcome.failed.attempts) == 1
    assert not local.family.trainers()
    (nursery,) = local.family.processes("sparktf.trainer.nursery")
    assert nursery.parent() == local.family.driver(), "one for all nodes, from before there was Spark to after all runs"


def test_a_gang_outlives_a_killed_trainer_a_killed_executor_and_a_frozen_executor_in_one_attempt(
    cluster: Application, rows: Path, watch: Watch
) -> None:
    # All with speculation on. Spark starts no copy of a task on the same host, so that copies can be seen in the
    # roster's own tests, and on YARN, only.
    config = watched_job(
        rows,
        cluster.sandbox.runs,
        watch,
        name="outlives",
        cluster={"min_workers": 2},
        train={"epochs": EPOCHS, "max_attempts": 1},
        timeouts={"heartbeat": 5},
    )
    watch.hold()
    cluster.begin(config, "r")

    leader, first = watch.held(2)
    heard_by = listeners(psutil.Process(trainer.pid) for trainer in (leader, first))
    watch.hold_by_one()
    os.kill(first.pid, signal.SIGSTOP)
    watch.let_go(leader)
    watch.wait_until_released(leader)  # and so it comes to wait for the other's gradients
    os.kill(first.pid, signal.SIGKILL)
    second = watch.joined(leader, first)
    executor_of(second.pid).kill()
    third = watch.joined(leader, first, second)
    frozen = [executor_of(third.pid), *executor_of(third.pid).children(recursive=True)]
    for process in frozen:
        process.suspend()
    watch.go_on(leader)  # without the frozen one, once its silence is noticed
    for process in frozen:
        process.resume()
    assert_gone(first, second, third)
    fourth = watch.joined(leader, first, second, third)
    watch.release()

    result = cluster.outcome().done
    (attempt,) = result.attempts
    assert (attempt.workers, attempt.failures, attempt.root_cause) == (2, (), None)
    assert [loss.node for loss in attempt.losses] == ["worker 1"] * 3
    killed, executor, silent = (loss.message for loss in attempt.losses)
    assert "-9 (SIGKILL)" in killed
    assert "lost its agent: " in executor
    assert "lost its agent: silent for" in silent
    assert heard_by == [], "members that have met listen nowhere, and TensorFlow has no server"
    assert {leader.pid, fourth.pid} <= {*watch.pids()}
    accounts = [(epoch.planned, epoch.fed, epoch.trained, epoch.replayed, epoch.complete) for epoch in result.rows]
    assert accounts == [(ROWS, ROWS, ROWS, 0, True)] * EPOCHS
    assert result.rows_trained == ROWS * EPOCHS
    trained = watch.ids(watch.pids())
    assert trained.keys() == set(range(1, ROWS + 1))
    assert 0 <= trained.total() - ROWS * EPOCHS <= 3 * BATCH, "an update is made again by those that are left"
    assert not cluster.family.trainers()


@pytest.mark.more(
    "simulation/test_cases.py::test_the_simulator_finds_it",
    "trainer/test_regrouping.py::test_a_leader_may_be_lost_before_and_after_each_of_its_operations",
)
def test_a_leader_that_is_frozen_in_an_upload_and_thawed_changes_nothing_for_the_run_that_goes_on(
    sandbox: Sandbox, local: Application, rows: Path, watch: Watch
) -> None:
    config = watched_job(rows, sandbox.runs, watch, train={"epochs": 2}, timeouts={"heartbeat": 5})
    config |= {"model": "cases.stopped:build", "params": {**config["params"], "rows": ROWS + 1}}
    watch.hold()
    submit = Submit(sandbox, "local-cluster[2,1,1024]", config, "--run-id", "r")
    run = submit.run("r")
    (stopped,) = wait_for("an upload is stopped", lambda: watch.said("stopped").split(), within_s=180)
    leader = Held(int(stopped), 0)
    frozen = [executor_of(leader.pid), *executor_of(leader.pid).children(recursive=True)]
    for process in frozen:  # with its agent, which would end it for its silence
        process.suspend()
    (other,) = watch.held(1, but=[leader])
    watch.hold_by_one()
    watch.go_on(other)  # without the frozen one, once its silence is noticed
    while not run.committed():
        watch.go_on(other)
    committed = {path: path.read_bytes() for path in run.checkpoints.rglob("*") if path.is_file()}
    for process in frozen:
        process.resume()
    assert_gone(leader)
    sandbox.family.driver().kill()
    assert submit.wait(within_s=60) != 0
    assert not sandbox.family.wait(within_s=60)
    assert committed == {path: path.read_bytes() for path in committed}
    last = run.committed()[-1]

    watch.release()
    result = local.train(config, "r").done
    assert result.attempts[-1].from_step == last
    accounts = [(epoch.planned, epoch.trained, epoch.complete) for epoch in result.rows]
    assert accounts == [(ROWS, ROWS, True)] * 2
    assert counts_of(result.model, ROWS + 1).tolist() == [0.0, *[2.0] * ROWS]


@pytest.mark.more(
    "unit/test_attempt.py::test_a_frozen_trainer_is_the_cause_although_its_peer_fails_before_its_silence_shows",
    "trainer/test_peers.py::test_the_node_that_tensorflow_means_is_named",
)
def test_a_frozen_trainer_is_the_cause_although_tensorflow_fails_its_peer_first(
    cluster: Application, rows: Path, watch: Watch
) -> None:
    collectives = {"collectives": "tensorflow"}
    config = watched_job(rows, cluster.sandbox.runs, watch, name="frozen", cluster=collectives)
    watch.hold()
    cluster.begin(config, "r")
    first = watch.held(2)
    os.kill(first[1].pid, signal.SIGSTOP)
    watch.release()

    result = cluster.outcome().done
    assert not _runs(first[1])
    assert [a.workers for a in result.attempts] == [2, 2]
    cause, peer = result.attempts[0].root_cause, result.attempts[0].failures[0]
    assert cause is not None
    assert cause.message == f"worker 1 on {cause.host} was silent for 15 s"
    assert (cause.node, peer.node, peer.peer) == ("worker 1", "worker 0", True)
    assert "worker 0 lost its peers: " in peer.message
    assert "worker 1 at " in peer.message
    assert "/job:worker" not in peer.message
    assert result.rows_trained == ROWS


def test_a_killed_python_worker_takes_its_trainer_along_and_the_run_goes_on(
    local: Application, rows: Path, watch: Watch
) -> None:
    config = watched_job(rows, local.sandbox.runs, watch, name="agent")
    watch.hold()
    local.begin(config, "r", own_gang=True)
    first = watch.held(2)
    wait_for("a commit", local.run(config, "r").committed, within_s=60)
    agent_of(first[1]).kill()
    assert_gone(*first)
    watch.release()
    result = local.outcome().done
    assert [a.from_step for a in result.attempts] == [0, EVERY]
    assert result.attempts[0].root_cause is not None
    assert result.attempts[0].root_cause.type == "NodeLostError"
    assert result.rows_trained == ROWS


@pytest.mark.more(
    "integration/test_spark_failures.py::test_a_gang_outlives_a_killed_trainer_a_killed_executor_and_a_frozen_executor_in_one_attempt",
    "unit/test_attempt.py::test_a_killed_trainer_is_the_cause_although_its_agent_reports_it_after_its_peer",
    "cluster/test_yarn_faults.py::test_a_container_killed_for_its_memory_names_the_setting",
)
def test_with_one_attempt_a_killed_trainer_ends_the_run_as_infrastructure_with_its_name(
    local: Application, rows: Path, watch: Watch
) -> None:
    kinds = {"cluster": {"collectives": "tensorflow"}, "train": {"max_attempts": 1}}
    config = watched_job(rows, local.sandbox.runs, watch, name="once", **kinds)
    watch.hold()
    local.begin(config, "r")
    os.kill(watch.held(2)[1].pid, signal.SIGKILL)
    outcome = local.outcome()
    assert (outcome.error, outcome.verdict) == ("NodeLostError", Verdict.INFRASTRUCTURE)
    assert outcome.message.startswith("worker 1 on ")
    assert outcome.message.endswith("exited with -9 (SIGKILL)")
    assert not local.family.trainers()
    assert local.run(config, "r").result().verdict is Verdict.INFRASTRUCTURE


@pytest.mark.parametrize("killed", only("driver", of=["driver", "jvm"]))
def test_no_trainer_outlives_a_killed_driver(sandbox: Sandbox, rows: Path, watch: Watch, killed: str) -> None:
    config = watched_job(rows, sandbox.runs, watch, cluster={"strategy": "single", "workers": 1})
    watch.hold()
    submit = Submit(sandbox, "local-cluster[1,1,1024]", config, "--run-id", "r")
    watch.held(1)
    victim = sandbox.family.driver() if killed == "driver" else sandbox.family.jvm()
    victim.kill()
    assert not sandbox.family.wait("sparktf.trainer", within_s=60)
    assert submit.wait(within_s=60) != 0
    assert not sandbox.family.wait(within_s=60)
    assert not [path for path in sandbox.leftovers() if "sparktf-" in path]


@pytest.mark.more(
    "trainer/test_failure.py::test_a_checkpoint_that_a_full_local_disk_does_not_take_ends_no_attempt",
    "cluster/test_hdfs_training.py::test_a_last_checkpoint_that_hdfs_does_not_take_ends_the_run_with_its_error",
    "simulation/test_cases.py::test_the_simulator_finds_it",
)
def test_a_full_disk_ends_a_run_with_its_name_and_nothing_is_trained_again(
    sandbox: Sandbox, rows: Path, watch: Watch
) -> None:
    disks = {name: Disk(sandbox.folder / name, nbytes=64 << 20) for name in ("runs", "tmp")}
    for disk in disks.values():
        disk.folder.mkdir(exist_ok=True)
    application = Application(sandbox, "local[2]", disks=[*disks.values()])
    told = {"runs": f"{disks['runs'].folder}/runs/r/", "tmp": "spark.local.dir"}
    held: list[Held] = []
    for name, disk in disks.items():
        config = watched_job(rows, sandbox.runs, watch, name=name, cluster={"strategy": "single", "workers": 1})
        watch.hold()
        application.begin(config, "r")
        held += watch.held(1, but=held)
        disk.fill(held[-1].pid)
        watch.release()
        outcome = application.outcome()
        assert (outcome.error, outcome.verdict) == ("NotStoredError", Verdict.INFRASTRUCTURE)
        assert "o space left on device" in outcome.message
        assert told[name] in outcome.message
        assert f"warning: checkpoint at step {2 * EVERY} was not committed: " in outcome.output
        assert watch.pids() == [trainer.pid for trainer in held]
        disk.clear(sandbox.family.driver().pid)
    assert not application.close()


@pytest.mark.more(
    "simulation/test_fence.py::test_frozen_before_any_operation_a_driver_changes_nothing_of_what_its_successor_has_done",
    "simulation/test_cases.py::test_the_simulator_finds_it",
    "cluster/test_hdfs_commit.py::test_a_committer_that_is_fenced_off_cannot_commit",
)
def test_a_driver_thawed_after_its_successors_publish_changes_nothing_and_says_why(
    sandbox: Sandbox, local: Application, rows: Path, watch: Watch
) -> None:
    single = {"strategy": "single", "workers": 1}
    config = watched_job(rows, sandbox.runs, watch, cluster=single, timeouts={"owner": 3})
    watch.hold()
    submit = Submit(sandbox, "local[2]", config, "--run-id", "r")
    run = submit.run("r")
    watch.held(1)
    wait_for("a commit", lambda: EVERY in run.committed(), within_s=60)
    frozen = sandbox.family.processes()
    for process in frozen:
        process.suspend()
    watch.release()
    successor = local.train(config, "r").done
    assert successor.attempts[0].from_step == EVERY
    left = {path: path.read_bytes() for path in _lasting(run.path)}
    assert run.path / "result.json" in left
    assert any("saved_model" in path.parts for path in left)

    for process in frozen:
        process.resume()
    assert submit.wait(within_s=60) == 4
    assert submit.output()[-1].startswith("FencedOffError: run t/r belongs to another submission now")
    assert {path: path.read_bytes() for path in _lasting(run.path)} == left
    assert not sandbox.family.wait()


@pytest.mark.more(
    "unit/test_ownership.py::test_of_two_that_begin_at_once_one_owns_the_run_in_whatever_order_their_calls_come",
    "cluster/test_yarn_eight_nights.py::test_two_nights_and_the_morning_after",
)
def test_of_two_submissions_one_trains_and_the_other_ends_with_7_or_waits_and_repeats_its_result(
    sandbox: Sandbox, local: Application, rows: Path, watch: Watch
) -> None:
    single = {"strategy": "single", "workers": 1}
    config = watched_job(rows, sandbox.runs, watch, cluster=single, timeouts={"owner": 12})
    watch.hold()
    local.begin(config, "r")
    (trainer,) = watch.held(1)
    refused = Submit(sandbox, "local[2]", config, "--run-id", "r")
    assert refused.wait(within_s=120) == 7
    assert refused.output()[-1].startswith("OwnedError: run t/r is owned by application local-")
    waits = Submit(sandbox, "local[2]", config, "--run-id", "r", "--wait")
    wait_for("it waits", lambda: any("waiting until it ends" in line for line in waits.output()), within_s=120)
    watch.release()
    assert local.outcome().done.error is None
    assert waits.wait(within_s=120) == 0
    assert any("run r is done already: its result stands" in line for line in waits.output())
    assert watch.pids() == [trainer.pid], "nobody else has trained"


def _lasting(run: Path) -> list[Path]:
    """Returns the files of a run that belong to whoever owns it."""
    below = [run / name for name in ("model", "checkpoints", "plan", "result.json", "config.yaml")]
    files = (path for top in below for path in (top, *top.rglob("*")) if path.is_file())
    return sorted(path for path in files if not any(part.startswith("_") for part in path.relative_to(run).parts[1:-1]))
