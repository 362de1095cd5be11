"""A stored model that nodes load: one that a run begins from, or one that its own is compared with."""

from __future__ import annotations

from typing import NamedTuple

from sparktf.message import Message


class ModelSource(Message):
    """An exported model, or a checkpoint."""

    label: str  # Its name in messages: "version 14", "run churn/2026-11-19", or a path
    path: str  # Its folder
    files: tuple[str, ...]  # Names of its files below the folder
    version: int | None = None  # Its published version; None if it is not published
    run_id: str = ""  # The run that trained it; "" if unknown
    # Day of the training from scratch behind its weights, as YYYY-MM-DD; "" if unknown
    full_date: str = ""


class Models(NamedTuple):
    """The other models of a run."""

    init: ModelSource | None = None  # The model whose weights it begins from, without a checkpoint of its own
    champion: ModelSource | None = None  # The model that its own is compared with after training
    # The best of the last published versions, if that is not the champion: see `gate.anchor`
    anchor: ModelSource | None = None
