"""Follows one attempt: records events, decides under the lock, and acts outside of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

from sparktf.config.job import JobConfig
from sparktf.console.console import Display
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.course import AttemptCourse
from sparktf.driver.attempt.feeding import Feeding
from sparktf.driver.attempt.health import Outcome
from sparktf.driver.commit import Commit, Committer
from sparktf.driver.gang.gang import Gang
from sparktf.driver.gang.replacements import Replacements
from sparktf.driver.writer import Writer
from sparktf.errors import NotStoredError, record_of
from sparktf.results.carried import Carried
from sparktf.results.events import CourseSeen, Event, LossOutlived, MetricsSeen, SlowFound
from sparktf.results.outlived import Outlived, replay_end, told_since
from sparktf.results.pace import SlowNode
from sparktf.wire.control import Metrics, Progress


class Due(NamedTuple):
    """The actions due now, by an attempt's books."""

    outcome: Outcome
    commits: list[Commit]  # Checkpoints that are whole
    weights: int | None  # Of the model, once it is known
    carried: Carried | None  # Weights from another run's model, once known
    metrics: list[Metrics]  # Not shown yet; `warnings` likewise
    warnings: list[str]
    printed: list[str]
    progress: list[Progress]
    outlived: tuple[Outlived, ...]  # Losses so far that cost no attempt
    slow: list[SlowNode]  # Nodes found that the others wait for, not told yet
    evaluates: bool  # The training is done, and the evaluator is not


