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
began_s, began_cpu_s = time.perf_counter(), time.process_time()
night.keep_report(LocalStorage(), runs.directory(29), result, config, put, time.time())
print(time.perf_counter() - began_s, time.process_time() - began_cpu_s)
"""


def figures(runs: int) -> list[Figure]:
    """Returns the seconds that the report takes at a run's end, in a process of its own each time."""
    with tempfile.TemporaryDirectory(prefix="sparktf-report-") as folder:
        root, paths = f"{folder}/runs", [str(_HERE.parent), str(_HERE.parent / "tests")]
        month = f"import sys; sys.path[:0] = {paths}; from reported import StoredRuns; StoredRuns({root!r}).days(28)"
        _python(month)
        code = _MADE.format(paths=paths, root=root, columns=_COLUMNS)
        _python(code)  # once matplotlib has made its list of fonts
        spent = [[float(seconds) for seconds in _python(code).split()] for _ in range(runs)]
    wall_s, cpu_s = zip(*spent, strict=True)
    name = f"report of a run with {_COLUMNS} columns"
    return [figure(name, wall_s, unit="s", goal="<= 2"), figure(f"{name}, processor time", cpu_s, unit="s")]


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    for measured in figures(5):
        print(measured)
