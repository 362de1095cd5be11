"""TensorFlowOnSpark's helpers that scripts call."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path


def single_node_env(num_gpus: int = 1, worker_index: int = -1, nodes: Sequence[str] = ()) -> None:
    """Makes TensorFlow use the CPU: sparktf leaves GPUs to the operators of the executors."""
    del num_gpus, worker_index, nodes
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")


def get_ip_address() -> str:
    """Returns an address of this host, as others reach it."""
    return socket.gethostbyname(socket.getfqdn())


def find_in_path(path: str, file: str) -> str | bool:
    """Returns where a file is, in the folders of a search path; False if nowhere."""
    places = (Path(folder, file) for folder in path.split(os.pathsep))
    return next((str(place) for place in places if place.is_file()), False)
