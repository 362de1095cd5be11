"""TensorFlowOnSpark's helpers that scripts call."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from sparktf.compat.tensorflowonspark import tf_gpus
from sparktf.compat.tensorflowonspark.tf_inside import inside_names

_FAR = ("192.0.2.1", 9)
"""An address of nobody's: a datagram socket that is connected to it has this host's own, and sends nothing."""


def single_node_env(num_gpus: int = 1, worker_index: int = -1, nodes: Sequence[str] = ()) -> None:
    """Makes TensorFlow use free graphics processors, if this machine has any, else none.

    Args:
        num_gpus: How many; 0 for none.
        worker_index: The number of this node; -1 takes any processors.
        nodes: The addresses of all nodes: those on one machine take different processors.

    Raises:
        PreflightError: there are not as many free ones.
    """
    chosen = ""
    if num_gpus > 0 and tf_gpus.is_gpu_available():
        index = worker_index
        if worker_index >= 0 and nodes:
            host = nodes[worker_index].partition(":")[0]
            index = [node.partition(":")[0] for node in nodes[:worker_index]].count(host)
        chosen = ",".join(tf_gpus.get_gpus(num_gpus, index, tf_gpus.AS_LIST))
    os.environ["CUDA_VISIBLE_DEVICES"] = chosen


def get_ip_address() -> str:
    """Returns an address of this host, as others reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_FAR)
        except OSError:  # no network
            return socket.gethostbyname(socket.getfqdn())
        return str(probe.getsockname()[0])


def find_in_path(path: str, file: str) -> str | bool:
    """Returns where a file is, in the folders of a search path; False if nowhere."""
    places = (Path(folder, file) for folder in path.split(os.pathsep))
    return next((str(place) for place in places if place.is_file()), False)


globals().update(inside_names("util"))
