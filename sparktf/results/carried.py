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
        full_date: Day of the training from scratch that the weights go back to; "" where nobody knows.
        left: Names of variables of the source that nobody took.
    """

    source: str
    run_id: str = ""
    optimizer: bool = False
    full_date: str = ""
    variables: tuple[CarriedVariable, ...] = ()
    left: tuple[str, ...] = ()

    def in_words(self) -> str:
        """Returns it in one line."""
        kept = [v for v in self.variables if v.how != "new"]
        text = f"begins from {self.source}: {len(kept)} of {_count(len(self.variables), 'variable')} kept"
        if self.optimizer:
            text += ", the optimizer's state too"
        if tables := [v for v in self.variables if v.how == "entries"]:
            entries, new, gone = (sum(getattr(v, what) for v in tables) for what in ("kept", "new", "left"))
            text += f", {_count(len(tables), 'table')}: {_count(entries, 'entry', 'entries')} kept"
            text += f", {new:,} new, {gone:,} gone"
        return text


def _count(number: int, what: str, many: str = "") -> str:
    return f"{number:,} {what if number == 1 else many or what + 's'}"
