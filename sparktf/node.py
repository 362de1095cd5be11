"""What a low-level `train(node)` function gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol


class Node(Protocol):
    """One trainer process of the gang, for a hand-written loop.

    A loop goes over `epochs()`; in each epoch it takes this node's share of the rows from `dataset("train")`, reports
    what it trained with `report`, and offers checkpoints with `checkpoint`. All nodes must save at the same steps.

    A function that returns is done. It may leave the loop over `epochs()` early, on all nodes at the same step: what
    was trained until then is accounted for and saved. One that returns without having trained, or that leaves batches
    of an epoch out and goes on, ends the run as the model's failure.

    Attributes:
        role: "worker" (or "chief" for a coordinator).
        index: Position among the `workers`.
        workers: Number of workers of this attempt, which may be fewer than configured (`cluster.min_workers`).
        params: `params` of the configuration.
        assets: What `prepare` returned.
        strategy: The `tf.distribute.Strategy`; variables are made in its scope.
        batch_size: Rows that this node brings to a full update, its share of `train.batch_size`.
        step: The step that was restored, 0 at first.
    """

    role: str
    index: int
    workers: int
    params: Mapping[str, Any]
    assets: Mapping[str, Any]
    strategy: Any
    batch_size: int
    step: int

    def restore(self, **trackables: Any) -> bool:
        """Names what a checkpoint holds (model, optimizer, ...), all of it built, and restores the last one committed.

        Call it once, before the first epoch. Returns whether there was one.
        """

    def epochs(self) -> Iterator[int]:
        """Yields the epochs that are left. At the end of each, rows are accounted for and a checkpoint is saved."""

    def dataset(self, stream: str = "train") -> Any:
        """Returns this node's share of the current epoch as a `tf.data.Dataset` of (x, y) or (x, y, sample_weight).

        Batches have `batch_size` rows, the last one fewer. Shares differ, so a loop must not count on equal lengths:
        under a multi-worker strategy iterate over
        `node.strategy.distribute_datasets_from_function(lambda _: node.dataset())`.
        """

    def report(self, *, step: int, rows: int, loss: float | None = None) -> None:
        """Reports that updates up to `step` are made, with `rows` more rows of this node's share."""

    def metrics(self, values: Mapping[str, float], *, rows: int, stream: str = "validation") -> None:
        """Reports metrics of the current epoch over all workers; the chief's are shown and stored."""

    def checkpoint(self) -> bool:
        """Saves a checkpoint if one is due by `checkpoint.every_steps`. Returns whether it was."""

    def export(self, model: Any) -> None:
        """Exports a Keras model as the result of the run; the chief's is published."""
