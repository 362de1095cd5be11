"""The evaluator: evaluates checkpoints as they are committed, while other nodes train, under any strategy.

The driver decides which checkpoint comes next, and when the evaluation is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import tensorflow as tf

from sparktf.errors import ModelContractError, PreflightError
from sparktf.feed.arrays.columns import row_count
from sparktf.feed.pipeline import NodeFeed
from sparktf.knobs import KNOBS
from sparktf.results.comparison import Comparison
from sparktf.results.keep import KeepRule, Kept, keep_rule
from sparktf.sequence import Stream
from sparktf.trainer.model.averages import take_averages
from sparktf.trainer.model.evaluate import Evaluator
from sparktf.trainer.model.exchange import ALONE
from sparktf.trainer.model.model import UserModel, is_low_level, load_function, versions
from sparktf.trainer.node.checkpoint import LocalCheckpoint
from sparktf.trainer.node.gate import Gate
from sparktf.trainer.node.inputs import Input
from sparktf.trainer.node.outputs import Output
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.position import Position
from sparktf.wire.control import Action, Ready
from sparktf.wire.restore import BestWeights, Committed, NextCommit, NextCommitRequest
from sparktf.wire.uploads import Finished


def evaluate(place: Place) -> None:
    """Evaluates until the last commit is evaluated; ends the process, or raises.

    Raises:
        ModelContractError: the model is a hand-written loop, or fails a check.
        PreflightError: there are no rows to evaluate on.
    """
    tf.get_logger().setLevel("ERROR")
    function = load_function(place.spec.config)
    if is_low_level(function):
        raise ModelContractError(
            "cluster.evaluator: true evaluates a model from build(params, assets), and train(node) evaluates itself: "
            "set cluster.evaluator: false"
        )
    if not place.spec.has(Stream.VALIDATION):
        raise PreflightError(
            "cluster.evaluator: true needs validation rows, but data.validation has none: set cluster.evaluator: false"
        )
    CommitEvaluator(place, function).run()


class _Counted(NamedTuple):
    """A `RowSource` that reports the number of rows it has given."""

    feed: NodeFeed
    told: Callable[[int], None]

    def next_rows(self, rows: int) -> Any:
        """See `RowSource`."""
        columns = self.feed.next_rows(rows)
        self.told(row_count(columns))
        return columns


class CommitEvaluator:
    """Evaluates one commit after the other with a copy of the model that has no optimizer slots.

    Attributes:
        position: The current commit, and its rows evaluated so far.
    """

    def __init__(self, place: Place, build: Callable[..., Any]) -> None:
        spec, config = place.spec, place.spec.config
        self._place = place
        self._model = UserModel(build, config, spec.assets, spec.feed, trains=False)
        averages = {"optimizer": self._model.optimizer} if self._model.keeps_averages else {}
        self._checkpoint = LocalCheckpoint(model=self._model.model, **averages)
        self._evaluator = Evaluator(self._model, ALONE, config.train.validation_batch_size)
        self._input = Input(place)
        self._output = Output(place, self._input.sampled, evaluates=True)
        self._output.check(self._model)
        self._gate: Gate | None = None
        self.position = Position()

    def run(self) -> None:
        """Evaluates, exports the best weights if the run keeps them, and ends the process."""
        place = self._place
        self._evaluator.warm_up()
        config = place.spec.config
        rule = keep_rule(config.train, self._evaluator.names())
        if config.gate is not None:
            self._gate = Gate(config.gate, place, self._model, self._evaluator, ALONE)
        self._ready(rule)
        place.follow(self)
        while not (step := self._next()).is_over:
            if step.commit is None:
                place.enter("waiting")
                time.sleep(KNOBS.next_commit_s)
            else:
                self._evaluate(step.commit)
        kept = None
        if rule is not None and step.best is not None:
            kept = self._read_best(step.best, rule)
        elif step.last is not None and step.last.step != self.position.step:
            self._read(step.last.path, step.last.files)  # a lost evaluator has evaluated it
        comparison = None if self._gate is None or step.last is None else self._compare(self._gate, step.last)
        if kept is not None:
            self._output.export(self._model)
        self._finish(kept, comparison)

    def _next(self) -> NextCommit:
        return self._place.ask(Action.NEXT_COMMIT, NextCommitRequest(**self._place.spec.sender), NextCommit)

    def _evaluate(self, commit: Committed) -> None:
        self._place.enter("evaluating")
        self.position = Position(epoch=commit.epoch, step=commit.step)
        self._read(commit.path, commit.files)
        with self._input.open(Stream.VALIDATION, max(commit.epoch, 0)) as feed:
            values, rows = self._evaluator.evaluate(_Counted(feed, self._advance))
        self._input.flush()
        self._output.metrics(Stream.VALIDATION, self.position, rows, values)
        self._output.flush()

    def _advance(self, rows: int) -> None:
        self.position = replace(self.position, rows=self.position.rows + rows)

    def _read(self, path: str, files: tuple[str, ...]) -> None:
        self._checkpoint.restore_files(self._place.storage, path, files, self._place.work / "restore")
        take_averages(self._model.model, self._model.model)

    def _compare(self, gate: Gate, last: Committed) -> Comparison | None:
        """Lets the gate compare the current weights, which this node or the leader exports."""
        self._place.enter("comparing")
        with self._input.open(Stream.VALIDATION, last.epoch) as feed:
            return gate.compare(_Counted(feed, self._advance))[0]

    def _read_best(self, best: BestWeights, rule: KeepRule) -> Kept:
        """Reads the best weights, and describes them."""
        found = best.evaluation
        self._read(best.path, best.files)
        return Kept(epoch=found.epoch, step=found.step, metric=rule.metric, mode=rule.mode, value=rule.value(found))

    def _ready(self, rule: KeepRule | None) -> None:
        flavour = self._model.flavour
        message = Ready(
            **self._place.spec.sender,
            replicas=1,
            keras=flavour,
            versions=versions(flavour),
            weights=int(self._model.model.count_params()),
            keep=rule,
        )
        self._place.ready(message)
        self._place.enter("ready")

    def _finish(self, kept: Kept | None, comparison: Comparison | None) -> None:
        message = Finished(
            **self._place.spec.sender,
            step=self.position.step,
            kept=kept,
            model=self._output.model,
            folder=self._output.folder,
            comparison=comparison,
        )
        self._place.send(Action.FINISHED, message)
        self._place.enter("finished")
        self._place.leave()
