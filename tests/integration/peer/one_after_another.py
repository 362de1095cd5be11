"""Runs scripts in one process, each as `__main__`, and notes how each would have ended.

TensorFlowOnSpark's modules are imported anew for each: the real one's remember a failure for ever.

Usage: one_after_another.py kept|fresh FOLDER SCRIPT... where a script is a file's name, with its arguments after it.
With "fresh", each has a session of its own.
"""

from __future__ import annotations

import json
import runpy
import shlex
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from pyspark import SparkContext

_FINDERS = list(sys.meta_path)


def ended(script: Path, arguments: list[str]) -> dict[str, Any]:
    """Runs a script; returns its exit status, and what it says."""
    sys.argv = [str(script), *arguments]
    sys.meta_path[:] = [
        finder for finder in sys.meta_path if finder in _FINDERS or "sparktf" not in type(finder).__module__
    ]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorflowonspark"]:
        del sys.modules[name]
    began_s = time.monotonic()
    status, said = 0, ""
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # noqa: BLE001 - as Python's own end of a script
        status, said = 1, traceback.format_exc()
        sys.stderr.write(said)
    real = hasattr(sys.modules["tensorflowonspark"], "__file__")
    return {"status": status, "said": said, "seconds": time.monotonic() - began_s, "real": real}


def main() -> None:
    """Runs them all."""
    sessions, out, *lines = sys.argv[1:]
    for line in lines:
        name, *arguments = shlex.split(line)
        output = Path(out, "-".join([name, *arguments]).replace("--", ""))
        output.mkdir()
        found = ended(Path(__file__).parent / f"{name}.py", [*arguments, "--output", str(output)])
        (output / "ended.json").write_text(json.dumps(found))
        context = SparkContext._active_spark_context
        if sessions == "fresh" and context is not None:
            context.stop()


if __name__ == "__main__":
    main()
