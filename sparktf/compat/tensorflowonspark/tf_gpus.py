"""TensorFlowOnSpark's look at the graphics processors of a machine."""

from __future__ import annotations

import random
import socket
import subprocess

from sparktf.errors import ConfigError, PreflightError

AS_STRING = "string"
AS_LIST = "list"
MAX_RETRIES = 1
"""It looks once: whoever holds a processor for longer than a moment keeps it."""


def is_gpu_available() -> bool:
    """Whether this machine has a graphics processor of NVIDIA's."""
    try:
        return bool(_lines("--list-gpus"))
    except PreflightError:
        return False


def get_gpus(num_gpu: int = 1, worker_index: int = -1, format: str = AS_STRING) -> str | list[str]:
    """Returns the numbers of free graphics processors, for CUDA_VISIBLE_DEVICES.

    Args:
        num_gpu: How many.
        worker_index: The number of the worker on this machine, so that each gets others; -1 takes any.
        format: As a text with commas between the numbers, or as a list: `AS_STRING` or `AS_LIST`.

    Raises:
        PreflightError: there are not as many, or nvidia-smi is not there.
        ConfigError: there is no such format.
    """
    if format not in (AS_STRING, AS_LIST):
        raise ConfigError(f"format must be {AS_STRING!r} or {AS_LIST!r}, not {format!r}")
    there = [line.split(", ") for line in _lines("--query-gpu=index,uuid", "--format=csv,noheader")]
    busy = set(_lines("--query-compute-apps=gpu_uuid", "--format=csv,noheader"))
    free = [number for number, uuid in there if uuid not in busy]
    if len(free) < num_gpu:
        raise PreflightError(
            f"get_gpus: {num_gpu} graphics processors are wanted, and {len(free)} of {len(there)} are free on "
            f"{socket.gethostname()}: nvidia-smi shows who has the others"
        )
    first = worker_index * num_gpu
    turn = [free[(first + i) % len(free)] for i in range(num_gpu)]
    chosen = random.sample(free, num_gpu) if worker_index < 0 else turn
    return ",".join(chosen) if format == AS_STRING else chosen


def _lines(*options: str) -> list[str]:
    """Returns the lines of nvidia-smi. Raises `PreflightError` if it cannot."""
    try:
        done = subprocess.run(["nvidia-smi", *options], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PreflightError(f"get_gpus: nvidia-smi does not work on {socket.gethostname()}: {error}") from error
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]
