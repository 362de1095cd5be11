"""Why a run's training ended before its last epoch."""

from __future__ import annotations

from typing import Literal

from sparktf.message import Message


class Stopped(Message):
    """Training ended early, as the configuration allows."""

    reason: Literal["early_stopping", "callbacks", "deadline", "max_seconds"]
    epoch: int  # The last one that was trained on, at least in part
    step: int  # Updates of the whole run
    text: str  # The reason for people
