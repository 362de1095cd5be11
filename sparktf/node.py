"""The interface of a low-level `train(node)` function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol


class Rows(Protocol):
    """Rows for a scheduled function's updates, on the worker that runs it; only valid within it.

    Attributes:
        batches: The number of batches, a scalar int64 tensor: `train.steps_per_call` at most, and 0 if the worker has
            none at the moment, or none are left.
        count: The number of rows in all batches, a scalar int64 tensor.
    """

    batches: Any
    count: Any

    def batch(self, number: Any) -> tuple[Any, ...]:
        """Returns a batch, counted from 0: (x, y) or (x, y, sample_weight), for one update.

        Batches have `train.batch_size` rows; the last one may have fewer.
        """


class Coordinator(Protocol):
    """Runs functions on workers, under parameter servers.

    Each scheduled function gets `Rows`, which count as trained when it has ended. If a worker is lost, or a function
    was interrupted, it runs again with the same rows or others: it must not count anything that may not be counted
    twice.
    """

    def schedule(self, function: Callable[..., Any], args: Sequence[Any] = ()) -> bool:
        """Schedules `function(rows, *args)` as a graph on any worker; waits while enough is under way.

        Args:
            function: The same object each time: each other one is traced anew.
            args: Tensors, or values that become tensors: each `tf.TensorSpec` of them is traced once.

        Returns:
            False if no rows of the epoch are left, or `train.max_steps` is reached: then it does not run, and nothing
            is under way any more.

        Raises:
            Exception: the error of a function that was scheduled before.
        """

    def results(self) -> Iterator[Any]:
        """Yields the results of functions that had rows, as NumPy values, since the last call."""

    def join(self) -> None:
        """Waits until nothing is under way, about 10 s for a worker that does not answer.

        Raises:
            Exception: as `schedule`.
        """


class Node(Protocol):
    """One trainer process of the gang, for a hand-written loop.

    A loop goes over `epochs()`; in each epoch it takes this node's share of the rows from `dataset("train")`, reports
    the rows that it trained with `report`, and offers checkpoints with `checkpoint`. All nodes must save at the same
    steps.

    A function that returns is done. It may leave the loop over `epochs()` early, on all nodes at the same step: the
    rows until then are accounted for and saved. A function that returns without having trained, or that skips batches
    of an epoch and goes on, fails the run as an error of the model.

    Under `cluster.strategy: parameter_server` the function runs on the coordinator alone. In each epoch it schedules
    functions with `coordinator`, which brings their rows; rows and updates are counted by the workers' reports.

    Attributes:
        role: "worker", or "chief" of a coordinator.
        index: Position among the `workers`.
        workers: Number of workers of this attempt, which may be fewer than configured (`cluster.min_workers`).
        params: `params` of the configuration.
        assets: The value that `prepare` returned.
        strategy: The `tf.distribute.Strategy`; variables are made in its scope.
        batch_size: Rows that this node brings to a full update, its share of `train.batch_size`; of a coordinator, rows
            of one worker's update.
        step: The step that was restored, 0 at first. A coordinator's counts the batches that are trained.
    """

    role: str
    index: int
    workers: int
    params: Mapping[str, Any]
    assets: Mapping[str, Any]
    strategy: Any
    batch_size: int
    step: int

    @property
    def coordinator(self) -> Coordinator:
        """Schedules functions on workers; only under parameter servers. Raises `ModelContractError` elsewhere."""

    def restore(self, **trackables: Any) -> bool:
        """Names the objects of a checkpoint (model, optimizer, ...), all built, and restores the last commit.

        Call it once, before the first epoch. Returns whether there was one.
        """

    def epochs(self) -> Iterator[int]:
        """Yields the remaining epochs. At the end of each, rows are accounted for and a checkpoint is saved."""

    def dataset(self, stream: str = "train") -> Any:
        """Returns this node's share of the current epoch as a `tf.data.Dataset` of (x, y) or (x, y, sample_weight).

        Batches have `batch_size` rows, the last one fewer. Shares differ, so a loop must not rely on equal lengths:
        under a multi-worker strategy iterate over
        `node.strategy.distribute_datasets_from_function(lambda _: node.dataset())`.

        A coordinator has all rows of "validation", and none of "train".
        """

    def report(self, *, step: int, rows: int, loss: float | None = None) -> None:
        """Reports that updates up to `step` are made, with `rows` more rows of this node's share.

        For a coordinator only the loss is used: rows and updates are counted anyway.
        """

    def metrics(self, values: Mapping[str, float], *, rows: int, stream: str = "validation") -> None:
        """Reports metrics of the current epoch over all workers; the chief's are shown and stored."""

    def checkpoint(self) -> bool:
        """Saves a checkpoint if one is due by `checkpoint.every_steps`. Returns whether it did.

        A coordinator waits until nothing is under way; its checkpoints are due at the first call after that many
        updates, and also by `checkpoint.every_seconds`.
        """

    def export(self, model: Any) -> None:
        """Exports a Keras model as the result of the run; the chief's is published."""
