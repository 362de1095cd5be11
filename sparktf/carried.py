"""What a run has taken over from another one's model: `train.init_from`."""

from __future__ import annotations

from typing import Literal

from sparktf.message import Message


class CarriedVariable(Message):
    """What became of one variable of the model that begins.

    Attributes:
        how: "kept" whole, "entries" of a table over a vocabulary, or "new".
        kept: Of a table, entries taken over; `new`: entries initialised; `left`: entries of the source that are gone.
        why: Of a new one, why it was not taken over: no such variable there, or of another shape.
    """

    name: str
    shape: tuple[int, ...]
    how: Literal["kept", "entries", "new"]
    kept: int = 0
    new: int = 0
    left: int = 0
    why: str = ""


class Carried(Message):
    """What was taken over.

    Attributes:
        source: What it is from, as messages call it: "version 14", "run churn/2026-11-19", or a path.
        run_id: The run that trained it; "" where nobody knows.
        optimizer: Whether the optimizer's state was taken over too.
        left: Names of variables of the source that the model does not have.
    """

    source: str
    run_id: str = ""
    optimizer: bool = False
    variables: tuple[CarriedVariable, ...] = ()
    left: tuple[str, ...] = ()
