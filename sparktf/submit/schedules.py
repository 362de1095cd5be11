"""The files with which schedulers run a configuration each night: those of yarn/schedules, as they were installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sparktf.submit.new_files import write_new

_INSTALLED = Path(__file__).parents[1] / "schedules"
_IN_SOURCES = Path(__file__).parents[2] / "yarn/schedules"
_FILES = {
    "airflow": ("airflow",),
    "cron": ("cron", "nightly.sh", "sparktf.env"),
    "oozie": ("oozie", "nightly.sh", "sparktf.env"),
    "systemd": ("systemd", "sparktf.env"),
}
"""Scheduler -> its files and folders, whose content goes to the folder that the user names."""


def schedules_folder() -> Path:
    """Returns where these files are: in an installation, or in a source tree."""
    return _INSTALLED if _INSTALLED.is_dir() else _IN_SOURCES


def copy_schedule(scheduler: str, to: Path) -> list[Path]:
    """Copies the files for a scheduler to a folder; returns their paths there.

    Raises:
        ConfigError: one of them is there, or cannot be written; none is replaced.
    """
    contents = {to / place: file.read_bytes() for file, place in _files(scheduler)}
    return write_new(contents, "name another folder with --to")


def _files(scheduler: str) -> Iterator[tuple[Path, Path]]:
    """Yields the files for a scheduler, and where each belongs in the user's folder."""
    for name in _FILES[scheduler]:
        source = schedules_folder() / name
        if source.is_file():
            yield source, Path(name)
            continue
        for file in sorted(source.rglob("*")):
            if file.is_file() and file.suffix != ".pyc":
                yield file, file.relative_to(source)
