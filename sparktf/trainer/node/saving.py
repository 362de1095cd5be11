"""When a node saves checkpoints, and which one an attempt starts from."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sparktf.config.job import CheckpointConfig
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.position import Done, Extent, Position
from sparktf.wire.control import Flavour

if TYPE_CHECKING:  # the decision when to save works without TensorFlow
    from sparktf.trainer.node.checkpoint import Checkpoint


class StateWriter(Protocol):
    """Writes and stores checkpoints: `CheckpointWriter`."""

    @property
    def took_s(self) -> float:
        """The longest time that one took."""

    def save(self, checkpoint: Checkpoint, position: Position, done: Done, *, last: bool) -> None:
        """Writes a checkpoint, and stores it while training goes on."""

    def wait(self) -> None:
        """Waits until the last one is stored."""


class SavePolicy:
    """Decides when a checkpoint is due: by steps, alike on all nodes, or by time, on the leader."""

    def __init__(self, config: CheckpointConfig, now_s: float) -> None:
        self._config = config
        self._saved_s = now_s

    def steps_left(self, step: int) -> int | None:
        """Returns the updates until a checkpoint is due by steps; None without such a rule."""
        every = self._config.every_steps
        return None if every is None else every - step % every

    def due_at_step(self, step: int) -> bool:
        return self._config.every_steps is not None and step > 0 and step % self._config.every_steps == 0

    def due_between(self, before: int, step: int) -> bool:
        every = self._config.every_steps
        return every is not None and step // every > max(before, 0) // every

    def due_by_time(self, now_s: float) -> bool:
        return self._config.every_seconds is not None and now_s - self._saved_s >= self._config.every_seconds

    def saved(self, now_s: float) -> None:
        self._saved_s = now_s


class Saves:
    """The checkpoints of a node.

    Attributes:
        agreed_step: Update of the last one that the nodes have agreed on, or were restored from; -1 for none.
    """

    def __init__(self, place: Place, writer: Callable[[Place, Flavour], StateWriter]) -> None:
        """Starts to count the time until the first checkpoint; `writer` makes a writer."""
        spec = place.spec
        self._place = place
        self._policy = SavePolicy(spec.config.checkpoint, time.monotonic())
        self._extent = Extent.of(spec.config.train)
        self._saved_step = self.agreed_step = spec.restore.step if spec.restore else -1
        self._is_asked = False
        self._checkpoint: Checkpoint | None = None
        self._make_writer = writer
        self._writer: StateWriter | None = None

    def restore(self, checkpoint: Checkpoint, keras: Flavour, *, reads: bool = True) -> bool:
        """Takes the objects of checkpoints, which all exist, and restores the state that this attempt starts from.

        Args:
            reads: Whether this node reads it; else another one gives it its values.

        Returns:
            Whether there is one.

        Raises:
            StorageError: it cannot be downloaded.
            AssertionError, ValueError: the model's variables are not those of the checkpoint.
        """
        place = self._place
        self._checkpoint = checkpoint
        self._writer = self._make_writer(place, keras)
        if place.spec.restore is None:
            return False
        if reads:
            checkpoint.restore(place.storage, place.spec.restore, place.work)
        return True

    @property
    def step(self) -> int:
        """Step of the last checkpoint saved or restored; -1 for none."""
        return self._saved_step

    @property
    def took_s(self) -> float:
        """The longest time, in seconds, that a checkpoint took until it was stored; 0 for none."""
        return 0.0 if self._writer is None else self._writer.took_s

    def steps_left(self, step: int) -> int | None:
        """See `SavePolicy.steps_left`."""
        return self._policy.steps_left(step)

    def due_at_step(self, step: int) -> bool:
        """Whether all nodes save after this update."""
        return self._policy.due_at_step(step)

    def due_since_saved(self, step: int) -> bool:
        """Whether a checkpoint by steps was due after any update since the last one."""
        return self._policy.due_between(self._saved_step, step)

    @property
    def is_asked(self) -> bool:
        """Whether a checkpoint is to be saved as soon as may be; see `ask`."""
        return self._is_asked

    def ask(self) -> None:
        """Has the next state saved, also if it was saved before: the node that did so is lost, and its files may be."""
        self._saved_step = -1
        self._is_asked = True

    def take_wish(self) -> bool:
        """Returns whether a checkpoint is due by time, or asked for; only the leader asks for one.

        Each is asked for once: the time counts from now on, saved or not. If nothing was trained since the last
        checkpoint there is nothing to save, and a wish that stayed would be repeated for ever.
        """
        due = self._place.leads and (self._is_asked or self._policy.due_by_time(time.monotonic()))
        if due:
            self._rest()
        return due

    def lack(self, position: Position) -> bool:
        """Whether the state at this position is not saved yet."""
        return self._writer is not None and position.step != self._saved_step

    def save(self, position: Position, done: Done, *, last: bool = False) -> None:
        """Saves a checkpoint; see `Member.save`."""
        if self._writer is None or self._checkpoint is None:
            return
        self._saved_step = self.agreed_step = position.step
        self._place.enter("saving")
        last = last or self._extent.may_end_at(position)
        self._writer.save(self._checkpoint, position, done, last=last)
        self._rest()
        self._place.enter("training")

    def wait(self) -> None:
        """Waits until the last checkpoint is stored.

        Raises:
            NotStoredError: that failed, or took longer than `timeouts.upload`.
        """
        if self._writer is not None:
            self._writer.wait()

    def _rest(self) -> None:
        """Restarts the time until the next checkpoint."""
        self._is_asked = False
        self._policy.saved(time.monotonic())
