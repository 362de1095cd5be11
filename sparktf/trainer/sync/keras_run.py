"""Synchronous training of a compiled Keras model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, NoReturn

import numpy as np

from sparktf.errors import NotStoredError, PeerLostError
from sparktf.feed.arrays.columns import Array
from sparktf.message import Message
from sparktf.sequence import Stream
from sparktf.trainer.model.exchange import Exchange
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.training_metrics import TrainingMetrics
from sparktf.trainer.node.checkpoint import LocalCheckpoint
from sparktf.trainer.node.epoch_end import Judged
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.model_run import ModelRun
from sparktf.trainer.node.position import Done, Position
from sparktf.trainer.node.strain import strain
from sparktf.trainer.node.weights import CopyOfVariables, Exported, Looked
from sparktf.trainer.sync.exchange.outliving import GenerationsExchange
from sparktf.trainer.sync.gradients import CollectiveSum, ExchangeSum, GradientSum
from sparktf.trainer.sync.loop import LoopCalls, LoopSettings, LoopState, SyncLoop, Wish
from sparktf.trainer.sync.one_replica import check_variables, refusing_questions
from sparktf.trainer.sync.regroupings import Regroupings
from sparktf.trainer.sync.state import MemberState
from sparktf.trainer.sync.step import UpdateFunction
from sparktf.trainer.sync.strategy import exchange_of
from sparktf.trainer.sync.update_meter import UpdateMeter
from sparktf.wire.control import AWAITS_EXPORT


class SoFar(Message):
    """The run so far, beside the values of the model: what a member takes over that joins the others."""

    loop: LoopState
    agreed_step: int  # See `Saves`: who comes to lead stores that checkpoint if nobody has
    looked: Looked
    judged: Judged


class KerasRun(ModelRun):
    """See `ModelRun`: every worker takes part in every update."""

    def __init__(self, member: Member, build: Callable[..., Any]) -> None:
        place, strategy = member.place, member.strategy
        spec, config = place.spec, place.spec.config
        devices = config.cluster.devices
        regroupings = Regroupings(place)
        self._exchange = exchange = exchange_of(place, strategy, regroupings)
        replicas = exchange.members * devices
        meter = UpdateMeter(strain)
        total: GradientSum | None = CollectiveSum() if replicas > 1 else None
        self._own = own = exchange if isinstance(exchange, GenerationsExchange) else None
        if own is not None:
            total = ExchangeSum(own, meter.summed)
        with strategy.scope(), refusing_questions() if own is not None else nullcontext():
            with place.listening():
                model = UserModel(build, config, spec.assets, spec.feed)
            member.output.check(model)
            max_rows = -(-config.train.batch_size // replicas) + 1
            update = UpdateFunction(strategy, model, total=total, max_rows=max_rows)
        if own is not None:
            check_variables(model)
        # One replica's model has no distributed variables: it is its own plain copy, but for averages of its weights.
        plain: UserModel | None = model
        if int(strategy.num_replicas_in_sync) > 1 or model.keeps_averages:
            used = own is not None or exchange.leads or place.evaluates
            plain = UserModel(build, config, spec.assets, spec.feed) if used else None
        checkpoint = LocalCheckpoint(model=model.model, optimizer=model.optimizer)
        copy = CopyOfVariables(model, plain, checkpoint)
        self._state = MemberState(own, model) if own is not None else None
        reads = exchange.leads or self._state is None
        super().__init__(
            member,
            model,
            build,
            copy=copy,
            checkpoint=checkpoint,
            exchange=exchange,
            measured=TrainingMetrics(model, exchange, distributed=own is None and replicas > 1),
            reads=reads,
        )
        self._is_new = False
        self._update = update
        if self._state is not None and own is not None and not own.joins:
            self._state.take_leaders()
        self._loop: SyncLoop = self._make_loop(update, exchange, meter)
        regroupings.where, regroupings.takes_lead = self._loop.where, self._take_lead
        place.follow(self._loop)
        if own is not None or exchange.members == 1:  # TensorFlow's collectives are part of the calls
            place.tell_pace(meter.read)
        if own is not None:
            place.leave_at(self._leave)

    def _make_loop(self, update: UpdateFunction, exchange: Exchange, meter: UpdateMeter) -> SyncLoop:
        member, spec = self._member, self._member.place.spec
        settings = LoopSettings(
            devices=spec.config.cluster.devices,
            batch_size=spec.config.train.batch_size,
            steps_per_call=spec.config.steps_per_call,
            extent=member.extent,
        )
        calls = LoopCalls(member.saves.steps_left, self._wish, self._on_call, self._save)
        position = Position.restored(spec.restore)
        return SyncLoop(settings, update, exchange, meter=meter, calls=calls, position=position)

    def _train(self, epoch: int) -> Done:
        def train() -> None:
            if self._own is not None and self._own.joined:
                self._take_in(self._own)
            if self._own is not None and self._own.is_last:
                self._end_with_few(self._own)
            with self._member.input.open(Stream.TRAIN, epoch) as feed:
                self._loop.run_epoch(feed)
                self._member.input.report(feed, self._loop.position)

        self._exchange.whole(train, takes_in=True)
        self._compare()
        return self._loop.done

    def _leave(self, last: int) -> None:
        """Has this node leave a generation of the gang that is over, also where it waits for rows. From any thread."""
        if self._own is not None:
            self._own.end(last)
            self._member.input.leave(last)

    def _take_lead(self, stored: int) -> None:
        """Tells again what the leader before, which is lost, may not have told; has saved what it has not stored.

        Args:
            stored: Update of the last checkpoint whose files are stored.
        """
        self._member.output.tell_again()
        if self._member.saves.agreed_step > stored:
            self._member.saves.ask()

    def _begin(self) -> bool:
        if self._own is None or not self._own.joins:
            return super()._begin()
        self._update.trace()  # the others would stand still meanwhile
        if self._state is not None:
            self._state.make_room()
        self._own.join()
        self._own.whole(partial(self._take_in, self._own), takes_in=True)
        self._is_new = True
        return False

    def _export(self) -> Exported:
        """Has the leader store and export while the others wait: where it is lost, another one does."""
        own = self._own
        if own is None or self._member.place.spec.config.keeps_leader:
            return self._store()
        exported: list[Exported] = []

        def export() -> None:
            if own.leads and not exported:
                exported.append(self._store())
            self._member.place.enter(AWAITS_EXPORT)
            own.sum([np.zeros(1)])

        own.whole(export)
        return exported[0] if exported else Exported(None, None)

    def _store(self) -> Exported:
        """Stores the last state once more if a leader before this one may not have, and exports."""
        if self._member.saves.is_asked and self._done is not None:
            self._member.save(self._loop.position, self._done, last=True)
        exported = super()._export()
        self._member.saves.wait()
        return exported

    def _begin_epoch(self, epoch: int) -> None:
        # The others have begun it before this one joined.
        if not self._is_new:
            super()._begin_epoch(epoch)
        self._is_new = False

    def _take_in(self, exchange: GenerationsExchange) -> None:
        """Gives members that have joined the state of the others; called on all."""
        joins = exchange.joins
        told, files = np.zeros(0, np.uint8), list[Array]()
        if exchange.leads:
            looked, files = self._weights.looked()
            agreed_step, judged = self._member.saves.agreed_step, self._epoch_end.judged()
            so_far = SoFar(loop=self._loop.state, agreed_step=agreed_step, looked=looked, judged=judged)
            told = np.frombuffer(so_far.model_dump_json().encode(), np.uint8)
        [count] = exchange.from_leader([np.array([len(told)], np.int64)])
        [told] = exchange.from_leader([told if exchange.leads else np.zeros(int(count[0]), np.uint8)])
        so_far = SoFar.model_validate_json(told.tobytes())
        if sizes := so_far.looked.files.values():
            files = exchange.from_leader(files if exchange.leads else [np.zeros(size, np.uint8) for size in sizes])
        if self._state is not None:
            self._state.pass_on(exchange)
        if joins:
            self._loop.take(so_far.loop)
            self._member.saves.agreed_step = so_far.agreed_step
            self._weights.take(so_far.looked, files)
            self._epoch_end.take(so_far.judged)
        exchange.took_in()
        if joins and self._state is not None:  # while the driver is told, and rows are dealt
            self._state.take_given()
        exchange.settle()

    def _end_with_few(self, exchange: GenerationsExchange) -> NoReturn:
        """Stores what all have trained, before the attempt ends with too few members; called on all.

        Raises:
            RegroupedError: another one is lost: those that are left call it again.
            PeerLostError: it is stored.
        """
        self._compare()
        # The driver is told where it is not stored: then the next attempt begins from the commit before.
        with suppress(NotStoredError):
            self._member.save(self._loop.position, self._loop.done, last=True)
            self._member.saves.wait()
        exchange.sum([np.zeros(1)])  # the others wait for the one whose files are stored
        raise PeerLostError("too few workers are left: train.min_workers")

    def _wish(self, step: int) -> Wish:
        place = self._member.place
        join = place.leads and place.take_joiners_wait()
        return Wish(save=self._member.saves.take_wish(), end=self._epoch_end.is_time_up(step), join=join)

    def _save(self) -> None:
        self._compare()
        self._member.save(self._loop.position, self._loop.done)

    def _compare(self) -> None:
        """Makes the state one that all members have, before it is stored, evaluated or exported."""
        if self._state is not None:
            with self._exchange.again():
                self._state.average()
                warning = self._state.check()
            if warning and self._member.place.leads:
                self._member.place.warn(warning)

    def _on_call(self) -> None:
        self._member.place.enter("training")
        self._member.output.loss(self._loop.position)
