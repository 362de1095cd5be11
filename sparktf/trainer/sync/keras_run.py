"""Synchronous training of a compiled Keras model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from sparktf.sequence import Stream
from sparktf.trainer.model.exchange import Exchange
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.training_metrics import TrainingMetrics
from sparktf.trainer.node.checkpoint import LocalCheckpoint
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.model_run import ModelRun
from sparktf.trainer.node.position import Position
from sparktf.trainer.node.weights import CopyOfVariables
from sparktf.trainer.sync.gradients import CollectiveSum, ExchangeSum, GradientSum
from sparktf.trainer.sync.loop import LoopSettings, SyncLoop, Wish
from sparktf.trainer.sync.one_replica import check_variables, refusing_questions
from sparktf.trainer.sync.state import MemberState
from sparktf.trainer.sync.step import UpdateFunction
from sparktf.trainer.sync.strategy import exchange_of


class KerasRun(ModelRun):
    """See `ModelRun`: every worker takes part in every update."""

    def __init__(self, member: Member, build: Callable[..., Any]) -> None:
        place, strategy = member.place, member.strategy
        spec, config = place.spec, place.spec.config
        devices = config.cluster.devices
        exchange = exchange_of(place, strategy)
        replicas = exchange.members * devices
        total: GradientSum | None = CollectiveSum() if replicas > 1 else None
        is_own = exchange.members > 1 and spec.collectives == "sparktf"
        if is_own:
            total = ExchangeSum(exchange)
        with strategy.scope(), refusing_questions() if is_own else nullcontext():
            with place.listening():
                model = UserModel(build, config, spec.assets, spec.feed)
            member.output.check(model)
            max_rows = -(-config.train.batch_size // replicas) + 1
            update = UpdateFunction(strategy, model, total=total, max_rows=max_rows)
        if is_own:
            check_variables(model)
        # One replica's model has no distributed variables: it is its own plain copy, but for averages of its weights.
        plain: UserModel | None = model
        if int(strategy.num_replicas_in_sync) > 1 or model.keeps_averages:
            used = exchange.leads or place.evaluates
            plain = UserModel(build, config, spec.assets, spec.feed) if used else None
        checkpoint = LocalCheckpoint(model=model.model, optimizer=model.optimizer)
        copy = CopyOfVariables(model, plain, checkpoint)
        self._state = MemberState(exchange, model) if is_own else None
        reads = exchange.leads or self._state is None
        super().__init__(
            member,
            model,
            build,
            copy=copy,
            checkpoint=checkpoint,
            exchange=exchange,
            measured=TrainingMetrics(model, exchange, distributed=not is_own and replicas > 1),
            reads=reads,
        )
        if self._state is not None:
            self._state.take_leaders()
        self._loop: SyncLoop = self._make_loop(update, exchange)
        place.follow(self._loop)

    def _make_loop(self, update: UpdateFunction, exchange: Exchange) -> SyncLoop:
        member, spec = self._member, self._member.place.spec
        settings = LoopSettings(
            devices=spec.config.cluster.devices,
            batch_size=spec.config.train.batch_size,
            steps_per_call=spec.config.steps_per_call,
            extent=member.extent,
        )
        return SyncLoop(
            settings,
            update,
            exchange,
            position=Position.restored(spec.restore),
            steps_to_save=member.saves.steps_left,
            wish=self._wish,
            on_call=self._on_call,
            save=self._save,
        )

    def _train(self, epoch: int) -> None:
        with self._member.input.open(Stream.TRAIN, epoch) as feed:
            self._loop.run_epoch(feed)
            self._member.input.report(feed, self._loop.position)
        self._compare()

    def _wish(self, step: int) -> Wish:
        return Wish(save=self._member.saves.take_wish(), end=self._epoch_end.is_time_up(step))

    def _save(self) -> None:
        self._compare()
        self._member.save(self._loop.position)

    def _compare(self) -> None:
        """Makes the state one that all members have, before it is stored, evaluated or exported."""
        if self._state is not None:
            self._state.average()
            warning = self._state.check()
            if warning and self._member.place.leads:
                self._member.place.warn(warning)

    def _on_call(self) -> None:
        self._member.place.enter("training")
        self._member.output.loss(self._loop.position)
