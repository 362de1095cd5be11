"""The low-level contract: `train(node)` with a loop of the user's own, on the same feed, checkpoints and accounting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from sparktf.errors import ModelContractError, ModelError
from sparktf.sequence import Stream, batch_shares
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.model.trackables import flavour_of, weights_of
from sparktf.trainer.node.checkpoint import LocalCheckpoint
from sparktf.trainer.node.low_level import LowLevelNode
from sparktf.trainer.node.member import Member
from sparktf.trainer.node.position import Position


class TrainerNode(LowLevelNode):
    """Implements `sparktf.Node` on a worker."""

    position = Position()  # Position of the user's loop, changed by this object only

    def __init__(self, member: Member) -> None:
        spec = member.place.spec
        shares = batch_shares(spec.config.train.batch_size, member.place.workers)
        super().__init__(member, shares[spec.node.index])
        self.position = Position.restored(spec.restore)
        self._epoch_step = 0
        self._feed: Any = None
        self._reports = 0
        self._inside = False
        member.place.follow(self)

    @property
    def step(self) -> int:
        return self.position.step

    @step.setter
    def step(self, step: int) -> None:
        self.position = self.position.advanced(step=step, rows=0, loss=self.position.loss)

    @property
    def coordinator(self) -> NoReturn:
        raise ModelContractError("node.coordinator exists only under cluster.strategy: parameter_server")

    @property
    def _is_inside(self) -> bool:
        return self._inside

    def _leave_epoch(self) -> None:
        at, complete = self.position, self._feed.is_all(self.position.rows)
        if not self._reports and not complete:
            raise ModelError(
                f"train(node) returned in epoch {at.epoch} without reporting a row: call "
                "node.report(step=..., rows=...) for every batch of node.dataset()"
            )
        self.position = at.ended(complete=complete)
        if complete or at.rows or at.step > self._epoch_step:
            self._member.input.report(self._feed, self.position)
        self._member.save(self.position, last=True)

    def restore(self, **trackables: Any) -> bool:
        keras = flavour_of(trackables.values())
        restored = self._member.saves.restore(LocalCheckpoint(**trackables), keras)
        self._restored = True
        self._member.ready(keras=keras, weights=weights_of(trackables.values()))
        return restored

    def epochs(self) -> Iterator[int]:
        self._begin()
        while (epoch := self._extent.epoch_after(self.position)) is not None:
            self.position, self._epoch_step = self.position.begun(epoch), self.step
            self._member.place.enter("training")
            with self._member.input.open(Stream.TRAIN, epoch) as feed:
                self._feed = feed
                self._inside = True
                yield epoch
                self._inside = False
                rows, complete = self.position.rows, feed.is_all(self.position.rows)
                if not complete and not self._extent.is_exhausted(self.step):
                    raise ModelError(
                        f"train(node) reported {rows} of the {feed.rows} rows of its share of epoch {epoch} before it "
                        "went on: train and report every batch of node.dataset(); to stop early, leave the loop over "
                        "node.epochs()"
                    )
                self.position = self.position.ended(complete=complete)
                self._member.input.report(feed, self.position)
            self._member.save(self.position)

    def dataset(self, stream: str = "train") -> Any:
        if Stream(stream) is Stream.TRAIN:
            return self._datasets.of(lambda: self._feed)
        return self._dataset(Stream(stream))

    def report(self, *, step: int, rows: int, loss: float | None = None) -> None:
        self.position = self.position.advanced(step=step, rows=rows, loss=loss)
        self._reports += 1
        self._member.place.enter("training")

    def checkpoint(self) -> bool:
        due = self._member.saves.due_at_step(self.step)
        if due:
            self._member.save(self.position)
        return due

    def export(self, model: Any) -> None:
        self._member.output.export(UserModel.wrap(model, self._member.place.spec.feed))
