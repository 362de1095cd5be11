"""Evaluates the weights of a Keras run, keeps the best, and exports a model."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from sparktf.errors import PreflightError
from sparktf.feed.pipeline import NodeFeed
from sparktf.results.comparison import Comparison
from sparktf.results.keep import BEGUN, Evaluation, KeepRule, Kept, keep_rule, merged_evaluations
from sparktf.sequence import Stream
from sparktf.trainer.model.averages import take_averages
from sparktf.trainer.model.evaluate import Evaluator
from sparktf.trainer.model.exchange import Exchange
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.trackables import value_of
from sparktf.trainer.node.checkpoint import LocalCheckpoint
from sparktf.trainer.node.gate import Gate
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.position import Position
from sparktf.wire.restore import BestWeights

_GATE_EVALUATIONS = 2
"""The gate takes as long as this many evaluations if it reads the rows again: there are two models."""


class PlainCopy(Protocol):
    """A copy of the trained model without distributed variables, to be evaluated and exported.

    If the optimizer keeps averages of the weights, the copy has these.
    """

    @property
    def model(self) -> UserModel:
        """The copy."""

    @property
    def checkpoint(self) -> LocalCheckpoint:
        """Saves and restores the best weights."""

    def update(self) -> None:
        """Copies the current weights; called on all nodes that train together."""

    def complete(self, *, best: bool) -> None:
        """Prepares the export of the best weights, already read by `checkpoint`, or else of the last commit's."""


class CopyOfVariables:
    """See `PlainCopy`: for a model whose variables this process has, distributed or not."""

    def __init__(self, model: UserModel, plain: UserModel | None, checkpoint: LocalCheckpoint) -> None:
        """Copies nothing yet; `plain` may be the model itself, or None on a node that neither evaluates nor exports."""
        self.model = plain or model
        self.checkpoint = checkpoint
        self._source = model
        self._plain = plain

    def update(self) -> None:
        """See `PlainCopy`. Some variables are aggregated on read, a collective that takes every node."""
        if self._plain is self._source:
            return
        weights = self._source.model.get_weights()
        if self._plain is not None:
            self._plain.model.set_weights(weights)
            take_averages(self._plain.model, self._source.model)

    def complete(self, *, best: bool) -> None:
        """See `PlainCopy`. The current weights are the committed ones, or the best, which were read into the model."""
        del best
        self.update()
        if self._plain is self._source:
            return
        # The exported file has the optimizer's state, for a run that begins from it.
        states = [value_of(variable) for variable in self._source.optimizer.variables]
        if self._plain is not None:
            for variable, state in zip(self._plain.optimizer.variables, states, strict=True):
                variable.assign(state)


class Exported(NamedTuple):
    """The exported weights, if they are not the last ones, and on the leader a gate's outcome, if there is a gate."""

    kept: Kept | None
    comparison: Comparison | None


