"""TensorFlowOnSpark's marks between the rows of a queue."""

from __future__ import annotations


class Marker:
    """A mark."""


class EndPartition(Marker):
    """The end of a partition."""
