"""Classifies a trainer's exception: the model's failure, refused data, a lost peer, no memory or disk left.

TensorFlow's runtime and Python code raise the same classes, so a class alone says little: `CancelledError` may come
from a lost peer or from the model, `ResourceExhaustedError` from memory, a disk, or too many open files.
"""

from __future__ import annotations

import errno
import linecache
import re
import traceback
from itertools import takewhile
from pathlib import Path
from types import FrameType, TracebackType

from sparktf.errors import ErrorRecord, NotStoredError, PeerLostError, SparkTFError, Verdict
from sparktf.process.sent_sources import label_of
from sparktf.topology import ClusterSpec
from sparktf.trainer.model.said import first_line, without_colours
from sparktf.wire.trainer_spec import Function, TrainerSpec

_PEER_ERRORS = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError")
_PACKAGE = Path(__file__).parents[2]
_PEER_TEXTS = ("Collective ops is aborted", "Connection reset by peer", "coordination service")

_PYTHON_TEXTS = ("Traceback (most recent call last)", "in user code:")
"""TensorFlow puts these around errors of Python code in a `py_function`, a generator, or a function being traced."""

_DISK_TEXTS = ("No space left on device", "Disk quota exceeded")
LARGER_DISK = "make room there, or name a larger disk in spark.local.dir (on YARN yarn.nodemanager.local-dirs)"

_DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_MEMORY_TEXT = re.compile(r"\bOOM\b|memory|\balloc", re.IGNORECASE)
_FILE = re.compile(r"(?<![^\s'])(/[^\s':;,]+)")


def error_record(error: BaseException, spec: TrainerSpec, *, work: Path, time_s: float, host: str) -> ErrorRecord:
    """Returns the record for the driver; `work` is this process's folder on the executor's local disk."""
    verdict, kind, message, peer = _classify(error, spec, work)
    lines = traceback.format_exception(type(error), error, _below_sparktf(error.__traceback__))
    return ErrorRecord(
        type=kind,
        message=message,
        verdict=verdict,
        time_s=time_s,
        node=str(spec.node),
        host=host,
        peer=peer,
        traceback=without_colours("".join(lines)),
    )


def _classify(error: BaseException, spec: TrainerSpec, work: Path) -> tuple[Verdict, str, str, bool]:
    """Returns verdict, type, one-line message, and whether only a peer's loss was seen."""
    if isinstance(error, SparkTFError):
        return error.verdict, type(error).__name__, first_line(error), isinstance(error, PeerLostError)
    if _is_loss_of_peers(error, len(spec.cluster.nodes())):
        said = said_of_peers(without_colours(str(error)), spec.cluster)
        return Verdict.INFRASTRUCTURE, "NodeLostError", f"{spec.node} lost its peers: {said}", True
    if is_full_disk(error):
        return NotStoredError.verdict, NotStoredError.__name__, _full_disk(error, work, _place(error, spec)), False
    if _is_lack_of_memory(error):
        message = f"out of memory: {first_line(error)}; {_more_memory(spec)}"
        return Verdict.INFRASTRUCTURE, "NodeLostError", message, False
    notes = "".join(f"; {note.splitlines()[0]}" for note in getattr(error, "__notes__", ()) if note)
    message = f"{type(error).__name__}: {first_line(error)}{_place(error, spec)}{notes}"
    return Verdict.MODEL_FAILED, "ModelError", message, False


def _is_loss_of_peers(error: BaseException, nodes: int) -> bool:
    """Whether TensorFlow's runtime raised it because another node is gone."""
    if nodes == 1 or not _is_tensorflows(error, "OpError") or _is_of_python(error):
        return False
    return _is_tensorflows(error, *_PEER_ERRORS) or any(text in str(error) for text in _PEER_TEXTS)


def _is_tensorflows(error: BaseException, *names: str) -> bool:
    """Whether an error is of one of TensorFlow's classes, by its name: who raises none of them need not import them."""
    classes = type(error).__mro__
    return any(kind.__module__.partition(".")[0] == "tensorflow" and kind.__name__ in names for kind in classes)


def _is_of_python(error: BaseException) -> bool:
    """Whether Python code, rather than the runtime, raised one of TensorFlow's errors."""
    if any(text in str(error) for text in _PYTHON_TEXTS):
        return True
    frames = _walk(error.__traceback__)
    return not frames or not frames[-1][0].f_globals.get("__name__", "").startswith("tensorflow.")


