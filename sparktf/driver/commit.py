"""The run's only committer: makes trainers' uploads a checkpoint or the published model."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparktf.clock import Clock
from sparktf.config.job import JobConfig
from sparktf.driver.attempt.attempt import Attempt
from sparktf.driver.attempt.commits import epoch_of
from sparktf.driver.attempt.saves import Save, Start, is_given_up
from sparktf.driver.checkpoint_record import CheckpointRecord
from sparktf.driver.plan.plan import Plan
from sparktf.errors import NotStoredError, StorageError
from sparktf.results.carried import Carried
from sparktf.results.keep import Evaluation, KeepRule, merged_evaluations
from sparktf.results.result import EpochRows
from sparktf.rundir import RunDirectory, checkpoint_name
from sparktf.sequence import Stream
from sparktf.storage.base import Storage
from sparktf.storage.transactions.checkpoints import CheckpointStore, Manifest
from sparktf.storage.transactions.fence import Fence
from sparktf.wire.restore import BestWeights, Committed, Restore

_NBYTES_PER_WEIGHT = 12
"""A float32 and the two slots of Adam, the largest of the usual optimizers."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A checkpoint that is whole, and the attempt's books of that moment: nodes go on writing to them."""

    save: Save
    record: CheckpointRecord  # Without the reports that came with the checkpoint
    versions: dict[str, str]


