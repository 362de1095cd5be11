"""What a Spark task tells the process that scores for its executor, over a socket of the machine.

A message is JSON, `{"load": DIRECTORY}` or `{"score": DIRECTORY}`, with the descriptor of a file that has the arrays
(`sparktf.feed.shared`). The answers are `{"ready": true}`, `{"scored": DIRECTORY}` with a file, and
`{"error": [CLASS, MESSAGE]}` with a class of `sparktf.errors`. To load, the one array is a `ScoredModel` as JSON.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import numpy as np

from sparktf.hadoop import HadoopConf
from sparktf.message import Message

MESSAGE_NBYTES = 1 << 16
SETTINGS = "settings"
CODES, VALUES = "/codes", "/values"
"""What follows an input's name where it is text: which of the distinct values each row has, and these."""


class ScoredModel(Message):
    """A SavedModel, and how to come by it.

    Attributes:
        files: Paths below `folder`.
        key: What it has in common with no other model, nor with another one at the same place later.
        threads: So many compute for one executor.
        signature: Which of its functions is called.
        tags: By which the graph is known; none for the only one.
    """

    folder: str
    files: tuple[str, ...]
    key: str
    hadoop: HadoopConf
    threads: int
    signature: str = "serving_default"
    tags: tuple[str, ...] = ()


def tell(connection: socket.socket, message: dict[str, Any], file: int | None = None) -> None:
    """Sends a message, with the descriptor of a file if there is one; raises `OSError`."""
    socket.send_fds(connection, [json.dumps(message).encode()], [] if file is None else [file])


def hear(connection: socket.socket) -> tuple[dict[str, Any], int | None]:
    """Returns what comes next, and the descriptor that came along, which is the caller's to close.

    Raises:
        EOFError: the other side is gone.
        OSError: it does not answer.
    """
    try:
        said, files, _, _ = socket.recv_fds(connection, MESSAGE_NBYTES, 1)
    except ConnectionError:
        said, files = b"", []
    if not said:
        for file in files:
            os.close(file)
        raise EOFError("the other side is gone")
    message: dict[str, Any] = json.loads(said)
    return message, files[0] if files else None


def settings_array(model: ScoredModel) -> dict[str, Any]:
    """Returns what is sent to have a model loaded."""
    return {SETTINGS: np.frombuffer(model.model_dump_json().encode(), np.uint8)}


def settings_of(arrays: dict[str, Any]) -> ScoredModel:
    """Returns what `settings_array` was made of."""
    return ScoredModel.model_validate_json(arrays[SETTINGS].tobytes())
