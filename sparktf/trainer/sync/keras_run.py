"""Training of a compiled Keras model: model and its plain copy, epochs through the loop, evaluation, export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparktf.feed.pipeline import NodeFeed
from sparktf.keep import Evaluation, keep_rule
from sparktf.sequence import Stream
from sparktf.trainer.model.evaluate import Evaluator
from sparktf.trainer.model.model import KerasModel
from sparktf.trainer.node.best import BestEpoch
from sparktf.trainer.node.checkpoint import checkpoint_of
from sparktf.trainer.sync.loop import LoopSettings, SyncLoop
from sparktf.trainer.sync.session import Session
from sparktf.trainer.sync.step import UpdateFunction
from sparktf.trainer.sync.strategy import Collective


class KerasRun:
    """Everything between a built model and its export."""

    def __init__(self, session: Session, build: Callable[..., Any]) -> None:
        spec, config = session.spec, session.spec.config
        self._session = session
        self._devices = config.cluster.devices if config.cluster.strategy == "mirrored" else 1
        self._collective = Collective(session.strategy, session.nodes)
        replicas = session.nodes * self._devices
        with session.strategy.scope():
            self._model = KerasModel(build, config, spec.assets, spec.feed)
            update = UpdateFunction(
                session.strategy,
                self._model,
                first_replica=spec.node.index * self._devices,
                max_rows=-(-config.train.batch_size // replicas) + 1,
            )
        # One replica's model has no distributed variables: it is its own plain copy.
        self._plain = self._model if replicas == 1 else KerasModel(build, config, spec.assets, spec.feed)
        self._evaluator = Evaluator(self._plain, self._collective.sum, config.train.validation_batch_size)
        self._checkpoint = checkpoint_of(model=self._model.model, optimizer=self._model.optimizer)
        session.restore(self._checkpoint)
        self._best: BestEpoch | None = None
        self._epoch = 0
        self._loop = self._make_loop(update)

    def _make_loop(self, update: UpdateFunction) -> SyncLoop:
        session, train = self._session, self._session.spec.config.train
        settings = LoopSettings(
            node=session.spec.node.index,
            nodes=session.nodes,
            devices=self._devices,
            batch_size=train.batch_size,
            steps_per_call=train.steps_per_call,
            max_steps=train.max_steps,
        )
        return SyncLoop(
            settings,
            update,
            self._collective,
            step=session.spec.restore.step if session.spec.restore else 0,
            steps_to_save=session.policy.steps_left,
            save_wanted=session.save_wanted,
            on_call=self._on_call,
            save=lambda: self._save(complete=False),
        )

    def run(self) -> None:
        """Trains, evaluates after each epoch, exports, and ends the process."""
        session = self._session
        rule = None
        if session.spec.has(Stream.VALIDATION):
            self._evaluator.warm_up()
            rule = keep_rule(session.spec.config.train, self._evaluator.names())
        self._best = None if rule is None else session.best_epoch(rule, self._collective)
        session.ready(keras=self._model.flavour, weights=int(self._model.model.count_params()), keep=rule)
        self._make_up()
        for epoch in session.epochs():
            self._train_epoch(epoch)
            self._evaluate(epoch)
        kept = None if self._best is None else self._best.restore(self._checkpoint)
        self._copy_weights()
        session.export(self._plain)
        session.finish(self._loop.step, kept=kept)

    def _make_up(self) -> None:
        """Evaluates what is restored, where its metrics went with the driver that was to write them."""
        restore = self._session.spec.restore
        if restore is None or restore.evaluated:
            return
        if not restore.cursor.rows and restore.cursor.epoch:
            self._evaluate(restore.cursor.epoch - 1)
        elif not self._session.has_epochs:
            self._evaluate(restore.cursor.epoch)

    def _train_epoch(self, epoch: int) -> None:
        self._epoch = epoch
        with self._session.open_feed(Stream.TRAIN, epoch) as feed:
            self._loop.run_epoch(feed)
            # The last call of an epoch that ends at `max_steps` may leave rows that belong to nobody's update.
            complete = not self._loop.exhausted or self._is_dry(feed)
            self._session.epoch_done(feed, epoch, self._loop.step, self._loop.rows, complete=complete)
        self._save(complete=complete)

    def _is_dry(self, feed: NodeFeed) -> bool:
        """Whether no node has a row of the epoch left."""
        left = self._collective.sum(np.array([not feed.is_all(self._loop.rows)], np.int64))
        return int(left[0]) == 0

    def _save(self, *, complete: bool) -> None:
        self._session.save(self._checkpoint, self._loop.step, self._epoch, self._loop.rows, complete=complete)

    def _evaluate(self, epoch: int) -> None:
        if not self._session.spec.has(Stream.VALIDATION):
            return
        self._copy_weights()
        with self._session.open_feed(Stream.VALIDATION, epoch) as feed:
            values, rows = self._evaluator.evaluate(feed)
        step = self._loop.step
        self._session.metrics(Stream.VALIDATION, epoch, step, rows, values)
        if self._best is not None:
            evaluation = Evaluation(epoch=epoch, step=step, rows=rows, values=values)
            self._best.offer(evaluation, self._checkpoint, chief=self._session.is_chief)

    def _copy_weights(self) -> None:
        """Brings the plain copy up to date; every node takes part, since some variables are aggregated on reading."""
        if self._plain is not self._model:
            self._plain.model.set_weights(self._model.model.get_weights())

    def _on_call(self, loss: float, rows: int) -> None:
        del rows
        self._session.progress(self._epoch, self._loop.step, self._loop.rows, loss)
        if self._session.is_chief:
            self._session.summaries.scalar("train", "loss", loss, self._loop.step)
