"""Evaluates the weights of a Keras run, keeps the best, and exports a model."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from sparktf.errors import PreflightError
from sparktf.feed.arrays.columns import Array
from sparktf.feed.pipeline import NodeFeed
from sparktf.message import Message
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
from sparktf.wire.trainer_spec import Training

_GATE_EVALUATIONS = 2
"""The gate takes as long as this many evaluations if it reads the rows again: there are two models."""


class Looked(Message):
    """The evaluations of a run so far, as a node takes them over that joins the others later."""

    evaluations: tuple[Evaluation, ...]
    best: Evaluation | None = None  # Of the weights that are kept
    files: dict[str, int] = {}  # Bytes of each file of these; none where they are those that the attempt began with


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
        # By the specification alone: who joins later counts as the others do.
        self._looks_at_begun = looks_at_begun(member.place.spec)
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

    def looked(self) -> tuple[Looked, list[Array]]:
        """Returns the evaluations so far, and the files of the best weights, uint8 [bytes] each."""
        looked, files = Looked(evaluations=self.evaluations), dict[str, Array]()
        if self._best is not None:
            looked, files = looked.model_copy(update={"best": self._best.evaluation}), self._best.files()
        return looked.model_copy(update={"files": {name: file.size for name, file in files.items()}}), [*files.values()]

    def take(self, looked: Looked, files: Sequence[Array]) -> None:
        """Takes over what another node has `looked` at."""
        self.evaluations = looked.evaluations
        if self._best is not None and looked.best is not None:
            self._best.take(looked.best, dict(zip(looked.files, files, strict=True)))

    def make_up(self, position: Position) -> None:
        """Evaluates the attempt's first weights if their metrics are needed and missing; called on all nodes.

        These are restored weights whose metrics were lost with a driver, or those of another model, which may be better
        than all that training makes of them.
        """
        restore = self._member.place.spec.restore
        if restore is None or not restore.step:
            if self._looks_at_begun:
                self._member.save(position)  # a resumed run, or an evaluator, finds them among the commits
                self.evaluate(replace(position, epoch=BEGUN))
            return
        if restore.evaluated:
            return
        if not restore.cursor.rows and restore.cursor.epoch:
            self.evaluate(replace(position, epoch=restore.cursor.epoch - 1))
        elif self._member.extent.epoch_after(position) is None:
            self.evaluate(replace(position, epoch=restore.cursor.epoch))

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
        values, rows = self._exchange.whole(partial(self._measured, self._evaluator, position))
        self._member.output.metrics(Stream.VALIDATION, position, rows, values)
        evaluation = Evaluation(epoch=epoch, step=position.step, rows=rows, values=values)
        self.evaluations = merged_evaluations((*self.evaluations, evaluation))
        if self._best is not None:
            self._best.offer(evaluation, self._copy.checkpoint)
        evaluations = 1 if self._gate is None or self._compared is not None else 1 + _GATE_EVALUATIONS
        self.took_s = max(self.took_s, evaluations * (time.monotonic() - began_s))

    def _measured(self, evaluator: Evaluator, position: Position) -> tuple[dict[str, float], int]:
        with self._validation(position.epoch) as feed:
            if self._gate is None or not self._is_exported(position):
                return evaluator.evaluate(feed)
            comparison, values, rows = self._gate.compare(feed)
            self._compared = position.step, comparison
            return values, rows

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
        return self._member.input.open(Stream.VALIDATION, epoch + self._looks_at_begun)


def looks_at_begun(spec: Training) -> bool:
    """Whether an attempt evaluates the weights of `train.init_from`, before its first epoch.

    They count as those of an epoch 0 for `train.keep` and `train.early_stopping`.
    """
    train, restore = spec.config.train, spec.restore
    if restore is not None and (restore.step or restore.evaluated):
        return False
    has_some = restore is not None or spec.init is not None
    return has_some and not (train.keep == "last" and train.early_stopping is None)


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
        better = np.array([self._rule.is_better(evaluation, self._best)])
        with self._exchange.again():  # metrics may differ in their last bit
            [better] = self._exchange.from_leader([better])
        if better[0]:
            shutil.rmtree(self._folder, ignore_errors=True)
            checkpoint.write(self._folder)
            self._best, self._restored = evaluation, None

    @property
    def evaluation(self) -> Evaluation | None:
        """That of the best weights; None without any."""
        return self._best

    def files(self) -> dict[str, Array]:
        """Returns the files of the best weights, uint8 [bytes] each, by name; none of an earlier attempt's."""
        if self._best is None or self._restored is not None:
            return {}
        return {path.name: np.fromfile(path, np.uint8) for path in sorted(self._folder.iterdir())}

    def take(self, best: Evaluation, files: Mapping[str, Array]) -> None:
        """Takes over the best weights of another node, as `files` returns them."""
        self._best = best
        if files:
            self._restored = None
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir()
            for name, content in files.items():
                content.tofile(self._folder / name)

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
