"""`python -m sparktf.trainer.tried REPORT`: builds the model that is told on its input, trains nothing, and reports."""

from __future__ import annotations

import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from sparktf.config.load import parse_config
from sparktf.errors import ErrorRecord, SparkTFError, Verdict, record_of
from sparktf.feature import FeedSpec


def main() -> None:
    """Builds, and reports."""
    told = json.load(sys.stdin)
    sys.path[:0] = [path for path in told["path"] if path not in sys.path]
    found: dict[str, Any] = {"error": None, "known": ""}
    try:
        found["known"] = _known(told)
    except SparkTFError as error:
        found["error"] = record_of(error, time_s=time.time()).model_dump(mode="json")
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        found["error"] = _of_model(error).model_dump(mode="json")
    Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")


def _known(told: dict[str, Any]) -> str:
    """Returns what is known of the model; an empty text where nobody knows it before it trains."""
    from sparktf.trainer.model.model import UserModel, is_low_level, load_function  # noqa: PLC0415 - TensorFlow

    config, spec = parse_config(told["config"]), FeedSpec.model_validate(told["spec"])
    function = load_function(config)
    if is_low_level(function):
        return ""
    UserModel(function, config, {}, spec, trains=False)
    inputs, targets = (", ".join(f.name for f in features) for features in (spec.inputs, spec.targets))
    return f"it is built, takes {inputs} and learns {targets}"


def _of_model(error: Exception) -> ErrorRecord:
    return ErrorRecord(
        type="ModelError",
        message=f"model: {type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}",
        verdict=Verdict.MODEL_FAILED,
        time_s=time.time(),
        traceback=traceback.format_exc(),
    )


if __name__ == "__main__":
    main()
