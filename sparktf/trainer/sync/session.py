"""One trainer's life: strategy, model, epochs, evaluation, checkpoints, export."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sparktf.errors import LifecycleError, NotStoredError, StorageError
from sparktf.feature import FeedLimits
from sparktf.feed.aside import BadRow
from sparktf.feed.blocks import Parts, PlannedParts
from sparktf.feed.memory import SpareMemory
from sparktf.feed.pipeline import NodeFeed
from sparktf.keep import KeepRule, Kept
from sparktf.result import NodeInput
from sparktf.rundir import RunDirectory
from sparktf.sequence import Stream
from sparktf.storage import FileSystems
from sparktf.storage.checkpoints import upload_folder
from sparktf.trainer.model.export import export_model
from sparktf.trainer.model.model import KerasModel, versions
from sparktf.trainer.node.bad_rows import BadRowFile
from sparktf.trainer.node.best import BestEpoch
from sparktf.trainer.node.checkpoint import CheckpointWriter, SavePolicy, restore
from sparktf.trainer.node.intake import Intake
from sparktf.trainer.node.report import Reporter
from sparktf.trainer.node.summaries import Summaries
from sparktf.trainer.sync.strategy import Collective, make_strategy
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import (
    Action,
    AssignmentAnswer,
    AssignmentRequest,
    EpochDone,
    Finished,
    Flavour,
    Metrics,
    Ready,
    StagedFile,
    TrainerSpec,
    Warned,
)

_SUMMARIES_DEADLINE_S = 5.0
"""Training waits for them, and they may be stored the next time."""


class Session:
    """What the Keras loop and a low-level `train(node)` share: the node's place in the run.

    Attributes:
        spec: The attempt's specification for this node.
        strategy: The tf.distribute strategy.
        nodes: Trainers in this attempt, which may be fewer than configured.
        policy: When checkpoints are due.
    """

    def __init__(self, spec: TrainerSpec, client: ControlClient, reporter: Reporter, work: Path) -> None:
        self.spec = spec
        self.nodes = len(spec.cluster.worker)
        self.strategy = make_strategy(spec.config.cluster, self.nodes)
        self.policy = SavePolicy(spec.config.checkpoint, time.monotonic())
        self._client = client
        self._reporter = reporter
        self._work = work
        self._rundir = RunDirectory(spec.run_root, spec.config.name, spec.run_id)
        self._file_systems = FileSystems(spec.hadoop)
        self._storage = self._file_systems.open(spec.run_root)
        self._keras: Flavour = "none"
        self._saved_step = spec.restore.step if spec.restore else -1
        self._model_files: tuple[StagedFile, ...] = ()
        self._writer: CheckpointWriter | None = None
        self._feed: NodeFeed | None = None
        self._epoch_began_s = 0.0
        self._memory = SpareMemory(spec.feed.features)
        self._intake = Intake(spec, client, reporter, work) if spec.staged else None
        path = self._rundir.bad_rows(spec.attempt, str(spec.node))
        self._bad_rows = BadRowFile(self._storage, path, self._warn)
        data = spec.config.data
        self._limits = FeedLimits(prefetch_bytes=data.prefetch_mib << 20, max_bad_rows=data.max_bad_rows)
        hasty = self._file_systems.open(spec.run_root, deadline_s=_SUMMARIES_DEADLINE_S)
        self.summaries = Summaries(hasty, self._rundir.tensorboard, work, spec.attempt)

    @property
    def is_chief(self) -> bool:
        return self.spec.leads

    def best_epoch(self, rule: KeepRule, collective: Collective) -> BestEpoch:
        """Returns where the best weights are kept, those that the attempt before has left among them."""
        restored = self.spec.restore.best if self.spec.restore else None
        return BestEpoch(rule, restored, self._storage, self._work, collective.sum)

    def ready(self, *, keras: Flavour, weights: int, keep: KeepRule | None = None) -> None:
        """Tells the driver that this node could begin.

        Args:
            keep: By what the best weights are known, if they are kept.
        """
        self._keras = keras
        self._writer = CheckpointWriter(self.spec, self._storage, self._reporter, self._work, keras)
        message = Ready(
            **self.spec.sender,
            replicas=int(self.strategy.num_replicas_in_sync),
            keras=keras,
            versions=versions(keras),
            weights=weights,
            data=None if self._intake is None else self._intake.address,
            keep=keep,
        )
        self._reporter.send(Action.READY, message)
        self._reporter.update(phase="ready")

    def restore(self, checkpoint: Any) -> bool:
        """Restores the committed checkpoint that this attempt starts from; returns whether there is one."""
        if self.spec.restore is None:
            return False
        restore(checkpoint, self._storage, self.spec.restore, self._work)
        return True

    @property
    def has_epochs(self) -> bool:
        """Whether there was something left to train when this attempt began."""
        restore = self.spec.restore
        return not (restore and (restore.cursor.epoch >= self.spec.config.train.epochs or self.exhausted(restore.step)))

    def epochs(self) -> Iterator[int]:
        """Yields the epochs that are left, the restored one first."""
        cursor = self.spec.restore.cursor if self.spec.restore else None
        step = self.spec.restore.step if self.spec.restore else 0
        for epoch in range(cursor.epoch if cursor else 0, self.spec.config.train.epochs):
            if self.exhausted(max(step, self._reporter.progress.step)):
                return
            self._epoch_began_s = time.monotonic()
            self._reporter.update(epoch=epoch, rows_trained=0, phase="training")
            yield epoch

    def exhausted(self, step: int) -> bool:
        """Whether `train.max_steps` is reached."""
        limit = self.spec.config.train.max_steps
        return limit is not None and step >= limit

    def open_feed(self, stream: Stream, epoch: int) -> NodeFeed:
        """Asks the driver for this node's share and opens it."""
        request = AssignmentRequest(**self.spec.sender, stream=stream, epoch=epoch)
        patience = self.spec.config.timeouts.driver_lost
        answer = self._client.call_patiently(Action.ASSIGNMENT, request, AssignmentAnswer, patience_s=patience)
        feed = NodeFeed(
            self.spec.feed,
            self._parts(stream, epoch, answer),
            self._memory,
            limits=self._limits,
            on_bad_rows=partial(self._set_aside, stream, epoch),
        )
        if stream is Stream.TRAIN:
            self._feed = feed
        return feed

    def _parts(self, stream: Stream, epoch: int, answer: AssignmentAnswer) -> Parts:
        if answer.assignment is not None:
            aside = self._limits.max_bad_rows > 0
            return PlannedParts(self.spec.feed, answer.assignment, self._file_systems.open, sets_aside=aside)
        if answer.staged is None or self._intake is None:
            raise LifecycleError(f"{self.spec.node} was given no share of {stream}")
        return self._intake.open(stream, epoch, answer.staged)

    def _set_aside(self, stream: Stream, epoch: int, rows: Sequence[BadRow], *, too_many: bool) -> None:
        self._bad_rows.add(stream, epoch, rows)
        if too_many:
            self._bad_rows.flush()

    def progress(self, epoch: int, step: int, rows: int, loss: float | None) -> None:
        """Keeps the numbers that the next heartbeat carries."""
        self._reporter.update(epoch=epoch, step=step, rows_trained=rows, loss=loss, phase="training")

    def epoch_done(self, feed: NodeFeed, epoch: int, step: int, rows: int, *, complete: bool) -> None:
        """Reports the rows of this node's share."""
        self._bad_rows.flush()
        aside = feed.rows_aside if complete else feed.aside_within(rows)
        message = EpochDone(
            **self.spec.sender,
            epoch=epoch,
            step=step,
            rows_fed=rows + aside,
            rows_trained=rows,
            rows_aside=aside,
            complete=complete,
            input=self._input(feed, rows + aside),
        )
        self._reporter.send(Action.EPOCH_DONE, message)

    def _input(self, feed: NodeFeed, rows: int) -> NodeInput:
        """Returns what was read for the epoch, of which the feed has gone through so many rows."""
        if self._intake is None:
            read = NodeInput(rows={"direct": rows}, nbytes=feed.nbytes, local_nbytes=feed.local_nbytes)
        else:
            read = self._intake.input(Stream.TRAIN)
        seconds = time.monotonic() - self._epoch_began_s
        return read.model_copy(update={"wait_s": feed.wait_s, "seconds": seconds})

    def metrics(self, stream: Stream, epoch: int, step: int, rows: int, values: dict[str, float]) -> None:
        """Reports metrics over all workers: the chief's, which are everybody's."""
        if not self.is_chief:
            return
        for name, value in values.items():
            self.summaries.scalar(stream.value, f"epoch_{name}", value, step)
        message = Metrics(
            **self.spec.sender,
            stream=stream,
            epoch=epoch,
            step=step,
            rows=rows,
            values=values,
        )
        self._reporter.send(Action.METRICS, message)

    def save(self, checkpoint: Any, step: int, epoch: int, rows: int, *, complete: bool, last: bool = False) -> None:
        """Saves a checkpoint, unless this very step is saved already; all nodes call it at the same steps.

        Args:
            last: Nothing more is trained, whatever is left.
        """
        self._flush_summaries()
        if step == self._saved_step or self._writer is None:
            return
        self._saved_step = step
        self._bad_rows.flush()
        self._reporter.update(phase="saving")
        done = [] if complete or self._feed is None else self._feed.consumed(rows)
        begun = epoch + 1 if complete else epoch
        last = last or self.exhausted(step) or begun >= self.spec.config.train.epochs
        aside = 0 if complete or self._feed is None else self._feed.aside_within(rows)
        self._writer.save(checkpoint, step=step, epoch=begun, done=done, rows_aside=aside, last=last)
        self.policy.saved(time.monotonic())
        self._reporter.update(phase="training")

    def save_wanted(self) -> bool:
        """Whether this node asks for a checkpoint now: by time (the chief), or on the driver's word."""
        due = self.is_chief and self.policy.due_by_time(time.monotonic())
        return due or self._reporter.take_save_request()

    def export(self, model: KerasModel) -> None:
        """Exports the model into the staging folder; the driver publishes it.

        Raises:
            NotStoredError: it could not be uploaded.
        """
        if not self.is_chief:
            return
        self._reporter.update(phase="exporting")
        folder = self._work / "model"
        export_model(model, self.spec.assets, folder)
        try:
            self._model_files = upload_folder(self._storage, folder, self._rundir.staged(self.spec.attempt, "model"))
        except StorageError as error:
            raise NotStoredError(f"the model could not be stored: {error}") from error

    def export_plain(self, model: Any) -> None:
        """Exports a model that a low-level loop made."""
        self.export(KerasModel.wrap(model, self.spec.feed))

    def finish(self, step: int, *, early: bool = False, kept: Kept | None = None) -> None:
        """Reports the end of the work and waits for the order to stop.

        Args:
            early: There were epochs left.
            kept: Which weights were exported, where those are not the last ones.
        """
        if self._writer is not None:
            self._writer.wait()
        self._flush_summaries()
        message = Finished(**self.spec.sender, step=step, model=self._model_files, early=early, kept=kept)
        self._reporter.send(Action.FINISHED, message)
        self._reporter.update(phase="finished")
        self._reporter.finish()

    def _flush_summaries(self) -> None:
        """Stores the summaries; what cannot be stored is kept for the next time, and is no reason to stop."""
        try:
            self.summaries.flush()
        except StorageError as error:
            self._warn(f"TensorBoard's summaries are not stored: {error}")

    def _warn(self, text: str) -> None:
        self._reporter.send(Action.WARNING, Warned(**self.spec.sender, text=text))
