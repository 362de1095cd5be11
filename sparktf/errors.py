"""Every error sparktf raises, and the verdict each one gives a run.

    SparkTFError
    ├── ConfigError (ValueError)                 2  a key, value or template of the configuration
    ├── PreflightError (RuntimeError)            2  the cluster or the output cannot carry the run
    ├── ModelContractError (TypeError)           2  the model function returns what cannot be trained exactly
    ├── ModelError (RuntimeError)                1  the model's own code raised
    ├── DataError (ValueError)                   3  the data is refused
    │   ├── SourceNotFoundError (FileNotFoundError)
    │   ├── EmptySourceError
    │   ├── ColumnError (LookupError)
    │   ├── BadValueError
    │   └── CorruptFileError (OSError)
    ├── StorageError (OSError)                   4  a file system did not do what was asked
    │   ├── StorageNotFoundError (FileNotFoundError)
    │   ├── StorageExistsError (FileExistsError)
    │   ├── StoragePermissionError (PermissionError)
    │   ├── StorageQuotaError
    │   ├── StorageUnavailableError (ConnectionError)
    │   ├── TornCheckpointError
    │   └── NotStoredError
    ├── FencedOffError (RuntimeError)            4  another submission owns the run: this one writes nothing more
    ├── ControlError (ConnectionError)           4  the control channel
    │   ├── DriverLostError
    │   └── RefusedError (PermissionError)
    ├── ReservationError (TimeoutError)          4  the nodes did not come in time
    ├── GatedError (RuntimeError)                5  trained, but the published model is kept
    ├── TimeUpError (TimeoutError)               4  the run's own time was over before it could train
    ├── NotReadyError (TimeoutError)             6  the data is not there yet: submit again later
    ├── OwnedError (RuntimeError)                7  another submission owns the run: this one does nothing
    ├── NotComparedError (RuntimeError)          4  what the gate says is not of the model that is published now
    ├── NodeLostError (RuntimeError)             4  a node's process, host or heartbeat went away
    │   ├── PeerLostError                           the connection to another member of the gang is lost
    │   │   └── LinkCutError                            the network takes no bytes between two of them
    │   └── ExchangeError                           another member sent what was not due
    ├── RowAccountingError (RuntimeError)        4  planned, fed and trained rows differ
    ├── RunInterruptedError (RuntimeError)       4  stopped from outside
    └── LifecycleError (RuntimeError)            4  an event that the state does not allow (a defect of ours)

The message is one line that names what to change; detail (a remote traceback, a log's path) travels in `ErrorRecord`.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, field_validator

from sparktf.told import line_of_error, told, told_lines, typed_line_of_error


class Verdict(enum.IntEnum):
    """How a run ended; the process's exit code in client mode."""

    DONE = 0
    MODEL_FAILED = 1
    REFUSED = 2
    DATA_REFUSED = 3
    INFRASTRUCTURE = 4
    GATED = 5
    NOT_READY = 6
    OWNED = 7


class SparkTFError(Exception):
    """Base of all errors of sparktf.

    Attributes:
        verdict: The exit code of a run that ends with it.
        record: The node's record of it, if it came from a node.
        result: The `RunResult` of the run that it ended, if it did.
    """

    verdict: ClassVar[Verdict] = Verdict.INFRASTRUCTURE
    record: ErrorRecord | None = None
    result: Any = None


class ConfigError(SparkTFError, ValueError):
    """A key, value or template of the configuration is wrong.

    Attributes:
        all_wrong: All known faults, a line each; empty if this is the only one.
    """

    verdict = Verdict.REFUSED
    all_wrong: tuple[str, ...] = ()


class PreflightError(SparkTFError, RuntimeError):
    """The cluster, the code on it or the output location cannot carry the run."""

    verdict = Verdict.REFUSED


class OwnedError(SparkTFError, RuntimeError):
    """Another submission owns the run; the message names it. Nothing of the run was touched."""

    verdict = Verdict.OWNED


class ModelContractError(SparkTFError, TypeError):
    """The model function is absent, or returns something that cannot be trained exactly."""

    verdict = Verdict.REFUSED


class ModelError(SparkTFError, RuntimeError):
    """The model's own code raised; the record carries its traceback."""

    verdict = Verdict.MODEL_FAILED


class DataError(SparkTFError, ValueError):
    """The data is refused."""

    verdict = Verdict.DATA_REFUSED


class SourceNotFoundError(DataError, FileNotFoundError):
    """The source's path does not exist."""


class EmptySourceError(DataError):
    """The source has no row for a stream."""


class ColumnError(DataError, LookupError):
    """A configured column is not in the source."""


class BadValueError(DataError):
    """A null, NaN label, ragged list or wrong type where the configuration does not allow it."""


class CorruptFileError(DataError, OSError):
    """A data file cannot be read.

    Attributes:
        may_be_sparks: Arrow cannot read it but Spark may: it is an uncommon Parquet file rather than a damaged one.
    """

    may_be_sparks: bool = False


class StorageError(SparkTFError, OSError):
    """A file system failed; the message names the path."""


class StorageNotFoundError(StorageError, FileNotFoundError):
    """The path does not exist."""


class StorageExistsError(StorageError, FileExistsError):
    """The target of a rename or an exclusive write exists already."""


