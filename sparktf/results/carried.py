"""The weights taken over from another run's model: `train.init_from`."""

from __future__ import annotations

from typing import Literal

from sparktf.message import Message
from sparktf.told import count_in_words


class CarriedVariable(Message):
    """The origin of one variable of the new model."""

    name: str
    shape: tuple[int, ...]
    how: Literal["kept", "entries", "new"]  # "kept" whole, "entries" of a table matched by vocabulary, or "new"
    # Of a table, entries taken over; `new`: entries initialised; `left`: entries of the source that are gone
    kept: int = 0
    new: int = 0
    left: int = 0
    why: str = ""  # Why a new one was not taken over: the source has no such variable, or one of another shape


class Carried(Message):
    """The weights taken over."""

    source: str  # Its name in messages: "version 14", "run churn/2026-11-19", or a path
    run_id: str = ""  # The run that trained it; "" if unknown
    optimizer: bool = False  # Whether the optimizer's state was taken over too
    full_date: str = ""  # Day of the training from scratch behind the weights; "" if unknown
    variables: tuple[CarriedVariable, ...] = ()
    left: tuple[str, ...] = ()  # Names of the source's variables that were not taken over

    def in_words(self) -> str:
        """Returns one line for people."""
        kept = [v for v in self.variables if v.how != "new"]
        text = f"begins from {self.source}: {len(kept)} of {count_in_words(len(self.variables), 'variable')} kept"
        if self.optimizer:
            text += ", the optimizer's state too"
        if tables := [v for v in self.variables if v.how == "entries"]:
            entries, new, gone = (sum(getattr(v, what) for v in tables) for what in ("kept", "new", "left"))
            text += f", {count_in_words(len(tables), 'table')}: {count_in_words(entries, 'entry', 'entries')} kept"
            text += f", {new:,} new, {gone:,} gone"
        return text
