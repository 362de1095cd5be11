"""README.md as a new user takes it: its files are written, its commands typed, in a fresh copy of the repository."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

REPO = Path(__file__).parents[1]
DAY = datetime.date(2026, 11, 20)

# What CI itself is: these cannot be run by one of their own tests.
SUITES = ("make test", "make test-more", "make check unit", "make fuzz", "make simulate", "make bench")

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FOREIGN = (
    "SPARK_",
    "PYSPARK_",
    "PYTEST_",
    "PYTHON",
    "VIRTUAL_ENV",
    "HADOOP_",
    "YARN_",
    "MAKE",
    "MFLAGS",
    "ARGS",
    "MORE",
    "CASES",
    "SEED",
)
_PLANS = ("basic", "family", "pro")


class Readme(NamedTuple):
    """What README.md tells people to write, by name, and to type, without comments."""

    files: dict[str, str]
    commands: tuple[str, ...]


def read_readme() -> Readme:
    """Returns what README.md says.

    Raises:
        AssertionError: a block does not say what it is.
    """
    files, commands = {}, []
    for language, text in _BLOCK.findall((REPO / "README.md").read_text(encoding="utf-8")):
        assert language in ("python", "yaml", "sh", "text"), f"a block of {language or 'no language'}: {text}"
        if language in ("python", "yaml"):
            files[text.splitlines()[0].removeprefix("# ")] = text
        elif language == "sh":
            commands += [line.split("  #")[0].rstrip() for line in text.splitlines()]
    return Readme(files, tuple(commands))


def needs_hadoop(command: str) -> bool:
    """Whether a command wants a cluster."""
    return "yarn" in command or "hadoop" in command or "sparktf submit" in command


def fresh_copy(folder: Path) -> Path:
    """Returns a folder as `git clone` and the first `make` leave it, with this environment as its own."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (REPO / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPO / name, folder / name)
    os.utime(folder / "setup.py", (0, 0))  # older than the environment, or make would install this copy into it
    (folder / ".venv").symlink_to(sys.prefix)
    for name, text in read_readme().files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def write_customers(lake: Path) -> None:
    """Writes a lake as the README's configuration expects it: two days, the last of which validates."""
    random = np.random.default_rng(0)
    for day in (DAY - datetime.timedelta(days=1), DAY):
        age = random.integers(18, 90, 300).astype(np.float32)
        plan = pa.array([_PLANS[i] for i in random.integers(0, len(_PLANS), len(age))])
        table = pa.table({"age": age, "plan": plan, "churned": (age > 60).astype(np.int32)})
        (lake / f"date={day}").mkdir(parents=True)
        pq.write_table(table, lake / f"date={day}/part-0.parquet")


def bare_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment in which no Python environment is active, and Spark and Hadoop are not set up."""
    path = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not p.startswith(sys.prefix))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    return {**kept, "PATH": path, **extra}
