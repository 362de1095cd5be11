"""What is told of an error that ends a trainer whose function has not imported TensorFlow."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest
from specs import trainer_spec

from sparktf.errors import Verdict
from sparktf.topology import ClusterSpec
from sparktf.trainer.node.failure import error_record


class AbortedError(Exception):
    """The user's own, named as one of TensorFlow's."""


@pytest.mark.parametrize(
    ("error", "verdict", "said"),
    [
        (ValueError("no luck"), Verdict.MODEL_FAILED, "ValueError: no luck"),
        (AbortedError("Connection reset by peer"), Verdict.MODEL_FAILED, "AbortedError: Connection reset by peer"),
        (MemoryError("no more"), Verdict.INFRASTRUCTURE, "out of memory: no more; raise cluster.trainer_memory_mib"),
        (OSError(errno.ENOSPC, "No space left on device"), Verdict.INFRASTRUCTURE, "it is the executor's local disk"),
    ],
    ids=["value", "aborted", "memory", "disk"],
)
def test_an_error_is_told_without_tensorflow_whose_import_would_take_seconds(
    error: Exception, verdict: Verdict, said: str, tmp_path: Path
) -> None:
    spec = trainer_spec(cluster=ClusterSpec(worker=("h:1", "h:2")))
    record = error_record(error, spec, work=tmp_path, time_s=1.0, host="h")
    assert "tensorflow" not in sys.modules
    assert (record.verdict, record.peer) == (verdict, False)
    assert said in record.message
