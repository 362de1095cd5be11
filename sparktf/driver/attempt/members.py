"""The trainers of an attempt as the driver sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sparktf.driver.lifecycle import TRAINER, TrainerEvent, TrainerState, step
from sparktf.errors import RefusedError
from sparktf.results.pace import UpdatePace
from sparktf.results.usage import Usage
from sparktf.topology import NodeId
from sparktf.wire.control import Heartbeat, Progress, Ready
from sparktf.wire.sender import NodeMessage
from sparktf.wire.uploads import Finished


@dataclass(slots=True)
class Trainer:
    """One trainer as the driver sees it."""

    node: NodeId
    agent: str
    host: str
    heard_s: float  # When it was last heard
    moved_s: float  # When it last reported progress
    state: TrainerState = TrainerState.LAUNCHED
    launched_s: float = 0.0  # When it was launched, if that was later than the attempt
    incarnation: int = 0  # Which of the trainers that its node has had in the attempt
    address: str = ""  # Where it will listen, if it follows one that was lost
    progress: Progress = field(default_factory=Progress)
    ready: Ready | None = None
    finished: Finished | None = None
    usage: Usage | None = None  # Of its node's processes in the attempt, if they report it
    told: Usage | None = None  # The last report of its own process
    pace: UpdatePace | None = None  # Of its own process's updates, if it reports that; `past` is that of earlier ones
    past: UpdatePace | None = None
    met: bool = False  # An earlier trainer of its node was ready
    jvm: str = ""  # Identity of its executor, at first

    def apply(self, event: TrainerEvent) -> None:
        self.state = step(TRAINER, self.state, event, str(self.node))

    def advance(self, new: Progress) -> None:
        """Notes its progress, which never goes back: an older report does not count."""
        old = self.progress
        if (old.step, old.rows_trained, old.phase) != (new.step, new.rows_trained, new.phase):
            self.moved_s = self.heard_s
        if (new.epoch, new.step) < (old.epoch, old.step):
            return
        self.progress = new
        if new.step > old.step and self.is_at_work:
            self.apply(TrainerEvent.PROGRESS)

    def beat(self, beat: Heartbeat, *, trains: bool) -> None:
        """Notes its progress and usage; `trains`: the gang has trained since the beat before."""
        self.advance(beat.progress)
        if beat.pace is not None and (self.pace is None or beat.pace.updates >= self.pace.updates):
            self.pace = beat.pace
        if beat.usage is not None:
            self.use(beat.usage, trains=trains)

    def use(self, told: Usage, *, trains: bool) -> None:
        """Notes its usage, unless the report is older; `trains`: the gang has trained since the report before."""
        # Its process's usage before the first report was its start.
        before = self.told or told.model_copy(update={"work": None, "staleness": {}})
        if told.seconds >= before.seconds:
            self.usage = (self.usage or Usage()).advanced(before, told, trains=trains)
            self.told = told

    def successor(self, agent: str, host: str, address: str, now_s: float) -> Trainer:
        """Returns the trainer that follows this one on its node, launched now."""
        return Trainer(
            self.node,
            agent,
            host,
            heard_s=now_s,
            moved_s=now_s,
            launched_s=now_s,
            incarnation=self.incarnation + 1,
            address=address,
            usage=self.usage,
            past=self.whole_pace,
            met=self.has_met,
        )

    @property
    def whole_pace(self) -> UpdatePace | None:
        """The updates of all its node's processes in the attempt."""
        known = [pace for pace in (self.past, self.pace) if pace is not None]
        return sum(known[1:], known[0]) if known else None

    @property
    def has_met(self) -> bool:
        """Whether its node has been ready in the attempt."""
        return self.met or self.ready is not None

    @property
    def is_at_work(self) -> bool:
        """Whether it has found the others, and reports regularly."""
        return self.state in (TrainerState.READY, TrainerState.TRAINING)

    @property
    def is_expected(self) -> bool:
        """Whether it is still to report: it has neither failed nor ended."""
        return self.state not in (TrainerState.FAILED, TrainerState.EXITED)


Members = Mapping[NodeId, Trainer]
"""By node, in the order of roles and indices."""


def are_training(nodes: Iterable[NodeId], members: Members) -> bool:
    """Whether all of some nodes report that they train, rather than start, save or evaluate."""
    return all(members[node].progress.phase == "training" for node in nodes)


def have_met(members: Members) -> bool:
    """Returns whether all nodes have been ready: an attempt begins with all of them, or not at all."""
    return all(trainer.has_met for trainer in members.values())


def started_s(members: Members, attempt_s: float) -> float:
    """Returns when a gang began to start: again with a trainer that replaces one lost before all have met."""
    if have_met(members):
        return attempt_s
    return max([attempt_s, *(trainer.launched_s for trainer in members.values())])


def rows_trained(members: Members, epoch: int) -> dict[NodeId, int]:
    """Returns the rows of an epoch that each node in it has trained."""
    return {t.node: t.progress.rows_trained for t in members.values() if t.progress.epoch == epoch}


def speaker(message: NodeMessage, attempt: int, members: Members) -> Trainer:
    """Returns the trainer that sends a message, or that it is about: the only place that checks messages by sender.

    Args:
        attempt: The number of the current one.

    Raises:
        RefusedError: it is none of this attempt, or not the present one of its node, or counts as lost.
    """
    if message.attempt != attempt:
        raise RefusedError(f"attempt {message.attempt} is over: {attempt} is under way")
    trainer = members.get(message.node)
    if trainer is None:
        raise RefusedError(f"attempt {attempt} has no {message.node}")
    if message.incarnation != trainer.incarnation:
        raise RefusedError(
            f"incarnation {message.incarnation} of {trainer.node} in attempt {attempt} is over: incarnation "
            f"{trainer.incarnation} has replaced it"
        )
    if trainer.state is TrainerState.EXITED:
        raise RefusedError(f"{trainer.node} of attempt {attempt} counts as lost")
    return trainer
