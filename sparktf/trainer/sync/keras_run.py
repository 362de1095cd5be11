"""Training of a compiled Keras model: model and its plain copy, epochs through the loop, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparktf.sequence import Stream
from sparktf.trainer.model.evaluate import Sharing
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.node.checkpoint import LocalCheckpoint
from sparktf.trainer.node.epoch_end import EpochEnd
from sparktf.trainer.node.first_weights import first_weights
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Position
from sparktf.trainer.node.weights import CopyOfVariables, Weights
from sparktf.trainer.sync.loop import LoopSettings, SyncLoop, Wish
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
            self._model = UserModel(build, config, spec.assets, spec.feed)
            member.output.check(self._model)
            update = UpdateFunction(
                strategy,
                self._model,
                first_replica=spec.node.index * self._devices,
                max_rows=-(-config.train.batch_size // replicas) + 1,
            )
        # One replica's model has no distributed variables: it is its own plain copy, but for averages of its weights.
        plain: UserModel | None = self._model
        if replicas > 1 or self._model.keeps_averages:
            used = place.leads or place.evaluates
            plain = UserModel(build, config, spec.assets, spec.feed) if used else None
        checkpoint = LocalCheckpoint(model=self._model.model, optimizer=self._model.optimizer)
        sharing = Sharing(spec.node.index, place.workers, self._collective.sum)
        self._weights = Weights(member, CopyOfVariables(self._model, plain, checkpoint), sharing)
        self._epoch_end = EpochEnd(member, self._weights, self._model.optimizer, self._collective.sum)
        restored = member.saves.restore(checkpoint, self._model.flavour)
        self._carried = None if restored else first_weights(place, self._model, build)
        self._loop = self._make_loop(update)
        place.follow(self._loop)

    def _make_loop(self, update: UpdateFunction) -> SyncLoop:
        member, spec = self._member, self._member.place.spec
        settings = LoopSettings(
            node=spec.node.index,
            nodes=member.place.workers,
            devices=self._devices,
            batch_size=spec.config.train.batch_size,
            steps_per_call=spec.config.steps_per_call,
            extent=member.extent,
        )
        return SyncLoop(
            settings,
            update,
            self._collective,
            position=Position.restored(spec.restore),
            steps_to_save=member.saves.steps_left,
            wish=self._wish,
            on_call=self._on_call,
            save=self._save,
        )

    def run(self) -> None:
        """Trains, evaluates after each epoch, exports, and ends the process."""
        member = self._member
        rule = self._weights.prepare()
        self._epoch_end.prepare()
        member.ready(
            keras=self._model.flavour, weights=int(self._model.model.count_params()), keep=rule, carried=self._carried
        )
        self._weights.make_up(self._loop.position)
        over = self._epoch_end.is_over_before(self._loop.position)
        while not over and (epoch := self._loop.begin_epoch()) is not None:
            self._train_epoch(epoch)
            self._weights.evaluate(self._loop.position)
            over = self._epoch_end.is_over(self._loop.position)
        exported = self._weights.export(self._loop.position)
        stopped, ending = self._epoch_end.stopped, self._epoch_end.ending
        member.finish(self._loop.position, **exported._asdict(), stopped=stopped, ending=ending)

    def _train_epoch(self, epoch: int) -> None:
        self._member.place.enter("training")
        self._epoch_end.begun(epoch)
        with self._member.input.open(Stream.TRAIN, epoch) as feed:
            self._loop.run_epoch(feed)
            self._member.input.report(feed, self._loop.position)
        at = self._loop.position
        self._epoch_end.trained(at)
        self._member.save(at, last=not at.is_complete)

    def _wish(self, step: int) -> Wish:
        return Wish(save=self._member.saves.take_wish(), end=self._epoch_end.is_time_up(step))

    def _save(self) -> None:
        self._member.save(self._loop.position)

    def _on_call(self) -> None:
        self._member.place.enter("training")
        self._member.output.loss(self._loop.position)
