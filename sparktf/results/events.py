"""The events of a run: typed, each a line of JSON with its time and its kind.

Everyone who may read the run directory may read them: never a secret. Readers skip fields and events of later versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sparktf.message import Message
from sparktf.results.outlived import Outlived
from sparktf.results.pace import SlowNode
from sparktf.results.result import AttemptResult
from sparktf.sequence import Stream
from sparktf.topology import NodeId


class _Event(BaseModel):
    """Base of events; `kind` names the class in a line."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="constants", hide_input_in_errors=True)

    kind: str


class RunBegun(_Event):
    """A driver has taken a run over."""

    kind: Literal["run"] = "run"
    run_id: str
    config: str  # Hash of the configuration; `plan` is the hash of the part that the plan depends on
    plan: str
    application: str = ""  # Id of the driver's application, for its log


class AttemptBegun(_Event):
    """The trainers are being started."""

    kind: Literal["attempt"] = "attempt"
    attempt: int
    workers: int
    hosts: str  # The workers' hosts, separated by commas
    from_step: int  # Step of the checkpoint that the attempt resumes from, else 0


class MetricsSeen(_Event):
    """Metrics of a stream over all workers."""

    kind: Literal["metrics"] = "metrics"
    attempt: int
    node: NodeId
    stream: Stream
    epoch: int
    step: int
    rows: int
    values: dict[str, float]


class Samples(Message):
    """Samples of one attempt, the earliest first; all tuples have the same length."""

    seconds: tuple[float, ...] = ()  # Since the attempt began
    steps: tuple[int, ...] = ()  # Updates of the whole run
    losses: tuple[float | None, ...] = ()  # Mean of the last updates; None if unknown
    rows: dict[str, tuple[int, ...]] = {}  # Rows trained in the attempt by node; nodes that train none are left out


class CourseSeen(_Event):
    """Samples of an attempt so far. Each replaces the one before, and those of the attempt's end replace all."""

    kind: Literal["course"] = "course"
    attempt: int
    samples: Samples


class LossOutlived(_Event):
    """An attempt has gone on after a loss. A later one of the same number replaces it: all workers are there again."""

    kind: Literal["outlived"] = "outlived"
    attempt: int
    number: int  # Of the loss in the attempt, from 1 on
    loss: Outlived


class SlowFound(_Event):
    """A node of a synchronous gang computes longer than the others, which wait for it."""

    kind: Literal["slow"] = "slow"
    attempt: int
    slow: SlowNode


class AttemptEnded(AttemptResult):
    """An attempt has ended."""

    model_config = ConfigDict(extra="ignore")

    kind: Literal["attempt-end"] = "attempt-end"
    samples: Samples = Samples()


class LineSaid(_Event):
    """A line shown on the console."""

    kind: Literal["line"] = "line"
    text: str
    style: str = ""


class WarningGiven(_Event):
    """A warning that the result keeps."""

    kind: Literal["warning"] = "warning"
    text: str


class RunEnded(_Event):
    """The run has a result; `verdict` is its exit code."""

    kind: Literal["end"] = "end"
    verdict: int
    error: str | None = None


class UnknownEvent(_Event):
    """An event of a later version."""


_Known = (
    RunBegun
    | AttemptBegun
    | MetricsSeen
    | CourseSeen
    | LossOutlived
    | SlowFound
    | AttemptEnded
    | LineSaid
    | WarningGiven
    | RunEnded
)
Event = _Known | UnknownEvent


class LogEntry(NamedTuple):
    """A line of the log; `time_s` counts from 1970."""

    time_s: float
    event: Event


_ADAPTER: TypeAdapter[_Known] = TypeAdapter(Annotated[_Known, Field(discriminator="kind")])
_KINDS = {"run", "attempt", "metrics", "course", "outlived", "slow", "attempt-end", "line", "warning", "end"}


def event_line(time_s: float, event: Event) -> bytes:
    """Returns the line of an event, without a line end."""
    fields = event.model_dump(mode="json")
    return json.dumps({"time_s": time_s, "kind": fields.pop("kind"), **fields}, separators=(",", ":")).encode()


def read_events(lines: Iterable[str | bytes]) -> Iterator[LogEntry]:
    """Yields the entries of a segment's lines; empty lines are skipped.

    Raises:
        ValueError: a line is not an event; names its number.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            entry = LogEntry(float(fields.pop("time_s")), _event_of(fields))
        except (ValidationError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise ValueError(f"line {number} is not an event: {error}") from error
        yield entry


def _event_of(fields: dict[str, Any]) -> Event:
    return _ADAPTER.validate_python(fields) if fields["kind"] in _KINDS else UnknownEvent.model_validate(fields)
