"""What becomes of weights that a Keras run trains: they are evaluated, the best are kept, and a model is exported."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from sparktf.errors import PreflightError
from sparktf.feed.pipeline import NodeFeed
from sparktf.results.comparison import Comparison
from sparktf.results.keep import BEGUN, Evaluation, KeepRule, Kept, keep_rule, merged_evaluations
from sparktf.sequence import Stream
from sparktf.trainer.model.averages import take_averages
from sparktf.trainer.model.evaluate import Evaluator, Sharing
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.trackables import value_of
from sparktf.trainer.node.best import BestEpoch
from sparktf.trainer.node.checkpoint import LocalCheckpoint
from sparktf.trainer.node.gate import Gate
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Position

_GATE_EVALUATIONS = 2
"""As long as so many evaluations the gate may take, where it reads the rows anew: there are two models."""


class PlainCopy(Protocol):
    """A copy of the model that is trained, without distributed variables: it is evaluated and exported.

    Where the optimizer keeps averages of the weights, the copy has these.
    """

    @property
    def model(self) -> UserModel:
        """The copy."""

    @property
    def checkpoint(self) -> LocalCheckpoint:
        """Of what the best weights are kept, and read again."""

    def update(self) -> None:
        """Brings it up to date with what is trained; all nodes that train together call it."""

    def complete(self, *, best: bool) -> None:
        """Brings it to the weights that are exported.

        Args:
            best: They have been read into the objects of `checkpoint`; otherwise they are those of the last commit.
        """


class CopyOfVariables:
    """See `PlainCopy`: of a model whose variables this process has, distributed or not."""

    def __init__(self, model: UserModel, plain: UserModel | None, checkpoint: LocalCheckpoint) -> None:
        """Copies nothing yet.

        Args:
            plain: May be the model itself; None on a node that neither evaluates nor exports.
            checkpoint: Of the model and its optimizer.
        """
        self.model = plain or model
        self.checkpoint = checkpoint
        self._source = model
        self._plain = plain

    def update(self) -> None:
        """See `PlainCopy`. Some variables are aggregated on reading, in which every node takes part."""
        if self._plain is self._source:
            return
        weights = self._source.model.get_weights()
        if self._plain is not None:
            self._plain.model.set_weights(weights)
            take_averages(self._plain.model, self._source.model)

    def complete(self, *, best: bool) -> None:
        """See `PlainCopy`. What is trained is what is committed, and the best weights are read into the model."""
        del best
        self.update()
        if self._plain is self._source:
            return
        # Of the copy, the exported file has the optimizer's state, for a run that begins from it.
        states = [value_of(variable) for variable in self._source.optimizer.variables]
        if self._plain is not None:
            for variable, state in zip(self._plain.optimizer.variables, states, strict=True):
                variable.assign(state)


class Exported(NamedTuple):
    """What came of the weights that were exported.

    Attributes:
        kept: Which they are, where those are not the last ones.
        comparison: What the gate found, if there is one.
    """

    kept: Kept | None
    comparison: Comparison | None


class Weights:
    """The weights of one model: what becomes of them.

    Attributes:
        evaluations: What is known of those before, and of those of earlier attempts.
        took_s: How long it takes, in seconds, to evaluate, and to have the gate compare what is exported: by the
            evaluation that took longest.
    """

    def __init__(
        self,
        member: Member,
        copy: PlainCopy,
        sharing: Sharing,
    ) -> None:
        """Evaluates nothing yet.

        Args:
            sharing: Who evaluates together.
        """
        self._member = member
        self._copy = copy
        self._sharing = sharing
        self._evaluator: Evaluator | None = None
        self._best: BestEpoch | None = None
        self._gate: Gate | None = None
        self._compared: tuple[int, Comparison] | None = None
        self._passes_before = 0
        restore = member.place.spec.restore
        self.took_s = 0.0
        self.evaluations: tuple[Evaluation, ...] = restore.validation if restore else ()

    @property
    def metrics(self) -> list[str]:
        """Names of the validation metrics, once it is ready to evaluate; none where this node does not."""
        return [] if self._evaluator is None else self._evaluator.names()

    def copied(self) -> Any:
        """Returns the Keras model that has a copy of the weights, which is up to date; all nodes call it."""
        self._copy.update()
        return self._copy.model.model

    def prepare(self) -> KeepRule | None:
        """Makes ready to evaluate, if there are rows; returns by what the best weights are known, if they are kept.

        Where there is an evaluator, that is its business.
        """
        spec = self._member.place.spec
        if not self._member.place.evaluates:
            if spec.config.gate is not None and not spec.config.cluster.evaluator:
                raise PreflightError("gate compares models on held-out rows, and data.validation has no rows")
            return None
        self._evaluator = Evaluator(self._copy.model, self._sharing.sum, spec.config.train.validation_batch_size)
        self._evaluator.warm_up()
        rule = keep_rule(spec.config.train, self._evaluator.names())
        self._best = None if rule is None else self._member.output.best_epoch(rule, self._sharing.sum)
        if spec.config.gate is not None:
            self._gate = Gate(spec.config.gate, self._member.place, self._copy.model, self._evaluator, self._sharing)
        return rule

    def make_up(self, position: Position) -> None:
        """Evaluates what the attempt begins with, where it has to be known and is not; all nodes call it.

        That is what was restored, where its metrics went with the driver that was to write them; or the weights of
        another model, which may be better than whatever comes of them.
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
        """Makes the weights that `train.init_from` has given epoch 0 of `train.keep` and of `train.early_stopping`."""
        spec = self._member.place.spec
        train = spec.config.train
        is_known = spec.init is None if spec.restore is None else spec.restore.evaluated
        if is_known or (train.keep == "last" and train.early_stopping is None):
            return
        self._member.save(position)  # a run that is resumed, or an evaluator, finds them among the commits
        self.evaluate(replace(position, epoch=BEGUN))

    def complete(self, position: Position) -> None:
        """Evaluates what is restored, and not trained any further, unless its metrics are known."""
        if position.step not in {e.step for e in self.evaluations}:
            self.evaluate(position)

    def evaluate(self, position: Position) -> None:
        """Evaluates the weights that there are, as those of the position's epoch."""
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
        """Whether the weights of a position are those that will be exported, whatever their metrics are."""
        return self._best is None and self._member.extent.epoch_after(position) is None

    def export(self, position: Position) -> Exported:
        """Exports the best weights, or the last ones, once the gate has looked at them; all nodes call it.

        Args:
            position: Of the last ones.
        """
        kept = None if self._best is None else self._best.restore(self._copy.checkpoint)
        self._copy.complete(best=kept is not None)
        comparison = None if self._gate is None else self._compare(self._gate, position)
        self._member.output.export(self._copy.model)
        return Exported(kept, comparison)

    def _compare(self, gate: Gate, position: Position) -> Comparison:
        if self._best is None and self._compared is not None and self._compared[0] == position.step:
            return self._compared[1]
        self._member.place.enter("comparing")
        # An epoch of its own: Spark feeds each but once.
        epoch = max(position.epoch, self._member.extent.epochs)
        with self._validation(epoch) as feed:
            return gate.compare(feed)[0]

    def _validation(self, epoch: int) -> NodeFeed:
        """Opens the held-out rows for an epoch. Feeds count from 0: one pass before the first moves all by one."""
        if epoch == BEGUN:
            self._passes_before = 1
        return self._member.input.open(Stream.VALIDATION, epoch + self._passes_before)
