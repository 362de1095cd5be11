"""Why a run's training ended before its last epoch."""

from __future__ import annotations

from typing import Literal

from sparktf.message import Message


class Stopped(Message):
    """Training ended early, as its configuration says.

    Attributes:
        epoch: The last one of which something was trained.
        step: Updates of the whole run.
        text: What people read.
    """

    reason: Literal["early_stopping", "callbacks", "deadline", "max_seconds"]
    epoch: int
    step: int
    text: str
