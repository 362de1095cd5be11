"""How an attempt went, in a few samples: the loss by update, and the rows of each node, over time."""

from __future__ import annotations

from sparktf.message import Message


class Samples(Message):
    """Looks at one attempt, the earliest first; all tuples are as long.

    Attributes:
        seconds: Since the attempt began.
        steps: Updates of the whole run.
        losses: Mean of the last updates; None where nobody has told one.
        rows: By node: rows that it has trained in the attempt. Nodes that train none are not there.
    """

    seconds: tuple[float, ...] = ()
    steps: tuple[int, ...] = ()
    losses: tuple[float | None, ...] = ()
    rows: dict[str, tuple[int, ...]] = {}
