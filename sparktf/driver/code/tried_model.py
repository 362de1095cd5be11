"""Builds the model in a process of its own: the driver's imports no TensorFlow."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from sparktf.config.job import JobConfig
from sparktf.config.load import dump_config
from sparktf.driver.code.module import search_path
from sparktf.errors import ErrorRecord, NodeLostError
from sparktf.feature import FeedSpec
from sparktf.process.log_noise import last_words

_MODULE = "sparktf.trainer.tried"
_LIMIT_S = 600.0


def try_model(config: JobConfig, spec: FeedSpec) -> str:
    """Builds the model as a trainer would, without the assets of `prepare`, and compares it with the features it gets.

    Returns:
        A description: "takes ... and learns ...".

    Raises:
        ModelContractError: it cannot be trained, or does not take these features.
        ModelError: its own code raised.
        NodeLostError: the process ended without a report.
    """
    told = {
        "config": dump_config(config),
        "spec": spec.model_dump(mode="json"),
        "path": search_path(config.code_folder),
    }
    with tempfile.TemporaryDirectory(prefix="sparktf-") as folder:
        report = Path(folder, "tried.json")
        try:
            ended = subprocess.run(
                [sys.executable, "-m", _MODULE, str(report)],
                input=json.dumps(told).encode(),
                capture_output=True,
                timeout=_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise NodeLostError(f"model: it was not built within {_LIMIT_S:g} s") from error
        if not report.exists():
            said = last_words(ended.stderr.decode(errors="replace"), 1) or "it printed nothing"
            raise NodeLostError(f"model: the process that builds it ended with exit code {ended.returncode}: {said}")
        found = json.loads(report.read_bytes())
    if found["error"] is not None:
        raise ErrorRecord.model_validate(found["error"]).to_error()
    return str(found["known"])
