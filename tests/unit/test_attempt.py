"""What follows from what trainers report: decisions without network, processes or a real clock."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lakes import lake_config, plan_lake, write_lake

from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.attempt import restart
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.disciplines import Lockstep
from sparktf.driver.attempt.health import Failure, Outcome, Since, decide, late, silent
from sparktf.driver.attempt.members import Trainer
from sparktf.driver.attempt.restart import root_cause
from sparktf.driver.attempt.rows.accounting import EpochAccount
from sparktf.driver.attempt.saves import Start
from sparktf.driver.lifecycle import TrainerState
from sparktf.errors import ErrorRecord, RefusedError, Verdict
from sparktf.results.carried import Carried
from sparktf.results.result import NodeInput
from sparktf.sequence import Cursor, Interval, Stream
from sparktf.topology import NodeId, Role
from sparktf.wire.control import (
    AWAITS_EXPORT,
    AssignmentRequest,
    EpochDone,
    Failed,
    Heartbeat,
    Metrics,
    Printed,
    Progress,
    Ready,
    TrainerExited,
    Warned,
)
from sparktf.wire.data import Sealed, Span, WorkRequest
from sparktf.wire.regrouping import Generation, Left, Regrouped
from sparktf.wire.sender import Sender
from sparktf.wire.uploads import Finished, Uploaded

SILENCE_S = 15.0
NODES = [NodeId(role=Role.WORKER, index=i) for i in range(3)]


def trainer(index: int = 0, state: TrainerState = TrainerState.TRAINING, *, heard_s: float = 100.0) -> Trainer:
    return Trainer(NODES[index], f"agent {index}", f"h{index}", heard_s=heard_s, moved_s=heard_s, state=state)


def members(*trainers: Trainer) -> dict[NodeId, Trainer]:
    return {each.node: each for each in trainers}


def failure(time_s: float, *, peer: bool = False) -> ErrorRecord:
    return ErrorRecord(
        type="NodeLostError", message=f"at {time_s:g}", verdict=Verdict.INFRASTRUCTURE, time_s=time_s, peer=peer
    )


def noted(noted_s: float, *, peer: bool = False) -> Failure:
    return Failure(failure(noted_s, peer=peer), noted_s)


FAILED = trainer(1, TrainerState.FAILED)


def test_an_attempt_runs_until_every_trainer_has_finished() -> None:
    finished = [trainer(0, TrainerState.FINISHED), trainer(1, TrainerState.FINISHED)]
    lockstep = Lockstep()
    assert not lockstep.is_done(members(finished[0], trainer(1)))
    assert lockstep.is_done(members(*finished))
    assert decide(finished, [], 101.0, SILENCE_S, done=False) is Outcome.RUNNING
    assert decide(finished, [], 101.0, SILENCE_S, done=True) is Outcome.DONE


def test_a_failure_ends_it_after_a_moment_for_earlier_ones() -> None:
    assert decide([trainer(), FAILED], [noted(100.0)], 100.5, SILENCE_S, done=False) is Outcome.RUNNING
    assert decide([trainer(), FAILED], [noted(100.0)], 101.0, SILENCE_S, done=False) is Outcome.FAILED


@pytest.mark.parametrize("peer", [False, True])
def test_a_failure_ends_it_at_once_where_nobody_is_left_to_report_another(peer: bool) -> None:
    failures = [noted(100.0, peer=peer), noted(100.1, peer=True)]
    trainers = [trainer(0, TrainerState.EXITED), FAILED]
    assert decide(trainers, failures, 100.1, SILENCE_S, done=False) is Outcome.FAILED
    assert decide([*trainers, trainer(2)], failures, 100.1, SILENCE_S, done=False) is Outcome.RUNNING


@pytest.mark.parametrize("state", [TrainerState.LAUNCHED, TrainerState.TRAINING, TrainerState.FINISHED])
def test_where_only_peers_have_spoken_the_lost_node_gets_until_its_silence_shows(state: TrainerState) -> None:
    trainers, peers = [trainer(0, state, heard_s=95.0), FAILED], [noted(100.0, peer=True)]
    assert decide(trainers, peers, 115.9, SILENCE_S, done=False) is Outcome.RUNNING
    assert decide(trainers, peers, 116.0, SILENCE_S, done=False) is Outcome.FAILED


def test_a_cause_that_is_found_then_ends_it_after_a_moment_for_what_says_more() -> None:
    trainers = [trainer(0, heard_s=95.0), FAILED]
    failures = [noted(100.0, peer=True), noted(110.5)]
    assert decide(trainers, failures, 111.0, SILENCE_S, done=False) is Outcome.RUNNING
    assert decide(trainers, failures, 111.5, SILENCE_S, done=False) is Outcome.FAILED


def test_where_nobody_is_missing_the_peers_word_ends_it() -> None:
    peers = [noted(100.0, peer=True)]
    ended = trainer(2, TrainerState.EXITED, heard_s=50.0)
    assert decide([trainer(0, heard_s=100.6), FAILED, ended], peers, 101.0, SILENCE_S, done=False) is Outcome.RUNNING
    assert decide([trainer(0, heard_s=101.1), FAILED, ended], peers, 101.2, SILENCE_S, done=False) is Outcome.FAILED


@pytest.mark.parametrize("heard_s", [80.0, 90.0, 99.9, 100.0, 100.9])
def test_whoever_is_missing_is_found_before_the_peers_word_ends_it(heard_s: float) -> None:
    trainers, peers = [trainer(0, heard_s=heard_s), FAILED], [noted(100.0, peer=True)]
    now_s = 100.0
    while not list(silent(trainers, now_s, SILENCE_S)):
        assert decide(trainers, peers, now_s, SILENCE_S, done=False) is Outcome.RUNNING
        now_s += 0.05
    assert now_s <= 116.0


def test_only_nodes_of_which_more_is_expected_are_silent() -> None:
    states = [TrainerState.FAILED, TrainerState.EXITED, TrainerState.TRAINING]
    trainers = [trainer(i, state) for i, state in enumerate(states)]
    assert [(found.trainer.node, found.what, found.since_s) for found in silent(trainers, 115.1, SILENCE_S)] == [
        (NODES[2], "was silent for 15 s", 100.0)
    ]
    assert not list(silent(trainers, 115.0, SILENCE_S))


TIMEOUTS = TimeoutsConfig(start=60, heartbeat=15, progress=300)


@pytest.mark.parametrize(
    ("state", "heard_s", "moved_s", "now_s", "found"),
    [
        (TrainerState.LAUNCHED, 0.0, 0.0, 60.0, None),
        (TrainerState.LAUNCHED, 60.0, 0.0, 60.1, "was not ready within timeouts.start: 60 s"),
        (TrainerState.READY, 100.0, 100.0, 115.0, None),
        (TrainerState.READY, 100.0, 100.0, 115.1, "was silent for 15 s"),
        (TrainerState.TRAINING, 400.0, 100.0, 400.1, "made no progress within timeouts.progress: 300 s"),
        (TrainerState.TRAINING, 480.0, 100.0, 480.0, "made no progress within timeouts.progress: 300 s"),
        (TrainerState.FINISHED, 100.0, 100.0, 900.0, None),
    ],
)
def test_a_trainer_is_late_by_the_timeout_of_what_it_does(
    state: TrainerState, heard_s: float, moved_s: float, now_s: float, found: str | None
) -> None:
    one = Trainer(NODES[0], "a", "h", heard_s=heard_s, moved_s=moved_s, state=state)
    assert [each.what for each in late([one], now_s, Since(0.0, 0.0), TIMEOUTS, NODES)] == ([found] if found else [])


def test_a_trainer_that_waits_for_spark_is_not_stuck() -> None:
    one = Trainer(NODES[0], "a", "h", heard_s=400.0, moved_s=0.0, state=TrainerState.TRAINING)
    assert list(late([one], 400.0, Since(0.0, 0.0), TIMEOUTS, NODES))
    assert not list(late([one], 400.0, Since(0.0, 200.0), TIMEOUTS, NODES))


def test_the_root_cause_is_the_earliest_that_is_not_the_loss_of_a_peer() -> None:
    assert root_cause([failure(1.0, peer=True), failure(3.0), failure(2.0)]).message == "at 2"
    assert root_cause([failure(4.0, peer=True), failure(3.0, peer=True)]).message == "at 3"
    cut = failure(5.0, peer=True).model_copy(update={"type": "LinkCutError"})
    assert root_cause([failure(4.0, peer=True), cut]).message == "at 5", "the others saw one of its ends go"
    assert root_cause([cut, failure(6.0)]).message == "at 6"


def lost(time_s: float, **changes: Any) -> ErrorRecord:
    return failure(time_s).model_copy(update=changes)


@pytest.mark.parametrize(
    ("cause", "used", "allowed", "said", "end"),
    [
        (lost(1.0), 1, 3, "attempt 1 of 3 failed: at 1", None),
        (lost(1.0), 3, 3, "attempt 3 of 3 failed: at 1", "at 1 (attempt 3 of 3)"),
        (lost(1.0), 1, 1, "attempt 1 of 1 failed: at 1", "at 1"),
        (lost(1.0, verdict=Verdict.MODEL_FAILED), 1, 3, "attempt 1 failed: at 1", "at 1"),
        (lost(1.0, type="NotStoredError"), 1, 3, "attempt 1 failed: at 1", "at 1"),
    ],
    ids=["a node lost", "the last attempt", "the only attempt", "the model's own failure", "nothing can be stored"],
)
def test_what_a_new_attempt_may_mend_is_tried_again_as_often_as_it_may_be(
    cause: ErrorRecord, used: int, allowed: int, said: str, end: str | None
) -> None:
    follows = restart.after([failure(0.5, peer=True), cause], used, allowed)
    assert (follows.said, follows.end.message if follows.end else None) == (said, end)


TAKEN = "Container container_1 on host: h was preempted."


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ([failure(1.0, peer=True), lost(2.0, taken_back=True)], "at 2"),
        ([lost(1.0, node="worker 1", host="h")], f"worker 1 on h: {TAKEN}"),
        ([failure(1.0, peer=True)], f"worker 1: {TAKEN}"),
        ([lost(1.0, node="worker 0", host="h")], ""),
        ([lost(1.0, node="worker 1", type="ExchangeError")], ""),
        ([lost(1.0, node="worker 1", verdict=Verdict.MODEL_FAILED)], ""),
    ],
    ids=[
        "told so",
        "only silent",
        "only its peers told",
        "another node failed first",
        "other trouble",
        "the model's own",
    ],
)
def test_an_attempt_whose_node_was_taken_back_does_not_count(failures: list[ErrorRecord], said: str) -> None:
    restarts = restart.Restarts(2)
    for _ in range(5):
        restarts.look({"worker 1": TAKEN})
        follows = restarts.failed(failures, 0)
        if not said:
            assert (follows.counts, restarts.why) == (True, restart.Why.LOST)
            return
        assert (follows.said, follows.counts, follows.end) == (
            f"the cluster took a node back, which does not count as an attempt: {said}",
            False,
            None,
        )
        assert restarts.why is restart.Why.TAKEN_BACK
    restarts.look({})
    assert restarts.failed([lost(1.0)], 0).said == "attempt 1 of 2 failed: at 1"
    assert restarts.failed([lost(1.0)], 0).end is not None


def test_a_run_whose_nodes_are_taken_back_again_and_again_ends_unless_it_gets_on() -> None:
    restarts = restart.Restarts(1)

    def taken_back(step: int) -> ErrorRecord | None:
        follows = restarts.failed([lost(1.0, taken_back=True)], step)
        assert not follows.counts
        return follows.end

    steps = [step for step in range(3) for _ in range(restart.IN_VAIN - 1)]
    assert [end for end in map(taken_back, steps) if end] == []
    end = taken_back(steps[-1])
    assert end is not None
    assert end.message.startswith("the cluster took nodes back 10 times and no checkpoint was stored between: lower")
    assert end.verdict is Verdict.INFRASTRUCTURE


def test_a_failure_that_counts_begins_the_count_of_takeovers_anew() -> None:
    restarts = restart.Restarts(2)
    for _ in range(restart.IN_VAIN - 1):
        assert restarts.failed([lost(1.0, taken_back=True)], 0).end is None
    assert restarts.failed([lost(1.0)], 0).end is None
    for _ in range(restart.IN_VAIN - 1):
        assert restarts.failed([lost(1.0, taken_back=True)], 0).end is None


class Gang:
    """An attempt of two trainers that train, at a time that the test tells."""

    def __init__(
        self, lake: Path, start: Start | None = None, nodes: int = 2, min_workers: int = 1, max_bad_rows: int = 0
    ) -> None:
        self.now_s = 100.0
        config = lake_config(lake)
        train = config.train.model_copy(update={"min_workers": min_workers})
        data = config.data.model_copy(update={"max_bad_rows": max_bad_rows})
        self.attempt = Attempt(
            1,
            config.model_copy(update={"train": train, "data": data}),
            plan_lake(lake),
            start or Start(),
            [trainer(index) for index in range(nodes)],
            lambda: self.now_s,
            lambda: 1e9 + self.now_s,
        )

    def beat(self, index: int, epoch: int = 0, step: int = 1, rows: int = 8, phase: str = "training") -> None:
        """A heartbeat comes from a trainer."""
        progress = Progress(epoch=epoch, step=step, rows_trained=rows, phase=phase)
        self.attempt.heartbeat(Heartbeat(attempt=1, node=NODES[index], progress=progress))

    def lose_peers(self, index: int) -> None:
        """A trainer fails since another is gone."""
        record = failure(1e9 + self.now_s, peer=True).model_copy(update={"node": str(NODES[index])})
        self.attempt.failed(Failed(attempt=1, node=NODES[index], record=record))

    def left(self, index: int, closed_by: int, *, takes_in: bool = False) -> Generation | None:
        """A trainer leaves its generation, since another one has closed their connection; returns the next one."""
        record = failure(1e9 + self.now_s, peer=True)
        name = str(NODES[closed_by])
        told = Left(attempt=1, node=NODES[index], generation=1, completed=1, record=record, closed_by=name)
        return self.attempt.left(told.model_copy(update={"takes_in": takes_in})).generation

    def go_on_without(self, lost: int) -> None:
        """One is lost, and all others have left their generation."""
        for each in self.attempt.trainers.values():
            each.met = True
        for index in range(len(self.attempt.trainers)):
            if index != lost:
                self.left(index, closed_by=lost)
        self.attempt.reporters.lose(NODES[lost], failure(1e9 + self.now_s), self.attempt.trainers)

    def stand(self, index: int, *, rows: int, epoch: int = 0, is_complete: bool = False) -> None:
        """A member of the second generation says what all have trained."""
        done = ((0, rows),) if rows else ()
        said = Regrouped(
            attempt=1, node=NODES[index], generation=2, epoch=epoch, step=3, is_complete=is_complete, done=done
        )
        self.attempt.regrouped(said)

    def stand_without_the_other(self, rows: int, *, is_complete: bool = False) -> None:
        """A trainer goes on without the other one, which is lost, and says what both have trained."""
        self.go_on_without(1)
        self.stand(0, rows=rows, is_complete=is_complete)

    def lose_at_the_end_of_an_epoch(self, rows_missing: int) -> int:
        """One is lost when the epoch has ended, and the other one knows of some rows less; returns those planned."""
        planned = self.attempt.account(0).planned
        self.stand_without_the_other(planned - rows_missing, is_complete=True)
        return planned

    def lost(self) -> list[str]:
        """Looks at the attempt, and returns whom it goes on without."""
        assert self.attempt.apply(self.attempt.outcome()) is Outcome.RUNNING
        return [loss.message for loss in self.attempt.losses.records]

    def exited(self, index: int, code: int) -> None:
        """The agent says that a trainer has ended."""
        self.attempt.exited(
            TrainerExited(
                agent=f"agent {index}",
                attempt=1,
                node=NODES[index],
                exit_code=code,
                time_s=1e9 + self.now_s,
                log="/log",
                log_tail="",
            )
        )

    def ended_s(self) -> float:
        """Waits until the attempt has failed; returns when that was."""
        while self.attempt.apply(self.attempt.outcome()) is Outcome.RUNNING:
            self.now_s += 0.1
            assert self.now_s < 200
        return self.now_s

    def cause(self) -> str:
        return root_cause(self.attempt.failures).message


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def gang(lake: Path) -> Gang:
    return Gang(lake)


def test_a_frozen_trainer_is_the_cause_although_its_peer_fails_before_its_silence_shows(gang: Gang) -> None:
    gang.beat(1)
    gang.now_s = 110.0
    gang.lose_peers(0)

    assert gang.ended_s() == pytest.approx(116.1, abs=0.2)
    assert gang.cause() == "worker 1 on h1 was silent for 15 s"
    gang.exited(1, -9)
    assert (gang.attempt.failures[-1].exit_code, gang.attempt.failures[-1].log) == (-9, "/log")


def test_of_a_gang_that_outlives_losses_who_has_closed_its_connections_is_lost_after_two_beats(lake: Path) -> None:
    gang = Gang(lake, Start(outlives_losses=True))
    for each in gang.attempt.trainers.values():
        each.met = True
    gang.beat(1)
    gang.left(0, closed_by=1)
    gang.now_s = 101.1
    gang.beat(0)
    assert not gang.lost()
    gang.beat(1)  # it lives, and will say itself why it has closed them
    gang.now_s = 102.2
    assert not gang.lost()
    gang.now_s = 102.4
    assert gang.lost() == ["worker 1 on h1 has closed its connections, and was silent for 1.2 s"]
    with pytest.raises(RefusedError, match="counts as lost"):
        gang.exited(1, -9)
    assert [loss.exit_code for loss in gang.attempt.losses.records] == [-9]


def test_who_has_finished_takes_no_lost_leaders_place_though_that_is_followed(lake: Path) -> None:
    """With a gate, a leader exports when the others have nothing to do any more in which they would miss it."""
    gang = Gang(lake, Start(outlives_losses=True))
    for each in gang.attempt.trainers.values():
        each.met = True
    gang.exited(0, -9)
    gang.attempt.succeed(NODES[0], "another", "h", "h:1")
    gang.attempt.finished(Finished(attempt=1, node=NODES[1], step=9, leads=False))
    assert gang.ended_s() < 102
    assert gang.cause() == "worker 0 on h0 exited with -9 (SIGKILL)"


def test_who_waits_for_the_leaders_export_is_not_late_but_the_leader_may_be(lake: Path) -> None:
    gang = Gang(lake, Start(outlives_losses=True))
    progress_s = TimeoutsConfig().progress
    gang.beat(1, phase=AWAITS_EXPORT)
    gang.now_s += 1
    began_s = gang.now_s
    while gang.attempt.apply(gang.attempt.outcome()) is Outcome.RUNNING:
        gang.now_s += 1
        gang.beat(0, phase="exporting")
        gang.beat(1, phase=AWAITS_EXPORT)
        assert gang.now_s < began_s + progress_s + 60
    assert gang.now_s > began_s + progress_s
    assert gang.cause() == f"worker 0 on h0 made no progress within timeouts.progress: {progress_s:g} s"


def test_a_gang_that_has_failed_at_one_without_progress_has_a_cause_when_its_agent_is_lost_after_that(
    lake: Path,
) -> None:
    gang = Gang(lake, Start(outlives_losses=True))
    gang.beat(1, phase=AWAITS_EXPORT)
    while gang.attempt.apply(gang.attempt.outcome()) is Outcome.RUNNING:
        gang.now_s += 1
        gang.beat(0, phase="exporting")
        gang.beat(1, phase=AWAITS_EXPORT)
        assert gang.now_s < 2 * TimeoutsConfig().progress
    for each in gang.attempt.trainers.values():
        each.met = True
    gang.attempt.stop()
    gang.attempt.agent_lost("agent 0", "lost its agent: silent for 6 s")
    assert gang.cause() == "worker 0 on h0 lost its agent: silent for 6 s"


def test_an_epoch_waits_for_the_words_of_one_that_is_lost_until_the_others_have_taken_leave_of_it(lake: Path) -> None:
    gang, rows = Gang(lake, Start(outlives_losses=True), nodes=3), plan_lake(lake).rows(Stream.TRAIN)
    for each in gang.attempt.trainers.values():
        each.met = True
    gang.exited(0, -9)
    for index in (1, 2):
        gang.attempt.epoch_done(epoch_done(index, rows // 4, rows // 4))
    assert not gang.attempt.failures
    for index in (1, 2):
        gang.left(index, closed_by=0)
    for index in (1, 2):
        gang.stand(index, rows=rows, is_complete=True)
    assert not gang.attempt.failures
    assert gang.attempt.account(0).trained == rows


def test_what_a_leader_has_carried_over_from_another_model_is_told_though_it_is_lost(lake: Path) -> None:
    gang = Gang(lake, Start(outlives_losses=True))
    carried = Carried(source="version 14")
    for each in gang.attempt.trainers.values():
        each.state = TrainerState.LAUNCHED
    for index in (0, 1):
        told = Ready(attempt=1, node=NODES[index], replicas=2, keras="keras", versions={}, weights=1)
        gang.attempt.ready(told.model_copy(update={"carried": carried if index == 0 else None}))
    gang.exited(0, -9)
    gang.attempt.succeed(NODES[0], "another", "h", "h:1")
    assert gang.attempt.carried == carried


def test_the_rows_of_an_epoch_that_ends_with_a_loss_are_checked(lake: Path) -> None:
    gang = Gang(lake, Start(outlives_losses=True))
    planned = gang.lose_at_the_end_of_an_epoch(rows_missing=0)
    assert (gang.attempt.failures, gang.attempt.account(0).trained) == ([], planned)
    gang = Gang(lake, Start(outlives_losses=True))
    gang.lose_at_the_end_of_an_epoch(rows_missing=1)
    assert gang.cause() == f"epoch 0: {planned} rows planned, {planned - 1} fed, {planned - 1} trained, 0 set aside"


def test_so_are_they_where_who_has_begun_the_next_epoch_is_the_last_to_say_so(lake: Path) -> None:
    gang = Gang(lake, Start(outlives_losses=True), nodes=3)
    planned = gang.attempt.account(0).planned
    gang.go_on_without(1)
    gang.stand(2, epoch=0, rows=planned - 1)
    gang.stand(0, epoch=1, rows=0)
    assert gang.cause() == f"epoch 0: {planned} rows planned, {planned - 1} fed, {planned - 1} trained, 0 set aside"


def test_an_epoch_is_told_by_its_members_also_where_it_was_asked_for_before_one_was_lost(lake: Path) -> None:
    """As a commit of the epoch before does."""
    gang = Gang(lake, Start(outlives_losses=True))
    assert not gang.attempt.account(1).is_reported
    planned = gang.lose_at_the_end_of_an_epoch(rows_missing=0)
    gang.attempt.epoch_done(
        EpochDone(attempt=1, node=NODES[0], epoch=1, step=9, rows_fed=planned, rows_trained=planned, complete=True)
    )
    assert gang.attempt.account(1).is_reported


def test_where_all_stand_is_noted_once_whatever_comes_twice(lake: Path) -> None:
    gang = Gang(lake, Start(outlives_losses=True))
    gang.stand_without_the_other(rows=8)
    done = EpochDone(attempt=1, node=NODES[0], epoch=0, step=4, rows_fed=3, rows_trained=3, complete=False)
    gang.attempt.epoch_done(done)
    gang.stand_without_the_other(rows=8)
    assert gang.attempt.account(0).trained == 11


def test_too_few_members_wait_store_what_they_have_and_end_for_the_loss(lake: Path) -> None:
    gang = Gang(lake, Start(outlives_losses=True), nodes=3, min_workers=3)
    for each in gang.attempt.trainers.values():
        each.met = True
    gang.exited(1, -9)
    assert gang.attempt.reporters.next_in_words == "training waits for another: of at least 3 workers 2 are left"
    for index in (0, 2):
        assert gang.left(index, closed_by=1, takes_in=True) is None
    gang.now_s = 129.9
    gang.beat(0)
    gang.beat(2)
    gang.lost()
    assert gang.left(0, closed_by=1, takes_in=True) is None, "timeouts.replace is 30 s"
    gang.now_s = 130.1
    gang.lost()
    last = gang.left(0, closed_by=1, takes_in=True)
    assert last is not None
    assert (last.members, last.is_last) == ((NODES[0], NODES[2]), True)
    for index in (0, 2):
        gang.stand(index, rows=8)
    assert gang.attempt.outlived == (), "they do not go on"
    gang.now_s = 135.0  # it is stored
    for index in (0, 2):
        gang.lose_peers(index)
    assert gang.ended_s() < 136.0
    said = (
        "worker 1 on h1 exited with -9 (SIGKILL); it was not replaced within timeouts.replace: 30 s, and only 2 of 3 "
        "workers would be left, but at least 3 are needed"
    )
    assert gang.cause() == said
    assert [record.message for record in gang.attempt.failures].count(said) == 1


def test_a_frozen_executor_says_more_than_its_trainers_silence(gang: Gang) -> None:
    gang.beat(1)
    gang.now_s = 110.0
    gang.lose_peers(0)
    gang.now_s = 115.2
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.RUNNING
    gang.now_s = 115.4
    gang.attempt.agent_lost("agent 1", "lost its executor: silent for 15 s", "http://log")

    assert gang.ended_s() == pytest.approx(115.4, abs=0.1)
    assert gang.cause() == "worker 1 on h1 lost its executor: silent for 15 s"
    assert len(gang.attempt.failures) == 2


def test_a_killed_trainer_is_the_cause_although_its_agent_reports_it_after_its_peer(gang: Gang) -> None:
    gang.lose_peers(0)
    gang.now_s = 105.0
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.RUNNING
    gang.exited(1, -9)

    assert gang.ended_s() == pytest.approx(105.0, abs=0.1)
    assert gang.cause() == "worker 1 on h1 exited with -9 (SIGKILL)"


def test_a_trainer_that_thaws_before_it_counts_as_lost_leaves_the_word_to_its_peers(gang: Gang) -> None:
    gang.now_s = 110.0
    gang.lose_peers(0)
    gang.now_s = 112.0
    gang.lose_peers(1)

    assert gang.ended_s() == 112.0
    assert root_cause(gang.attempt.failures).node == "worker 0"


def test_after_a_cause_nobody_is_looked_for(gang: Gang) -> None:
    gang.exited(0, 1)
    gang.now_s = 150.0
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.FAILED
    assert gang.cause() == "worker 0 on h0 exited with 1"
    assert len(gang.attempt.failures) == 1


def test_a_trainer_that_counts_as_lost_is_heard_no_more(gang: Gang) -> None:
    gang.attempt.agent_lost("agent 1", "lost its executor: silent for 16 s")
    lost = "worker 1 of attempt 1 counts as lost"
    with pytest.raises(RefusedError, match=lost):
        gang.beat(1)
    with pytest.raises(RefusedError, match=lost):
        gang.lose_peers(1)
    with pytest.raises(RefusedError, match=lost):
        gang.exited(1, 0)
    assert [f.message for f in gang.attempt.failures] == ["worker 1 on h1 lost its executor: silent for 16 s"]


@pytest.mark.parametrize(
    ("sender", "why"),
    [
        (Sender(attempt=0, node=NODES[1], incarnation=2), "attempt 0 is over: 1 is under way"),
        (Sender(attempt=1, node=NODES[2], incarnation=0), "attempt 1 has no worker 2"),
        (
            Sender(attempt=1, node=NODES[1], incarnation=1),
            "incarnation 1 of worker 1 in attempt 1 is over: incarnation 2 has replaced it",
        ),
    ],
    ids=["an attempt that is over", "a node that it has not", "a trainer that another has followed"],
)
def test_whoever_has_no_place_is_refused_whatever_he_says(gang: Gang, sender: Sender, why: str) -> None:
    trainers = gang.attempt.trainers
    trainers[NODES[1]].incarnation = 2
    before = copy.deepcopy(trainers)
    span = Span(attempt=1, stream=Stream.TRAIN, epoch=0, split=0)
    attempt, record = gang.attempt, failure(1.0)
    exited = TrainerExited(**sender, agent="agent 1", exit_code=-9, time_s=1.0, log="", log_tail="")
    position = {"epoch": 0, "step": 1, "rows_fed": 1, "rows_trained": 1, "complete": True}
    said: list[Callable[[], object]] = [
        lambda: attempt.ready(Ready(**sender, replicas=1, keras="keras", versions={}, weights=1)),
        lambda: attempt.heartbeat(Heartbeat(**sender, progress=Progress(step=9))),
        lambda: attempt.assignment(AssignmentRequest(**sender, stream=Stream.TRAIN, epoch=0)),
        lambda: attempt.metrics_reported(
            Metrics(**sender, stream=Stream.TRAIN, epoch=0, step=1, rows=1, values={"loss": 1.0})
        ),
        lambda: attempt.epoch_done(EpochDone.model_validate({**sender, **position})),
        lambda: attempt.uploaded(Uploaded(**sender, step=1, epoch=0, done=(), keras="keras")),
        lambda: attempt.finished(Finished(**sender, step=1)),
        lambda: attempt.failed(Failed(**sender, record=record)),
        lambda: attempt.warned(Warned(**sender, text="hm")),
        lambda: attempt.has_printed(Printed(**sender, text="hm")),
        lambda: attempt.exited(exited),
        lambda: attempt.sealed(Sealed(**sender, span=span, rows=1)),
        lambda: attempt.work(WorkRequest(**sender, span=span, starved_s=9.0)),
    ]
    for say in said:
        with pytest.raises(RefusedError, match=f"^{why}$"):
            say()
    assert attempt.trainers == before
    assert not (attempt.failures or attempt.metrics or attempt.epochs or attempt.warnings or attempt.take_saves())


def test_progress_never_goes_back(gang: Gang) -> None:
    gang.beat(0, epoch=2, step=69, rows=1_438, phase="training")
    gang.beat(0, epoch=2, step=46, rows=0)
    assert gang.attempt.trainers[NODES[0]].progress == Progress(epoch=2, step=69, rows_trained=1_438, phase="training")

    gang.beat(0, epoch=2, step=69, rows=1_438, phase="saving")
    assert gang.attempt.trainers[NODES[0]].progress.phase == "saving"
    gang.beat(0, epoch=3, step=69, rows=0)
    assert gang.attempt.trainers[NODES[0]].progress.rows_trained == 0


def test_no_beat_and_no_look_goes_through_a_large_gang_for_each_of_its_nodes(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, looked_up = [NodeId(role=Role.WORKER, index=i) for i in range(300)], 0
    trainers = [Trainer(node, f"agent {node.index}", "h", heard_s=100.0, moved_s=100.0) for node in nodes]
    attempt = Attempt(1, lake_config(lake), plan_lake(lake), Start(), trainers, lambda: 100.0, lambda: 1e9)

    is_equal, hash_of = NodeId.__eq__, NodeId.__hash__

    def compare(one: NodeId, other: object) -> bool:
        nonlocal looked_up
        looked_up += 1
        return is_equal(one, other)

    def hashed(node: NodeId) -> int:
        nonlocal looked_up
        looked_up += 1
        return hash_of(node)

    monkeypatch.setattr(NodeId, "__eq__", compare)
    monkeypatch.setattr(NodeId, "__hash__", hashed)
    for node in nodes:
        attempt.ready(Ready(attempt=1, node=node.model_copy(), replicas=1, keras="keras", versions={}, weights=1))
    for node in nodes * 2:  # in the second round all of them train
        attempt.heartbeat(Heartbeat(attempt=1, node=node.model_copy(), progress=Progress(phase="training")))
    assert attempt.apply(attempt.outcome()) is Outcome.RUNNING
    attempt.progress()
    assert looked_up <= 20 * len(nodes)


def uploaded(index: int, step: int, *done: Interval, epoch: int = 0, aside: int = 0) -> Uploaded:
    return Uploaded(
        attempt=1, node=NODES[index], step=step, epoch=epoch, done=done, keras="keras", rows_aside=aside, error=""
    )


def test_a_checkpoint_is_whole_once_every_node_has_uploaded_it_and_stands_where_all_are_together(gang: Gang) -> None:
    attempt = gang.attempt
    attempt.start = Start(Cursor(epoch=0, done=((0, 10),)), rows_aside=1)
    attempt.uploaded(uploaded(1, 20, (60, 70), aside=2))
    attempt.uploaded(uploaded(1, 10, (50, 60)))
    assert attempt.take_saves() == []
    attempt.uploaded(uploaded(0, 20, (10, 30), aside=3))
    attempt.uploaded(uploaded(0, 10, (10, 20)))
    attempt.uploaded(uploaded(0, 30, epoch=1))
    attempt.uploaded(uploaded(1, 30, epoch=1))

    saves = attempt.take_saves()
    assert [(save.chief.node, save.chief.step) for save in saves] == [(NODES[0], 10), (NODES[0], 20), (NODES[0], 30)]
    assert [(save.cursor.epoch, save.cursor.done, save.rows_aside) for save in saves] == [
        (0, ((0, 20), (50, 60)), 1),
        (0, ((0, 30), (60, 70)), 6),
        (1, (), 0),
    ]
    assert attempt.take_saves() == []


def test_what_happens_to_a_trainer_once_all_have_finished_is_no_failure(gang: Gang) -> None:
    for index in range(2):
        gang.attempt.finished(Finished(attempt=1, node=NODES[index], step=3))
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.DONE
    gang.exited(0, -9)
    gang.attempt.agent_lost("agent 1", "lost its executor: silent for 16 s")
    gang.attempt.stop()
    assert gang.attempt.failures == []


def test_a_node_that_is_found_lost_while_the_others_are_stopped_is_still_the_cause(gang: Gang) -> None:
    gang.now_s = 110.0
    gang.lose_peers(0)
    gang.now_s = 126.1
    gang.attempt.trainers[NODES[1]].heard_s = 126.0
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.FAILED
    gang.attempt.stop()
    gang.attempt.agent_lost("agent 1", "lost its executor: Spark gave it up")
    assert gang.cause() == "worker 1 on h1 lost its executor: Spark gave it up"


def test_peers_that_are_lost_since_the_attempt_is_stopped_are_no_failure_of_it(gang: Gang) -> None:
    """As where another submission has taken the run over: trainers end one after the other."""
    gang.attempt.stop()
    gang.lose_peers(0)
    gang.exited(0, 1)
    assert gang.attempt.failures == []


def epoch_done(index: int, fed: int, trained: int, *, complete: bool = True) -> EpochDone:
    return EpochDone(
        attempt=1,
        node=NodeId(role=Role.WORKER, index=index),
        epoch=0,
        step=1,
        rows_fed=fed,
        rows_trained=trained,
        complete=complete,
    )


@pytest.mark.parametrize(
    ("second", "is_wrong"),
    [
        (epoch_done(1, 40, 40), False),
        (epoch_done(1, 41, 41), True),
        (epoch_done(1, 40, 39), True),
        (epoch_done(1, 10, 10, complete=False), False),
    ],
    ids=["all rows once", "a row too many", "a row not trained", "cut short by max_steps"],
)
def test_an_epochs_account_is_wrong_if_rows_are_lost_or_trained_twice(second: EpochDone, is_wrong: bool) -> None:
    account = EpochAccount(epoch=0, planned=100, before=30, nodes=2)
    account.add(epoch_done(0, 30, 30))
    assert not account.is_wrong, "the other node has not reported yet"

    account.add(second)

    assert account.is_wrong is is_wrong


@pytest.mark.parametrize(("lost", "kept"), [(0, [10, 20]), (1, [10])], ids=["all rows", "a row lost"])
def test_no_checkpoint_comes_after_an_epoch_whose_rows_do_not_add_up(
    lake: Path, gang: Gang, lost: int, kept: list[int]
) -> None:
    rows = plan_lake(lake).rows(Stream.TRAIN)
    for index, trained in enumerate([30, rows - 30 - lost]):
        gang.attempt.uploaded(uploaded(index, 10, (20 * index, 20 * index + 10)))
        gang.attempt.epoch_done(epoch_done(index, trained, trained))
        gang.attempt.uploaded(uploaded(index, 20, epoch=1))

    assert [save.chief.step for save in gang.attempt.take_saves()] == kept


@pytest.mark.parametrize(("limit", "kept"), [(3, [10, 20]), (2, [10])], ids=["as many as may be", "one too many"])
def test_no_checkpoint_comes_after_an_epoch_with_too_many_bad_rows(lake: Path, limit: int, kept: list[int]) -> None:
    gang, rows = Gang(lake, max_bad_rows=limit), plan_lake(lake).rows(Stream.TRAIN)
    for index, fed in enumerate([30, rows - 30]):
        gang.attempt.uploaded(uploaded(index, 10, (20 * index, 20 * index + 10)))
        done = epoch_done(index, fed, fed - 1 - index)
        gang.attempt.epoch_done(done.model_copy(update={"rows_aside": 1 + index}))
        gang.attempt.uploaded(uploaded(index, 20, epoch=1))

    assert [save.chief.step for save in gang.attempt.take_saves()] == kept


def test_what_a_node_has_read_is_the_sum_over_its_epochs_and_what_it_keeps_is_what_the_last_one_kept() -> None:
    first = NodeInput(rows={"unix": 70, "peer": 5}, nbytes=700, memory_nbytes=400, disk_nbytes=300, wait_s=1.5)
    second = NodeInput(rows={"peer": 20, "tcp": 1}, given=3, nbytes=10, memory_nbytes=410, disk_nbytes=300, wait_s=0.5)
    assert sum([first, second], NodeInput()) == NodeInput(
        rows={"unix": 70, "peer": 25, "tcp": 1},
        given=3,
        nbytes=710,
        memory_nbytes=410,
        disk_nbytes=300,
        wait_s=2.0,
    )


def test_a_loop_that_one_trainer_has_left_while_another_waits_for_it_is_the_models_failure(gang: Gang) -> None:
    gang.attempt.finished(Finished(attempt=1, node=NODES[0], step=3, early=True))
    while gang.attempt.apply(gang.attempt.outcome()) is Outcome.RUNNING:
        gang.now_s += 1
        gang.beat(1, step=4)
        assert gang.now_s < 200

    assert gang.now_s == pytest.approx(163, abs=2)
    assert root_cause(gang.attempt.failures).verdict is Verdict.MODEL_FAILED
    assert gang.cause() == (
        "train(node) returned on worker 0 at step 3 before its last epoch, while worker 1 waits at step 4: "
        "leave the loop at the same step on all nodes"
    )


def test_a_loop_that_goes_on_after_another_has_ended_is_left_alone(gang: Gang) -> None:
    gang.attempt.finished(Finished(attempt=1, node=NODES[0], step=3, early=True))
    for step in range(4, 100):
        gang.now_s += 10
        gang.beat(1, step=step)
        assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.RUNNING
    gang.attempt.finished(Finished(attempt=1, node=NODES[1], step=99, early=True))
    assert gang.attempt.apply(gang.attempt.outcome()) is Outcome.DONE
