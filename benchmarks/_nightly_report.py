"""How long the report of a run takes: its own page and that of a month of runs, with what has to be imported for it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from _report import Figure, figure

_HERE = Path(__file__).parent
_COLUMNS = 40
"""Of the run's data; 100 are drawn at most, in some 3 ms each."""

_MADE = """
import sys, time
sys.path[:0] = {paths}
from sparktf.nightly import night  # what a run has loaded anyhow
from reported import StoredRuns
from sparktf.storage.local import LocalStorage
runs = StoredRuns({root!r}, columns={columns})
result, config = runs.published(29, 29), runs.config()
def put(path, content):
    LocalStorage().write_bytes(path, content)
began_s = time.perf_counter()
night.keep_report(LocalStorage(), runs.directory(29), result, config, put, time.time())
print(time.perf_counter() - began_s)
"""


def figures(runs: int) -> list[Figure]:
    """Returns the seconds that the report takes at a run's end, in a process of its own each time."""
    with tempfile.TemporaryDirectory(prefix="sparktf-report-") as folder:
        root, paths = f"{folder}/runs", [str(_HERE.parent), str(_HERE.parent / "tests")]
        month = f"import sys; sys.path[:0] = {paths}; from reported import StoredRuns; StoredRuns({root!r}).days(28)"
        _python(month)
        code = _MADE.format(paths=paths, root=root, columns=_COLUMNS)
        _python(code)  # once matplotlib has made its list of fonts
        seconds = [float(_python(code)) for _ in range(runs)]
    return [figure(f"report of a run with {_COLUMNS} columns", seconds, unit="s", goal="<= 2")]


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    for measured in figures(5):
        print(measured)
