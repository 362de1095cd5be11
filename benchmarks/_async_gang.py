"""TensorFlow servers of this machine, and a script that coordinates them: processes as people start them by hand."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TIMEOUT_S = 600


def coordinate(script: Sequence[object], out: Path, *, workers: int, servers: int) -> dict[str, Any]:
    """Starts all processes at once, waits for the coordinator's, and ends the others.

    Args:
        script: The coordinator's file in this folder, with its arguments; that of `out` is added as the last one.
        out: Where it leaves what is returned here, with the time at which the processes were started as `started`.

    Raises:
        SystemExit: the script failed.
    """
    cluster = _addresses(chief=1, worker=workers, ps=servers)
    started = time.time()
    others = [
        _start(["_async_by_hand.py", "server"], cluster, job, index)
        for job in ("worker", "ps")
        for index in range(len(cluster[job]))
    ]
    chief = _start([*script, out], cluster, "chief", 0)
    try:
        code = chief.wait(TIMEOUT_S)
    finally:
        for process in (chief, *others):
            process.kill()
            process.wait()
    if code:
        raise SystemExit(f"{script} ended with {code}")
    return {**json.loads(out.read_text()), "started": started}


def in_cluster(script: Sequence[object], out: Path) -> dict[str, Any]:
    """Runs a script that brings a mini Hadoop up and takes it down; the arguments as of `alone`.

    Raises:
        SystemExit: the script failed.
    """
    yarn = HERE.parent / "yarn"
    file, *arguments = map(str, [*script, out])
    done = subprocess.run(
        [yarn / "minihadoop.sh", "as-root", "--", sys.executable, str(HERE / file), *arguments],
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(yarn)},
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{script} ended with {done.returncode}")
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def alone(script: Sequence[object], out: Path) -> dict[str, Any]:
    """Runs a script without a cluster; the arguments as of `coordinate`.

    Raises:
        SystemExit: the script failed.
    """
    process = _start([*script, out], {}, "chief", 0)
    if code := process.wait(TIMEOUT_S):
        raise SystemExit(f"{script} ended with {code}")
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def _addresses(**counts: int) -> dict[str, list[str]]:
    held = {job: [socket.create_server(("127.0.0.1", 0)) for _ in range(count)] for job, count in counts.items()}
    found = {job: [f"127.0.0.1:{server.getsockname()[1]}" for server in servers] for job, servers in held.items()}
    for servers in held.values():
        for server in servers:
            server.close()
    return found


def _start(script: Sequence[object], cluster: dict[str, list[str]], job: str, index: int) -> subprocess.Popen[bytes]:
    place = {"cluster": cluster, "task": {"type": job, "index": index}}
    file, *arguments = map(str, script)
    return subprocess.Popen(
        [sys.executable, str(HERE / file), *arguments],
        env={**os.environ, "TF_CONFIG": json.dumps(place)},
        stderr=subprocess.DEVNULL,
    )