@dataclass
class Watch:
    """The thread that watches one attempt. It never touches the storage: the writer does."""

    gang: Gang
    config: JobConfig
    attempt: Attempt
    replacements: Replacements
    feeding: Feeding
    committer: Committer
    writer: Writer
    display: Display
    planned: int  # Rows of an epoch; 0 while unknown
    emit: Callable[[Event], None]  # Takes events of the run
    warn: Callable[[str], None]  # Takes warnings for the run's result
    warn_once: Callable[[str], None]  # Likewise, once for all attempts
    course: AttemptCourse = field(init=False)
    _shown: int = 0
    _warned: int = 0
    _printed: int = 0
    _mourned: Sequence[str] = ()
    _outlived: tuple[Outlived, ...] = ()
    _slow: int = 0
    _room_is_known: bool = False
    _carried_is_said: bool = False
    _last_step: int = 0
    _given_up: bool = False

    def __post_init__(self) -> None:
        self.course = AttemptCourse(self.gang.site.clock.now_s())

    def follow(self) -> Outcome:
        """Follows the attempt until it is done or has failed.

        Raises:
            FencedOffError: a newer committer owns the run.
            NotStoredError: no checkpoint has been stored for `timeouts.upload`.
            NodeLostError: Spark has given the agents up too often.
            PreflightError: an agent that it has started anew cannot start trainers.
        """
        clock = self.gang.clock
        ready_s = clock.now_s() + self.config.timeouts.start
        while True:
            self.gang.tick()
            self.writer.check()
            self.committer.look_after_fence()
            self._record_losses()
            self._replace_lost()
            self.feeding.start_wanted()
            due = self._decide()
            self._act(due)
            if due.outcome is not Outcome.RUNNING:
                return due.outcome
            now_s = clock.now_s()
            if due.evaluates:
                self.display.evaluating(now_s)
            else:
                self.display.training(due.progress, self.planned, self._before(due), ready_s - now_s, now_s)

    def settle(self) -> None:
        """Has the last checkpoints committed, once the attempt is done or has failed.

        Raises:
            FencedOffError: a newer committer owns the run.
            NotStoredError: they are not, or not within `timeouts.upload`.
        """
        with self.gang.roster.changed:
            commits = self.committer.collect(self.attempt)
        self._commit(commits)
        clock, limit_s = self.gang.clock, self.config.timeouts.upload
        until_s = clock.now_s() + limit_s
        while not self.writer.is_idle:
            left_s = until_s - clock.now_s()
            if left_s <= 0:
                self._given_up = True
                raise NotStoredError(
                    f"checkpoint at step {self._last_step} was not committed: the storage has not answered "
                    f"within timeouts.upload: {limit_s:g} s"
                )
            self.display.countdown("committing the last checkpoint", left_s, clock.now_s())
            self.gang.tick()
        self.writer.check()

    def leave(self, limit_s: float) -> None:
        """Begins no other commit, and waits up to `limit_s` for the one that is under way."""
        self.writer.drop()
        clock = self.gang.clock
        until_s = clock.now_s() + (0.0 if self._given_up else limit_s)
        while not self.writer.is_idle and clock.now_s() < until_s:
            self.gang.tick()

    # ---- record ----

    def _record_losses(self) -> None:
        if reason := self.gang.look_after_agents():
            self.warn(f"Spark gave up the agents' job: {reason}")
        self.gang.record_losses(self.attempt)

    def _replace_lost(self) -> None:
        """Fills the places of lost trainers, where the attempt goes on without them."""
        said = self.replacements.fill()
        with self.gang.roster.changed:
            losses = [record.message for record in self.attempt.losses.records]
            follows = self.attempt.reporters.next_in_words
        for before, lost in zip_longest(self._mourned, losses):
            if lost != before:  # also where more is known of one than its silence
                self.warn(f"{lost}: {follows}")
        self._mourned = losses
        for text in said:
            self.display.say(text)

    # ---- decide ----

    def _decide(self) -> Due:
        attempt = self.attempt
        with self.gang.roster.changed:
            if error := self.feeding.settle():
                attempt.fail(record_of(error, time_s=self.gang.site.clock.wall_s()))
            commits = self.committer.collect(attempt)
            if not commits and self.writer.is_idle:
                attempt.all_committed()
            outcome = attempt.apply(attempt.outcome())
            ready = next(iter(attempt.trainers.values())).ready
            metrics, self._shown = attempt.metrics[self._shown :], len(attempt.metrics)
            warnings, self._warned = attempt.warnings[self._warned :], len(attempt.warnings)
            printed, self._printed = attempt.printed[self._printed :], len(attempt.printed)
            progress, evaluates = attempt.progress(), attempt.evaluation.is_waited_for(attempt.trainers)
            outlived, slow = attempt.outlived, attempt.look_for_slow()
            slow, self._slow = slow[self._slow :], len(slow)
            now_s, is_last = self.gang.site.clock.now_s(), outcome is not Outcome.RUNNING
            self.course.look(now_s, attempt.trainers, attempt.epochs, is_last=is_last)
        weights, carried = (ready.weights, ready.carried) if ready else (None, None)
        return Due(outcome, commits, weights, carried, metrics, warnings, printed, progress, outlived, slow, evaluates)

    # ---- act ----

    def _act(self, due: Due) -> None:
        if due.weights is not None and not self._room_is_known:
            self._room_is_known = True
            self.writer.put(partial(self.committer.check_room, due.weights))
        if due.carried is not None and not self._carried_is_said:
            self._carried_is_said = True
            self.display.say(due.carried.in_words())
        self._commit(due.commits)
        self._tell_outlived(due.outlived)
        for found in due.slow:
            self.warn(found.in_words())
            self.emit(SlowFound(attempt=self.attempt.number, slow=found))
        for reported in due.metrics:
            self.display.metrics(reported)
            self.emit(MetricsSeen.model_validate(reported.model_dump()))
        for line in due.printed:
            self.display.say(line, "dim")
        for text in due.warnings:
            self.warn_once(text)
        if self.course.is_due(self.gang.site.clock.now_s()):
            self.emit(CourseSeen(attempt=self.attempt.number, samples=self.course.samples()))

    def _tell_outlived(self, outlived: tuple[Outlived, ...]) -> None:
        for number, (before, now) in enumerate(zip_longest(self._outlived, outlived), start=1):
            if before is None or before.whole_step != now.whole_step:
                self.emit(LossOutlived(attempt=self.attempt.number, number=number, loss=now))
        for line in told_since(self._outlived, outlived):
            self.display.say(line)
        self._outlived = outlived
        if ended := replay_end(outlived, rebalances=self.config.data.rebalance):
            self.warn_once(ended)

    def _commit(self, commits: list[Commit]) -> None:
        for commit in commits:
            self._last_step = commit.save.chief.step
            self.writer.put(partial(self.committer.commit, commit))

    def _before(self, due: Due) -> int:
        """Returns the rows of the current epoch that earlier attempts, or earlier generations, have done."""
        cursor = self.attempt.reporters.cursor
        return cursor.rows if max(p.epoch for p in due.progress) == cursor.epoch else 0
