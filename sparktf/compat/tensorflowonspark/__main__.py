"""Runs a script of TensorFlowOnSpark's unchanged: `python -m sparktf.compat.tensorflowonspark script.py ...`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from sparktf.compat.tensorflowonspark import install, write_shim

_USAGE = """usage: python -m sparktf.compat.tensorflowonspark script.py [arguments]
       python -m sparktf.compat.tensorflowonspark --write-py-file tensorflowonspark.zip
           writes the file for spark-submit --py-files tensorflowonspark.zip script.py"""


def main() -> None:
    """Runs the script on the command line."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    if arguments[0] == "--write-py-file":
        print(write_shim(Path(arguments[1])))
        return
    install()
    sys.argv = arguments
    sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
