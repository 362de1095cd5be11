"""The error of a process that runs the user's model for another one, as its report has it."""

from __future__ import annotations

import time
import traceback
from typing import Any

from sparktf.errors import ErrorRecord, SparkTFError, Verdict, record_of
from sparktf.told import typed_line_of_error


def reported_error(error: Exception) -> dict[str, Any]:
    """Returns the record of an error that is being handled, as JSON; one that is not sparktf's is the model's."""
    return _record(error).model_dump(mode="json")


def _record(error: Exception) -> ErrorRecord:
    if isinstance(error, SparkTFError):
        return record_of(error, time_s=time.time())
    return ErrorRecord(
        type="ModelError",
        message=f"model: {typed_line_of_error(error)}",
        verdict=Verdict.MODEL_FAILED,
        time_s=time.time(),
        traceback=traceback.format_exc(),
    )
