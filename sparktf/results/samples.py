"""Samples over the time of an attempt: the loss by update, and the rows of each node."""

from __future__ import annotations

from sparktf.message import Message


class Samples(Message):
    """Samples of one attempt, the earliest first; all tuples have the same length."""

    seconds: tuple[float, ...] = ()  # Since the attempt began
    steps: tuple[int, ...] = ()  # Updates of the whole run
    losses: tuple[float | None, ...] = ()  # Mean of the last updates; None if unknown
    rows: dict[str, tuple[int, ...]] = {}  # Rows trained in the attempt by node; nodes that train none are left out
