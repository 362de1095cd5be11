"""A model that lies in storage, for nodes to load: what a run begins from, and what its own is compared with."""

from __future__ import annotations

from typing import NamedTuple

from sparktf.message import Message


class ModelSource(Message):
    """An exported model, or a checkpoint."""

    label: str  # What it is called in messages: "version 14", "run churn/2026-11-19", or a path
    path: str  # Its folder
    files: tuple[str, ...]  # Names of its files below the folder
    version: int | None = None  # The published version that it is; None for what is none
    run_id: str = ""  # Of the run that trained it; "" where nobody knows
    # Day of the training from scratch that its weights go back to, as YYYY-MM-DD; "" where nobody knows
    full_date: str = ""


class Models(NamedTuple):
    """The models beside its own that a run has to do with."""

    init: ModelSource | None = None  # Whose weights it begins from, where it has no checkpoint of its own
    champion: ModelSource | None = None  # What its own is compared with, once that is trained
    # The best of the versions published last, where that is not the champion: see `gate.anchor`
    anchor: ModelSource | None = None
