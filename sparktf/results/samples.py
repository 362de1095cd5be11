"""Samples over the time of an attempt: the loss by update, and the rows of each node."""

from __future__ import annotations

from sparktf.message import Message


class Samples(Message):
    """Samples of one attempt, the earliest first; all tuples have the same length.

    Attributes:
        seconds: Since the attempt began.
        steps: Updates of the whole run.
        losses: Mean of the last updates; None if unknown.
        rows: Rows trained in the attempt by node; nodes that train none are left out.
    """

    seconds: tuple[float, ...] = ()
    steps: tuple[int, ...] = ()
    losses: tuple[float | None, ...] = ()
    rows: dict[str, tuple[int, ...]] = {}
