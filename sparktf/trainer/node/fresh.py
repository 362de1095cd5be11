"""Tries an exported model in a fresh process, as a reader who knows nothing of the run would use it."""

from __future__ import annotations

import json
import os
import signal
import site
import subprocess
import sys
import sysconfig
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from sparktf.errors import ModelContractError, NodeLostError
from sparktf.knobs import KNOBS
from sparktf.process.fork_server import PLACE, ForkedProcess, ForkServer
from sparktf.process.log_noise import last_words
from sparktf.process.rendezvous import connection_to
from sparktf.process.resident import forget_libraries, give_back_freed
from sparktf.trainer.node.report import log_line

_MODULE = "sparktf.trainer.reloaded"
_NEEDED = ("sparktf", "tensorflow", "numpy", "pyarrow", "pydantic")
"""The fresh process looks for modules where these are installed, and in Python's own places."""

_SAID_NBYTES = 4096


def check_loads(
    folder: Path, work: Path, *, limit_s: float, refused: Collection[str], imports: Sequence[str] = ()
) -> None:
    """Lets a fresh process load the model in `folder`, and compare its predictions with those stored beside it.

    Args:
        work: Folder for the files of the process.
        limit_s: Time limit.
        refused: Packages of the model's code, which the process must not import.
        imports: Modules to import before the model is loaded.

    Raises:
        ModelContractError: the model cannot be loaded without its code, or predicts something else.
        NodeLostError: the process did not end in time.
        MemoryError: it was killed.
    """
    give_back_freed()  # both processes share a container
    forget_libraries()
    began_s = time.monotonic()
    report, log = work / "reloaded.json", work / "reloaded.log"
    report.unlink(missing_ok=True)  # of an earlier export
    told = {"folder": str(folder), "report": str(report), "refused": sorted(refused), "imports": list(imports)}
    code = _run(told, log, limit_s)
    said = log.read_text(encoding="utf-8", errors="replace")[-_SAID_NBYTES:]
    if code is None:
        raise NodeLostError(
            f"a fresh process did not load the exported model within {limit_s:g} s: raise timeouts.upload"
        )
    if not report.exists():
        log_line(said)
        if code == -signal.SIGKILL:
            raise MemoryError("the fresh process that loads the exported model was killed")
        last = last_words(said, 1).strip() or "it printed nothing"
        raise ModelContractError(
            f"publish: the fresh process that loads the exported model ended with exit code {code}: {last}"
        )
    _judge(json.loads(report.read_bytes()), time.monotonic() - began_s)


def _judge(found: dict[str, Any], took_s: float) -> None:
    if found["error"] is not None:
        raise ModelContractError(f"publish: the exported model is not published: {found['error']}")
    log_line(
        f"sparktf: a fresh process loaded the exported model, and its predictions agree: {found['rows']} rows, "
        f"{took_s:.1f} s, {found['mib']:,} MiB"
    )
    if found["left_out"]:
        log_line(f"sparktf: model.keras was not compared: {found['left_out']}")


def _run(told: dict[str, Any], log: Path, limit_s: float) -> int | None:
    """Returns the exit code of the process; None if it was killed at the time limit."""
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        # Modules to import may lie where only a start finds them.
        process = (None if told["imports"] else _forked(stack, output)) or _spawned(output)
        stack.callback(process.wait)
        stack.callback(process.kill)
        parent = process.parent if isinstance(process, ForkedProcess) else os.getpid()
        if process.stdin is not None:
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(json.dumps({**told, "parent": parent}).encode())
        return _exit_code(process, limit_s)


def _exit_code(process: ForkedProcess | subprocess.Popen[bytes], limit_s: float) -> int | None:
    if isinstance(process, ForkedProcess):
        return process.poll(limit_s)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None


def _forked(stack: ExitStack, output: IO[bytes]) -> ForkedProcess | None:
    """Has the nursery fork it, which has imported TensorFlow and nothing of the model's code; None where it cannot."""
    place = os.environ.get(PLACE)
    if place is None:
        return None
    try:
        connection = connection_to(Path(place))
        if connection is None:
            return None
        server = ForkServer(connection)
        stack.callback(server.close)
        server.await_ready(KNOBS.nursery_answer_s)
        return server.fork(_MODULE, _environment(_own_places()), output)
    except OSError as error:
        log_line(f"sparktf: the nursery cannot fork the process that reads the exported model: {error}")
        return None


def _spawned(output: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", _MODULE],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=_environment(()),
    )


def _own_places() -> list[str]:
    """Returns where Python looks for modules by itself, which a fork does not find out anew."""
    paths = {Path(path) for path in (*sysconfig.get_paths().values(), *site.getsitepackages())}
    return [place for place in sys.path if Path(place) in paths or (Path(place).parent in paths and "lib-" in place)]


def _environment(more: Iterable[str]) -> dict[str, str]:
    """Returns this process's environment without the user's code, the gang, and GPUs, whose memory is in use.

    Args:
        more: Further places of modules.
    """
    found = [spec for name in _NEEDED if (spec := find_spec(name)) is not None]
    places = [str(Path(str(spec.origin)).parents[1]) for spec in found]
    left_out = ("TF_CONFIG", "TF_GRPC_REUSE_PORT", "PYTHONPATH", PLACE)
    return {
        **{name: value for name, value in os.environ.items() if name not in left_out},
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([*places, *more])),
        "CUDA_VISIBLE_DEVICES": "-1",
    }
