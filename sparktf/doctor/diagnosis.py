"""The result of a look at one thing."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from sparktf.errors import SparkTFError, Verdict
from sparktf.message import Message
from sparktf.told import told, typed_line_of_error, words_of_error


class Mark(StrEnum):
    """The meaning of a diagnosis for a run: none, a reason to look twice, or the end of it."""

    OK = "ok"
    NOTE = "note"
    STOP = "stop"


class Diagnosis(Message):
    """One line. The text of a `STOP` ends with what to do."""

    subject: str  # "Java"
    mark: Mark
    found: str


class Diagnoses(Message):
    """All lines of one look, as `--json` shows them."""

    exit_code: int
    diagnoses: tuple[Diagnosis, ...]


def fine(subject: str, found: str) -> Diagnosis:
    """Returns the diagnosis of a thing in order."""
    return Diagnosis(subject=subject, mark=Mark.OK, found=found)


def note(subject: str, found: str) -> Diagnosis:
    """Returns the diagnosis of a thing that stops no run, but may surprise somebody."""
    return Diagnosis(subject=subject, mark=Mark.NOTE, found=found)


def stop(subject: str, found: str) -> Diagnosis:
    """Returns the diagnosis of a thing that stops a run."""
    return Diagnosis(subject=subject, mark=Mark.STOP, found=found)


def failed_look(subject: str, error: Exception) -> Diagnosis:
    """Returns the diagnosis for an error. Ours say what to do; any other one is a look that failed."""
    if isinstance(error, SparkTFError):
        return stop(subject, told(words_of_error(error)))
    return note(subject, f"could not be looked at: {told(typed_line_of_error(error))}")


def verdict_on(diagnoses: Sequence[Diagnosis]) -> Verdict:
    """Returns `REFUSED` if anything stops a run."""
    return Verdict.REFUSED if any(one.mark is Mark.STOP for one in diagnoses) else Verdict.DONE
