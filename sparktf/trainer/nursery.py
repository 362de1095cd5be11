"""The nursery: a process of an agent's that has imported TensorFlow, and forks trainers.

Importing is most of what a trainer's start costs. The agent starts
`python -m sparktf.trainer.nursery PARENT [MODULE...]`, with a socket as its standard input, and asks there for
trainers: one message for each, with the reading end of the trainer's standard input and its log. A trainer becomes the
child of the agent, as one that is started from nothing, and the nursery may die without it.

A fork copies the thread that forks, and no other: so until then there is one, no channel, and no device.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from sparktf.module_search import forget_folders
from sparktf.prctl import die_with
from sparktf.trainer.preload import complete_environment, import_all, without_collector

_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""Where OpenBLAS looks for the number of its threads, in this order."""

_FOR_ONE_THREAD = {_BLAS_THREADS[0]: "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Keeps NumPy and Arrow from starting threads when they are imported. Trainers do not see it."""

_REQUEST_NBYTES = 1 << 16
_MADV_DONTNEED = 4
_NAME, _TRAINER = b"sparktf.trainer.nursery", b"sparktf.trainer"


def main() -> None:
    """Imports, says "ready", and serves until the agent has closed the socket or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the driver decides what it means
    if not die_with(int(sys.argv[1])):
        os._exit(0)
    import_with_one_thread(sys.argv[2:])
    with socket.socket(fileno=0) as agent:
        agent.send(json.dumps({"ready": True}).encode())
        if _serve(agent):
            _forget_files()
            while _serve(agent):
                pass
    os._exit(0)


def import_with_one_thread(also: Sequence[str]) -> None:
    """Imports what trainers share, and more where it is installed, so that this process can be forked."""
    complete_environment()
    before = {name: os.environ.get(name) for name in _FOR_ONE_THREAD}
    os.environ.update(_FOR_ONE_THREAD)
    with without_collector():  # which would write into what trainers never change, and share
        import_all(also)
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def _forget_files() -> None:
    """Lets go of the pages of libraries that were only read: the system has them, and YARN counts them once more."""
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    begin = end = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first:  # address, access, offset, device, inode, file
            is_file = rest[0] in ("r-xp", "r--p") and rest[3] != "0"
            begin, end = (int(place, 16) for place in first.split("-")) if is_file else (0, 0)
        elif first == "Anonymous:" and rest[0] == "0" and end:
            libc.madvise(begin, end - begin, _MADV_DONTNEED)


def _serve(agent: socket.socket) -> bool:
    """Answers one request; returns whether there was one."""
    request, files, _, _ = socket.recv_fds(agent, _REQUEST_NBYTES, 2)
    if not request:
        return False
    try:
        refused = _fork(agent, json.loads(request)["work"], *files)
    finally:
        for file in files:
            os.close(file)
    if refused:
        agent.send(json.dumps({"refused": refused}).encode())
    return True


def _fork(agent: socket.socket, work: str, stdin: int, log: int) -> str:
    """Forks a trainer, by way of a process that ends at once, so that the agent adopts it; returns why not, or ""."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"it has {threads} threads, and a fork would copy one"
    try:
        between = os.fork()
    except OSError as e:
        return str(e)
    if between:
        code = os.waitstatus_to_exitcode(os.waitpid(between, 0)[1])
        return "" if code == 0 else os.strerror(code)
    between = os.getpid()
    try:
        if os.fork():
            os._exit(0)
    except OSError as e:
        os._exit(e.errno or 1)
    while os.getppid() == between:
        time.sleep(0.001)
    _become_trainer(agent, work, stdin, log)
    return ""


def _become_trainer(agent: socket.socket, work: str, stdin: int, log: int) -> None:
    """Makes of this process what `python -m sparktf.trainer` is, and runs it; never returns."""
    code = 1
    try:
        agent.send(json.dumps({"pid": os.getpid(), "parent": os.getppid()}).encode())
        agent.detach()
        for target, file in ((0, stdin), (1, log), (2, log)):
            os.dup2(file, target)
        os.close(stdin)
        os.close(log)
        os.environ["TMPDIR"] = work
        tempfile.tempdir = None  # as the environment says
        forget_folders()
        _be_called_trainer()
        _use_all_cores()
        _be_random()
        importlib.import_module("sparktf.trainer.__main__").main()
    except BaseException:  # noqa: BLE001 - the process's edge
        traceback.print_exc()
    finally:
        os._exit(code)


def _be_called_trainer() -> None:
    """Has `ps` show `python -P -m sparktf.trainer`: the kernel reads a command line from the process's own memory."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    line = ctypes.string_at(begin, end - begin)
    if _NAME in line:
        name = line[: line.index(_NAME)] + _TRAINER
        ctypes.memmove(begin, name.ljust(end - begin, b"\0"), end - begin)


def _use_all_cores() -> None:
    """Gives OpenBLAS, NumPy's and SciPy's, the threads that it would have had from the beginning."""
    asked = next((os.environ[name] for name in _BLAS_THREADS if os.environ.get(name, "").isdigit()), "")
    count = int(asked or len(os.sched_getaffinity(0)))
    maps = Path("/proc/self/maps").read_text().splitlines()
    for path in {line.split(maxsplit=5)[-1] for line in maps if "openblas" in line}:
        library = ctypes.CDLL(path)
        for name in (
            f"{prefix}openblas_set_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")
        ):
            if hasattr(library, name):
                getattr(library, name)(count)


def _be_random() -> None:
    """Seeds NumPy anew: all trainers of the nursery would draw alike. Python's own generator does so by itself."""
    sys.modules["numpy"].random.seed()


if __name__ == "__main__":
    main()
