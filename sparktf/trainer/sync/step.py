"""Exact synchronous updates over uneven shards, many in one call into TensorFlow.

Theory. Data parallelism is usually written as the mean over replicas of each replica's mean gradient. That equals the
gradient of the whole batch only if all replicas have equally many rows. Here they may not, so the weights are given:
with n_r rows on replica r and N = sum n_r,

    gradient(mean loss of all rows) = sum over r of  gradient(mean loss of r's rows) * n_r / N

which one all-reduce (SUM) makes whole. The update is what one process would make of the N rows, whatever their
distribution: the last batch of an epoch, uneven shards, any number of workers. For this to hold:

1. N is known to all before the call: the loop agrees on the counts of all updates in one sum over the gang (`loop`).
2. A replica without rows contributes zeros and skips forward and backward, but takes part in the sum: a collective
   hangs unless all take part, in the same order and with the same shapes.
3. Sparse gradients keep their form, and are summed by gathering their rows. Made dense, a table's rows that no id
   asked for would count as used by lazy optimizers and norms.
4. No layer may mix the rows of a batch (synchronised BatchNorm), and losses must be means or sums over rows: `contract`
   and `UserModel.check_losses` refuse others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from sparktf.errors import ModelContractError
from sparktf.trainer.model.contract import naming_tensors
from sparktf.trainer.model.lookups import noting
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.tensors import Tensors, example, rows_of, signature
from sparktf.trainer.model.tracing import traced
from sparktf.trainer.sync.gradients import GradientSum


class _Place(NamedTuple):
    """The form of the gradient of a variable, or of a whole ShardedEmbedding."""

    shape: tuple[int, ...]  # Shape of the variable or table
    length: int  # The most rows of a sparse gradient, if it is padded
    filler: int  # Index of padding rows: none of a table's, whose rows count as used once they get a gradient


class UpdateFunction:
    """Runs consecutive optimizer updates in one call."""

    def __init__(self, strategy: Any, model: UserModel, *, total: GradientSum | None, max_rows: int) -> None:
        """Lets the model create its lazy variables; the updates are traced at the first call.

        Args:
            total: Sums gradients over all replicas of all nodes; None if there is one replica.
            max_rows: The most rows that any replica of any node brings to an update.

        Raises:
            ModelContractError: the model cannot be trained exactly by several replicas.
        """
        self._strategy = strategy
        self._model = model
        self._total = total
        self._is_padded = total is not None and total.is_padded
        self._max_rows = max_rows
        # Keras divides each replica's losses by their number in the strategy, which may not know of other nodes.
        self._divisor = int(strategy.num_replicas_in_sync)
        self._ragged = any(feature.ragged for feature in model.spec.features)
        self._measures = model.has_metrics
        self._uncounted: set[int] = set()
        self._ids: dict[int, list[int | None]] = {}
        self._check_ragged()
        model.use_own_reduction()
        tables = [layer for layer, _ in model.tables.first_places()]
        with naming_tensors(model.spec), noting(tables, self._note_ids):
            traced(lambda: strategy.run(self._warm_up))
        self._check_counted()
        counts = tf.TensorSpec((None, None), tf.int32)
        totals = tf.TensorSpec((None,), tf.int32)
        asked = [signature(model.spec), counts, totals]
        # AutoGraph would take half a second to rewrite this loop, which is in TensorFlow's own terms.
        self._updates = tf.function(self._run_updates, input_signature=asked, autograph=False)

    def __call__(self, rows: Tensors, counts: Any, totals: Any) -> float:
        """Makes one update for each entry of `totals`.

        Args:
            rows: This node's rows of all updates, in the order of updates, then of replicas.
            counts: int32 [updates, local replicas], rows of each replica in each update.
            totals: int32 [updates], rows of each update over all nodes, none zero.

        Returns:
            The mean loss over all rows of all nodes.

        Raises:
            RegroupedError: another node is lost, and the gang goes on without it; `losses` has what is made.
            PeerLostError: another node is lost.
        """
        if self._total is not None:
            self._total.losses.clear()
        try:
            return float(self._updates(rows, counts, totals))
        except tf.errors.OpError as error:
            if self._total is not None and self._total.error is not None:
                raise self._total.error from error
            raise

    def trace(self) -> None:
        """Prepares for the first call, which takes no longer than others then: a call that makes no update."""
        none = tf.zeros((0, int(self._strategy.num_replicas_in_sync)), tf.int32)
        self._updates(example(self._model.spec), none, tf.zeros((0,), tf.int32))

    @property
    def losses(self) -> list[float]:
        """The loss of each update of the present call, or the last one, as far as they are made; see `GradientSum`."""
        return [] if self._total is None else self._total.losses

    def _run_updates(self, rows: Tensors, counts: Any, totals: Any) -> Any:
        ends = tf.reshape(tf.cumsum(tf.reshape(counts, [-1])), tf.shape(counts))
        updates = tf.shape(totals)[0]

        def update(k: Any, weighted: Any) -> tuple[Any, Any]:
            per_replica = self._strategy.run(self._replica, args=(rows, counts[k], ends[k], totals[k]))
            loss = self._strategy.experimental_local_results(per_replica)[0]
            return k + 1, weighted + loss * tf.cast(totals[k], tf.float32)

        start = (tf.constant(0), tf.constant(0.0))
        _, weighted = tf.while_loop(lambda k, _: k < updates, update, start)
        return weighted / tf.cast(tf.reduce_sum(totals), tf.float32)

    # AutoGraph is not needed here; Keras converts a layer's own `call` in the flavour that does so.
    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def _replica(self, rows: Tensors, counts: Any, ends: Any, total: Any) -> Any:
        context = tf.distribute.get_replica_context()
        local = context.replica_id_in_sync_group % tf.shape(counts)[0]
        n, end = counts[local], ends[local]
        weight = tf.cast(n, tf.float32) / tf.cast(total, tf.float32)
        template: list[Any] = []

        def contribute() -> Any:
            loss, gradients = self._weighted(rows_of(rows, end - n, end), weight)
            template[:] = gradients
            return [loss, *(_as_tensors(g) for g in gradients if g is not None)]

        def abstain() -> Any:
            return [tf.constant(0.0), *(_zeros_like(g, place.shape) for g, place in self._used(template))]

        loss, *sums = tf.cond(n > 0, contribute, abstain)
        sums = [
            self._as_slices(s, place) if isinstance(g, tf.IndexedSlices) else s
            for s, (g, place) in zip(sums, self._used(template), strict=True)
        ]
        if self._total is not None:
            loss, *sums = self._total([loss, *sums])
        summed = iter(sums)
        # What does not depend on the sums, as a count of updates, would run ahead of them, and stay so if they fail.
        with tf.control_dependencies(tf.nest.flatten(sums, expand_composites=True)):
            self._model.apply(self._model.tables.parted([None if g is None else next(summed) for g in template]))
        return loss

    def _weighted(self, rows: Tensors, weight: Any) -> tuple[Any, list[Any]]:
        """Returns this replica's share of the loss and of every gradient (None for an unused variable)."""
        loss, gradients = self._model.gradients(rows, weight * self._divisor, measures=self._measures)
        if self._total is not None:
            gradients = self._model.tables.joined(gradients)
        if self._ragged and self._is_padded:
            # The number of slices of a ragged row is unknown, so they cannot be padded to one length: `_as_slices`.
            gradients = [
                tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) and not of_table else g
                for g, of_table in zip(gradients, self._model.tables.shard_places(), strict=True)
            ]
        return loss, [tf.convert_to_tensor(g) if i in self._uncounted else g for i, g in enumerate(gradients)]

    def _check_ragged(self) -> None:
        if self._ragged and self._is_padded and self._model.tables:
            name = next(feature.name for feature in self._model.spec.features if feature.ragged)
            raise ModelContractError(
                f"model: a ShardedEmbedding beside the ragged input '{name}' can be trained by several workers over "
                f"sparktf's collectives, or by one replica: set data.inputs.{name}.shape, pad and mask, or "
                "cluster.collectives to sparktf, or cluster.workers and cluster.devices to 1"
            )

    def _check_counted(self) -> None:
        tables = [place for place, is_shard in enumerate(self._model.tables.shard_places()) if is_shard]
        if self._uncounted.intersection(tables):
            raise ModelContractError(
                "model: a ShardedEmbedding is called with ids whose number for a row of data is unknown, and so can be "
                "trained by several workers over sparktf's collectives, or by one replica: give the ids a fixed shape, "
                "or set cluster.collectives to sparktf, or cluster.workers and cluster.devices to 1"
            )

    def _warm_up(self) -> None:
        """Calls the model in a replica, so that Keras makes its lazy loss and metric variables before the trace.

        Also checks the losses.
        """
        tables = self._model.tables
        lengths = [0] * len(tables.joined_shapes())
        if self._is_padded:
            lengths = self._most_rows()
        elif self._total is not None:  # a gradient of the model's own may ask for other replicas, which is refused here
            self._weighted(example(self._model.spec), tf.constant(1.0))
        else:  # to trace gradients would take a tenth of a start's processor time
            self._model.loss(example(self._model.spec), measures=self._measures)
        self._model.check_losses()
        self._places = [
            _Place(shape, length, -1 if tables.is_joined(place) else 0)
            for place, (shape, length) in enumerate(zip(tables.joined_shapes(), lengths, strict=True))
        ]

    def _most_rows(self) -> list[int]:
        """Returns the most rows of each sparse gradient, 0 for a dense one: by those of one and of two rows."""
        counts = [self._sparse_rows(example(self._model.spec, n)) for n in (1, 2)]
        self._uncounted = {place for place, found in enumerate(zip(*counts, strict=True)) if None in found}
        known = [[count or 0 for count in found] for found in counts]
        return [one + (two - one) * (self._max_rows - 1) for one, two in zip(*known, strict=True)]

    def _sparse_rows(self, rows: Tensors) -> list[int | None]:
        """Returns the rows of each sparse gradient (for a table, the ids looked up), 0 for a dense one.

        None if the number is known only once it is computed.
        """
        self._ids.clear()
        _, gradients = self._weighted(rows, tf.constant(1.0))
        found = [g.indices.shape[0] if isinstance(g, tf.IndexedSlices) else 0 for g in gradients]
        for layer, place in self._model.tables.first_places():
            if isinstance(gradients[place], tf.IndexedSlices):
                found[place] = _sum(self._ids.get(id(layer), []))
        return found

    def _note_ids(self, layer: Any, arguments: Any, values: Any) -> None:
        del values
        ids = arguments[0]
        flat = ids.flat_values if isinstance(ids, tf.RaggedTensor) else ids
        self._ids.setdefault(id(layer), []).append(flat.shape.num_elements())

    def _as_slices(self, parts: Any, place: _Place) -> Any:
        """Makes IndexedSlices; if the sum needs it, padded with zeros to one length for all replicas and updates."""
        values, indices = parts
        shape, length, filler = place
        if self._is_padded:
            missing = length - tf.shape(indices)[0]
            values = tf.pad(values, [[0, missing], *([[0, 0]] * (len(shape) - 1))])
            indices = tf.pad(indices, [[0, missing]], constant_values=filler)
            values, indices = tf.ensure_shape(values, (length, *shape[1:])), tf.ensure_shape(indices, (length,))
        return tf.IndexedSlices(values, indices, dense_shape=tf.constant(shape, tf.int64))

    def _used(self, gradients: list[Any]) -> list[tuple[Any, _Place]]:
        """Returns the gradients of variables that the loss uses, each with its form."""
        return [(g, place) for g, place in zip(gradients, self._places, strict=True) if g is not None]


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _as_tensors(gradient: Any) -> Any:
    """Splits a sparse gradient into values and indices: IndexedSlices cannot leave a `tf.cond` beside dense zeros.

    It stays sparse: a large table's gradient is never made dense, and norms are those of a single process.
    """
    if isinstance(gradient, tf.IndexedSlices):
        return (tf.convert_to_tensor(gradient.values), tf.cast(gradient.indices, tf.int64))
    return gradient


def _zeros_like(gradient: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return (tf.zeros((0, *shape[1:]), gradient.dtype), tf.zeros((0,), tf.int64))
    return tf.zeros(shape, gradient.dtype)
