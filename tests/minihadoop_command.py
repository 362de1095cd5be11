"""Starting the command line of minihadoop in tests, such that no process of it outlives the test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

YARN = Path(__file__).parents[1] / "yarn"


@contextmanager
def started(arguments: Sequence[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Starts `python -m minihadoop`; what is left of it at the end is killed, but not what it has started."""
    path = os.pathsep.join([str(YARN), *filter(None, [os.environ.get("PYTHONPATH")])])
    with subprocess.Popen(
        [sys.executable, "-m", "minihadoop", *arguments],
        env={**env, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
