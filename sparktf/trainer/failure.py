"""What a trainer's exception means: the model's own failure, refused data, a lost peer, or a lack of memory."""

from __future__ import annotations

import linecache
import re
import traceback
from types import FrameType, TracebackType

import tensorflow as tf

from sparktf.errors import ErrorRecord, SparkTFError, Verdict
from sparktf.messages import TrainerSpec

_PEER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PEER_TEXTS = ("Collective ops is aborted", "Connection reset by peer", "coordination service")


def describe(error: BaseException, spec: TrainerSpec, *, time_s: float, host: str) -> ErrorRecord:
    """Returns the record that the driver gets."""
    verdict, kind, message, peer = _classify(error, spec)
    lines = traceback.format_exception(type(error), error, _below_sparktf(error.__traceback__))
    return ErrorRecord(
        type=kind,
        message=message,
        verdict=verdict,
        time_s=time_s,
        node=str(spec.node),
        host=host,
        peer=peer,
        traceback=_plain("".join(lines)),
    )


def _classify(error: BaseException, spec: TrainerSpec) -> tuple[Verdict, str, str, bool]:
    """Returns verdict, type, one-line message, and whether only a peer's loss was seen."""
    if isinstance(error, SparkTFError):
        return error.verdict, type(error).__name__, _first_line(error), False
    if isinstance(error, _PEER_ERRORS) or (
        isinstance(error, tf.errors.OpError) and any(t in str(error) for t in _PEER_TEXTS)
    ):
        return Verdict.INFRASTRUCTURE, "NodeLostError", f"lost its peers: {_first_line(error)}", True
    if isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError)):
        message = f"out of memory: {_first_line(error)}; raise spark.executor.memoryOverhead or lower train.batch_size"
        return Verdict.INFRASTRUCTURE, "NodeLostError", message, False
    message = f"{type(error).__name__}: {_first_line(error)}{_place(error, spec)}"
    return Verdict.MODEL_FAILED, "ModelError", message, False


def _first_line(error: BaseException) -> str:
    """Returns the first line of what the raising code said, without what AutoGraph and Keras put around it."""
    # str() of a KeyError is its text as Python source.
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    lines = [line.strip() for line in _plain(text).splitlines() if line.strip()]
    if lines and lines[0] == "in user code:":
        said = f"{type(error).__name__}: "
        lines = next((lines[i:] for i, line in enumerate(lines) if line.startswith(said)), lines)
        lines[0] = lines[0].removeprefix(said)
    if lines and lines[0].startswith("Exception encountered when calling "):
        lines = lines[1:]
    return lines[0] if lines else type(error).__name__


def _plain(text: str) -> str:
    """Returns a text without the terminal's colours, which Keras writes into its messages."""
    return _COLOURS.sub("", text)


def _place(error: BaseException, spec: TrainerSpec) -> str:
    """Returns where in the user's module it happened: " (file:line in function: source line)", or nothing."""
    found = ""
    for frame, line in _walk(error.__traceback__):
        if frame.f_globals.get("__name__", "").partition(".")[0] == spec.config.model_module.partition(".")[0]:
            name = frame.f_code.co_filename
            source = linecache.getline(name, line, frame.f_globals).strip()
            found = f" ({name.rpartition('/')[2]}:{line} in {frame.f_code.co_name}: {source})"
    return found


def _below_sparktf(trace: TracebackType | None) -> TracebackType | None:
    """Returns the traceback without the frames by which sparktf came to the user's code; whole if it is all ours."""
    rest = trace
    while rest is not None and rest.tb_frame.f_globals.get("__name__", "").partition(".")[0] in ("__main__", "sparktf"):
        rest = rest.tb_next
    return rest or trace


def _walk(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    return list(traceback.walk_tb(trace))
