"""What the low-level contract, `train(node)`, is on every node that it runs on: `sparktf.Node`'s common part."""

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
        error: What a feed has failed with; TensorFlow makes an error of its own of it.
    """

    def __init__(self, spec: FeedSpec, batch_size: int) -> None:
        self.error: SparkTFError | None = None
        self._spec = spec
        self._layout = Layout(spec)
        self._batch_size = batch_size

    def of(self, open_feed: Callable[[], RowSource]) -> Any:
        """Returns the rows of a feed, which is opened when they are first asked for."""

        def generate() -> Iterator[Any]:
            with self._keeping_the_error():
                feed = open_feed()
                while (columns := feed.next_rows(self._batch_size)) and row_count(columns):
                    yield self._layout.batch(decoded(to_tensors(columns)))

        # There is nothing to tune, and TensorFlow's tuning thread lets a loop over the dataset end only when it wakes
        # up next: 5.12 s, 10.24 s, 20.48 s, ... after the loop began.
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
    """A node as a `train(node)` sees it, and how one is run."""

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
        """Where the user's loop is."""

    @property
    def step(self) -> int:
        """See `sparktf.Node`."""
        return self.position.step

    def run(self, train: Callable[[Any], None]) -> None:
        """Runs a `train(node)` to its end, closes the books and ends the process.

        A loop that leaves `epochs()` early is done, as with early stopping: the rows that it has trained are accounted
        for, and saved.

        Raises:
            ModelContractError: the configuration asks for what its loop does not do.
            ModelError: it returned without having trained, where there was something to train.
            SparkTFError: the feed failed; TensorFlow wraps that into an error of its own.
        """
        if self._member.place.spec.config.gate is not None:
            raise ModelContractError(
                "gate is not for a train(node), whose metrics nobody else can compute: leave it out, or write a "
                "build(params, assets)"
            )
        if keys := self._member.place.spec.config.train.only_for_built_models():
            raise ModelContractError(
                f"{keys[0]} is not for a train(node), which leaves the loop over node.epochs() when it chooses, and "
                "begins with, and exports, what it chooses itself"
            )
        has_epochs = self._extent.epoch_after(self.position) is not None
        try:
            train(self)
        except tf.errors.OpError as error:
            if self._datasets.error is not None:
                raise self._datasets.error from error
            raise
        if not self._restored:
            raise ModelError("train(node) returned without having called node.restore(model=..., ...)")
        if not self._begun and has_epochs:
            raise ModelError("train(node) returned without having gone over node.epochs(), of which some are left")
        early = self._is_inside
        if early:
            self._leave_epoch()
        self._member.finish(self.position, early=early)

    @property
    @abstractmethod
    def _is_inside(self) -> bool:
        """Whether the loop has not come to the end of the epoch that it is in."""

    @abstractmethod
    def _leave_epoch(self) -> None:
        """Accounts for the epoch that the loop has left, and saves it as the last checkpoint.

        Raises:
            ModelError: nothing of it was trained.
        """

    def _begin(self) -> None:
        """Notes that the loop goes over its epochs."""
        if not self._restored:
            raise ModelError("train(node) must call node.restore(model=..., ...) before node.epochs()")
        self._begun = True

    def _dataset(self, stream: Stream) -> Any:
        """Returns this node's rows of a stream, read anew."""
        return self._datasets.of(lambda: self._member.input.open(stream, self.position.epoch))

    def metrics(self, values: Mapping[str, float], *, rows: int, stream: str = "validation") -> None:
        """See `sparktf.Node`."""
        self._member.output.metrics(Stream(stream), self.position, rows, dict(values))
