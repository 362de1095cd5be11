"""What becomes of weights that a Keras run trains: they are evaluated, the best are kept, and a model is exported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sparktf.keep import Evaluation, KeepRule, Kept, keep_rule
from sparktf.sequence import Stream
from sparktf.trainer.model.evaluate import Evaluator
from sparktf.trainer.model.model import KerasModel
from sparktf.trainer.node.best import BestEpoch
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Position


class Weights:
    """The weights of one model, and a plain copy of it, in which they are evaluated and exported."""

    def __init__(
        self,
        member: Member,
        model: KerasModel,
        plain: KerasModel,
        checkpoint: Any,
        sum_over_workers: Callable[[Any], Any],
    ) -> None:
        """Evaluates nothing yet.

        Args:
            plain: Has no distributed variables; may be the model itself.
            checkpoint: Of the model and its optimizer.
            sum_over_workers: Sums an array over all nodes that evaluate, each of which calls it.
        """
        self._member = member
        self._model = model
        self._plain = plain
        self._checkpoint = checkpoint
        self._sum = sum_over_workers
        train = member.place.spec.config.train
        self._evaluator = Evaluator(plain, sum_over_workers, train.validation_batch_size)
        self._best: BestEpoch | None = None

    def prepare(self) -> KeepRule | None:
        """Makes ready to evaluate; returns by what the best weights are known, if they are kept."""
        spec = self._member.place.spec
        if not spec.has(Stream.VALIDATION):
            return None
        self._evaluator.warm_up()
        rule = keep_rule(spec.config.train, self._evaluator.names())
        self._best = None if rule is None else self._member.output.best_epoch(rule, self._sum)
        return rule

    def make_up(self, position: Position) -> None:
        """Evaluates what is restored, where its metrics went with the driver that was to write them."""
        restore = self._member.place.spec.restore
        if restore is None or restore.evaluated:
            return
        if not restore.cursor.rows and restore.cursor.epoch:
            self.evaluate(replace(position, epoch=restore.cursor.epoch - 1))
        elif self._member.extent.epoch_after(position) is None:
            self.evaluate(replace(position, epoch=restore.cursor.epoch))

    def evaluate(self, position: Position) -> None:
        """Evaluates the weights that there are, as those of the position's epoch."""
        if not self._member.place.spec.has(Stream.VALIDATION):
            return
        self._copy()
        epoch = position.epoch
        with self._member.input.open(Stream.VALIDATION, epoch) as feed:
            values, rows = self._evaluator.evaluate(feed)
        self._member.output.metrics(Stream.VALIDATION, position, rows, values)
        if self._best is not None:
            evaluation = Evaluation(epoch=epoch, step=position.step, rows=rows, values=values)
            self._best.offer(evaluation, self._checkpoint)

    def export(self) -> Kept | None:
        """Exports the best weights, or the last ones; returns which they are, where those are not the last."""
        kept = None if self._best is None else self._best.restore(self._checkpoint)
        self._copy()
        self._member.output.export(self._plain)
        return kept

    def _copy(self) -> None:
        """Brings the plain copy up to date; every node takes part, since some variables are aggregated on reading."""
        if self._plain is not self._model:
            self._plain.model.set_weights(self._model.model.get_weights())
