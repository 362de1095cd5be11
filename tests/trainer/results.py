"""What tests read in the results of runs."""

from __future__ import annotations

import json
from pathlib import Path

from sparktf.results.result import RunResult
from sparktf.sequence import Cursor


def accounts(result: RunResult) -> list[tuple[int, int, int, bool]]:
    """Returns planned, fed and trained rows of each epoch, and whether it is complete."""
    return [(rows.planned, rows.fed, rows.trained, rows.complete) for rows in result.rows]


def steps_saved(result: RunResult) -> dict[int, Cursor]:
    """Returns step and cursor of all committed checkpoints."""
    manifests = Path(result.path, "checkpoints").glob("step-*/MANIFEST.json")
    saved = [json.loads(path.read_text()) for path in manifests]
    return {manifest["step"]: Cursor.model_validate(manifest["cursor"]) for manifest in saved}
