"""One run from its plan to its result, on nodes that are pretended."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from lakes import lake_config, plan_lake, write_lake
from pretend import CHIEF, PretendDriver, SetClock, pretend_config

from sparktf.config.job import JobConfig
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.commits import Commits
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.saves import Save, Start, is_given_up
from sparktf.driver.checkpoint_record import CheckpointRecord
from sparktf.driver.commit import Commit, Committer
from sparktf.driver.gang.site import Voice
from sparktf.driver.hooks import Hooks
from sparktf.errors import DataError, NotStoredError, TimeUpError, Verdict
from sparktf.knobs import KNOBS
from sparktf.results.keep import Evaluation, KeepRule
from sparktf.results.result import Application, EpochRows
from sparktf.rundir import RunDirectory, checkpoint_name, writers_name
from sparktf.sequence import Cursor
from sparktf.storage.local import LocalStorage
from sparktf.topology import NodeId, Role
from sparktf.wire.control import Ready, TrainerExited
from sparktf.wire.sender import Sender
from sparktf.wire.uploads import Uploaded

ROWS = 20
EVALUATOR = NodeId(role=Role.EVALUATOR, index=0)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretendDriver:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(KNOBS, "settle_s", 0.0)
    lake = write_lake(tmp_path / "lake", [ROWS])
    return PretendDriver(Application("app"), pretend_config(lake, tmp_path / "runs"), plan_lake(lake))


def test_the_books_that_nodes_write_to_are_read_under_the_lock(driver: PretendDriver) -> None:
    result = driver.train()
    assert [(e.planned, e.fed, e.trained, e.complete) for e in result.rows] == [(ROWS, ROWS, ROWS, True)]
    assert result.steps == 20


def test_a_lost_node_costs_an_attempt_that_goes_on_from_the_last_checkpoint(driver: PretendDriver) -> None:
    driver.failures = 1
    result = driver.train()
    assert [a.from_step for a in result.attempts] == [0, 10]
    assert result.rows_trained == ROWS
    assert (Path(result.model) / "weights").read_bytes() == b"model of app"


def test_what_an_error_says_changes_neither_its_verdict_nor_what_is_stored(driver: PretendDriver) -> None:
    driver.refusal = DataError("[/lake/x] has [none, 3] \x00 \x1b]0;owned " + "x" * 200_000)
    with pytest.raises(DataError) as raised:
        driver.train()
    assert raised.value.result.verdict is Verdict.DATA_REFUSED
    stored = json.loads((Path(driver.config.output.path) / driver.config.name / "r/result.json").read_bytes())
    assert stored["error"]["message"].startswith("[/lake/x] has [none, 3] \\x00 \\x1b]0;owned xxx")
    assert len(stored["error"]["message"]) <= 4_000
    assert "[/lake/x] has [none, 3] \\x00" in driver.said.getvalue()


def test_the_result_says_where_the_time_went(driver: PretendDriver) -> None:
    class Waiting(Hooks):
        def before_plan(self, config: JobConfig, rundir: RunDirectory, voice: Voice) -> None:
            nobody = threading.Condition()
            driver.site.clock.wait(nobody, 7.0)

    driver.hooks = Waiting()
    driver.failures = 1
    done = driver.train()
    # Its clock stands still where the driver does not wait.
    assert list(done.seconds) == ["wait", "train", "publish"]
    assert done.seconds["wait"] == 7.0
    assert sum(done.seconds.values()) == pytest.approx(done.duration_s, abs=0.01)
    assert "wait 7.0, train " in driver.said.getvalue()


def test_a_run_whose_time_is_up_holds_no_nodes_and_says_what_it_went_to(driver: PretendDriver) -> None:
    class Waiting(Hooks):
        def before_plan(self, config: JobConfig, rundir: RunDirectory, voice: Voice) -> None:
            driver.site.clock.sleep(7.0)

    train = driver.config.train.model_copy(update={"max_seconds": 65.0})
    driver.config, driver.hooks = driver.config.model_copy(update={"train": train}), Waiting()
    told = r"^train\.max_seconds: 65 leaves no time to train: 58 s are left, .* 60 s are kept .*\(wait took 7 s\): set"
    with pytest.raises(TimeUpError, match=told) as raised:
        driver.train()
    result = raised.value.result
    assert (result.verdict, result.attempts, list(result.seconds)) == (Verdict.INFRASTRUCTURE, (), ["wait"])
    driver.hooks = Hooks()
    assert driver.train().verdict is Verdict.DONE


def test_what_the_storage_does_not_take_ends_the_run_with_its_words_and_is_not_trained_again(
    driver: PretendDriver,
) -> None:
    driver.not_stored = "cannot write /runs: No space left on device"
    with pytest.raises(NotStoredError, match="step 20 was not committed: cannot write /runs: No space left") as raised:
        driver.train()
    assert raised.value.verdict is Verdict.INFRASTRUCTURE
    assert len(raised.value.result.attempts) == 1
    assert [text for text in raised.value.result.warnings if "No space left" in text] == [
        f"checkpoint at step {step} was not committed: cannot write /runs: No space left on device" for step in (10, 20)
    ]


def test_nor_is_what_a_node_could_not_store(driver: PretendDriver) -> None:
    driver.failures, driver.failure = 1, "NotStoredError"
    with pytest.raises(NotStoredError, match=r"^lost$") as raised:
        driver.train()
    assert len(raised.value.result.attempts) == 1


def test_checkpoints_may_fail_for_as_long_as_an_upload_may_take() -> None:
    assert not is_given_up(since_s=100.0, now_s=100.0, limit_s=900.0)
    assert not is_given_up(since_s=100.0, now_s=999.0, limit_s=900.0)
    assert is_given_up(since_s=100.0, now_s=1000.0, limit_s=900.0)


def test_one_that_is_stored_in_between_begins_the_time_anew(tmp_path: Path) -> None:
    clock = SetClock()
    lake = write_lake(tmp_path / "lake", [ROWS])
    rundir = RunDirectory(str(tmp_path / "runs"), "t", "r")
    config = pretend_config(lake, tmp_path / "runs", timeouts={"upload": 60})
    committer = Committer(config, LocalStorage(), rundir, plan_lake(lake), lambda text: None, clock=clock)
    committer.fence(lambda after: after + 1)

    def save(step: int, error: str = "") -> Commit:
        uploaded = Uploaded(attempt=1, node=CHIEF, step=step, epoch=0, done=(), keras="keras", error=error)
        Path(rundir.staged(1, checkpoint_name(step))).mkdir(parents=True)
        return Commit(Save(uploaded, Cursor()), CheckpointRecord(), {})

    committer.commit(save(1, "away"))
    clock.set_s = 50.0
    committer.commit(save(2))
    clock.set_s = 100.0
    committer.commit(save(3, "away"))
    clock.set_s = 159.0
    committer.commit(save(4, "away"))
    clock.set_s = 160.0
    with pytest.raises(NotStoredError, match=r"could be stored for 60 s \(timeouts\.upload: 60 s\): away"):
        committer.commit(save(5, "away"))


def test_a_checkpoint_that_is_whole_after_a_later_one_is_not_told_as_the_last(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", [ROWS])
    rundir = RunDirectory(str(tmp_path / "runs"), "t", "r")
    config = pretend_config(lake, tmp_path / "runs")
    committer = Committer(config, LocalStorage(), rundir, plan_lake(lake), lambda text: None, clock=SetClock())
    committer.fence(lambda after: after + 1)
    for step in (6, 4):
        Path(rundir.staged(1, checkpoint_name(step))).mkdir(parents=True)
        uploaded = Uploaded(attempt=1, node=CHIEF, step=step, epoch=0, done=(), keras="keras")
        committer.commit(Commit(Save(uploaded, Cursor()), CheckpointRecord(), {}))
    assert (committer.step, committer.checkpoint) == (6, rundir.checkpoint(6))


def test_a_checkpoint_that_a_later_leader_stores_again_is_committed_once(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", [ROWS])
    rundir = RunDirectory(str(tmp_path / "runs"), "t", "r")
    config, warned = pretend_config(lake, tmp_path / "runs"), list[str]()
    committer = Committer(config, LocalStorage(), rundir, plan_lake(lake), warned.append, clock=SetClock())
    committer.fence(lambda after: after + 1)
    for leader in range(2):
        folder = writers_name(checkpoint_name(6), NodeId(role=Role.WORKER, index=leader), 0)
        Path(rundir.staged(1, folder)).mkdir(parents=True)
        uploaded = Uploaded(attempt=1, node=CHIEF, step=6, epoch=0, done=(), keras="keras", folder=folder)
        committer.commit(Commit(Save(uploaded, Cursor()), CheckpointRecord(), {}))
    assert (warned, committer.checkpoint) == ([], rundir.checkpoint(6))


def test_rows_that_were_replayed_before_a_checkpoint_still_count_after_it(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", [ROWS])
    rundir = RunDirectory(str(tmp_path / "runs"), "t", "r")
    config, plan = pretend_config(lake, tmp_path / "runs"), plan_lake(lake)

    def committer() -> Committer:
        opened = Committer(config, LocalStorage(), rundir, plan, lambda text: None, clock=SetClock())
        opened.fence(lambda after: after + 1)
        return opened

    uploaded = Uploaded(attempt=1, node=CHIEF, step=1, epoch=0, done=(), keras="keras", in_doubt=5)
    before = committer()
    Path(rundir.staged(1, checkpoint_name(1))).mkdir(parents=True)
    before.commit(Commit(Save(uploaded, Cursor()), CheckpointRecord(replayed=7), {}))
    after = committer()
    assert after.begin() is not None
    assert after.record.replayed == 7 + 5, "nobody tells of those in doubt any more"


def test_a_checkpoint_does_not_count_rows_as_trained_that_were_set_aside(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", [ROWS])
    rundir = RunDirectory(str(tmp_path / "runs"), "t", "r")
    config = pretend_config(lake, tmp_path / "runs")
    committer = Committer(config, LocalStorage(), rundir, plan_lake(lake), lambda text: None, clock=SetClock())
    committer.fence(lambda after: after + 1)
    Path(rundir.staged(1, checkpoint_name(9))).mkdir(parents=True)
    uploaded = Uploaded(attempt=1, node=CHIEF, step=9, epoch=1, done=((0, 20),), keras="keras")
    epoch = EpochRows(epoch=0, planned=ROWS, fed=ROWS, trained=ROWS - 4, set_aside=4, complete=True)
    save = Save(uploaded, Cursor(epoch=1, done=((0, 20),)), rows_aside=3)
    committer.commit(Commit(save, CheckpointRecord(epochs=(epoch,)), {}))
    manifest = json.loads(Path(rundir.checkpoint(9), "MANIFEST.json").read_text())
    assert manifest["rows_trained"] == ROWS - 4 + 17


class Evaluated:
    """An attempt of one worker and an evaluator, and who commits its checkpoints: keeps the newest, and the best."""

    def __init__(self, folder: Path) -> None:
        lake = write_lake(folder / "lake", [ROWS])
        self.rundir = RunDirectory(str(folder / "runs"), "t", "r")
        data = lake_config(lake, validation={"fraction": 0.3}).model_dump(exclude_unset=True)["data"]
        wanted = {"data": data, "train": {"keep": "best"}, "checkpoint": {"keep": 1}}
        config = pretend_config(lake, folder / "runs", cluster={"workers": 1, "evaluator": True}, **wanted)
        plan, self.rule = plan_lake(lake, validation={"fraction": 0.3}), KeepRule(metric="loss", mode="min")
        trainers = [Trainer(node, node.role, "h", 0.0, 0.0) for node in config.cluster.shape.members(2)]
        self.attempt = Attempt(1, config, plan, Start(), trainers, lambda: 0.0, lambda: 0.0)
        self.committer = Committer(config, LocalStorage(), self.rundir, plan, lambda text: None, clock=SetClock())
        self.committer.fence(lambda after: after + 1)
        self.committer.attempt = self.attempt

    @property
    def commits(self) -> Commits:
        return self.attempt.commits

    def sender(self, node: NodeId) -> Sender:
        return Sender(attempt=1, node=node, incarnation=self.attempt.trainers[node].incarnation)

    def ready(self, node: NodeId, keep: KeepRule | None = None) -> None:
        said = Ready(**self.sender(node), replicas=1, keras="keras", versions={}, weights=1, keep=keep)
        self.attempt.ready(said)

    def lose_evaluator(self) -> None:
        """Another one takes its place, and is not ready yet."""
        gone = {"agent": "a", "exit_code": -9, "time_s": 0.0, "log": "", "log_tail": ""}
        self.attempt.exited(TrainerExited.model_validate({**self.sender(EVALUATOR), **gone}))
        self.attempt.succeed(EVALUATOR, "another", "h", "h:1")

    def save(self, step: int) -> None:
        Path(self.rundir.staged(1, checkpoint_name(step))).mkdir(parents=True)
        self.attempt.uploaded(Uploaded(attempt=1, node=CHIEF, step=step, epoch=0, done=(), keras="keras"))
        for commit in self.committer.collect(self.attempt):
            self.committer.commit(commit)

    def there(self) -> list[str]:
        return sorted(name for name in os.listdir(self.rundir.checkpoints) if name.startswith("step-"))

    def tell(self, step: int, loss: float) -> None:
        self.commits.evaluated(Evaluation(epoch=0, step=step, rows=5, values={"loss": loss}))

    def evaluate(self, step: int, loss: float) -> None:
        assert self.commits.next(self.rule).commit is not None
        self.tell(step, loss)


@pytest.fixture
def evaluated(tmp_path: Path) -> Evaluated:
    made = Evaluated(tmp_path)
    made.ready(CHIEF)
    made.ready(EVALUATOR, made.rule)
    return made


def test_what_an_evaluator_held_until_its_last_result_goes_at_the_runs_end(evaluated: Evaluated) -> None:
    evaluated.save(1)
    evaluated.evaluate(1, 0.5)
    evaluated.save(2)
    assert evaluated.commits.next(evaluated.rule).commit is not None  # the best so far, and one that is being read
    evaluated.save(3)
    evaluated.tell(2, 0.1)
    evaluated.evaluate(3, 0.3)
    assert evaluated.there() == [checkpoint_name(step) for step in (1, 2, 3)]
    evaluated.committer.commit_model(evaluated.attempt)
    assert evaluated.there() == [checkpoint_name(step) for step in (2, 3)]


def test_the_best_weights_stay_while_the_evaluator_that_found_them_is_followed(evaluated: Evaluated) -> None:
    evaluated.lose_evaluator()
    evaluated.save(1)
    evaluated.ready(EVALUATOR, evaluated.rule)
    evaluated.evaluate(1, 0.1)
    evaluated.lose_evaluator()
    evaluated.save(2)
    evaluated.save(3)
    assert evaluated.there() == [checkpoint_name(step) for step in (1, 3)]
