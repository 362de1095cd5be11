"""What trainers would read otherwise than Spark does, and so leave to Spark."""

from __future__ import annotations

from dataclasses import dataclass


class NotPlainError(ValueError):
    """Reading the files would not give what Spark gives; the message is the reason, for a sentence's end."""


@dataclass(frozen=True, slots=True)
class NotPlain:
    """Why a DataFrame is no plain scan, for a sentence's end: "the plan has a BroadcastHashJoin"."""

    reason: str