class Weights:
    """Evaluates, keeps and exports the weights of one model.

    Attributes:
        evaluations: All evaluations so far, including earlier attempts.
        took_s: Seconds to evaluate, and to compare by the gate at the export, by the longest evaluation.
    """

    def __init__(self, member: Member, copy: PlainCopy, exchange: Exchange) -> None:
        self._member = member
        self._copy = copy
        self._exchange = exchange
        self._evaluator: Evaluator | None = None
        self._best: BestEpoch | None = None
        self._gate: Gate | None = None
        self._compared: tuple[int, Comparison | None] | None = None
        self._passes_before = 0
        restore = member.place.spec.restore
        self.took_s = 0.0
        self.evaluations: tuple[Evaluation, ...] = restore.validation if restore else ()

    @property
    def metrics(self) -> list[str]:
        """Names of the validation metrics, after `prepare`; none if this node does not evaluate."""
        return [] if self._evaluator is None else self._evaluator.names()

    def copied(self) -> Any:
        """Returns a Keras model with a copy of the current weights; called on all nodes."""
        self._copy.update()
        return self._copy.model.model

    def prepare(self) -> KeepRule | None:
        """Prepares evaluation unless an evaluator does it; returns the rule for the best weights, if they are kept.

        Raises:
            PreflightError: a gate is configured, and there are no rows to compare on.
        """
        spec = self._member.place.spec
        if not self._member.place.evaluates:
            if spec.config.gate is not None and not spec.config.cluster.evaluator:
                raise PreflightError("gate compares models on held-out rows, but data.validation has no rows")
            return None
        self._evaluator = Evaluator(self._copy.model, self._exchange, spec.config.train.validation_batch_size)
        self._evaluator.warm_up()
        rule = keep_rule(spec.config.train, self._evaluator.names())
        self._best = None if rule is None else BestEpoch(rule, self._member.place, self._exchange)
        if spec.config.gate is not None:
            self._gate = Gate(spec.config.gate, self._member.place, self._copy.model, self._evaluator, self._exchange)
        return rule

    def make_up(self, position: Position) -> None:
        """Evaluates the attempt's first weights if their metrics are needed and missing; called on all nodes.

        These are restored weights whose metrics were lost with a driver, or those of another model, which may be better
        than all that training makes of them.
        """
        restore = self._member.place.spec.restore
        if restore is None or not restore.step:
            self._look_at_begun(position)
            return
        if restore.evaluated:
            return
        if not restore.cursor.rows and restore.cursor.epoch:
            self.evaluate(replace(position, epoch=restore.cursor.epoch - 1))
        elif self._member.extent.epoch_after(position) is None:
            self.evaluate(replace(position, epoch=restore.cursor.epoch))

    def _look_at_begun(self, position: Position) -> None:
        """Evaluates the weights of `train.init_from` as epoch 0 of `train.keep` and `train.early_stopping`."""
        spec = self._member.place.spec
        train = spec.config.train
        is_known = spec.init is None if spec.restore is None else spec.restore.evaluated
        if is_known or (train.keep == "last" and train.early_stopping is None):
            return
        self._member.save(position)  # a resumed run, or an evaluator, finds them among the commits
        self.evaluate(replace(position, epoch=BEGUN))

    def complete(self, position: Position) -> None:
        """Evaluates restored weights that are not trained further, unless their metrics are known."""
        if position.step not in {e.step for e in self.evaluations}:
            self.evaluate(position)

    def evaluate(self, position: Position) -> None:
        """Evaluates the current weights as those of the position's epoch."""
        if self._evaluator is None:
            return
        began_s = time.monotonic()
        self._copy.update()
        epoch = position.epoch
        with self._validation(epoch) as feed:
            if self._gate is not None and self._is_exported(position):
                comparison, values, rows = self._gate.compare(feed)
                self._compared = position.step, comparison
            else:
                values, rows = self._evaluator.evaluate(feed)
        self._member.output.metrics(Stream.VALIDATION, position, rows, values)
        evaluation = Evaluation(epoch=epoch, step=position.step, rows=rows, values=values)
        self.evaluations = merged_evaluations((*self.evaluations, evaluation))
        if self._best is not None:
            self._best.offer(evaluation, self._copy.checkpoint)
        evaluations = 1 if self._gate is None or self._compared is not None else 1 + _GATE_EVALUATIONS
        self.took_s = max(self.took_s, evaluations * (time.monotonic() - began_s))

    def _is_exported(self, position: Position) -> bool:
        """Whether the weights at a position will be exported independently of their metrics."""
        return self._best is None and self._member.extent.epoch_after(position) is None

    def export(self, position: Position) -> Exported:
        """Exports the best weights, or the last ones, after the gate's comparison; called on all nodes."""
        kept = None if self._best is None else self._best.restore(self._copy.checkpoint)
        self._copy.complete(best=kept is not None)
        comparison = None if self._gate is None else self._compare(self._gate, position)
        self._member.output.export(self._copy.model)
        return Exported(kept, comparison)

    def _compare(self, gate: Gate, position: Position) -> Comparison | None:
        if self._best is None and self._compared is not None and self._compared[0] == position.step:
            return self._compared[1]
        self._member.place.enter("comparing")
        # A separate epoch number: Spark feeds each epoch once.
        epoch = max(position.epoch, self._member.extent.epochs)
        with self._validation(epoch) as feed:
            return gate.compare(feed)[0]

    def _validation(self, epoch: int) -> NodeFeed:
        """Opens the validation rows for an epoch. Feeds count from 0: a pass before epoch 0 moves all by one."""
        if epoch == BEGUN:
            self._passes_before = 1
        return self._member.input.open(Stream.VALIDATION, epoch + self._passes_before)


class BestEpoch:
    """Keeps the weights of the best evaluation so far.

    Those of this attempt are a local copy on every node, so that the export does not depend on the storage; those of an
    earlier attempt are a committed checkpoint.
    """

    def __init__(self, rule: KeepRule, place: Place, exchange: Exchange) -> None:
        self._rule = rule
        self._place = place
        self._folder = place.work / "best"
        self._exchange = exchange
        self._restored: BestWeights | None = place.spec.restore.best if place.spec.restore else None
        self._best = self._restored.evaluation if self._restored is not None else None

    def offer(self, evaluation: Evaluation, checkpoint: LocalCheckpoint) -> None:
        """Keeps the current weights if the leader finds them the best so far; called on every node."""
        better = self._exchange.leads and self._rule.is_better(evaluation, self._best)
        if self._exchange.from_leader([np.array([better])])[0][0]:
            shutil.rmtree(self._folder, ignore_errors=True)
            checkpoint.write(self._folder)
            self._best, self._restored = evaluation, None

    def restore(self, checkpoint: LocalCheckpoint) -> Kept | None:
        """Restores and describes the best weights; None if no evaluation gave a number.

        Raises:
            StorageError: an earlier attempt's checkpoint cannot be downloaded.
        """
        if self._best is None:
            return None
        if self._restored is not None:
            checkpoint.restore_files(self._place.storage, self._restored.path, self._restored.files, self._folder)
        else:
            checkpoint.read(self._folder)
        best, rule = self._best, self._rule
        return Kept(epoch=best.epoch, step=best.step, metric=rule.metric, mode=rule.mode, value=rule.value(best))
