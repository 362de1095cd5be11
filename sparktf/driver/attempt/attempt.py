"""One attempt: the trainers of a fixed gang, their reports, and the consequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sparktf.config.job import JobConfig
from sparktf.driver.attempt.commits import Commits
from sparktf.driver.attempt.crew import Crew, exit_facts
from sparktf.driver.attempt.discipline import Fail, Leave, Replace
from sparktf.driver.attempt.disciplines import discipline_of
from sparktf.driver.attempt.evaluation import Evaluating, result_of
from sparktf.driver.attempt.health import Failure, Now, Outcome, Since, rhythm_of
from sparktf.driver.attempt.losses import Losses, Vacancy
from sparktf.driver.attempt.members import Trainer, are_training, rows_trained
from sparktf.driver.attempt.reporters import reporters_of
from sparktf.driver.attempt.rows.accounting import EpochAccount, are_told_before, is_wrong_before
from sparktf.driver.attempt.rows.fed_rows import FedRows
from sparktf.driver.attempt.rows.lease_books import LeaseBooks
from sparktf.driver.attempt.rows.ledger import FeedAddress, Ledger
from sparktf.driver.attempt.rows.shares import Dealing, done_of, keeps
from sparktf.driver.attempt.saves import Save, Start, Uploads
from sparktf.driver.attempt.slowness import Slowness, paces_of
from sparktf.driver.attempt.standing import Known, Standing, standing
from sparktf.driver.lifecycle import AttemptEvent, AttemptState, TrainerEvent, TrainerState
from sparktf.driver.plan.plan import Plan
from sparktf.errors import DataError, ErrorRecord, RefusedError, RowAccountingError, record_of
from sparktf.knobs import KNOBS
from sparktf.results.carried import Carried
from sparktf.results.outlived import Outlived
from sparktf.results.pace import SlowNode
from sparktf.sequence import Stream
from sparktf.told import told_lines
from sparktf.topology import NodeId
from sparktf.wire.control import (
    Ack,
    AssignmentAnswer,
    AssignmentRequest,
    EpochDone,
    Heartbeat,
    Metrics,
    Printed,
    Progress,
    Ready,
    StopOrder,
    TrainerExited,
    TrainerOrders,
    Warned,
)
from sparktf.wire.data import Lease, LeaseRequest, Sealed, Span, Work, WorkRequest
from sparktf.wire.leasing import BlockLease, BlockLeaseRequest, Fetched
from sparktf.wire.regrouping import Left, NextGeneration, Regrouped
from sparktf.wire.restore import NextCommit, NextCommitRequest
from sparktf.wire.sender import NodeMessage
from sparktf.wire.uploads import Uploaded


class Attempt(Crew):
    """The state of one attempt to train; see `Crew`.

    Attributes:
        metrics: Latest metrics by stream.
        epochs: Row accounts by epoch.
        warnings: Each once.
        printed: Lines that the user's code has printed on the leader.
        start: Where it has begun.
        fed: Its books of rows that Spark feeds.
        losses: Trainers that were lost while it went on.
        evaluation: The state of the evaluator, if there is one.
        commits: The commits that the evaluator is to read.
        reporters: The nodes that make its steps.
        slow: Nodes that the others have waited for.
        carried: The weights of another run's model that it has begun with, as its first leader has told.
    """

    def __init__(
        self,
        number: int,
        config: JobConfig,
        plan: Plan,
        start: Start,
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
        super().__init__(number, trainers, rhythm_of(config), clock, wall)
        self.metrics: list[Metrics] = []
        self.epochs: dict[int, EpochAccount] = {}
        self.warnings: list[str] = []
        self.printed: list[str] = []
        self.start = start
        self._config = config
        self._timeouts = config.timeouts.model_copy(update={"heartbeat": self._rhythm.silence_s})
        self._plan = plan
        self._hosts = dict(zip(self.trainers, [t.host for t in trainers] if hosts is None else hosts, strict=True))
        discipline = discipline_of(config.cluster.strategy, outlives_losses=start.outlives_losses)
        self.evaluation = Evaluating.beside(discipline, self.trainers)
        self.commits = Commits(start.restore)
        self.reporters = reporters_of(self.evaluation.reporters(self.trainers), config, start, clock)
        self._lessees = dict.fromkeys(self.evaluation.lessees(self.trainers))
        self._dealing = Dealing(plan, config.data)
        self._leases = LeaseBooks(plan, start.cursor, config, {n: self.trainers[n].host for n in self._lessees})
        self.losses = Losses(self._lessees, config, self._leases.fruitful)
        if start.outlives_losses:
            makers, least = tuple(self.reporters.nodes), config.train.min_workers
            self.losses = Losses(makers, config, self.reporters.fruitful, least=least)
        takers = {stream: self.evaluation.fed(stream, self.trainers) for stream in plan.staged}
        places = {trainer.node: FeedAddress(trainer.host, trainer.jvm) for trainer in trainers}
        epoch, splits, rebalance = start.cursor.epoch, start.splits, config.data.rebalance
        ledger = Ledger(places, clock, expected=splits, epoch=epoch, rebalance=rebalance, takers=takers)
        self.fed = FedRows(self._leases, ledger if plan.staged else None)
        self._uploads = Uploads()
        self.slow: list[SlowNode] = []
        self.carried: Carried | None = None
        self._slowness = Slowness(KNOBS.slow_s)

    # ---- messages: each comes once, see `Answers` ----

    def ready(self, message: Ready) -> Ack:
        answer = super().ready(message)
        self.fed.ready(message.node, message.data)
        self.carried = message.carried or self.carried
        self.evaluation = self.evaluation.with_rule(message.keep)
        return answer

    def heartbeat(self, message: Heartbeat) -> TrainerOrders:
        trainer = self.hear(message)
        trains = message.usage is not None and are_training(self.reporters.nodes, self.trainers)
        trainer.beat(message, trains=trains)
        waits = trainer.state is TrainerState.FINISHED and not self.evaluation.is_waited_for(self.trainers)
        beat_s = self._rhythm.waiting_s if waits else self._rhythm.steady_s
        if self.is_stopped:
            return TrainerOrders(orders=(StopOrder(),), beat_s=beat_s)
        workers = self._lessees if message.node in self.reporters.nodes else ()
        orders = self.losses.order(self.trainers[node] for node in workers)
        return TrainerOrders(orders=(*orders, *self.reporters.order(message.node)), beat_s=beat_s)

    def assignment(self, message: AssignmentRequest) -> Callable[[], AssignmentAnswer]:
        """Returns a function that answers a node; to be called without the lock, since dealing may take seconds."""
        self.hear(message)
        stream, epoch = message.stream, message.epoch
        members, cursor = self.reporters.sharers(message, self.trainers), self.reporters.cursor
        if isinstance(members, AssignmentAnswer):
            return lambda: members
        if self.fed.ledger is not None and stream in self._plan.staged:
            staged = self.fed.share(message, done_of(cursor, stream, epoch), keep=keeps(self._config))
            return lambda: AssignmentAnswer(staged=staged)
        number, among = self.evaluation.deal(message, members)
        hosts = [self._hosts[node] for node in among]
        return partial(self._dealing.shares(cursor, hosts, stream, epoch, message.generation).answer, number)

    def left(self, message: Left) -> NextGeneration:
        self.hear(message)
        found = self.reporters.left(message, self.trainers)
        if not self.failures:
            for record in self.reporters.parted:
                self.fail(record)
        return found

    def regrouped(self, message: Regrouped) -> Ack:
        self.hear(message)
        try:
            account = self.reporters.regrouped(message, self.trainers, self.account)
        except RowAccountingError as e:
            self.fail(record_of(e, time_s=self._wall()))
            return Ack()
        if account is not None:
            self._check(account)
        return Ack()

    def lease_blocks(self, message: BlockLeaseRequest) -> Callable[[], BlockLease]:
        """Returns a function that answers a worker; to be called without the lock: the first call takes seconds."""
        self.hear(message)
        return partial(self._leases.lease, message)

    def fetched(self, message: Fetched) -> Ack:
        self._reporter(message)
        try:
            self._leases.fetched(message)
        except RowAccountingError as e:
            self.fail(record_of(e, time_s=self._wall()))
            raise RefusedError(str(e)) from e
        limit, now_s = self._config.data.max_bad_rows, self._wall()
        for account in [self.account(epoch) for epoch in {receipt.epoch for receipt in message.receipts}]:
            if not self.failures and (too_many := account.too_many_aside(limit, now_s)):
                self.fail(too_many)
        return Ack()

    def lease(self, message: LeaseRequest) -> Lease:
        return self._fed_of(message.span).lease(message)

    def sealed(self, message: Sealed) -> Ack:
        self.hear(message)
        try:
            self._fed_of(message.span).sealed(message)
        except DataError as e:
            self.fail(record_of(e, time_s=self._wall()))
            raise RefusedError(str(e)) from e
        return Ack()

    def work(self, message: WorkRequest) -> Work:
        self.hear(message)
        return self._fed_of(message.span).work(message, rows_trained(self.trainers, message.span.epoch))

    def metrics_reported(self, message: Metrics) -> Ack:
        self.hear(message)
        if not any(known.same_as(message) for known in self.metrics):
            self.metrics.append(message)
        if message.node == self.evaluation.node:
            self.commits.evaluated(result_of(message))
            self.evaluation = self.evaluation.with_result()
        return Ack()

    def next_commit(self, message: NextCommitRequest) -> NextCommit:
        trainer = self.hear(message)
        trainer.moved_s = trainer.heard_s
        if trainer.node != self.evaluation.node:
            raise RefusedError(f"{trainer.node} does not evaluate commits")
        return self.commits.next(self.evaluation.rule)

    def epoch_done(self, message: EpochDone) -> Ack:
        self._reporter(message)
        account = self.account(message.epoch)
        account.add(message)
        self._check(account)
        if account.is_reported:
            self._leases.end(message.epoch)
        return Ack()

    def _check(self, account: EpochAccount) -> None:
        for record in account.failures(self._config.data.max_bad_rows, self._wall()):
            self.fail(record)
        self._warn(account.warning)

    def uploaded(self, message: Uploaded) -> Ack:
        self.hear(message)
        self._uploads.add(message)
        if message.of_all and not message.error:
            self.reporters.stored = max(self.reporters.stored, message.step)
        return Ack()

    def warned(self, message: Warned) -> Ack:
        self.hear(message)
        self._warn(message.text)
        return Ack()

    def has_printed(self, message: Printed) -> Ack:
        self.hear(message)
        self.printed.extend(told_lines(message.text).splitlines())
        return Ack()

    def exited(self, message: TrainerExited) -> None:
        self.losses.add_log(message.node, message.incarnation, exit_facts(message))
        super().exited(message)

    def _is_unexplained(self, trainer: Trainer) -> bool:
        return self.losses.is_unexplained(trainer)

    # ---- decisions ----

    @property
    def failures(self) -> list[ErrorRecord]:
        """All failures, in the order of their reports."""
        return [self.losses.explain(failure, self.reporters.nodes) for failure in self._failures.told]

    @property
    def outlived(self) -> tuple[Outlived, ...]:
        """The losses that it has gone on after, the earliest first."""
        return self.reporters.endured.told(self.losses)

    @property
    def is_done(self) -> bool:
        """Whether all work is done, and nothing failed."""
        return not self.failures and self.evaluation.is_done(self.trainers)

    def outcome(self) -> Standing:
        """Returns the attempt's present state, and the changes that `apply` is to note; changes nothing."""
        since = Since(self._started_s, self.fed.moved_s)
        told, beat_s = self._failures.told, self._rhythm.steady_s
        known = Known(self.trainers, told, self.losses, self.evaluation, self.reporters, since, beat_s)
        return standing(known, Now(self._clock(), self._wall()), self._timeouts)

    def apply(self, found: Standing) -> Outcome:
        """Notes the changes that `outcome` found, and returns the attempt's state."""
        if self.state is not AttemptState.RUNNING:
            return found.outcome
        self.evaluation = found.evaluation
        self._failures.told.extend(found.failures)
        for trainer, record in found.lost:
            self._go_on_without(trainer, record, is_silence=True)
            trainer.apply(TrainerEvent.EXIT)  # should it wake up, it is refused
        self.losses.stand_in(found.stand_in, self.trainers)
        self.reporters.expect(found.too_few, self.trainers)
        self._warn(self.evaluation.failed.message if self.evaluation.failed else "")
        if found.outcome is not Outcome.RUNNING:
            self._take(AttemptEvent.FINISHED if found.outcome is Outcome.DONE else AttemptEvent.FAILED)
        return found.outcome

    def look_for_slow(self) -> list[SlowNode]:
        """Returns all nodes that the others have waited for; a new one is named once it was slow for a while."""
        told = paces_of(self.trainers, self.reporters.nodes)
        self._slowness, found = self._slowness.look(told, self._clock())
        self.slow += found
        return self.slow

    def all_committed(self) -> None:
        """Notes that no commit is pending: once the training is done, there will be no other."""
        if self.evaluation.is_trained:
            self.commits.end()

    def progress(self) -> list[Progress]:
        """Returns the progress of the run: of all trainers while the gang starts, then of the reporters."""
        starts = any(trainer.ready is None and not trainer.incarnation for trainer in self.trainers.values())
        return [self.trainers[node].progress for node in (self.trainers if starts else self.reporters.nodes)]

    def vacant(self) -> tuple[Vacancy, ...]:
        """Returns the nodes that need another trainer."""
        goes_on = not self.failures and self.state is AttemptState.RUNNING and self.reporters.closed_by is None
        return self.evaluation.vacant(self.losses.vacant(self.trainers)) if goes_on else ()

    def succeed(self, node: NodeId, agent: str, host: str, address: str, jvm: str = "") -> Trainer:
        """Gives a node whose trainer is lost another one, launched now, and returns it; earlier ones are refused.

        Args:
            agent: By id; `address` is the one that it holds.
            jvm: Identity of its executor.

        Raises:
            LifecycleError: the node has a trainer.
        """
        successor = self.losses.successor(self.trainers[node], agent, host, address, self._clock())
        self.trainers = {**self.trainers, node: successor}
        self._hosts[node] = host
        if node in self._lessees:
            self._leases.move(node, host)
        self.fed.succeed(node, host, jvm)
        return successor

    def take_saves(self) -> list[Save]:
        """Returns, and forgets, the whole checkpoints, oldest first; none after an epoch whose rows are wrong."""
        # The next attempt would go on from there: lost rows would never be trained, and too many bad ones be taken.
        saves, limit = self._uploads.collect(self._saved), self._config.data.max_bad_rows
        return [save for save in saves if not is_wrong_before(save.cursor.epoch, self.epochs.values(), limit)]

    def _saved(self, uploads: Mapping[NodeId, Uploaded]) -> Save | None:
        found = self.evaluation.saved(uploads, self.trainers, self.start)
        return found if found is not None and are_told_before(found.cursor.epoch, self.epochs.values()) else None

    def account(self, epoch: int) -> EpochAccount:
        before = self.start.rows if epoch == self.start.cursor.epoch else (0, 0, 0)
        planned = self._plan.rows(Stream.TRAIN)
        account = self.epochs.setdefault(epoch, EpochAccount(epoch, planned, self.reporters.told_of, *before))
        account.wait_for(self.reporters.told_of)
        account.receipts = self._leases.receipts(epoch)
        if self.fed.ledger is not None and Stream.TRAIN in self._plan.staged:
            account.planned = self.fed.ledger.rows(Stream.TRAIN, epoch)
        return account

    def _fed_of(self, span: Span) -> FedRows:
        if self.fed.ledger is None or span.attempt != self.number:
            raise RefusedError(f"attempt {span.attempt} is over")
        return self.fed

    def _lost(self, trainer: Trainer, record: ErrorRecord) -> None:
        """Notes the loss of a trainer, unless the work is done: nothing has failed then."""
        if self.state in (AttemptState.DONE, AttemptState.RELEASED):
            return
        ruling = self.reporters.confirmed(self.evaluation.on_loss(trainer, record, self.trainers), trainer.node, record)
        if isinstance(ruling, Fail):
            for cause in self.reporters.causes(ruling.record, self.trainers, self.losses):
                self._failures.note(Failure(cause, self._clock(), heard_s=trainer.heard_s))
        if isinstance(ruling, Replace | Leave):
            self._go_on_without(trainer, record, is_silence=False)

    def _go_on_without(self, trainer: Trainer, record: ErrorRecord, *, is_silence: bool) -> None:
        self.fed.lose(trainer.node, trainer.incarnation)
        self.losses.note(trainer, record, self._clock(), is_silence=is_silence)
        self.reporters.lose(trainer.node, record, self.trainers)
        if trainer.node == self.evaluation.node:
            self.evaluation = self.evaluation.with_loss(trainer, record)

    def _warn(self, text: str) -> None:
        if text and text not in self.warnings:
            self.warnings.append(text)

    def _reporter(self, message: NodeMessage) -> None:
        """Hears a trainer that reports progress. Raises `RefusedError` if it is not a reporter."""
        self.hear(message)
        if message.node not in self.reporters.nodes:
            raise RefusedError(f"{message.node} does not report progress")
