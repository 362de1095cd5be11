"""Evaluates several models in one pass over the same rows, with the states for a paired bootstrap of differences.

Rows are read once, and all models predict each batch. Predictions and targets of many rows are put into buckets at
random, and Keras's own metrics evaluate one bucket after the other. Their states are additive, and are kept for each
model, bucket and slice. The result for all rows is Keras's result of the sum of the states; that of a resample, of the
sum over the drawn buckets (`sparktf.results.gating`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sparktf.feed.arrays.columns import row_count
from sparktf.results.gating import BUCKETS, Floats
from sparktf.sequence import Draw, generator
from sparktf.trainer.model.champion import Champion
from sparktf.trainer.model.evaluate import Evaluator, RowSource
from sparktf.trainer.model.exchange import Exchange
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.slices import SliceCodes, SliceColumn
from sparktf.trainer.model.tensors import Tensors, example, rows_of, signature, to_tensors
from sparktf.trainer.model.tracing import traced

_KEPT_NBYTES = 64 << 20
"""Bytes of targets and predictions to keep before metrics evaluate them."""

_BATCHES = 8
"""Batches predicted in one call into TensorFlow, which takes as long as a small model takes for a batch."""

_MOST_SLICES = 100
"""The most values of each column, the commonest among the first rows, and the most slices in all."""

_ALL = ""


class Paired(NamedTuple):
    """States of all models' metrics over all nodes, [models, buckets, values] each, with the challenger first."""

    states: dict[str, Floats]  # "" for all rows, or a slice -> its states
    rows: dict[str, int]  # The same keys -> number of rows