class StoragePermissionError(StorageError, PermissionError):
    """The path may not be read or written by this user."""


class StorageQuotaError(StorageError):
    """A quota of space or of names is used up."""


class StorageUnavailableError(StorageError, ConnectionError):
    """The file system did not answer in time, or refuses all changes (HDFS in safe mode)."""


class TornCheckpointError(StorageError):
    """A checkpoint's manifest is missing or does not match its files."""


class NotStoredError(StorageError):
    """The run's output cannot be stored; another attempt would fail in the same way."""


class FencedOffError(SparkTFError, RuntimeError):
    """A newer committer owns the run. Not a `StorageError`: waiting does not help."""


class ControlError(SparkTFError, ConnectionError):
    """A call on the control channel failed."""


class DriverLostError(ControlError):
    """The driver's control server went away."""


class RefusedError(ControlError, PermissionError):
    """The control server refused a call: wrong or missing secret, or an outdated attempt."""


class ReservationError(SparkTFError, TimeoutError):
    """The nodes of a gang did not register in time."""


class TimeUpError(SparkTFError, TimeoutError):
    """`train.deadline` or `train.max_seconds` passed before training began; the message says which phases took it."""


class NotReadyError(SparkTFError, TimeoutError):
    """The data that `data.ready` waits for is not there yet."""

    verdict = Verdict.NOT_READY


class GatedError(SparkTFError, RuntimeError):
    """The gate keeps the published model; the run itself is complete."""

    verdict = Verdict.GATED


class NotComparedError(SparkTFError, RuntimeError):
    """The gate compared with another model than the published one; submitting the run again compares anew."""


class NodeLostError(SparkTFError, RuntimeError):
    """A node's process, host or heartbeat went away."""


class PeerLostError(NodeLostError):
    """The connection to another member of the gang is lost: a symptom, unless nothing else is known to have failed.

    Attributes:
        closed_by: The member that has closed it, as its node is called; "" where none is known to have.
    """

    closed_by: str = ""


class LinkCutError(PeerLostError):
    """The network takes no bytes between two members: both say so, and name the same one as lost."""


class ExchangeError(NodeLostError):
    """Another member of the gang sent a message that was not due (a defect of ours, or another version)."""


class RowAccountingError(SparkTFError, RuntimeError):
    """Planned, fed and trained rows differ."""


class RunInterruptedError(SparkTFError, RuntimeError):
    """The run was stopped from outside (Ctrl-C, a signal)."""


class LifecycleError(SparkTFError, RuntimeError):
    """An event that a node's state does not allow."""


class ErrorRecord(BaseModel):
    """A failure as it travels from a node to the driver and into result.json.

    Its texts are cleaned for people (`sparktf.told`) when it is made: printable, bounded, without secrets.

    Attributes:
        type: Name of the class in this module, or of the user's exception for a `ModelError`.
        message: One line.
        verdict: The run's exit code if this is its root cause.
        time_s: Seconds since the epoch on the node when it happened; the earliest record is the root cause.
        node: "worker 1", or "driver".
        peer: The node only saw another one go (a broken collective); never the root cause if there is any other record.
        traceback: Remote traceback, empty if there is none.
        exit_code: The trainer's, negative for a signal, as in `subprocess`.
        taken_back: The cluster manager took the node's executor back: nothing has failed.
        log: Path of the node's whole log; `log_tail` holds its last lines.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    type: str
    message: str
    verdict: Verdict
    time_s: float
    node: str = "driver"
    host: str = ""
    executor: str = ""
    peer: bool = False
    taken_back: bool = False
    exit_code: int | None = None
    traceback: str = ""
    log: str = ""
    log_tail: str = ""

    @field_validator("message", "log")
    @classmethod
    def _told(cls, text: str) -> str:
        return told(text)

    @field_validator("traceback", "log_tail")
    @classmethod
    def _told_lines(cls, text: str) -> str:
        return told_lines(text)

    def to_error(self) -> SparkTFError:
        """Returns the error of this module that the record describes (`NodeLostError` for an unknown type)."""
        kind = error_class(self.type)
        if kind is None:
            kind = ModelError if self.verdict is Verdict.MODEL_FAILED else NodeLostError
        error = kind(self.message)
        error.record = self
        return error


def record_of(error: BaseException, *, time_s: float, node: str = "driver", traceback: str = "") -> ErrorRecord:
    """Returns the record of an error raised here; an error from a node keeps the node's record."""
    if isinstance(error, SparkTFError) and error.record is not None:
        return error.record
    return ErrorRecord(
        type=type(error).__name__,
        message=line_of_error(error) if isinstance(error, SparkTFError) else typed_line_of_error(error),
        verdict=error.verdict if isinstance(error, SparkTFError) else Verdict.INFRASTRUCTURE,
        time_s=time_s,
        node=node,
        traceback=traceback,
    )


def _subclasses(cls: type[SparkTFError]) -> dict[str, type[SparkTFError]]:
    found = {cls.__name__: cls}
    for child in cls.__subclasses__():
        found.update(_subclasses(child))
    return found


_BY_NAME = _subclasses(SparkTFError)


def error_class(name: str) -> type[SparkTFError] | None:
    """Returns the class of this module with a name; None if there is none."""
    return _BY_NAME.get(name)
