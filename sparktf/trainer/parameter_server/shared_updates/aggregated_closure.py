"""The closure of a worker when updates are aggregated: it computes gradients and adds them to a round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from sparktf.trainer.model.averages import average_in_place
from sparktf.trainer.model.contract import naming_tensors
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.tensors import Tensors, example, rows_of
from sparktf.trainer.model.tracing import recording
from sparktf.trainer.model.trackables import count_atomically
from sparktf.trainer.parameter_server.shared_updates.accumulators import Accumulators, Round
from sparktf.trainer.parameter_server.shared_updates.rounds import RoundVerdict
from sparktf.trainer.parameter_server.update.metric_states import MetricStates
from sparktf.trainer.parameter_server.update.packing import PART_DONE, PAUSE, WHO, bring_rows

BEGIN = "sparktf_begin"
"""Tokens of PyFuncs on the coordinator, which owns the `Rounds`: (who) -> number of the round."""

ENTER = "sparktf_enter"
"""(who, number, rows) -> whether the round takes the gradient."""

OUTCOME = "sparktf_outcome"
"""(who, number, whether the gradient is there) -> int64 [2]: the verdict, and the number of the next round."""

_COORDINATOR = "/job:chief/replica:0/task:0/device:CPU:0"


class AggregatedClosure:
    """As `Closure`, but the coordinator makes the updates, once a round has enough gradients.

    A gradient that is too late is computed again from the same rows, with the variables of the next round.

    Attributes:
        function: Schedule it with the result of `packing.asked_for`; returns the receipts as JSON.
        metrics: The states of the model's metrics.
        update: Makes an update, on the coordinator; takes a `Round` as int64 [3].
        throw_away: Drops the gradients of a round, on the coordinator.
    """

    def __init__(self, strategy: Any, model: UserModel, *, batch_size: int) -> None:
        """Lets the model create its lazy variables, and traces all functions; call it in the strategy's scope."""
        self._strategy = strategy
        self._model = model
        self._batch_size = batch_size
        self._kinds: list[Any] = []
        model.use_own_reduction()
        count_atomically([model.model])
        average_in_place(model.model)
        self.metrics = MetricStates(model)
        with naming_tensors(model.spec), recording():
            strategy.run(self._warm_up)
        self.metrics.ready()
        used = [(v, kind) for v, kind in zip(model.trained(), self._kinds, strict=True) if kind is not None]
        self._accumulators = Accumulators([v for v, _ in used], [kind for _, kind in used])
        asked, of = tf.TensorSpec((None,), tf.int64), tf.TensorSpec((len(Round._fields),), tf.int64)
        self.function = tf.function(self._run, input_signature=[asked], autograph=False).get_concrete_function()
        self.update = tf.function(self._make_update, input_signature=[of], autograph=False).get_concrete_function()
        self.throw_away = tf.function(self._throw_away, input_signature=[], autograph=False).get_concrete_function()

    def _run(self, asked: Any) -> Any:
        rows, n, take = bring_rows(self._model.spec, asked)
        who = _called(WHO, [take], tf.int64, (4,))
        with tf.device(_COORDINATOR):
            number = _called(BEGIN, [who], tf.int64)
        done, total, metrics = self._gradients_of(rows, n, asked[1], who, number)
        return _called(PART_DONE, [take, done, total, metrics], tf.string)

    def _gradients_of(self, rows: Tensors, n: Any, tries: Any, who: Any, number: Any) -> tuple[Any, Any, Any]:
        """Brings the gradients of all rows into updates.

        Returns the number of rows that went in, their loss sum, and what they add to the metrics.
        It computes at most `tries` gradients, so that a worker that is always late returns, too.
        """

        def goes_on(left: Any, done: Any, total: Any, states: Any, number: Any) -> Any:
            del total, states
            return (left > 0) & (done < n) & (number >= 0)

        def step(left: Any, done: Any, total: Any, states: Any, number: Any) -> tuple[Any, ...]:
            stop = tf.minimum(done + self._batch_size, n)
            # The variables are read after the round's number is known, since the loop's condition needs that.
            given = (rows_of(rows, done, stop), states)
            loss, measured, *gradients = self._strategy.run(self._gradients, args=given)
            verdict, following = self._take_part(gradients, stop - done, who, number)
            is_made = tf.equal(verdict, RoundVerdict.MADE.value)
            loss = tf.where(is_made, loss * tf.cast(stop - done, tf.float32), 0.0)
            states = [tf.where(is_made, new, old) for new, old in zip(measured, states, strict=True)]
            return left - 1, tf.where(is_made, stop, done), total + loss, states, following

        begin = (tries, tf.constant(0, tf.int64), tf.constant(0.0), self.metrics.begin(), number)
        _, done, total, states, _ = tf.while_loop(goes_on, step, begin, parallel_iterations=1)
        return done, total, self.metrics.added(states)

    def _take_part(self, gradients: list[Any], rows: Any, who: Any, number: Any) -> tuple[Any, Any]:
        """Offers the gradients to a round, and waits for its end; returns the verdict and the next round's number."""
        with tf.control_dependencies(tf.nest.flatten(gradients, expand_composites=True)), tf.device(_COORDINATOR):
            is_in = _called(ENTER, [who, number, rows], tf.bool)

        def bring() -> Any:
            with tf.control_dependencies(self._accumulators.add(gradients, number, rows)):
                return tf.constant(value=True)

        brought = tf.cond(is_in, bring, lambda: tf.constant(value=False))

        def pending(tries: Any, outcome: Any) -> Any:
            del tries
            return tf.equal(outcome[0], RoundVerdict.PENDING.value)

        def ask(tries: Any, outcome: Any) -> tuple[Any, Any]:
            del outcome
            tries = _called(PAUSE, [tries], tf.int64)
            with tf.control_dependencies([tries]), tf.device(_COORDINATOR):
                return tries, _called(OUTCOME, [who, number, tf.constant(value=False)], tf.int64, (2,))

        with tf.device(_COORDINATOR):
            outcome = _called(OUTCOME, [who, number, brought], tf.int64, (2,))
        begin = (tf.constant(0, tf.int64), outcome)
        _, outcome = tf.while_loop(pending, ask, begin, parallel_iterations=1)
        return outcome[0], outcome[1]

    def _gradients(self, rows: Tensors, states: Sequence[Any]) -> tuple[Any, ...]:
        after = list(states)
        with self.metrics.in_use(after):
            loss, gradients = self._model.gradients(rows, tf.constant(1.0), measures=bool(after))
        return loss, after, *(gradient for gradient in gradients if gradient is not None)

    def _make_update(self, of: Any) -> Any:
        means = iter(self._accumulators.take(Round(*tf.unstack(of))))
        gradients = [None if kind is None else next(means) for kind in self._kinds]
        self._strategy.run(self._apply, args=(gradients,))
        return tf.constant(value=True)

    def _apply(self, gradients: list[Any]) -> None:
        self._model.apply(gradients)

    def _throw_away(self) -> Any:
        with tf.control_dependencies(self._accumulators.throw_away()):
            return tf.constant(value=True)

    def _warm_up(self) -> None:
        """Calls the model once, so that Keras makes its lazy loss and metric variables before the trace."""
        rows = example(self._model.spec)
        _, self._kinds = self._model.gradients(rows, tf.constant(1.0))
        self._model.check_losses()
        self.metrics.make(rows)


def _called(token: str, inputs: list[Any], kind: Any, shape: tuple[int, ...] = ()) -> Any:
    (answer,) = tf.raw_ops.PyFunc(input=inputs, token=token, Tout=[kind])
    answer.set_shape(shape)
    return answer
