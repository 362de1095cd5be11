"""A process that ends in native code says in which case."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import os
from fuzz.recorder import RECORDER
RECORDER.note("case 1")
RECORDER.note("case 2")
{end}
"""


def ended(end: str) -> tuple[int, str]:
    code = [sys.executable, "-c", CODE.format(end=end)]
    done = subprocess.run(code, capture_output=True, text=True, cwd=Path(__file__).parents[1], timeout=60, check=False)
    return done.returncode, done.stderr


def test_of_a_crash_the_last_case_is_told() -> None:
    code, said = ended("os.abort()")
    assert code < 0
    assert "in the midst of this case: 'case 2'" in said


def test_of_an_end_nothing_is_told() -> None:
    assert ended("") == (0, "")