class PairedEvaluator:
    """Evaluates a model beside others, if there are any."""

    def __init__(
        self,
        model: UserModel,
        others: Sequence[Champion],
        evaluator: Evaluator,
        exchange: Exchange,
        slices: Sequence[SliceColumn],
        seed: int,
    ) -> None:
        """Traces the models; `evaluator` is the first one's, warmed up, so that the metrics have their variables."""
        self._model = model
        self._others = others
        self._evaluator = evaluator
        self._exchange = exchange
        self._columns = [SliceCodes(column, _MOST_SLICES) for column in slices]
        self._draw = generator(Draw.BUCKETS, seed, exchange.rank)
        self._structure = traced(lambda: self._scored(example(model.spec)))
        leaves = [leaf for leaf in tf.nest.flatten(self._structure) if leaf is not None]
        kept = [tf.TensorSpec((None, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
        sizes = [tf.TensorSpec((), tf.int32)] * 2
        self._predict = tf.function(
            partial(self._batches, kept), input_signature=[signature(model.spec), *sizes], autograph=False
        )
        self._measure = tf.function(
            self._bucket_states, input_signature=[kept, tf.TensorSpec((None,), tf.int32)], autograph=False
        )
        self._kept: list[list[npt.NDArray[Any]]] = []
        self._kept_nbytes = 0
        self._states: dict[str, Floats] = {}
        self._rows: Counter[str] = Counter()

    @property
    def models(self) -> int:
        """The number of models."""
        return 1 + len(self._others)

    def evaluate(self, feed: RowSource, batch_size: int) -> Paired:
        """Returns the states over all nodes; called on each, even without rows."""
        while n := row_count(columns := feed.next_rows(_BATCHES * batch_size)):
            codes = [column.of(columns) for column in self._columns]
            self._keep([leaf.numpy() for leaf in self._predict(to_tensors(columns), n, batch_size)], codes)
            if self._kept_nbytes >= _KEPT_NBYTES:
                self._count()
        self._count()
        return self._over_all()

    # ---- batches ----

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def _batches(self, kept: Sequence[tf.TensorSpec], tensors: Tensors, n: Any, size: Any) -> Any:
        """Returns the flat results of `_scored` for all rows, computed a batch at a time."""
        count = -(-n // size)
        arrays = [tf.TensorArray(spec.dtype, count, infer_shape=False, element_shape=spec.shape) for spec in kept]

        def one(i: Any, arrays: Any) -> Any:
            scored = self._scored(rows_of(tensors, i * size, tf.minimum(n, (i + 1) * size)))
            leaves = [leaf for leaf in tf.nest.flatten(scored) if leaf is not None]
            return i + 1, [array.write(i, leaf) for array, leaf in zip(arrays, leaves, strict=True)]

        _, arrays = tf.while_loop(lambda i, _: i < count, one, (0, arrays), parallel_iterations=1)
        return [array.concat() for array in arrays]

    def _scored(self, rows: Tensors) -> Any:
        """Returns targets, weights and all models' predictions."""
        layout = self._model.layout
        predicted = [self._model.model(layout.x(rows), training=False), *(other(rows) for other in self._others)]
        return layout.y(rows), layout.sample_weight(rows), predicted

    def _keep(self, arrays: list[npt.NDArray[Any]], codes: list[npt.NDArray[Any]]) -> None:
        self._kept.append([*arrays, *codes])
        self._kept_nbytes += sum(array.nbytes for array in self._kept[-1])

    # ---- many rows ----

    def _count(self) -> None:
        """Adds the kept rows to the states."""
        if not self._kept:
            return
        parts = [np.concatenate(parts) for parts in zip(*self._kept, strict=True)]
        self._kept, self._kept_nbytes = [], 0
        arrays, codes = parts[: len(parts) - len(self._columns)], parts[len(parts) - len(self._columns) :]
        order = self._draw.permutation(len(arrays[0]))
        self._add(_ALL, arrays, order)
        for column, of_rows in zip(self._columns, codes, strict=True):
            # A stable sort keeps the drawn order within a value.
            by_value = order[np.argsort(of_rows[order], kind="stable")]
            values, firsts = np.unique(of_rows[by_value], return_index=True)
            groups = zip(values.tolist(), np.split(by_value, firsts[1:]), strict=True)
            commonest = sorted(((v, rows) for v, rows in groups if v >= 0), key=lambda group: -len(group[1]))
            for value, rows in commonest:
                if column.takes(value):
                    self._add(column.labels[value], arrays, rows)

    def _add(self, label: str, arrays: Sequence[npt.NDArray[Any]], rows: npt.NDArray[np.int64]) -> None:
        """Adds rows, in random order, to the states of a slice, divided over its buckets."""
        used = min(BUCKETS, len(rows))
        buckets = np.sort(self._draw.choice(BUCKETS, used, replace=False))
        ends = np.linspace(0, len(rows), used + 1).astype(np.int32)
        states = self._measure([np.take(array, rows, axis=0) for array in arrays], ends).numpy()
        if label not in self._states:
            self._states[label] = np.zeros((self.models, BUCKETS, states.shape[-1]))
        self._states[label][:, buckets] += states
        self._rows[label] += len(rows)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def _bucket_states(self, arrays: Sequence[Any], ends: Any) -> Any:
        """Returns the states of the metrics for each bucket's rows: [models, buckets, values]."""
        count = tf.shape(ends)[0] - 1

        def one(i: Any, found: Any, which: int) -> Any:
            y, weight, predicted = self._whole([array[ends[i] : ends[i + 1]] for array in arrays])
            return i + 1, found.write(i, self._state(y, predicted[which], weight, ends[i + 1] - ends[i]))

        states = []
        for which in range(self.models):
            _, found = tf.while_loop(
                lambda i, _: i < count,
                lambda i, found, which=which: one(i, found, which),
                (0, tf.TensorArray(tf.float64, count, element_shape=(None,))),
                parallel_iterations=1,
            )
            states.append(found.stack())
        return tf.stack(states)

    def _whole(self, arrays: Sequence[Any]) -> Any:
        """Returns targets, weights and predictions in their original structures."""
        given = iter(arrays)
        leaves = [None if leaf is None else next(given) for leaf in tf.nest.flatten(self._structure)]
        return tf.nest.pack_sequence_as(self._structure, leaves)

    def _state(self, y: Any, y_pred: Any, weight: Any, n: Any) -> Any:
        """Returns the additive state of some rows: each loss, the states of the metrics, and last the rows."""
        variables = self._evaluator.variables()
        for variable in variables:
            variable.assign(tf.zeros(variable.shape, variable.dtype))
        losses = [self._model.loss_of(y, y_pred, weight)]
        for metric in self._model.output_losses():
            losses.append(metric.result())
            metric.reset_state()
        self._model.model.compute_metrics(None, y, y_pred, weight)
        rows = tf.cast(n, tf.float64)
        sums = [tf.reshape(tf.cast(loss, tf.float64), [1]) * rows for loss in losses]
        state = [tf.reshape(tf.cast(tf.convert_to_tensor(v), tf.float64), [-1]) for v in variables]
        return tf.concat([*sums, *state, [rows]], axis=0)

    # ---- all nodes ----

    def _over_all(self) -> Paired:
        """Sums the states of all rows and of the commonest slices over the nodes."""
        rows = self._all_rows()
        total = rows.pop(_ALL, 0)
        labels = [_ALL, *self._whole_slices([label for label, _ in rows.most_common()])[:_MOST_SLICES]]
        none = np.zeros((self.models, BUCKETS, self._width()))
        summed = self._exchange.sum([self._states.get(label, none) for label in labels])
        states = {label: np.array(state) for label, state in zip(labels, summed, strict=True)}
        return Paired(states, {label: rows[label] if label else total for label in labels})

    def _whole_slices(self, labels: Sequence[str]) -> list[str]:
        """Returns the slices from which no node has left out rows."""
        lacking = [any(column.lacks(label) for column in self._columns) for label in labels]
        nodes = self._exchange.sum([np.array([0, *lacking], np.int64)])[0][1:]
        return [label for label, count in zip(labels, nodes.tolist(), strict=True) if not count]

    def _width(self) -> int:
        """Returns the number of values in a state."""
        sizes = [int(np.prod(v.shape)) for v in self._evaluator.variables()]
        return sum(sizes) + 1 + len(self._model.output_losses()) + 1

    def _all_rows(self) -> Counter[str]:
        """Returns the rows of each slice over all nodes, equal and in the same order on each node."""
        found: Counter[str] = Counter()
        for part in self._exchange.gather(np.frombuffer(json.dumps(self._rows).encode(), np.uint8)):
            found.update(json.loads(part.tobytes()))
        return found


class MetricValues:
    """Computes the values of all metrics from states."""

    def __init__(self, model: UserModel, evaluator: Evaluator) -> None:
        """Takes the model, whose metrics' states are overwritten; see `PairedEvaluator`."""
        self._model = model
        self._evaluator = evaluator
        self._names = evaluator.names()
        self._losses = 1 + len(model.output_losses())
        self._results = tf.function(
            self._results_of, input_signature=[tf.TensorSpec((None, None), tf.float64)], autograph=False
        )

    def of(self, states: Floats) -> dict[str, Floats]:
        """Returns the values of states [n, values]: metric -> [n]."""
        losses = states[:, : self._losses] / np.maximum(states[:, -1:], 1.0)
        metrics = self._results(states[:, self._losses : -1]).numpy().T.astype(np.float64)
        named = zip(self._metric_names(), metrics, strict=True)
        by_loss = zip(self._names, losses.T, strict=False)
        return {**dict(named), **dict(by_loss)}

    def _metric_names(self) -> list[str]:
        return list(self._model.model.get_metrics_result())

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def _results_of(self, states: Any) -> Any:
        variables = self._evaluator.variables()
        sizes = [int(np.prod(v.shape)) for v in variables]

        def one(state: Any) -> Any:
            for variable, part in zip(variables, tf.split(state, sizes), strict=True):
                variable.assign(tf.cast(tf.reshape(part, variable.shape), variable.dtype))
            results = self._model.model.get_metrics_result().values()
            return tf.stack([tf.cast(value, tf.float64) for value in results])

        return tf.map_fn(one, states, fn_output_signature=tf.float64, parallel_iterations=1)
