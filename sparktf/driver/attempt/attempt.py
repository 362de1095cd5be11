"""One attempt: the trainers of a fixed gang, what they report, and what follows from it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence

from sparktf.config.job import JobConfig
from sparktf.driver.attempt.accounting import EpochAccount
from sparktf.driver.attempt.ledger import Ledger
from sparktf.driver.attempt.outcome import Failure, Lateness, Outcome, Trainer, decide, late, left_behind, silent
from sparktf.driver.plan.plan import Plan
from sparktf.errors import DataError, ErrorRecord, RefusedError, Verdict, record_of
from sparktf.lifecycle import TrainerEvent, TrainerState
from sparktf.result import NodeInput
from sparktf.sequence import Assignment, Cursor, Interval, Stream, remaining
from sparktf.topology import NodeId
from sparktf.wire.control import (
    Ack,
    AssignmentAnswer,
    AssignmentRequest,
    EpochDone,
    Failed,
    Finished,
    Heartbeat,
    Metrics,
    Ready,
    StopOrder,
    TrainerExited,
    TrainerOrders,
    Uploaded,
    Warned,
)
from sparktf.wire.data import Lease, LeaseRequest, Sealed, Span, StagedShare, Work, WorkRequest
from sparktf.wire.sender import NodeMessage


class Attempt:
    """The state of one attempt; not thread-safe, the caller holds the roster's lock.

    Attributes:
        number: Unique within the run.
        uploads: Checkpoint uploads that every node has reported and nobody has committed.
        metrics: Latest metrics by stream.
        epochs: Row accounts by epoch.
        warnings: What nodes warned of, each once.
        rows_aside: Rows of the cursor's epoch that had been set aside before this attempt.
        ledger: The books of what Spark feeds, where it does.
        wanted: Epochs that Spark is to feed, and nobody has begun to; whoever begins one takes it out.
    """

    def __init__(
        self,
        number: int,
        config: JobConfig,
        plan: Plan,
        cursor: Cursor,
        trainers: Sequence[Trainer],
        clock: Callable[[], float],
        wall: Callable[[], float],
        hosts: tuple[str, ...] | None = None,
    ) -> None:
        """Begins with every trainer launched.

        Args:
            clock: Monotonic seconds; `wall` gives those since the epoch.
            hosts: The host of each node by which data is dealt. Default: where the trainers are.
        """
        self.number = number
        self.trainers: Mapping[NodeId, Trainer] = {t.node: t for t in trainers}
        self.metrics: list[Metrics] = []
        self.epochs: dict[int, EpochAccount] = {}
        self.warnings: list[str] = []
        self.cursor = cursor
        self.rows_aside = 0
        self.ledger: Ledger | None = None
        self.wanted: list[tuple[Stream, int]] = []
        self._config = config
        self._plan = plan
        self._hosts = tuple(t.host for t in trainers) if hosts is None else hosts
        self._clock = clock
        self._wall = wall
        self._started_s = clock()
        self._failures: list[Failure] = []
        self._stop = False
        self._assignments: dict[tuple[Stream, int], list[Assignment]] = {}
        self._uploads: dict[int, dict[NodeId, Uploaded]] = {}

    # ---- messages ----

    def ready(self, message: Ready) -> Ack:
        trainer = self._trainer(message)
        if trainer.ready is None:  # a repeated message changes nothing
            trainer.take(TrainerEvent.READY)
            trainer.ready = message
            if self.ledger is not None and message.data is not None:
                self.ledger.ready(message.node, message.data)
        return Ack()

    def heartbeat(self, message: Heartbeat) -> TrainerOrders:
        trainer = self._trainer(message)
        trainer.advance(message.progress)
        return TrainerOrders(orders=(StopOrder(),) if self._stop else ())

    def assignment(self, message: AssignmentRequest) -> AssignmentAnswer:
        self._trainer(message)
        key = (message.stream, message.epoch)
        resumed = message.stream is Stream.TRAIN and message.epoch == self.cursor.epoch
        done = self.cursor.done if resumed else ()
        if self.ledger is not None and message.stream in self._plan.staged:
            return AssignmentAnswer(staged=self._staged(self.ledger, *key, done))
        if key not in self._assignments:
            rows = self._plan.rows(message.stream)
            todo = remaining(rows, done)
            data = self._config.data
            rebalance = data.rebalance or message.stream is Stream.VALIDATION
            self._assignments[key] = self._plan.assignments(
                *key, todo, self._hosts, rebalance=rebalance, locality=data.locality
            )
        return AssignmentAnswer(assignment=self._assignments[key][message.node.index])

    def lease(self, message: LeaseRequest) -> Lease:
        return self._ledger_of(message.span).lease(message)

    def sealed(self, message: Sealed) -> Ack:
        self._trainer(message)
        try:
            self._ledger_of(message.span).sealed(message)
        except DataError as e:
            self.fail(record_of(e, time_s=self._wall()))
            raise RefusedError(str(e)) from e
        return Ack()

    def work(self, message: WorkRequest) -> Work:
        self._trainer(message)
        trained = {
            t.node: t.progress.rows_trained for t in self.trainers.values() if t.progress.epoch == message.span.epoch
        }
        return self._ledger_of(message.span).work(message, trained)

    def metrics_reported(self, message: Metrics) -> Ack:
        self._trainer(message)
        if message not in self.metrics:
            self.metrics.append(message)
        return Ack()

    def epoch_done(self, message: EpochDone) -> Ack:
        self._trainer(message)
        before, aside = (self.cursor.rows, self.rows_aside) if message.epoch == self.cursor.epoch else (0, 0)
        planned = self._plan.rows(Stream.TRAIN)
        account = self.epochs.setdefault(
            message.epoch, EpochAccount(message.epoch, planned, before, len(self.trainers), aside)
        )
        if self.ledger is not None and Stream.TRAIN in self._plan.staged:
            account.planned = self.ledger.rows(Stream.TRAIN, message.epoch)
        account.add(message)
        if account.is_wrong:
            self.fail(account.record(self._wall()))
        self._say_aside(account)
        too_many = account.too_many_aside(self._config.data.max_bad_rows, self._wall())
        if too_many is not None:
            self.fail(too_many)
        return Ack()

    def _say_aside(self, account: EpochAccount) -> None:
        text = f"epoch {account.epoch}: {account.aside} rows fail a check and are left out: see bad_rows/ of the run"
        if account.aside and len(account.reports) == account.nodes and text not in self.warnings:
            self.warnings.append(text)

    def uploaded(self, message: Uploaded) -> Ack:
        self._trainer(message)
        self._uploads.setdefault(message.step, {})[message.node] = message
        return Ack()

    def warned(self, message: Warned) -> Ack:
        self._trainer(message)
        if message.text not in self.warnings:
            self.warnings.append(message.text)
        return Ack()

    def finished(self, message: Finished) -> Ack:
        trainer = self._trainer(message)
        if trainer.finished is None:
            trainer.take(TrainerEvent.FINISHED)
            trainer.finished = message
        return Ack()

    def failed(self, message: Failed) -> Ack:
        trainer = self._trainer(message)
        trainer.take(TrainerEvent.FAIL)
        self.fail(message.record.model_copy(update={"host": trainer.host}))
        return Ack()

    def exited(self, message: TrainerExited) -> None:
        """A trainer's process ended: an unexpected end is a failure; its log is kept with the failure it reported.

        Raises:
            RefusedError: it has ended before, or counts as lost.
        """
        trainer = self._trainer(message)
        log = {"log": message.log, "log_tail": message.log_tail, "exit_code": message.exit_code}
        told = [f for f in self._failures if f.record.node == str(trainer.node) and f.record.exit_code is None]
        self._failures = [
            f._replace(record=f.record.model_copy(update=log)) if f in told else f for f in self._failures
        ]
        if not told and not self._stop:
            self.fail(
                self._loss(trainer, f"exited with {_code(message.exit_code)}", message.time_s).model_copy(update=log)
            )
        trainer.take(TrainerEvent.EXIT)

    def agent_lost(self, agent: str, reason: str, log: str = "") -> None:
        """The agent of a trainer is lost, and the trainer with it: that says more than the trainer's own silence.

        Args:
            log: Where its executor's log is.
        """
        for trainer in self.trainers.values():
            if trainer.agent == agent and trainer.state is not TrainerState.EXITED:
                heard_ago_s = self._clock() - trainer.heard_s
                loss = self._loss(trainer, f"lost its executor: {reason}", self._wall() - heard_ago_s)
                self._failures = [f for f in self._failures if not (f.is_silence and f.record.node == loss.node)]
                self.fail(loss.model_copy(update={"log": log}))
                trainer.take(TrainerEvent.EXIT)

    # ---- decisions ----

    @property
    def failures(self) -> list[ErrorRecord]:
        """What has failed, in the order in which it was told."""
        return [failure.record for failure in self._failures]

    @property
    def is_done(self) -> bool:
        """Whether every trainer has finished its work, and nothing failed."""
        return not self._failures and all(t.finished is not None for t in self.trainers.values())

    def outcome(self) -> Outcome:
        """Looks for trainers that are late, then says where the attempt stands."""
        now_s = self._clock()
        trainers, timeouts = self.trainers.values(), self._config.timeouts
        if not self._failures and (what := left_behind(trainers, now_s, self._fed_s(), timeouts)):
            self.fail(ErrorRecord(type="ModelError", message=what, verdict=Verdict.MODEL_FAILED, time_s=self._wall()))
        for trainer, what, since_s in list(self._find_late(now_s)):
            loss = self._loss(trainer, what, self._wall() - (now_s - since_s))
            self._failures.append(Failure(loss, now_s, is_silence=True))
        return decide(list(self.trainers.values()), self._failures, now_s, self._config.timeouts.heartbeat)

    def inputs(self) -> dict[NodeId, NodeInput]:
        """Returns what each node has read of the training stream, in the epochs it has gone through."""
        reports = [a.reports for _, a in sorted(self.epochs.items())]
        return {
            node: sum((by_node[node].input for by_node in reports if node in by_node), NodeInput())
            for node in self.trainers
        }

    def stop(self) -> None:
        """From now on every trainer that asks is told to exit, and exits are expected."""
        self._stop = True

    def fail(self, record: ErrorRecord) -> None:
        """Notes a failure."""
        self._failures.append(Failure(record, self._clock()))

    def complete_uploads(self) -> list[list[Uploaded]]:
        """Returns, and forgets, the uploads that all nodes have reported, oldest first."""
        complete = sorted(s for s, by_node in self._uploads.items() if len(by_node) == len(self.trainers))
        return [[u for _, u in sorted(self._uploads.pop(s).items(), key=lambda item: item[0].index)] for s in complete]

    def advanced(self, uploads: Sequence[Uploaded]) -> Cursor:
        """Returns the cursor at a checkpoint that all nodes have uploaded."""
        epoch = uploads[0].epoch
        done = [interval for upload in uploads for interval in upload.done]
        base = self.cursor if self.cursor.epoch == epoch else Cursor(epoch=epoch)
        return base.advance(done)

    def _staged(self, ledger: Ledger, stream: Stream, epoch: int, done: Sequence[Interval]) -> StagedShare:
        """Returns a share that feeders bring, the same for every node; the first that asks has the epoch fed."""
        keep = self._config.data.cache != "off" and self._config.train.epochs > 1
        if not ledger.knows(stream, epoch) and not (keep and ledger.keep(stream, epoch)):
            ledger.open(stream, epoch)
            self.wanted.append((stream, epoch))
        return StagedShare(done=tuple(done), keep=keep, again=ledger.book(stream, epoch).again)

    def _ledger_of(self, span: Span) -> Ledger:
        if self.ledger is None or span.attempt != self.number:
            raise RefusedError(f"attempt {span.attempt} is over")
        return self.ledger

    def _find_late(self, now_s: float) -> Iterable[Lateness]:
        """Returns the trainers that nothing is heard of, or nothing new, while nobody else is known to be the cause."""
        timeouts, trainers = self._config.timeouts, self.trainers.values()
        if not self._failures:
            return late(trainers, now_s, self._started_s, self._fed_s(), timeouts)
        if all(failure.record.peer for failure in self._failures):
            return silent(trainers, now_s, timeouts.heartbeat)
        return ()

    def _fed_s(self) -> float:
        """Returns when Spark last gave rows, if it still computes some."""
        return self.ledger.moved_s if self.ledger is not None and self.ledger.feeding() else 0.0

    def _loss(self, trainer: Trainer, what: str, time_s: float) -> ErrorRecord:
        return ErrorRecord(
            type="NodeLostError",
            message=f"{trainer.node} on {trainer.host} {what}",
            verdict=Verdict.INFRASTRUCTURE,
            time_s=time_s,
            node=str(trainer.node),
            host=trainer.host,
        )

    def _trainer(self, message: NodeMessage) -> Trainer:
        """Returns the trainer that speaks, or is spoken of.

        Raises:
            RefusedError: it is none of this attempt, or not the one that its node has now, or counts as lost.
        """
        if message.attempt != self.number:
            raise RefusedError(f"attempt {message.attempt} is over: {self.number} is under way")
        trainer = self.trainers.get(message.node)
        if trainer is None:
            raise RefusedError(f"attempt {self.number} has no {message.node}")
        if message.incarnation != trainer.incarnation:
            raise RefusedError(
                f"incarnation {message.incarnation} of {trainer.node} in attempt {self.number} is over: "
                f"{trainer.incarnation} has its place"
            )
        if trainer.state is TrainerState.EXITED:
            raise RefusedError(f"{trainer.node} of attempt {message.attempt} counts as lost")
        trainer.heard_s = self._clock()
        return trainer


def _code(exit_code: int) -> str:
    """Returns an exit code as people read it: "-9 (SIGKILL)"."""
    if exit_code >= 0:
        return str(exit_code)
    try:
        return f"{exit_code} ({signal.Signals(-exit_code).name})"
    except ValueError:
        return str(exit_code)
