"""What a low-level `train(node)` function gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol


class Rows(Protocol):
    """Rows that a scheduled function makes updates of, on the worker that runs it; of use inside of it alone.

    Attributes:
        batches: How many batches these are, a scalar int64 tensor: `train.steps_per_call` at most, and 0 where the
            worker has none for the moment, or there are none any more.
        count: Rows of all of them, a scalar int64 tensor.
    """

    batches: Any
    count: Any

    def batch(self, number: Any) -> tuple[Any, ...]:
        """Returns a batch, counted from 0: (x, y) or (x, y, sample_weight). It is to make one update.

        Batches have `train.batch_size` rows; the last one may have fewer.
        """


class Coordinator(Protocol):
    """Has workers run functions, under parameter servers.

    Each function that is scheduled gets `Rows`, and whatever it gets counts as trained when it has ended; where a
    worker is lost, or a function broke off, it is run again with the same rows or others. Never count in it what is
    not to be counted twice.
    """

    def schedule(self, function: Callable[..., Any], args: Sequence[Any] = ()) -> bool:
        """Has any worker run `function(rows, *args)` in a graph; waits while enough is under way.

        Args:
            function: The same object each time: each other one is traced anew.
            args: Tensors, or what makes one: each `tf.TensorSpec` of them is traced once.

        Returns:
            False where nothing of the epoch is left to train, or `train.max_steps` is reached: it is not run then, and
            nothing is under way any more.

        Raises:
            Exception: what a function that was scheduled before has failed with.
        """

    def results(self) -> Iterator[Any]:
        """Yields what functions that had rows have returned, as NumPy values, since this was called before."""

    def join(self) -> None:
        """Waits until nothing is under way any more, for a worker that does not answer about 10 s.

        Raises:
            Exception: as `schedule`.
        """


class Node(Protocol):
    """One trainer process of the gang, for a hand-written loop.

    A loop goes over `epochs()`; in each epoch it takes this node's share of the rows from `dataset("train")`, reports
    what it trained with `report`, and offers checkpoints with `checkpoint`. All nodes must save at the same steps.

    A function that returns is done. It may leave the loop over `epochs()` early, on all nodes at the same step: what
    was trained until then is accounted for and saved. One that returns without having trained, or that leaves batches
    of an epoch out and goes on, ends the run as the model's failure.

    Under `cluster.strategy: parameter_server` the function runs on the coordinator alone. In each epoch it schedules
    functions with `coordinator`, which brings their rows; rows and updates are counted by what workers tell.

    Attributes:
        role: "worker", or "chief" of a coordinator.
        index: Position among the `workers`.
        workers: Number of workers of this attempt, which may be fewer than configured (`cluster.min_workers`).
        params: `params` of the configuration.
        assets: What `prepare` returned.
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
        """Has workers run functions; only under parameter servers.

        Raises:
            ModelContractError: there are none.
        """

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

        A coordinator has all rows of "validation", and none of "train".
        """

    def report(self, *, step: int, rows: int, loss: float | None = None) -> None:
        """Reports that updates up to `step` are made, with `rows` more rows of this node's share.

        Of a coordinator only the loss is shown: rows and updates are counted anyway.
        """

    def metrics(self, values: Mapping[str, float], *, rows: int, stream: str = "validation") -> None:
        """Reports metrics of the current epoch over all workers; the chief's are shown and stored."""

    def checkpoint(self) -> bool:
        """Saves a checkpoint if one is due by `checkpoint.every_steps`. Returns whether it was.

        A coordinator waits for what is under way; one is due at the first call after so many updates, and also by
        `checkpoint.every_seconds`.
        """

    def export(self, model: Any) -> None:
        """Exports a Keras model as the result of the run; the chief's is published."""