def is_full_disk(error: BaseException) -> bool:
    """Whether a file could not be written because its disk or its owner's quota is full."""
    if isinstance(error, OSError):
        return error.errno in _DISK_ERRNOS
    return _is_tensorflows(error, "OpError") and any(text in str(error) for text in _DISK_TEXTS)


def _full_disk(error: BaseException, work: Path, place: str) -> str:
    """Returns a message that names the full disk and the remedy."""
    text = first_line(error)
    named = _FILE.search(text)
    if named is not None and not Path(named[1]).is_relative_to(work):
        return f"disk full: {text}{place}; make room for {named[1]}"
    if named is None and place:
        return f"disk full: {text}{place}; make room where the model writes"
    return f"disk full: {text}; it is the executor's local disk, below {work.parent}: {LARGER_DISK}"


def _is_lack_of_memory(error: BaseException) -> bool:
    if _is_tensorflows(error, "ResourceExhaustedError"):
        return _MEMORY_TEXT.search(first_line(error)) is not None
    return isinstance(error, MemoryError)


def _more_memory(spec: TrainerSpec) -> str:
    """Returns the remedy for a lack of memory."""
    if isinstance(spec, Function):
        return "raise spark.executor.memoryOverhead or have the function hold less"
    return f"raise {spec.config.cluster.node_memory.key} (spark.executor.memoryOverhead) or lower train.batch_size"


def _place(error: BaseException, spec: TrainerSpec) -> str:
    """Returns the place in the user's modules: " (file:line in function: source line)", or ""."""
    found = ""
    modules = {module.partition(".")[0] for module in spec.modules}
    for frame, line in _walk(error.__traceback__):
        name = frame.f_code.co_filename
        label = label_of(name)
        if label is not None or frame.f_globals.get("__name__", "").partition(".")[0] in modules:
            source = linecache.getline(name, line, frame.f_globals).strip()
            found = f" ({label or name.rpartition('/')[2]}:{line} in {frame.f_code.co_name}: {source})"
    return found


def _below_sparktf(trace: TracebackType | None) -> TracebackType | None:
    """Returns the traceback without sparktf's outer frames; all of it if there are no others."""
    rest = trace
    while rest is not None and _is_ours(rest.tb_frame):
        rest = rest.tb_next
    return rest or trace


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame is of sparktf's code; functions of a notebook's cells are of `__main__`, as this program is."""
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return package == "sparktf" or (package == "__main__" and Path(frame.f_code.co_filename).is_relative_to(_PACKAGE))


def _walk(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    return list(traceback.walk_tb(trace))


_TASK = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")
_ABORTED = "Collective ops is aborted by: "
_REPORTED = re.compile(r"^Error reported from \S+: ")
_AROUND = re.compile(
    r"Graph execution error:|Detected at node |File \"|\[\[\{\{node |<stack traces unavailable>"
    r"|\d+ root error\(s\) found|The error could be from a previous "
)
"""Beginnings of lines that name places in the graph."""
_PREFIX = re.compile(r"^(\{\{function_node [^}]*\}\} |\(\d+\) [A-Z_]+: +)+")


def said_of_peers(text: str, cluster: ClusterSpec) -> str:
    """Returns an error's text with TensorFlow's task names replaced by nodes and addresses.

    TensorFlow puts a stack of the graph before the text, and the tasks that it means on lines of their own.
    """
    lines = [line.strip() for line in text.splitlines()]
    lines = [_PREFIX.sub("", line) for line in lines if line and not _AROUND.match(line)]
    begin = next((i for i, line in enumerate(lines) if _ABORTED in line), 0)
    first, rest = lines[begin : begin + 1], lines[begin + 1 :]
    said = _REPORTED.sub("", first[0].partition(_ABORTED)[2] or first[0]) if first else ""
    if said.endswith(":"):
        said = f"{said} {', '.join(takewhile(_TASK.fullmatch, rest))}".rstrip(": ")
    elif found := next((line for line in rest if _TASK.search(line) or line.startswith("RPC: ")), ""):
        said = f"{said} ({found.rstrip(':')})"
    return _TASK.sub(lambda task: _node(task, cluster), said)


def _node(task: re.Match[str], cluster: ClusterSpec) -> str:
    role, index = task[1], int(task[2])
    addresses = {"chief": cluster.chief, "worker": cluster.worker, "ps": cluster.ps}.get(role, ())
    return f"{role} {index} at {addresses[index]}" if index < len(addresses) else task[0]
