"""Training of a compiled Keras model: model and its plain copy, epochs through the loop, evaluation, export."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sparktf.keep import Evaluation, keep_rule
from sparktf.sequence import Stream
from sparktf.trainer.model.evaluate import Evaluator
from sparktf.trainer.model.model import KerasModel
from sparktf.trainer.node.best import BestEpoch
from sparktf.trainer.node.checkpoint import checkpoint_of
from sparktf.trainer.node.position import Position
from sparktf.trainer.sync.loop import LoopSettings, SyncLoop
from sparktf.trainer.sync.member import Member
from sparktf.trainer.sync.step import UpdateFunction
from sparktf.trainer.sync.strategy import Collective


class KerasRun:
    """Everything between a built model and its export."""

    def __init__(self, member: Member, build: Callable[..., Any]) -> None:
        place, strategy = member.place, member.strategy
        spec, config = place.spec, place.spec.config
        self._member = member
        self._devices = config.cluster.devices
        self._collective = Collective(strategy, place.workers)
        replicas = place.workers * self._devices
        with strategy.scope():
            self._model = KerasModel(build, config, spec.assets, spec.feed)
            update = UpdateFunction(
                strategy,
                self._model,
                first_replica=spec.node.index * self._devices,
                max_rows=-(-config.train.batch_size // replicas) + 1,
            )
        # One replica's model has no distributed variables: it is its own plain copy.
        self._plain = self._model if replicas == 1 else KerasModel(build, config, spec.assets, spec.feed)
        self._evaluator = Evaluator(self._plain, self._collective.sum, config.train.validation_batch_size)
        self._checkpoint = checkpoint_of(model=self._model.model, optimizer=self._model.optimizer)
        member.saves.restore(self._checkpoint, self._model.flavour)
        self._best: BestEpoch | None = None
        self._loop = self._make_loop(update)
        place.follow(self._loop)

    def _make_loop(self, update: UpdateFunction) -> SyncLoop:
        member, spec = self._member, self._member.place.spec
        settings = LoopSettings(
            node=spec.node.index,
            nodes=member.place.workers,
            devices=self._devices,
            batch_size=spec.config.train.batch_size,
            steps_per_call=spec.config.train.steps_per_call,
            extent=member.extent,
        )
        return SyncLoop(
            settings,
            update,
            self._collective,
            position=Position.restored(spec.restore),
            steps_to_save=member.saves.steps_left,
            save_wanted=member.saves.wanted,
            on_call=self._on_call,
            save=self._save,
        )

    def run(self) -> None:
        """Trains, evaluates after each epoch, exports, and ends the process."""
        member, spec = self._member, self._member.place.spec
        rule = None
        if spec.has(Stream.VALIDATION):
            self._evaluator.warm_up()
            rule = keep_rule(spec.config.train, self._evaluator.names())
        self._best = None if rule is None else member.output.best_epoch(rule, self._collective.sum)
        member.ready(keras=self._model.flavour, weights=int(self._model.model.count_params()), keep=rule)
        self._make_up()
        while (epoch := self._loop.begin_epoch()) is not None:
            self._train_epoch(epoch)
            self._evaluate(epoch)
        kept = None if self._best is None else self._best.restore(self._checkpoint)
        self._copy_weights()
        member.output.export(self._plain)
        member.finish(self._loop.position, kept=kept)

    def _make_up(self) -> None:
        """Evaluates what is restored, where its metrics went with the driver that was to write them."""
        restore = self._member.place.spec.restore
        if restore is None or restore.evaluated:
            return
        if not restore.cursor.rows and restore.cursor.epoch:
            self._evaluate(restore.cursor.epoch - 1)
        elif self._member.extent.epoch_after(self._loop.position) is None:
            self._evaluate(restore.cursor.epoch)

    def _train_epoch(self, epoch: int) -> None:
        self._member.place.enter("training")
        with self._member.input.open(Stream.TRAIN, epoch) as feed:
            self._loop.run_epoch(feed)
            self._member.input.report(feed, self._loop.position)
        self._save()

    def _save(self) -> None:
        self._member.save(self._loop.position)

    def _evaluate(self, epoch: int) -> None:
        """Evaluates the weights that there are, as those of an epoch."""
        if not self._member.place.spec.has(Stream.VALIDATION):
            return
        self._copy_weights()
        with self._member.input.open(Stream.VALIDATION, epoch) as feed:
            values, rows = self._evaluator.evaluate(feed)
        position = replace(self._loop.position, epoch=epoch)
        self._member.output.metrics(Stream.VALIDATION, position, rows, values)
        if self._best is not None:
            evaluation = Evaluation(epoch=epoch, step=position.step, rows=rows, values=values)
            self._best.offer(evaluation, self._checkpoint)

    def _copy_weights(self) -> None:
        """Brings the plain copy up to date; every node takes part, since some variables are aggregated on reading."""
        if self._plain is not self._model:
            self._plain.model.set_weights(self._model.model.get_weights())

    def _on_call(self) -> None:
        self._member.place.enter("training")
        self._member.output.loss(self._loop.position)