class Committer:
    """Commits for one run, attempt after attempt: one thread at a time, which need not be the one that watches.

    Attributes:
        attempt: The current attempt.
        step: Updates at the last commit.
        checkpoint: Folder of the last commit, `model` of the published model; "" if there is none.
        versions: Of the trainers' Python packages.
        record: The run's books at the commit that the attempt goes on from.
    """

    def __init__(
        self,
        config: JobConfig,
        storage: Storage,
        rundir: RunDirectory,
        plan: Plan,
        warn: Callable[[str], None],
        *,
        clock: Clock,
        hasty: Storage | None = None,
        fence: Fence | None = None,
    ) -> None:
        """Touches nothing.

        Args:
            hasty: The same storage, for writes that may fail at once while it is away.
            fence: The run's. Default: one of its own.
        """
        self._fence = fence or Fence(storage, rundir, hasty)
        self._config = config
        self._rundir = rundir
        self._plan = plan
        self._warn = warn
        self._store = CheckpointStore(
            storage,
            rundir,
            config.checkpoint.keep,
            fence=self._fence,
            on_torn=lambda path, reason: warn(f"skipped torn checkpoint {path}: {reason}"),
            on_not_pruned=lambda path, reason: warn(f"old checkpoints stay in {path}: {reason}"),
        )
        self._hasty = hasty or storage
        self._keep: KeepRule | None = None
        self._not_committed: NotStoredError | None = None
        self._failing_since_s: float | None = None
        self._clock = clock
        self.attempt: Attempt | None = None
        self.step = 0
        self.checkpoint = ""
        self.model = ""
        self.versions: dict[str, str] = {}
        self.record = CheckpointRecord()

    def check_room(self, weights: int) -> None:
        """Warns if the output has no room for the checkpoints of a model: those to keep, and one on its way."""
        besides = 1 + (self._config.train.keep == "best") + self._is_evaluated_beside
        root, count = self._rundir.root, self._config.checkpoint.keep + besides
        try:
            free = self._hasty.free_nbytes(root)
        except StorageError:
            return  # a forecast only: a failure to store is reported when it happens
        needed = count * weights * _NBYTES_PER_WEIGHT
        if free < needed:
            self._warn(
                f"{root} has room for {free / 1e6:,.1f} MB, but {count} checkpoints of this model may take "
                f"{needed / 1e6:,.1f} MB: free some space, or lower checkpoint.keep: {self._config.checkpoint.keep}"
            )

    def fence(self, next_attempt: Callable[[int], int]) -> int:
        """Fences older committers off; returns the number of the attempt that may begin.

        Args:
            next_attempt: Returns a number for it that is greater than the one given.

        Raises:
            FencedOffError: a newer committer owns the run.
        """
        number = next_attempt(self._fence.last_attempt())
        while (swept := self._fence.acquire(number)) >= number:
            number = next_attempt(swept)
        return number

    def look_after_fence(self) -> None:
        """Raises `FencedOffError` if another driver is known to own the run, as the owner's beats find out."""
        self._fence.check_owner()

    def begin(self) -> Restore | None:
        """Returns the checkpoint that a new attempt starts from."""
        self._not_committed = None
        found = self._store.latest()
        if found is None:
            self.step, self.checkpoint, self.record = 0, "", CheckpointRecord()
            return None
        manifest, folder = found
        self.step, self.checkpoint = manifest.step, folder
        stored = CheckpointRecord.model_validate(manifest.extra)
        if self._keep is None and self.attempt is not None:
            self._keep = self.attempt.evaluation.rule
        self._keep = self._keep or stored.keep
        # Results of the ended attempt on weights up to here may have come after the commit.
        validation = merged_evaluations((*stored.validation, *self._evaluations()), manifest.step)
        training = merged_evaluations((*stored.training, *self._training()), manifest.step)
        self.record = stored.model_copy(update={"validation": validation, "training": training})
        comparable = self._config.train.keep == "last" or self._keep is not None
        return Restore(
            path=folder,
            step=manifest.step,
            cursor=manifest.cursor,
            rows_trained=manifest.rows_trained,
            files=tuple(f.name for f in manifest.files),
            rows_aside=stored.set_aside,
            evaluated=comparable and manifest.step in {e.step for e in validation},
            best=self._best_weights(),
            validation=validation,
            training=training,
            loss=stored.loss,
        )

    def start(self, restore: Restore | None) -> Start:
        """Returns the position at which an attempt begins that restores `restore`."""
        if restore is None:
            return Start()
        splits = self.record.splits or {}
        return Start(restore.cursor, restore.rows_aside, self.record.replayed, splits, restore)

    def _best_weights(self) -> BestWeights | None:
        """Returns the best of the committed checkpoints that are evaluated, and whole."""
        steps = set(self._store.list()) if self._config.train.keep == "best" else set()
        while self._keep and (best := self._keep.best(e for e in self.record.validation if e.step in steps)):
            found = self._store.at(best.step)
            if found is not None:
                manifest, folder = found
                return BestWeights(evaluation=best, path=folder, files=tuple(f.name for f in manifest.files))
            steps.remove(best.step)
        return None

    def collect(self, attempt: Attempt) -> list[Commit]:
        """Takes the whole checkpoints out of the attempt. The caller holds the lock that nodes report under."""
        return [self._books(attempt, save) for save in attempt.take_saves()]

    def commit(self, commit: Commit) -> None:
        """Commits a checkpoint; a failure is reported, and training goes on, for as long as `timeouts.upload`.

        Raises:
            FencedOffError: a newer committer owns the run; nothing of it has changed.
            NotStoredError: none has been stored for longer, however often that was tried.
        """
        try:
            self._commit(commit)
        except StorageError as e:
            step = commit.save.chief.step
            self._not_committed = NotStoredError(f"checkpoint at step {step} was not committed: {e}")
            self._warn(str(self._not_committed))
            self._bear(e)
        else:
            self._not_committed = self._failing_since_s = None

    def _bear(self, error: StorageError) -> None:
        now_s, limit_s = self._clock.now_s(), self._config.timeouts.upload
        since_s = self._failing_since_s = now_s if self._failing_since_s is None else self._failing_since_s
        if is_given_up(since_s, now_s, limit_s):
            raise NotStoredError(
                f"no checkpoint could be stored for {now_s - since_s:.0f} s (timeouts.upload: {limit_s:g} s): {error}"
            ) from error

    def commit_model(self, attempt: Attempt) -> None:
        """Commits the exported model by one rename, once the last checkpoint is committed.

        Raises:
            FencedOffError: a newer committer owns the run; its model is as it was.
            NotStoredError: that one is not.
            StorageError: the model did not arrive whole, or the storage failed.
        """
        if self._not_committed is not None:
            raise self._not_committed
        ends = [t.finished for t in attempt.trainers.values() if t.finished]
        self.step = max((end.step for end in ends), default=self.step)
        # Where an evaluator has exported the best weights, the last ones were exported for the case that it cannot.
        models = sorted((end for end in ends if end.model), key=lambda end: end.kept is None)
        if models:
            staged = self._rundir.staged(attempt.number, models[0].folder)
            self._store.commit_model(models[0].model, staged, self._rundir.model)
            self.model = self._rundir.model
        if self._is_evaluated_beside:
            # Checkpoints that the last commit kept, as they were being read or the best then.
            self._store.prune(self.step, release=partial(self._release, self._keep))

    def epoch_rows(self) -> tuple[EpochRows, ...]:
        """Returns the row accounts of the whole run, epoch by epoch. The caller holds the lock, as for `acquire`."""
        by_epoch = {e.epoch: e for e in self.record.epochs}
        accounts = self.attempt.epochs if self.attempt is not None else {}
        for epoch, a in accounts.items():
            if a.is_reported:
                by_epoch[epoch] = EpochRows(
                    epoch=epoch,
                    planned=a.planned,
                    fed=a.fed,
                    trained=a.trained,
                    set_aside=a.aside,
                    replayed=a.replayed,
                    dropped=a.dropped,
                    complete=a.complete,
                )
        return tuple(by_epoch[epoch] for epoch in sorted(by_epoch))

    def facts(self) -> dict[str, Any]:
        """Returns the result's fields about the trained model. The caller holds the lock."""
        rows, evaluations = self.epoch_rows(), self._evaluations()
        trainers = self.attempt.trainers.values() if self.attempt is not None else ()
        kept = next((t.finished.kept for t in trainers if t.finished and t.finished.kept), None)
        stopped = next((t.finished.stopped for t in trainers if t.finished and t.finished.stopped), None)
        comparison = next((t.finished.comparison for t in trainers if t.finished and t.finished.comparison), None)
        endings = [t.finished.ending for t in trainers if t.finished and t.finished.ending]
        shown = next((e for e in evaluations if kept and e.step == kept.step), evaluations[-1] if evaluations else None)
        metrics = {m.stream.value: m.values for m in (self.attempt.metrics if self.attempt is not None else ())}
        return {
            "steps": self.step,
            "epochs": sum(e.complete for e in rows),
            "rows": rows,
            "rows_trained": sum(e.trained for e in rows),
            "metrics": metrics if shown is None else metrics | {Stream.VALIDATION.value: shown.values},
            "validation": evaluations,
            "kept": kept,
            "stopped": stopped,
            "carried": self._begun_with(self.attempt),
            "comparison": comparison,
            "ending": max(endings, key=lambda ending: ending.total_s, default=None),
            "model": self.model,
            "checkpoint": self.checkpoint,
            "evaluation_error": None if self.attempt is None else self.attempt.evaluation.failed,
            "versions": self.versions,
        }

    def _begun_with(self, attempt: Attempt | None) -> Carried | None:
        """Returns the weights taken over from another run's model, in this attempt or before its checkpoint."""
        return (attempt.carried if attempt is not None else None) or self.record.carried

    def _evaluations(self) -> tuple[Evaluation, ...]:
        return merged_evaluations((*self.record.validation, *self._told(Stream.VALIDATION)))

    def _training(self) -> tuple[Evaluation, ...]:
        return merged_evaluations((*self.record.training, *self._told(Stream.TRAIN)))

    def _told(self, stream: Stream) -> Iterator[Evaluation]:
        for m in self.attempt.metrics if self.attempt is not None else ():
            if m.stream is stream:
                yield Evaluation(epoch=m.epoch, step=m.step, rows=m.rows, values=m.values)

    def _books(self, attempt: Attempt, save: Save) -> Commit:
        epoch, ledger = save.cursor.epoch, attempt.fed.ledger
        ready = next((t.ready for t in attempt.trainers.values() if t.ready), None)
        record = CheckpointRecord(
            epochs=tuple(e for e in self.epoch_rows() if e.epoch < epoch),
            splits=None if ledger is None else ledger.book(Stream.TRAIN, epoch).known,
            replayed=attempt.account(epoch).replayed + attempt.fed.in_doubt(epoch),
            validation=merged_evaluations(self._evaluations(), save.chief.step),
            training=merged_evaluations(self._training(), save.chief.step),
            keep=attempt.evaluation.rule,
            carried=self._begun_with(attempt),
        )
        return Commit(save, record, versions=ready.versions if ready else {})

    def _commit(self, commit: Commit) -> None:
        chief, cursor, keep = commit.save.chief, commit.save.cursor, commit.record.keep or self._keep
        if chief.step == self.step and self.checkpoint:
            return  # stored again by who came to lead the gang, since nobody else knew whether it had arrived
        if chief.error:
            raise StorageError(chief.error)
        self.versions, self._keep = commit.versions, keep
        self.record = self.record.model_copy(update={"carried": commit.record.carried})
        manifest = Manifest(
            step=chief.step,
            epoch=cursor.epoch,
            cursor=cursor,
            rows_trained=sum(e.trained for e in commit.record.epochs) + cursor.rows - commit.save.rows_aside,
            config_hash=self._config.config_hash(),
            plan_hash=self._plan.plan_hash,
            keras=chief.keras,
            versions=self.versions,
            files=chief.files,
            created=datetime.datetime.fromtimestamp(self._clock.wall_s(), datetime.UTC).isoformat(timespec="seconds"),
            extra=_whole(commit, keep).stored(),
        )
        best = None if keep is None or self._is_evaluated_beside else self._best_of(commit, keep)
        staged = self._rundir.staged(chief.attempt, chief.folder or checkpoint_name(chief.step))
        folder = self._store.commit(
            manifest,
            staged,
            best=best.step if best else None,
            release=partial(self._release, keep),
        )
        if chief.step >= self.step:  # an earlier one is late where what a node says of it is
            self.step, self.checkpoint = chief.step, folder
        if self.attempt is not None and self._is_evaluated_beside:
            names = tuple(file.name for file in chief.files)
            committed = Committed(path=folder, step=chief.step, epoch=epoch_of(cursor), files=names)
            self.attempt.commits.add(committed)

    @property
    def _is_evaluated_beside(self) -> bool:
        """Whether an evaluator reads the commits, and is told when there are more."""
        return self._config.cluster.evaluator

    def _best_of(self, commit: Commit, keep: KeepRule) -> Evaluation | None:
        steps = {*self._store.list(), commit.save.chief.step}
        return keep.best(e for e in commit.record.validation if e.step in steps)

    def _release(self, keep: KeepRule | None, steps: Sequence[int]) -> Sequence[int]:
        """Returns which of the outdated checkpoints may be removed: not those that an evaluator needs."""
        if self.attempt is None or not self._is_evaluated_beside:
            return steps
        return self.attempt.commits.release(steps, keep)


def _whole(commit: Commit, keep: KeepRule | None) -> CheckpointRecord:
    """Returns the attempt's books, completed by the reports of the trainers that stored the checkpoint."""
    save, record = commit.save, commit.record
    told = {"set_aside": save.rows_aside, "replayed": record.replayed + save.chief.in_doubt, "loss": save.chief.loss}
    return record.model_copy(update={"keep": keep, **told})
