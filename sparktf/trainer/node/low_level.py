"""The low-level contract `train(node)`: the part of `sparktf.Node` that all nodes have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from sparktf.errors import ModelContractError, ModelError, SparkTFError
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.columns import row_count
from sparktf.sequence import Stream
from sparktf.trainer.model.evaluate import RowSource
from sparktf.trainer.model.tensors import Layout, decoded, decoded_signature, to_tensors
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Position


class Datasets:
    """Makes datasets of batches, `(x, y)` or `(x, y, sample_weight)`.

    Attributes:
        error: The error of a feed, which TensorFlow replaces by another error.
    """

    def __init__(self, spec: FeedSpec, batch_size: int) -> None:
        self.error: SparkTFError | None = None
        self._spec = spec
        self._layout = Layout(spec)
        self._batch_size = batch_size

    def of(self, open_feed: Callable[[], RowSource]) -> Any:
        """Returns a dataset of a feed's rows; the feed is opened when they are first asked for."""

        def generate() -> Iterator[Any]:
            with self._keeping_the_error():
                feed = open_feed()
                while (columns := feed.next_rows(self._batch_size)) and row_count(columns):
                    yield self._layout.batch(decoded(to_tensors(columns)))

        # A loop over an autotuned dataset ends only at the next wake-up of TensorFlow's tuning thread: 5.12 s, 10.24 s,
        # 20.48 s, ... after it began. There is nothing to tune here.
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = tf.data.Dataset.from_generator(generate, output_signature=self._signature())
        return dataset.prefetch(2).with_options(options)

    @contextmanager
    def _keeping_the_error(self) -> Iterator[None]:
        try:
            yield
        except SparkTFError as error:
            self.error = error
            raise

    def _signature(self) -> Any:
        rows = decoded_signature(self._spec.features)
        parts = (self._layout.x(rows), self._layout.y(rows))
        return (*parts, self._layout.sample_weight(rows)) if self._spec.weights else parts


class LowLevelNode(ABC):
    """A node as `train(node)` sees it; runs that function."""

    def __init__(self, member: Member, batch_size: int) -> None:
        spec = member.place.spec
        self._member = member
        self._extent = member.extent
        self._begun = self._restored = False
        self.role = spec.node.role.value
        self.index = spec.node.index
        self.workers = member.place.workers
        self.params: Mapping[str, Any] = spec.config.params
        self.assets: Mapping[str, Any] = spec.assets
        self.strategy = member.strategy
        self.batch_size = batch_size
        self._datasets = Datasets(spec.feed, batch_size)

    @property
    @abstractmethod
    def position(self) -> Position:
        """The position of the user's loop."""

    @property
    def step(self) -> int:
        return self.position.step

    def run(self, train: Callable[[Any], None]) -> None:
        """Runs `train(node)`, reports its end, and ends the process.

        A loop that leaves `epochs()` early ends the training, as early stopping does: its rows are counted and saved.

        Raises:
            ModelContractError: the configuration has settings that do not apply to such a loop.
            ModelError: it trained nothing although there was something to train.
            SparkTFError: the feed failed.
        """
        if self._member.place.spec.config.gate is not None:
            raise ModelContractError(
                "gate does not apply to train(node), whose metrics only it can compute: leave it out, or write "
                "build(params, assets)"
            )
        if keys := self._member.place.spec.config.train.only_for_built_models():
            raise ModelContractError(
                f"{keys[0]} does not apply to train(node), which itself decides what it begins with, when it ends and "
                "what it exports: leave the setting out"
            )
        has_epochs = self._extent.epoch_after(self.position) is not None
        try:
            train(self)
        except tf.errors.OpError as error:
            if self._datasets.error is not None:
                raise self._datasets.error from error
            raise
        if not self._restored:
            raise ModelError("train(node) returned without calling node.restore(model=..., ...)")
        if not self._begun and has_epochs:
            raise ModelError("train(node) returned without looping over node.epochs(): train in such a loop")
        early = self._is_inside
        if early:
            self._leave_epoch()
        self._member.finish(self.position, early=early)

    @property
    @abstractmethod
    def _is_inside(self) -> bool:
        """Whether the loop is inside an epoch."""

    @abstractmethod
    def _leave_epoch(self) -> None:
        """Reports the epoch that the loop left, and saves the last checkpoint.

        Raises:
            ModelError: nothing of it was trained.
        """

    def _begin(self) -> None:
        if not self._restored:
            raise ModelError("train(node) must call node.restore(model=..., ...) before node.epochs()")
        self._begun = True

    def _dataset(self, stream: Stream) -> Any:
        """Returns a new dataset of this node's rows of a stream."""
        return self._datasets.of(lambda: self._member.input.open(stream, self.position.epoch))

    def metrics(self, values: Mapping[str, float], *, rows: int, stream: str = "validation") -> None:
        self._member.output.metrics(Stream(stream), self.position, rows, dict(values))
