"""What a Spark task tells the process that scores for its executor, over a socket of the machine.

A message is "load" or "score", with the descriptor of a file that has the arrays (`sparktf.feed.arrays.shared`). The
answers are "ready", "scored" with a file, and "error" with one too, whose texts are a class of `sparktf.errors` and
what it says. Meanwhile "beat" comes now and then, with its process id: a task that waits knows that it lives. To
load, the one array is a `ScoredModel` as JSON. Whatever may be long is in the file: a packet of a socket is cut off, or
refused, where it is longer than either side thought.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparktf.errors import ModelContractError, SparkTFError, error_class
from sparktf.hadoop import HadoopConf
from sparktf.message import Message

BEAT = "beat"
SETTINGS, ERROR = "settings", "error"
CODES, VALUES = "/codes", "/values"
"""What follows an input's name where it is text: which of the distinct values each row has, and these."""


class ScoredModel(Message):
    """A SavedModel, and how to come by it."""

    folder: str
    files: tuple[str, ...]  # Paths below `folder`
    key: str  # What it has in common with no other model, nor with another one at the same place later
    hadoop: HadoopConf
    threads: int  # How many compute for one executor
    signature: str = "serving_default"  # Which of its functions is called
    tags: tuple[str, ...] = ()  # By which the graph is known; none for the only one


def error_arrays(error: SparkTFError) -> dict[str, Any]:
    return {ERROR: np.array([text.encode() for text in (type(error).__name__, str(error))], object)}


def error_of(arrays: Mapping[str, Any]) -> SparkTFError:
    """Returns the error that `error_arrays` was made of; a `ModelContractError` where it is none of ours."""
    name, message = (text.decode() for text in arrays[ERROR])
    return (error_class(name) or ModelContractError)(message)


def settings_array(model: ScoredModel) -> dict[str, Any]:
    return {SETTINGS: np.frombuffer(model.model_dump_json().encode(), np.uint8)}


def settings_of(arrays: dict[str, Any]) -> ScoredModel:
    return ScoredModel.model_validate_json(arrays[SETTINGS].tobytes())
