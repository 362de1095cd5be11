"""A node's feeds as `tf.data.Dataset`s, for hand-written loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from sparktf.errors import SparkTFError
from sparktf.feature import FeedSpec
from sparktf.feed.arrays.columns import row_count
from sparktf.trainer.model.evaluate import RowSource
from sparktf.trainer.model.tensors import Layout, decoded, decoded_signature, to_tensors


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
