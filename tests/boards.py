"""`sparktf tensorboard` as a user runs it, and what its TensorBoard shows."""

from __future__ import annotations

import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import requests
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

_SHOWN_S = 120.0

Scalars = list[tuple[int, float]]
"""Step and value."""


class Board:
    """A TensorBoard that is up."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        self.url = url
        self.process = process

    def tags(self) -> dict[str, list[str]]:
        """Returns the names of the scalars, by what TensorBoard calls a run."""
        return {run: sorted(tags) for run, tags in self._get("tags").items()}

    def scalars(self, run: str, tag: str) -> Scalars:
        """Returns the values of one."""
        return [(step, value) for _, step, value in self._get(f"scalars?run={run}&tag={tag}")]

    def shows(self, wanted: Callable[[], bool]) -> bool:
        """Waits until something is shown; returns whether it ever is."""
        end_s = time.monotonic() + _SHOWN_S
        while time.monotonic() < end_s:
            if wanted():
                return True
            time.sleep(0.2)
        return False

    def _get(self, what: str) -> Any:
        answer = requests.get(f"{self.url}data/plugin/scalars/{what}", timeout=60)
        return answer.json() if answer.ok else {}


@contextmanager
def board_of(*arguments: str, stop: signal.Signals = signal.SIGINT) -> Iterator[Board]:
    """Runs the command, and ends it as a person does; it must then end well."""
    command = [sys.executable, "-m", "sparktf.commands.cli", "tensorboard", *arguments, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            said = ""
            while not (found := re.search(r": (http://127\.0\.0\.1:\d+/) ", said)):
                line = process.stdout.readline()
                assert line, f"the command has ended: {said}"
                said += line
            yield Board(found[1], process)
            process.send_signal(stop)
            assert process.wait(60) == 0, process.stdout.read()
        finally:
            process.kill()


def event_file(tag: str, scalars: Sequence[tuple[int, float]]) -> bytes:
    """Returns the content of a file of events with some scalars."""
    first = Event(wall_time=1.0, file_version="brain.Event:2")
    values = (Summary(value=[Summary.Value(tag=tag, simple_value=value)]) for _, value in scalars)
    events = [
        Event(wall_time=2.0 + step, step=step, summary=summary)
        for (step, _), summary in zip(scalars, values, strict=True)
    ]
    return b"".join(_record(event.SerializeToString()) for event in (first, *events))


def _record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", masked_crc32c(length)) + content + struct.pack("<I", masked_crc32c(content))
