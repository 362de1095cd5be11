"""A model that lies in storage, for nodes to load: what a run begins from, and what its own is compared with."""

from __future__ import annotations

from typing import NamedTuple

from sparktf.message import Message


class ModelSource(Message):
    """An exported model, or a checkpoint.

    Attributes:
        label: What it is called in messages: "version 14", "run churn/2026-11-19", or a path.
        path: Its folder.
        files: Names of its files below the folder.
        version: The published version that it is; None for what is none.
        run_id: Of the run that trained it; "" where nobody knows.
        full_date: Day of the training from scratch that its weights go back to, as YYYY-MM-DD; "" where nobody knows.
    """

    label: str
    path: str
    files: tuple[str, ...]
    version: int | None = None
    run_id: str = ""
    full_date: str = ""


class Models(NamedTuple):
    """The models beside its own that a run has to do with.

    Attributes:
        init: Whose weights it begins from, where it has no checkpoint of its own.
        champion: What its own is compared with, once that is trained.
        anchor: The best of the versions published last, where that is not the champion: see `gate.anchor`.
    """

    init: ModelSource | None = None
    champion: ModelSource | None = None
    anchor: ModelSource | None = None
