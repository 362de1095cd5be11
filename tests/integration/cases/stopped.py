"""A model that counts its rows, and whose first upload of a checkpoint stops the process that makes it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import keras

from sparktf.trainer.node.checkpoint_writer import CheckpointWriter

from . import watched

MARK = "stopped"


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns `watched.build_counting`. Who is stopped writes its process id into a file in the books' folder."""
    upload, mark = CheckpointWriter._store, Path(params["books"], MARK)

    def stopping(writer: CheckpointWriter, *arguments: Any) -> dict[str, Any]:
        try:
            with mark.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return upload(writer, *arguments)
        os.kill(os.getpid(), signal.SIGSTOP)
        return upload(writer, *arguments)

    CheckpointWriter._store = stopping  # type: ignore[assignment, method-assign]
    return watched.build_counting(params, assets)
