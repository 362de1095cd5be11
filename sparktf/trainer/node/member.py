"""A training node: the parts that all loops and strategies have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sparktf.results.carried import Carried
from sparktf.results.comparison import Comparison
from sparktf.results.keep import KeepRule, Kept
from sparktf.results.result import Stopped
from sparktf.results.time_limit import Ending
from sparktf.trainer.model.model import versions
from sparktf.trainer.node.inputs import Input
from sparktf.trainer.node.outputs import Output
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.position import Done, Extent, Position
from sparktf.trainer.node.saving import Saves
from sparktf.wire.control import Action, Flavour, Ready
from sparktf.wire.uploads import Finished


class Member(NamedTuple):
    """The parts of a training node; `strategy` is the tf.distribute strategy."""

    place: Place
    strategy: Any
    input: Input
    saves: Saves
    output: Output

    @property
    def extent(self) -> Extent:
        return Extent.of(self.place.spec.config.train)

    def ready(
        self, *, keras: Flavour, weights: int, keep: KeepRule | None = None, carried: Carried | None = None
    ) -> None:
        """Tells the driver that this node is ready to train."""
        message = Ready(
            **self.place.spec.sender,
            replicas=int(self.strategy.num_replicas_in_sync),
            keras=keras,
            versions=versions(keras),
            weights=weights,
            data=self.input.address,
            keep=keep,
            carried=carried if self.place.leads else None,
        )
        self.place.ready(message)
        self.place.enter("ready")

    def save(self, position: Position, done: Done | None = None, *, last: bool = False) -> None:
        """Saves a checkpoint unless this step is saved already; all nodes call it at the same steps.

        Args:
            done: The part done of the epoch to continue. Default: this node's own part.
            last: Nothing more is trained afterwards.
        """
        self.output.flush()
        if not self.saves.lack(position):
            return
        self.input.flush()
        self.saves.save(position, self.input.done(position) if done is None else done, last=last)

    def finish(
        self,
        position: Position,
        *,
        early: bool = False,
        kept: Kept | None = None,
        comparison: Comparison | None = None,
        stopped: Stopped | None = None,
        ending: Callable[[], Ending | None] = lambda: None,
    ) -> None:
        """Waits until everything is stored, reports the end, and waits for the order to stop.

        Args:
            early: Epochs were left.
            kept: The exported weights, if not the last ones.
            comparison: The gate's outcome.
            stopped: Why the leader ended the training.
            ending: Returns how long the end took.
        """
        self.saves.wait()
        self.output.flush()
        sender, model = self.place.spec.sender, self.output.model
        message = Finished(
            **sender,
            step=position.step,
            leads=self.place.leads,
            model=model,
            folder=self.output.folder,
            early=early,
            kept=kept,
            stopped=stopped,
            comparison=comparison,
            ending=ending(),
        )
        self.place.send(Action.FINISHED, message)
        self.place.enter("finished")
        self.place.leave()
