"""Runs that a version before has stored (`tests/stored`), moved to a folder of a test."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from sparktf.config.load import load_config

LONG_AGO_S = 1.7e9
"""When all of it was written: plans know of the lake's files that it was then."""


def unpack(folder: Path) -> list[Path]:
    """Writes them below a folder, as they were; returns the folders of the runs."""
    with tarfile.open(Path(__file__).parent / "stored/runs.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    _date(folder)
    return sorted(path.parent for path in folder.glob("runs/*/*/config.yaml"))


def _date(folder: Path) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (LONG_AGO_S,) * 2)


class StoredRuns:
    """A copy of them, which has this folder in place of the one that they were trained in.

    A plan is of data at a path: its hash in the files of a run becomes that of the new one.

    Attributes:
        root: Their `output.path`.
        lake: Their `data.path`.
        books: What the runs that were cut off have trained on: a folder for each, as `integration.watch` reads it.
    """

    def __init__(self, folder: Path) -> None:
        self.root, self.lake, self.books = (folder / name for name in ("runs", "lake", "books"))
        for run in unpack(folder):
            before = load_config(str(run / "config.yaml"))
            self._move_plan(run / "plan/files.parquet", str(before.data.path))
            self._replace(run, str(Path(before.output.path).parent), str(folder))
            self._replace(run, before.plan_hash(), load_config(str(run / "config.yaml")).plan_hash())
        _date(folder)

    def configuration(self, name: str, **sections: dict[str, Any]) -> dict[str, Any]:
        """Returns what a run that was cut off is configured with; `sections` are merged into its own."""
        config = yaml.safe_load((self.root / name / "r/config.yaml").read_text("utf-8"))
        return {**config, **{key: {**(config[key] or {}), **section} for key, section in sections.items()}}

    def _move_plan(self, path: Path, lake: str) -> None:
        table = pq.read_table(path)
        files = pc.replace_substring(table["path"], lake, str(self.lake))
        pq.write_table(table.set_column(0, "path", pa.chunked_array(files)), path)

    def _replace(self, run: Path, before: str, now: str) -> None:
        for path in (path for kind in ("yaml", "json", "jsonl") for path in run.rglob(f"*.{kind}")):
            path.write_text(path.read_text("utf-8").replace(before, now), "utf-8")
