"""The losses that an attempt has outlived, with the updates at which they began and ended: a function of its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sparktf.driver.attempt.losses import Losses
from sparktf.results.outlived import Outlived
from sparktf.topology import NodeId


class Lost(NamedTuple):
    """A trainer that was lost."""

    node: NodeId
    incarnation: int


class WentOn(NamedTuple):
    """The gang went on without some of its trainers; see `results.outlived`."""

    lost: tuple[Lost, ...]
    step: int
    workers: int
    after_s: float
    whole_step: int | None = None


@dataclass(frozen=True, slots=True)
class Endured:
    """The losses of a gang; a value: each event makes a new one."""

    whole: int  # Members that it began with
    noted: Mapping[Lost, float] = field(default_factory=dict)  # Losses after which it has not gone on, by their time
    went_on: tuple[WentOn, ...] = ()

    def lose(self, lost: Lost, now_s: float) -> Endured:
        """Returns it after the loss of a member was noticed."""
        return self if lost in self.noted else replace(self, noted={**self.noted, lost: now_s})

    def stood(self, members: int, step: int, now_s: float) -> Endured:
        """Returns it once all members of a new generation stand at one place, and go on.

        Args:
            step: Updates of the whole run that are made.
        """
        went_on = self.went_on
        if self.noted:
            lost = tuple(sorted(self.noted, key=lambda each: (each.node.role, each.node.index)))
            went_on = (*went_on, WentOn(lost, step, members, round(now_s - min(self.noted.values()), 3)))
        if members == self.whole:
            went_on = tuple(each if each.whole_step is not None else each._replace(whole_step=step) for each in went_on)
        return replace(self, noted={}, went_on=went_on)

    def told(self, losses: Losses) -> tuple[Outlived, ...]:
        """Returns the records of the result; `losses` knows the causes."""
        return tuple(
            Outlived(
                nodes=tuple(str(node) for node, _ in each.lost),
                causes=tuple(losses.cause_of(*lost) for lost in each.lost),
                step=each.step,
                workers=each.workers,
                after_s=each.after_s,
                whole_step=each.whole_step,
            )
            for each in self.went_on
        )
