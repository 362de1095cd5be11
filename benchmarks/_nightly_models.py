"""The model that `make bench-nightly` trains: that of jobs/models/clicks.py, with its calls into TensorFlow clocked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import keras
from _clock import clock


def build(params: dict[str, Any], assets: dict[str, Any]) -> keras.Model:
    """Returns the compiled model.

    Args:
        params: "times" names a folder for the times of the trainers' calls into TensorFlow, "jobs" the one of the jobs;
            the others are the model's.
    """
    sys.path.append(params["jobs"])
    from models import clicks  # noqa: PLC0415 - found since the line above

    clock(Path(params["times"]))
    return clicks.build(params, assets)
