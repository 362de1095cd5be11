"""Messages between a Spark task and the process that scores for its executor, over a local socket.

A message is "load" or "score", with the descriptor of a file that has the arrays (`sparktf.feed.arrays.shared`). The
answers are "ready", "scored" with a file, and "error" with a file whose texts are a class of `sparktf.errors` and its
message. Meanwhile the process sends "beat" with its id now and then, so that a waiting task knows that it lives. The
array of "load" is a `ScoredModel` as JSON. Anything of unknown length is in the file: a packet of a socket is truncated
or refused if it is longer than either side expects.
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
"""Suffixes of a text input's name: the code of each row, and the distinct values."""


class ScoredModel(Message):
    """A SavedModel, with its location."""

    folder: str
    files: tuple[str, ...]  # Paths below `folder`
    key: str  # Differs from that of every other model, and of a later one at the same place
    hadoop: HadoopConf
    threads: int  # Threads of an executor's scoring process
    signature: str = "serving_default"  # Name of the called signature
    tags: tuple[str, ...] = ()  # Tags of its graph; none for the only one


def error_arrays(error: SparkTFError) -> dict[str, Any]:
    return {ERROR: np.array([text.encode() for text in (type(error).__name__, str(error))], object)}


def error_of(arrays: Mapping[str, Any]) -> SparkTFError:
    """Returns the error in `error_arrays`; a `ModelContractError` for another class than sparktf's."""
    name, message = (text.decode() for text in arrays[ERROR])
    return (error_class(name) or ModelContractError)(message)


def settings_array(model: ScoredModel) -> dict[str, Any]:
    return {SETTINGS: np.frombuffer(model.model_dump_json().encode(), np.uint8)}


def settings_of(arrays: dict[str, Any]) -> ScoredModel:
    return ScoredModel.model_validate_json(arrays[SETTINGS].tobytes())
